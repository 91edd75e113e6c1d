#include "saved_tensors.h"

#include "argbuf.h"
#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "hooks.h"
#include "modes.h"
#include "source_loc.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"

/* Called by the cyclic collector before it looks for cycles. Steps of the tape would seem in use while handles of dead
 * tensors wait for their release. */
static PyObject *py_before_collection(PyObject *self, PyObject *args) {
    (void)self;
    const char *phase;
    PyObject *info;
    if (!PyArg_ParseTuple(args, "sO:_before_collection", &phase, &info)) {
        return NULL;
    }
    if (strcmp(phase, "start") == 0 && hooks_exist() && drop_flush() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Adds the callback to gc.callbacks with the first hook, so that programs without hooks pay nothing. */
static int join_collector(void) {
    static PyMethodDef callback = {
        "_before_collection", py_before_collection, METH_VARARGS, "Release the handles of dead tensors."};
    static bool joined;
    if (joined) {
        return 0;
    }
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *list = gc != NULL ? PyObject_GetAttrString(gc, "callbacks") : NULL;
    PyObject *f = list != NULL ? PyCFunction_New(&callback, NULL) : NULL;
    joined = f != NULL && PyList_Append(list, f) == 0;
    Py_XDECREF(f);
    Py_XDECREF(list);
    Py_XDECREF(gc);
    return joined ? 0 : -1;
}

/* The thread is in the packer, whose operations leave the values that wait behind this one alone. */
static _Thread_local bool packing;

/* Gives one value to the packer, and keeps the function that it returns. The hook is in the table before the packer
 * runs, so that it is forgotten if its step goes meanwhile; until then, and if the packer fails, it holds an alias of
 * the value. */
static int pack_one(uint64_t id, PyObject *value) {
    PyObject *copy = PyObject_GetAttrString(value, "detach");
    if (copy == NULL || hook_remember(id, copy, NULL) < 0) {
        Py_XDECREF(copy);
        return -1;
    }
    Py_DECREF(copy);
    packing = true;
    PyObject *packer = Py_NewRef(current.packer), *unpack = PyObject_CallFunctionObjArgs(packer, value, NULL);
    packing = false;
    Py_DECREF(packer);
    int failed = unpack != NULL ? hook_replace(id, unpack) : -1;
    Py_XDECREF(unpack);
    return failed;
}

int pack_saved(const argbuf *b) {
    uint64_t handles[TL_DEFERRED_TENSORS], id;
    int32_t n = 0, operand = -1;
    for (; b != NULL && n < b->n_tensors && n < TL_DEFERRED_TENSORS; n++) {
        handles[n] = b->tensors[n]->handle;
    }
    while (current.packer != NULL && !packing) {
        tl_out out = {0};
        if (check_status(tl_next_pack_hook(handles, n, &out, &operand, &id)) < 0) {
            return -1;
        }
        if (id == 0) {
            return 0;
        }
        PyObject *value = operand >= 0 ? Py_NewRef((PyObject *)b->tensors[operand])
                                       : tensor_wrap(&out, b != NULL ? b->api : TL_API_CORE);
        int failed = value == NULL ? -1 : pack_one(id, value);
        Py_XDECREF(value);
        if (failed < 0) {
            PyObject *type, *error, *trace;
            PyErr_Fetch(&type, &error, &trace);
            tl_next_pack_hook(NULL, -1, NULL, NULL, NULL);
            PyErr_Restore(type, error, trace);
            return -1;
        }
    }
    return 0;
}

PyObject *unpack_saved(uint64_t id) {
    PyObject *fn = hook_function(id);
    if (fn == NULL) {
        return PyErr_Occurred() ? NULL
                                : raise_text(TL_RUNTIME,
                                      "saved_tensors_hooks: the saved tensor was freed before it was unpacked");
    }
    Py_INCREF(fn);
    PyObject *value = PyObject_CallFunctionObjArgs(fn, NULL);
    Py_DECREF(fn);
    return value;
}

/* _set_packer(function or None): the function takes a saved tensor, and returns a function that gives the tensor back.
 * Returns the former packer. */
static PyObject *py_set_packer(PyObject *self, PyObject *packer) {
    (void)self;
    int64_t old;
    if (thread_here() < 0) {
        return NULL;
    }
    PyObject *former = current.packer != NULL ? current.packer : Py_NewRef(Py_None);
    if (former == packer) {
        return current.packer != NULL ? Py_NewRef(former) : former;
    }
    if (join_collector() < 0 || set_mode(TL_MODE_SAVED_TENSOR_HOOKS, packer != Py_None, &old) < 0) {
        return NULL;
    }
    current.packer = packer != Py_None ? Py_NewRef(packer) : NULL;
    return former;
}

static PyObject *py_unpack_saved(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    return PyErr_Occurred() ? NULL : unpack_saved(id);
}

/* _saved(function, i, action): (state, name, hook, tensor or None) of saved value i. */
static PyObject *py_saved(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long id;
    int i, action;
    tl_saved_info info = {0};
    tl_out out = {0};
    if (!PyArg_ParseTuple(args, "Kii:_saved", &id, &i, &action) ||
        check_status(tl_saved(id, i, action, &info, &out)) < 0) {
        return NULL;
    }
    if (action == TL_SAVED_PACK && pack_saved(NULL) < 0) {
        return NULL;
    }
    PyObject *value = out.handle != 0 ? tensor_wrap(&out, TL_API_CORE) : Py_NewRef(Py_None);
    return value == NULL
        ? NULL
        : Py_BuildValue("(IsKN)", (unsigned int)info.state, info.name, (unsigned long long)info.hook, value);
}

/* _attach_history(tensor, function, i): the values of the tensor with the history of saved value i of the function. For
 * the tensor None, zeros like result -1-i with its history. */
static PyObject *py_attach_history(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tensor;
    unsigned long long id;
    int i;
    tl_out out = {0};
    if (!PyArg_ParseTuple(args, "OKi:_attach_history", &tensor, &id, &i)) {
        return NULL;
    }
    if (tensor != Py_None && !is_tensor(tensor)) {
        return raise_text(TL_TYPE, "_attach_history: expected a Tensor, got %R", (PyObject *)Py_TYPE(tensor));
    }
    Tensor *t = tensor != Py_None ? (Tensor *)tensor : NULL;
    if (check_status(tl_attach_history(t != NULL ? t->handle : 0, id, i, &out)) < 0) {
        return NULL;
    }
    return tensor_wrap(&out, t != NULL ? t->api : TL_API_CORE);
}

static PyObject *py_add_hook(PyObject *self, PyObject *args) {
    (void)self;
    Tensor *tensor;
    PyObject *function;
    int kind = TL_HOOK_TENSOR;
    uint64_t id = 0;
    if (!PyArg_ParseTuple(args, "O!O|i:_add_hook", (PyObject *)TensorType, &tensor, &function, &kind) ||
        drop_flush() < 0 || join_collector() < 0 || check_status(tl_hook(tensor->handle, kind, &id)) < 0) {
        return NULL;
    }
    return hook_remember(id, function, &tensor->hooks) < 0 ? NULL : PyLong_FromUnsignedLongLong(id);
}

static PyObject *py_remove_hook(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    if (PyErr_Occurred()) {
        return NULL;
    }
    int found = hook_forget(id);
    if (found < 0 || (found == 1 && check_status(tl_hook(0, 0, &id)) < 0)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyMethodDef hook_functions[] = {
    {"_add_hook", py_add_hook, METH_VARARGS,
        "Add a hook to a tensor's gradient, or of another kind (TL_HOOK_ACCUMULATE and so on); gives its number."},
    {"_remove_hook", py_remove_hook, METH_O, "Remove a gradient hook by number."},
    {"_set_packer", py_set_packer, METH_O,
        "Name the function that saved tensors are given to, or None; gives the former."},
    {"_unpack_saved", py_unpack_saved, METH_O, "The saved tensor that a hook gives."},
    {"_saved", py_saved, METH_VARARGS,
        "Describe a saved value of a function, make it a tensor, or give it to the packer."},
    {"_attach_history", py_attach_history, METH_VARARGS, "The values of a tensor with the history of a saved value."},
    {0},
};
