/* Hooks of tensors and of saved values: the functions behind the numbers that the engine knows.
 *
 * A hook lives as long as the step of the tape that it is on, which may outlive the Python object of its tensor. While
 * that object alone keeps the step, the hook goes with it: then, and only then, the object shows the function to the
 * cyclic collector, so that a function that holds its own tensor is collected with it. The table holds capsules, which
 * the collector does not look into: each function is shown by one object at most. */
#include "core.h"

struct hook {
    uint64_t id;
    PyObject *function;
    Tensor *owner;     /* through which it was added; NULL when that is gone */
    struct hook *next; /* of the same owner */
};

static PyObject *hooks; /* number -> capsule of a struct hook */

static void hook_free(PyObject *capsule) {
    struct hook *h = PyCapsule_GetPointer(capsule, NULL);
    if (h->owner != NULL) {
        struct hook **p = &h->owner->hooks;
        while (*p != h) {
            p = &(*p)->next;
        }
        *p = h->next;
    }
    Py_DECREF(h->function);
    PyMem_Free(h);
}

/* The hook of a number; NULL when there is none, or with an exception. */
static struct hook *hook_of(PyObject *key) {
    PyObject *capsule = key != NULL ? PyDict_GetItemWithError(hooks, key) : NULL;
    return capsule != NULL ? PyCapsule_GetPointer(capsule, NULL) : NULL;
}

PyObject *hook_function(uint64_t id) {
    PyObject *key = PyLong_FromUnsignedLongLong(id);
    struct hook *h = hook_of(key);
    Py_XDECREF(key);
    return h != NULL ? h->function : NULL;
}

/* Takes a hook out of the table; 0, too when there is none. */
static int forget(uint64_t id) {
    PyObject *key = PyLong_FromUnsignedLongLong(id);
    int failed = hook_of(key) != NULL ? PyDict_DelItem(hooks, key) : PyErr_Occurred() != NULL ? -1 : 0;
    Py_XDECREF(key);
    return failed;
}

