#include "autograd.h"

#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "hooks.h"
#include "process.h"
#include "saved_tensors.h"
#include "source_loc.h"
#include "tensor.h"
#include "torchlette.h"
#include "turn.h"

/* Calls the hook of an event with a gradient, or with None after a leaf has accumulated. *replacement is the gradient
 * that the hook returned, or NULL. */
static int run_hook(const tl_event *event, uint8_t api, PyObject **replacement) {
    bool post = event->kind == TL_RUN_POST_HOOK;
    *replacement = NULL;
    PyObject *grad = post ? Py_NewRef(Py_None) : tensor_wrap(&event->grad, api);
    PyObject *fn = grad != NULL ? hook_function(event->hook) : NULL;
    if (fn == NULL) { /* an earlier hook removed it */
        Py_XDECREF(grad);
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_INCREF(fn);
    PyObject *result = PyObject_CallFunctionObjArgs(fn, grad, NULL);
    Py_DECREF(fn);
    Py_DECREF(grad);
    if (result == NULL) {
        return -1;
    }
    if (result == Py_None || post) {
        Py_DECREF(result);
        return 0;
    }
    if (!is_tensor(result)) {
        raise_text(TL_TYPE, "expected hook to return None or a Tensor, got %R", (PyObject *)Py_TYPE(result));
        Py_DECREF(result);
        return -1;
    }
    *replacement = result;
    return 0;
}

/* Calls the inspector with a gradient, the name of the function that computed it, the gradient's number among that
 * function's, and the line that recorded the function. */
static int inspect_grad(const tl_event *event, uint8_t api, PyObject *inspector) {
    char where[512] = "";
    if (event->source_loc != 0 && check_status(tl_site_string(event->source_loc, where, sizeof where)) < 0) {
        return -1;
    }
    PyObject *grad = tensor_wrap(&event->grad, api);
    PyObject *result = grad != NULL
        ? PyObject_CallFunction(inspector, "sisO", event->name, (int)event->hook, where, grad)
        : NULL;
    Py_XDECREF(grad);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* The gradients of a function whose hooks run: of its operands and results as they come, and what a hook leaves. */
typedef struct {
    PyObject *given[2], *answers;
} node_grads;

static void node_grads_clear(node_grads *g) {
    Py_CLEAR(g->given[0]);
    Py_CLEAR(g->given[1]);
    Py_CLEAR(g->answers);
}

static int give_grad(const tl_event *event, uint8_t api, node_grads *g) {
    PyObject **list = &g->given[event->hook != 0];
    if (*list == NULL && (*list = PyList_New(0)) == NULL) {
        return -1;
    }
    PyObject *grad = event->grad.handle != 0 ? tensor_wrap(&event->grad, api) : Py_NewRef(Py_None);
    int failed = grad != NULL ? PyList_Append(*list, grad) : -1;
    Py_XDECREF(grad);
    return failed;
}

/* Calls a hook of a function; it returns the gradients that it leaves as a tuple, or None for those that it got. */
static int run_node_hook(const tl_event *event, node_grads *g) {
    bool pre = event->kind == TL_RUN_PRE_HOOK;
    PyObject *tuples[2] = {NULL, NULL}, *result = NULL;
    for (int k = 0; k < 2; k++) {
        tuples[k] = g->given[k] != NULL ? PyList_AsTuple(g->given[k]) : PyTuple_New(0);
    }
    PyObject *fn = tuples[0] != NULL && tuples[1] != NULL ? hook_function(event->hook) : NULL;
    if (fn != NULL) {
        Py_INCREF(fn);
        result = pre ? PyObject_CallFunctionObjArgs(fn, tuples[1], NULL)
                     : PyObject_CallFunctionObjArgs(fn, tuples[0], tuples[1], NULL);
        Py_DECREF(fn);
    } else if (!PyErr_Occurred()) {
        result = Py_NewRef(Py_None); /* an earlier hook removed it */
    }
    PyObject *before = tuples[pre ? 1 : 0];
    node_grads_clear(g);
    if (result == Py_None) {
        Py_DECREF(result);
        result = Py_NewRef(before);
    }
    if (result != NULL && (!PyTuple_Check(result) || PyTuple_Size(result) != PyTuple_Size(before))) {
        raise_text(TL_RUNTIME, "expected a hook of a function to return None or %zd gradients", PyTuple_Size(before));
        Py_CLEAR(result);
    }
    g->answers = result;
    Py_XDECREF(tuples[0]);
    Py_XDECREF(tuples[1]);
    return result != NULL ? 0 : -1;
}

/* Gives the gradient that a hook left, NULL for none. */
static int answer_grad(const tl_event *event, const node_grads *g, PyObject **replacement) {
    PyObject *grad = PyTuple_GetItem(g->answers, (Py_ssize_t)event->hook);
    *replacement = grad != NULL && is_tensor(grad) ? Py_NewRef(grad) : NULL;
    return grad != NULL ? 0 : -1;
}

/* Ends a walk that failed, under the exception of its failure: asking for no results ends it. A walk that has ended
 * already is ignored. The unwrapped function is called, since a flush could fail once more. */
static void end_walk(uint64_t session) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    (tl_backward_results)(session, NULL, NULL, 0);
    PyErr_Restore(type, value, trace);
}

/* Walks to the next event and answers it. Returns 1 to go on, 0 at the end. *replacement is the answer. */
static int walk_step(uint64_t session, uint8_t api, PyObject *inspector, node_grads *grads, PyObject **replacement) {
    tl_event event;
    memset(&event, 0, sizeof event);
    int32_t status = tl_backward_next(session, *replacement != NULL ? ((Tensor *)*replacement)->handle : 0, &event);
    Py_CLEAR(*replacement);
    if (status != TL_OK) {
        raise_status(status);
        return -1;
    }
    int failed;
    switch (event.kind) {
    case TL_DONE:
        return 0;
    case TL_INSPECT_GRAD:
        failed = inspect_grad(&event, api, inspector);
        break;
    case TL_UNPACK:
        *replacement = unpack_saved(event.hook);
        failed = *replacement != NULL ? 0 : -1;
        break;
    case TL_PACK:
        failed = pack_saved(NULL);
        break;
    case TL_GIVE_GRAD:
        failed = give_grad(&event, api, grads);
        break;
    case TL_RUN_PRE_HOOK:
    case TL_RUN_AFTER_HOOK:
        failed = run_node_hook(&event, grads);
        break;
    case TL_ASK_GRAD:
        failed = answer_grad(&event, grads, replacement);
        break;
    default:
        failed = run_hook(&event, api, replacement);
    }
    return failed < 0 ? -1 : 1;
}

/* Walks backward to the end, and runs the hooks that the engine asks for on the way. api: the flavour of gradients. */
static int walk(uint64_t session, uint8_t api, PyObject *inspector) {
    PyObject *replacement = NULL;
    node_grads grads = {{NULL, NULL}, NULL};
    int more;
    do {
        more = walk_step(session, api, inspector, &grads, &replacement);
    } while (more > 0);
    node_grads_clear(&grads);
    if (more < 0) {
        end_walk(session);
    }
    return more;
}

static PyObject *collect(uint64_t session, uint8_t api, Py_ssize_t n) {
    tl_out *outs = PyMem_Calloc((size_t)n + 1, sizeof *outs);
    uint8_t *has = PyMem_Calloc((size_t)n + 1, 1);
    PyObject *tuple = NULL;
    if (outs == NULL || has == NULL) {
        PyErr_NoMemory();
    } else if (check_status(tl_backward_results(session, outs, has, (int32_t)n)) == 0) {
        tuple = PyTuple_New(n);
        for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
            PyObject *g = has[i] ? tensor_wrap(&outs[i], api) : Py_NewRef(Py_None);
            if (g == NULL || PyTuple_SetItem(tuple, i, g) < 0) {
                Py_CLEAR(tuple);
            }
        }
    }
    PyMem_Free(outs);
    PyMem_Free(has);
    return tuple;
}

