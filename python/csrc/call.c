#include "call.h"

#include "argbuf.h"
#include "call_cache.h"
#include "cpython.h"
#include "dispatch_queue.h"
#include "errors.h"
#include "flush.h"
#include "modes.h"
#include "parser.h"
#include "process.h"
#include "saved_tensors.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"
#include "types.h"
#include "wait.h"

static int engine_op(
    overload *o, argbuf *b, uint8_t mode, PyObject *const *outs, int n_outs, tl_out *out, int max, int *n) {
    uint64_t into[16];
    for (int i = 0; i < n_outs; i++) {
        into[i] = ((Tensor *)outs[i])->handle;
    }
    tl_call c = {
        .op = o->def->id,
        .mode = mode,
        .source_loc = call_source_loc(),
        .in = b->in,
        .ints = b->ints,
        .scalars = b->scalars,
        .outs = into,
        .n_in = b->n_in,
        .n_ints = b->n_ints,
        .n_scalars = b->n_scalars,
        .n_outs = n_outs,
    };
    int32_t count = 0;
    if (TL_DUE() < 0 || check_status(thread_ready()) < 0) {
        return -1;
    }
    c.drop = dropped_take(&c.n_drop);
    c.queued = queue_take(&c.n_queued);
    int32_t status = tl_op(&c, out, max, &count);
    *n = count;
    if (check_status(status) < 0) {
        return -1;
    }
    for (int i = 0; i < b->n_tensors && i < TL_DEFERRED_TENSORS; i++) {
        b->tensors[i]->epoch = process.epoch;
    }
    if (current.packer == NULL || pack_saved(b) == 0) {
        return 0;
    }
    for (int i = 0; mode == TL_FUNCTIONAL && i < count; i++) {
        if ((out[i].flags & TL_SAME_HANDLE) == 0) {
            drop_handle(out[i].handle);
        }
    }
    return -1;
}

/* An upper bound of the number of results of an operator that returns a list. Such operators cut a dimension into
 * pieces, return one result for each operand, or take the number of pieces as an integer or as the length of a list. */
static int list_bound(const argbuf *b, PyObject *first) {
    int64_t bound = b->n_ints;
    for (int32_t i = 0; i < b->n_ints; i++) {
        bound = b->ints[i] > bound ? b->ints[i] : bound;
    }
    if (first != NULL) {
        Tensor *t = (Tensor *)first;
        for (int i = 0; i < t->rank; i++) {
            bound = t->shape[i] > bound ? t->shape[i] : bound;
        }
    }
    bound = b->n_in > bound ? b->n_in : bound;
    return bound < 1 << 20 ? (int)bound + 1 : 1 << 20;
}

static PyObject *wrap_all(overload *o, const tl_out *out, int n, uint8_t api) {
    PyObject *tuple = o->result_type != NULL ? PyStructSequence_New(o->result_type) : PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *t = tuple != NULL ? tensor_wrap(&out[i], api) : NULL;
        if (t == NULL) {
            for (int k = i + (tuple != NULL); k < n; k++) {
                drop_handle(out[k].handle);
            }
            Py_CLEAR(tuple);
            return NULL;
        }
        if (o->result_type != NULL) {
            PyStructSequence_SetItem(tuple, i, t);
        } else {
            PyTuple_SetItem(tuple, i, t);
        }
    }
    return tuple;
}