int forget_hooks(void) {
    uint64_t ids[64];
    int32_t n = 64;
    while (PyDict_Size(hooks) > 0 && n == 64) {
        if (check_status(tl_dead_hooks(ids, 64, &n)) < 0) {
            return -1;
        }
        for (int32_t i = 0; i < n; i++) {
            if (forget(ids[i]) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* Between two calls of Python code the answer does not change: what changes it holds the GIL. */
static bool owned(const struct hook *h) {
    int32_t owns = 0;
    return !G.forked && tl_owns_hook(h->owner->handle, h->id, &owns) == TL_OK && owns != 0;
}

int visit_hooks(Tensor *t, visitproc visit, void *arg) {
    for (struct hook *h = t->hooks; h != NULL; h = h->next) {
        if (owned(h)) {
            Py_VISIT(h->function);
        }
    }
    return 0;
}

void clear_hooks(Tensor *t) {
    struct hook *h = t->hooks;
    while (h != NULL) {
        if (!owned(h)) {
            h = h->next;
        } else if (forget(h->id) < 0) {
            PyErr_Clear();
            return;
        } else {
            h = t->hooks; /* what the function held may have changed the list */
        }
    }
}

void disown_hooks(Tensor *t) {
    for (struct hook *h = t->hooks; h != NULL; h = h->next) {
        h->owner = NULL;
    }
    t->hooks = NULL;
}

/* Of gc.callbacks: handles of dead tensors that wait to be released would keep steps. */
static PyObject *py_before_collection(PyObject *self, PyObject *args) {
    (void)self;
    const char *phase;
    PyObject *info;
    if (!PyArg_ParseTuple(args, "sO:_before_collection", &phase, &info)) {
        return NULL;
    }
    if (strcmp(phase, "start") == 0 && PyDict_Size(hooks) > 0 && drop_flush() < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* With the first hook: programs without hooks pay nothing. */
static int join_collector(void) {
    static PyMethodDef callback = {"_before_collection", py_before_collection, METH_VARARGS,
        "Release the handles of dead tensors."};
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

/* Puts a function into the table; NULL on failure. */
static struct hook *remember(uint64_t id, PyObject *function) {
    struct hook *h = PyMem_Malloc(sizeof *h);
    if (h == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *h = (struct hook){.id = id, .function = Py_NewRef(function)};
    PyObject *capsule = PyCapsule_New(h, NULL, hook_free);
    if (capsule == NULL) {
        Py_DECREF(function);
        PyMem_Free(h);
        return NULL;
    }
    PyObject *key = PyLong_FromUnsignedLongLong(id);
    int failed = key == NULL ? -1 : PyDict_SetItem(hooks, key, capsule);
    Py_XDECREF(key);
    Py_DECREF(capsule);
    return failed < 0 ? NULL : h;
}

/* Gives one value to the packer and keeps what gives it back: where the packer fails, a copy of the value. The hook is
 * in the table before, so that it is forgotten if its step goes meanwhile. */
static int pack_one(uint64_t id, PyObject *value) {
    PyObject *copy = PyObject_GetAttrString(value, "detach");
    if (copy == NULL || remember(id, copy) == NULL) {
        Py_XDECREF(copy);
        return -1;
    }
    Py_DECREF(copy);
    PyObject *packer = Py_NewRef(G.packer), *unpack = PyObject_CallFunctionObjArgs(packer, value, NULL);
    Py_DECREF(packer);
    PyObject *key = unpack != NULL ? PyLong_FromUnsignedLongLong(id) : NULL;
    struct hook *h = hook_of(key);
    if (h != NULL) {
        TL_SETREF(h->function, Py_NewRef(unpack));
    }
    Py_XDECREF(key);
    Py_XDECREF(unpack);
    return PyErr_Occurred() ? -1 : 0;
}

int pack_saved(const argbuf *b) {
    uint64_t handles[TL_DEFERRED_TENSORS], id;
    int32_t n = 0, operand = -1;
    for (; b != NULL && n < b->n_tensors && n < TL_DEFERRED_TENSORS; n++) {
        handles[n] = b->tensors[n]->handle;
    }
    while (G.packer != NULL) {
        tl_out out = {0};
        if (check_status(tl_next_pack_hook(handles, n, &out, &operand, &id)) < 0) {
            return -1;
        }
        if (id == 0) {
            return 0;
        }
        PyObject *value = operand >= 0 ? Py_NewRef((PyObject *)b->tensors[operand]) : tensor_wrap(G.tensor, &out,
            b != NULL ? b->api : TL_API_CORE);
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
        return PyErr_Occurred() ? NULL : raise_text(TL_RUNTIME,
            "saved_tensors_hooks: the saved tensor was let go meanwhile");
    }
    Py_INCREF(fn);
    PyObject *value = PyObject_CallFunctionObjArgs(fn, NULL);
    Py_DECREF(fn);
    return value;
}

/* _set_packer(function or None): the function takes a saved tensor and returns one that gives it back. Gives the
 * former. */
static PyObject *py_set_packer(PyObject *self, PyObject *packer) {
    (void)self;
    int64_t old;
    if (thread_here() < 0) {
        return NULL;
    }
    PyObject *former = G.packer != NULL ? G.packer : Py_NewRef(Py_None);
    if (former == packer) {
        return G.packer != NULL ? Py_NewRef(former) : former;
    }
    if (join_collector() < 0 || set_mode(TL_MODE_SAVED_TENSOR_HOOKS, packer != Py_None, &old) < 0) {
        return NULL;
    }
    G.packer = packer != Py_None ? Py_NewRef(packer) : NULL;
    return former;
}

static PyObject *py_unpack_saved(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    return PyErr_Occurred() ? NULL : unpack_saved(id);
}

/* _saved(function, i, action) -> (state, name, hook, tensor or None) */
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
    PyObject *value = out.handle != 0 ? tensor_wrap(G.tensor, &out, TL_API_CORE) : Py_NewRef(Py_None);
    return value == NULL ? NULL : Py_BuildValue("(IsKN)", (unsigned int)info.state, info.name,
        (unsigned long long)info.hook, value);
}

/* _graft(tensor, function, i): its values with the history of a saved value. */
static PyObject *py_attach_history(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tensor;
    unsigned long long id;
    int i;
    tl_out out = {0};
    if (!PyArg_ParseTuple(args, "O!Ki:_attach_history", (PyObject *)G.tensor, &tensor, &id, &i) ||
        check_status(tl_attach_history(((Tensor *)tensor)->handle, id, i, &out)) < 0) {
        return NULL;
    }
    return tensor_wrap(G.tensor, &out, ((Tensor *)tensor)->api);
}

static PyObject *py_add_hook(PyObject *self, PyObject *args) {
    (void)self;
    Tensor *tensor;
    PyObject *function;
    int post = 0;
    uint64_t id = 0;
    if (!PyArg_ParseTuple(args, "O!O|p:_add_hook", (PyObject *)G.tensor, &tensor, &function, &post) ||
        drop_flush() < 0 ||
        join_collector() < 0 || check_status(tl_hook(tensor->handle, post, &id)) < 0) {
        return NULL;
    }
    struct hook *h = remember(id, function);
    if (h == NULL) {
        return NULL;
    }
    h->owner = tensor;
    h->next = tensor->hooks;
    tensor->hooks = h;
    return PyLong_FromUnsignedLongLong(id);
}

static PyObject *py_remove_hook(PyObject *self, PyObject *key) {
    (void)self;
    uint64_t id = PyLong_AsUnsignedLongLong(key);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (hook_of(key) != NULL && (forget(id) < 0 || check_status(tl_hook(0, 0, &id)) < 0)) {
        return NULL;
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyMethodDef hook_functions[] = {
    {"_add_hook", py_add_hook, METH_VARARGS,
        "Add a gradient hook, or one for after a leaf has accumulated; gives its number."},
    {"_remove_hook", py_remove_hook, METH_O, "Remove a gradient hook by number."},
    {"_set_packer", py_set_packer, METH_O,
        "Name the function that saved tensors are given to, or None; gives the former."},
    {"_unpack_saved", py_unpack_saved, METH_O, "The saved tensor that a hook gives."},
    {"_saved", py_saved, METH_VARARGS,
        "Describe a saved value of a function, make it a tensor, or give it to the packer."},
    {"_attach_history", py_attach_history, METH_VARARGS, "The values of a tensor with the history of a saved value."},
    {0},
};

int hooks_init(void) {
    hooks = PyDict_New();
    return hooks != NULL ? 0 : -1;
}