static PyObject *run_backward(PyObject *roots, PyObject *grads, PyObject *inputs, uint32_t flags, PyObject *inspector) {
    Py_ssize_t n, ng, ni = 0;
    uint64_t *in = NULL, *g = NULL, *r = handles_of(roots, &n, false);
    PyObject *result = NULL;
    uint64_t session = 0;
    flags |= inspector != Py_None ? TL_INSPECT : 0u;
    if (r == NULL || (g = handles_of(grads, &ng, true)) == NULL ||
        (inputs != Py_None && (in = handles_of(inputs, &ni, false)) == NULL)) {
        goto done;
    }
    uint8_t api = TL_API_CORE;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *root = PySequence_GetItem(roots, i);
        api |= root != NULL && is_tensor(root) ? ((Tensor *)root)->api : TL_API_CORE;
        Py_XDECREF(root);
    }
    if (n != ng) {
        raise_text(TL_RUNTIME, "got %zd tensors and %zd gradients", n, ng);
        goto done;
    }
    if (drop_flush() < 0 || check_status(tl_backward(r, g, (int32_t)n, in, (int32_t)ni, flags, &session)) < 0 ||
        walk(session, api, inspector) < 0) {
        goto done;
    }
    if ((flags & TL_ACCUMULATE) == 0) {
        result = collect(session, api, ni);
    } else if (ni == 0 || check_status(tl_backward_results(session, NULL, NULL, 0)) == 0) {
        result = Py_NewRef(Py_None); /* a walk to the leaves has ended by itself */
    }
    if (result != NULL && forget_hooks() < 0) { /* unpack functions of saved values that the walk freed */
        Py_CLEAR(result);
    }
