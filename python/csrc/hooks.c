/* Hooks of tensors: the functions behind the numbers that the engine knows.
 *
 * A hook lives as long as the step of the tape that it is on, which may outlive the Python object of its tensor. While
 * that object alone keeps the step, the hook goes with it: then, and only then, the object shows the function to the
 * cyclic collector, so that a function that holds its own tensor is collected with it. The table holds capsules, which the
 * collector does not look into: each function is shown by one object at most. */
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
    static PyMethodDef callback = {"_before_collection", py_before_collection, METH_VARARGS, "Release the handles of dead tensors."};
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

static PyObject *py_add_hook(PyObject *self, PyObject *args) {
    (void)self;
    Tensor *tensor;
    PyObject *function;
    int post = 0;
    uint64_t id = 0;
    if (!PyArg_ParseTuple(args, "O!O|p:_add_hook", (PyObject *)G.tensor, &tensor, &function, &post) || drop_flush() < 0 ||
        join_collector() < 0 || check_status(tl_hook(tensor->handle, post, &id)) < 0) {
        return NULL;
    }
    struct hook *h = PyMem_Malloc(sizeof *h);
    if (h == NULL) {
        return PyErr_NoMemory();
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
    Py_DECREF(capsule);
    if (failed < 0) {
        Py_CLEAR(key);
    } else {
        h->owner = tensor;
        h->next = tensor->hooks;
        tensor->hooks = h;
    }
    return key;
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
    {"_add_hook", py_add_hook, METH_VARARGS, "Add a gradient hook, or one for after a leaf has accumulated; gives its number."},
    {"_remove_hook", py_remove_hook, METH_O, "Remove a gradient hook by number."},
    {0},
};

int hooks_init(void) {
    hooks = PyDict_New();
    return hooks != NULL ? 0 : -1;
}