static PyObject *call_list(overload *o, argbuf *b, PyObject *first, uint8_t api) {
    int n = 0, max = list_bound(b, first);
    tl_out *out = PyMem_Malloc((size_t)max * sizeof *out);
    if (out == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *r = engine_op(o, b, TL_FUNCTIONAL, NULL, 0, out, max, &n) < 0 ? NULL : wrap_all(o, out, n, api);
    PyMem_Free(out);
    return r;
}

PyObject *call_overload(overload *o, argbuf *b, uint8_t api) {
    tl_out out[8];
    int n = 0;
    api |= b->api;
    call_key l;
    bool known;
    PyObject *cached_call = call_cache_find(o, b, api, &l, &known);
    if (known) {
        return cached_call;
    }
    if (engine_op(o, b, TL_FUNCTIONAL, NULL, 0, out, 8, &n) < 0) {
        return NULL;
    }
    if (o->def->nresults == 1 && n == 1) {
        call_cache_insert(&l, b, &out[0]);
        if ((out[0].flags & TL_SAME_HANDLE) != 0 && b->first != NULL) {
            return Py_NewRef(b->first); /* such as contiguous() of a dense tensor */
        }
        return tensor_wrap(&out[0], api);
    }
    if (o->def->nresults == 0) {
        Py_RETURN_NONE;
    }
    return wrap_all(o, out, n, api);
}

PyObject *call_in_place(overload *o, argbuf *b, PyObject *self) {
    tl_out out[8];
    int n = 0;
    if (engine_op(o, b, TL_IN_PLACE, NULL, 0, out, 8, &n) < 0) {
        return NULL;
    }
    if (self == NULL) {
        Py_RETURN_NONE;
    }
    Tensor *t = (Tensor *)self;
    for (int i = 0; i < n; i++) {
        if (out[i].handle == t->handle) {
            if (tensor_update(t, &out[i]) < 0) {
                return NULL;
            }
            break;
        }
    }
    t->api |= b->api;
    return Py_NewRef(self);
}

static PyObject *call_out(overload *o, argbuf *b, PyObject *into) {
    PyObject *targets[16];
    Py_ssize_t n = 1;
    targets[0] = into;
    if (PyTuple_Check(into)) {
        n = PyTuple_Size(into);
        for (Py_ssize_t i = 0; i < n && i < 16; i++) {
            targets[i] = PyTuple_GetItem(into, i);
        }
    }
    if (n != o->def->nresults || n > 8) {
        return raise_text(
            TL_TYPE, "%s(): argument 'out' must be %d Tensors, not %zd", o->def->name, (int)o->def->nresults, n);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!is_tensor(targets[i])) {
            return raise_text(
                TL_TYPE, "%s(): argument 'out' must be Tensor, not %R", o->def->name, (PyObject *)Py_TYPE(targets[i]));
        }
    }
    tl_out out[8];
    int count = 0;
    if (engine_op(o, b, TL_INTO_OUT, targets, (int)n, out, 8, &count) < 0) {
        return NULL;
    }
    for (int i = 0; i < count && i < n; i++) {
        if (tensor_update((Tensor *)targets[i], &out[i]) < 0) {
            return NULL;
        }
    }
    return Py_NewRef(into);
}

static int apply_requires_grad(PyObject *made) {
    Tensor *t = (Tensor *)made;
    if (!dtype_has_gradients(t->dtype)) {
        raise_text(TL_RUNTIME, "Only Tensors of floating point and complex dtype can require gradients");
        return -1;
    }
    t->flags |= TL_REQUIRES_GRAD;
    return check_status(tl_requires_grad(t->handle, 1));
}

/* Gives the engine the state of a generator for one call; outer takes the engine's own. A state is four words: seed,
 * draws taken, 0, 0. The default generator's state is None: the engine has it. 1: swapped; 0: the default generator. */
static int swap_words(PyObject *generator, uint64_t outer[4]) {
    unsigned long long w[4];
    PyObject *words = PyObject_GetAttrString(generator, "_words");
    if (words == NULL || words == Py_None) {
        Py_XDECREF(words);
        return words == NULL ? -1 : 0;
    }
    int found = PyTuple_Check(words) ? PyArg_ParseTuple(words, "KKKK", &w[0], &w[1], &w[2], &w[3])
                                     : set_error(TL_TYPE, "generator: expected a state of four ints, got %R",
                                           (PyObject *)Py_TYPE(words));
    Py_DECREF(words);
    if (found <= 0) {
        return -1;
    }
    uint64_t inner[4] = {w[0], w[1], w[2], w[3]};
    return check_status(tl_rng(TL_RNG_GET, outer)) < 0 || check_status(tl_rng(TL_RNG_SET, inner)) < 0 ? -1 : 1;
}

/* Ends swap_words: the engine gets its own state back, and the generator the state after the call. It keeps an
 * exception that is set. */