done:
    PyMem_Free(r);
    PyMem_Free(g);
    PyMem_Free(in);
    return result;
}

static PyObject *py_backward(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *roots, *grads, *inputs = Py_None, *inspector = Py_None;
    int keep, create;
    if (!PyArg_ParseTuple(args, "OOpp|OO:_backward", &roots, &grads, &keep, &create, &inputs, &inspector)) {
        return NULL;
    }
    return run_backward(roots, grads, inputs,
        (keep ? TL_RETAIN_GRAPH : 0u) | (create ? TL_CREATE_GRAPH : 0u) | TL_ACCUMULATE, inspector);
}

static PyObject *py_grad(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *roots, *grads, *inputs, *inspector = Py_None;
    int keep, create, unused = 0, quiet = 0;
    if (!PyArg_ParseTuple(
            args, "OOOpp|ppO:_grad", &roots, &grads, &inputs, &keep, &create, &unused, &quiet, &inspector)) {
        return NULL;
    }
    return run_backward(roots, grads, inputs,
        (keep ? TL_RETAIN_GRAPH : 0u) | (create ? TL_CREATE_GRAPH : 0u) | (unused ? TL_ALLOW_UNUSED : 0u) |
            (quiet ? TL_NO_LEAF_HOOKS : 0u),
        inspector);
}

/* A function of the graph as Python gets it: (id, name, output, source location), or None for no function. */
static PyObject *function_tuple(const tl_function_info *f) {
    if (f->id == 0) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue(
        "(KsII)", (unsigned long long)f->id, f->name, (unsigned int)f->output, (unsigned int)f->source_loc);
}

static PyObject *py_function(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tensor;
    int leaf = 0;
    tl_function_info f = {0};
    if (!PyArg_ParseTuple(args, "O!|p:_function", (PyObject *)TensorType, &tensor, &leaf) ||
        check_status(tl_function(((Tensor *)tensor)->handle, leaf, &f)) < 0) {
        return NULL;
    }
    return function_tuple(&f);
}

static PyObject *py_function_next(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    tl_function_info *next = NULL;
    int32_t room = 0, n = 0;
    if (PyErr_Occurred() || check_status(tl_function_next(id, NULL, 0, &n)) < 0) {
        return NULL;
    }
    while (n > room) { /* the engine holds the functions only when all fit */
        room = n;
        PyMem_Free(next);
        next = PyMem_Calloc((size_t)room, sizeof *next);
        if (next == NULL) {
            return PyErr_NoMemory();
        }
        if (check_status(tl_function_next(id, next, room, &n)) < 0) {
            PyMem_Free(next);
            return NULL;
        }
    }
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *f = function_tuple(&next[i]);
        if (f == NULL || PyTuple_SetItem(tuple, i, f) < 0) {
            Py_CLEAR(tuple);
        }
    }
    PyMem_Free(next);
    return tuple;
}

static PyObject *py_function_release(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    if (PyErr_Occurred() || (!process.forked && check_status(tl_function_release(id)) < 0)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* _leads_outside(tensors): for each tensor, whether its history leads to a leaf that is not closed. */
static PyObject *py_leads_outside(PyObject *self, PyObject *tensors) {
    (void)self;
    Py_ssize_t n;
    PyObject *tuple = NULL;
    uint64_t *hs = handles_of(tensors, &n, false);
    uint8_t *outside = hs != NULL ? PyMem_Calloc((size_t)n + 1, 1) : NULL;
    if (hs != NULL && outside == NULL) {
        PyErr_NoMemory();
    } else if (hs != NULL && check_status(tl_leads_outside(hs, (int32_t)n, outside)) == 0) {
        tuple = PyTuple_New(n);
        for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
            if (PyTuple_SetItem(tuple, i, PyBool_FromLong(outside[i])) < 0) {
                Py_CLEAR(tuple);
            }
        }
    }
    PyMem_Free(hs);
    PyMem_Free(outside);
    return tuple;
}

static PyObject *py_close_leaves(PyObject *self, PyObject *leaves) {
    (void)self;
    Py_ssize_t n;
    uint64_t *hs = handles_of(leaves, &n, false);
    if (hs == NULL) {
        return NULL;
    }
    int32_t status = tl_close_leaves(hs, (int32_t)n);
    PyMem_Free(hs);
    return none_or_raise(status);
}

/* _fence(kind, writable): begins or ends a fence, or only asks. Returns whether the thread was in a recomputation. */
static PyObject *py_fence(PyObject *self, PyObject *args) {
    (void)self;
    int kind;
    int32_t recomputing = 0;
    PyObject *writable = NULL;
    Py_ssize_t n;
    uint64_t *hs;
    if (!PyArg_ParseTuple(args, "i|O:_fence", &kind, &writable) || (hs = handles_of(writable, &n, false)) == NULL) {
        return NULL;
    }
    /* The unwrapped function is called, so that a fence ends even if a flush would fail. */
    int32_t status = kind == TL_FENCE_END ? (tl_fence)(kind, NULL, 0, &recomputing)
                                          : tl_fence(kind, hs, (int32_t)n, &recomputing);
    PyMem_Free(hs);
    return check_status(status) < 0 ? NULL : PyBool_FromLong(recomputing);
}

static PyObject *py_function_scope(PyObject *self, PyObject *name) {
    (void)self;
    const char *text = name != Py_None ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    return PyErr_Occurred() ? NULL : none_or_raise(tl_function_scope(text));
}

IN_TURN(py_backward)
IN_TURN(py_grad)

PyMethodDef autograd_functions[] = {
    {"_backward", py_backward_in_turn, METH_VARARGS, "Accumulate gradients into leaves."},
    {"_grad", py_grad_in_turn, METH_VARARGS, "Gradients of roots by inputs."},
    {"_function", py_function, METH_VARARGS, "Hold what made a tensor: (id, name, output, site) or None."},
    {"_function_next", py_function_next, METH_O, "Hold the functions whose results a function took."},
    {"_function_release", py_function_release, METH_O, "Give one hold of a function back."},
    {"_leads_outside", py_leads_outside, METH_O,
        "Of tensors, whether the history of each ends in a leaf that is not closed."},
    {"_close_leaves", py_close_leaves, METH_O, "Close leaves: they do not count for _leads_outside."},
    {"_fence", py_fence, METH_VARARGS,
        "Begin or end a fence before older tensors, or ask whether this is a recomputation."},
    {"_function_scope", py_function_scope, METH_O, "Begin a function of that name, or end it (None)."},
    {0},
};