static int restore_words(PyObject *generator, uint64_t outer[4]) {
    uint64_t inner[4];
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    int failed = check_status(tl_rng(TL_RNG_GET, inner)) < 0 || check_status(tl_rng(TL_RNG_SET, outer)) < 0;
    PyObject *words = failed ? NULL
                             : Py_BuildValue("(KKKK)", (unsigned long long)inner[0], (unsigned long long)inner[1],
                                   (unsigned long long)inner[2], (unsigned long long)inner[3]);
    failed = words == NULL || PyObject_SetAttrString(generator, "_words", words) < 0;
    Py_XDECREF(words);
    if (type != NULL) {
        PyErr_Restore(type, value, trace);
        return -1;
    }
    return failed ? -1 : 0;
}

static PyObject *observer;

PyObject *call_observed(
    const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject *r) {
    if (observer == NULL || r == NULL) {
        return r;
    }
    Py_ssize_t n_names = kwnames != NULL ? PyTuple_Size(kwnames) : 0, own = self != NULL;
    PyObject *f = Py_NewRef(observer), *tuple = PyTuple_New(nargs + own), *dict = PyDict_New(), *out = NULL;
    if (tuple != NULL && dict != NULL) {
        int failed = own != 0 && PyTuple_SetItem(tuple, 0, Py_NewRef(self)) < 0;
        for (Py_ssize_t i = 0; failed == 0 && i < nargs; i++) {
            failed = PyTuple_SetItem(tuple, i + own, Py_NewRef(args[i])) < 0;
        }
        for (Py_ssize_t i = 0; failed == 0 && i < n_names; i++) {
            failed = PyDict_SetItem(dict, PyTuple_GetItem(kwnames, i), args[nargs + i]) < 0;
        }
        if (failed == 0) {
            out = PyObject_CallFunction(f, "sOOO", name, tuple, dict, r);
        }
    }
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    Py_DECREF(f);
    Py_DECREF(r);
    return out;
}

static PyObject *py_set_observer(PyObject *self, PyObject *f) {
    (void)self;
    PyObject *former = observer;
    observer = f != Py_None ? Py_NewRef(f) : NULL;
    return former != NULL ? former : Py_NewRef(Py_None);
}

PyMethodDef call_functions[] = {
    {"_set_observer", py_set_observer, METH_O,
        "Call a function with the name, arguments and result of each operator call; it gives the result to use."},
    {0},
};

PyObject *call_group(
    group *g, uint8_t api, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    argbuf b;
    extras x = {0};
    argbuf_init(&b);
    PyObject *r = NULL;
    overload *o = group_bind(g, self, args, nargs, kwnames, &b, &x);
    uint64_t outer[4];
    int swapped = o != NULL && x.generator != NULL ? swap_words(x.generator, outer) : 0;
    if (o != NULL && swapped >= 0) {
        PyObject *first = self != NULL ? self : nargs > 0 ? args[0] : NULL;
        if (api == TL_API_CORE && b.n_tensors == 0) {
            api = creation_api();
        }
        if (b.n_tensors == 0 && use_default_device(api) < 0) {
            r = NULL;
        } else if (g->mode == TL_IN_PLACE) {
            r = call_in_place(o, &b, first != NULL && is_tensor(first) ? first : NULL);
        } else if (x.out != NULL) {
            r = call_out(o, &b, x.out);
        } else if (o->list_result) {
            r = call_list(o, &b, first != NULL && is_tensor(first) ? first : NULL, api | b.api);
        } else {
            r = call_overload(o, &b, api);
        }
        if (r != NULL && x.requires_grad && is_tensor(r) && apply_requires_grad(r) < 0) {
            Py_CLEAR(r);
        }
    }
    if (swapped > 0 && restore_words(x.generator, outer) < 0) {
        Py_CLEAR(r);
    }
    bool functional = g->mode != TL_IN_PLACE && x.out == NULL;
    argbuf_clear(&b);
    return functional ? call_observed(g->name, self, args, nargs, kwnames, r) : r;
}

PyObject *call_name(const char *name, PyObject *const *args, Py_ssize_t nargs) {
    group *g = group_find(name);
    if (g == NULL) {
        return raise_text(TL_NOT_IMPLEMENTED, "there is no operator %s", name);
    }
    return call_group(g, TL_API_CORE, NULL, args, nargs, NULL);
}
