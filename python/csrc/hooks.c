#include "hooks.h"

#include "cpython.h"
#include "errors.h"
#include "process.h"
#include "torchlette.h"

struct hook {
    uint64_t id;
    PyObject *function;
    hook_list *owner;  /* of the tensor object through which it was added; NULL when that is gone */
    struct hook *next; /* of the same owner */
};

static PyObject *hooks; /* from a number to the capsule of a struct hook */

static void hook_free(PyObject *capsule) {
    struct hook *h = PyCapsule_GetPointer(capsule, NULL);
    if (h->owner != NULL) {
        struct hook **p = &h->owner->first;
        while (*p != h) {
            p = &(*p)->next;
        }
        *p = h->next;
    }
    Py_DECREF(h->function);
    PyMem_Free(h);
}

/* The hook with a number; NULL when there is none, or with an exception. */
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

int hook_forget(uint64_t id) {
    PyObject *key = PyLong_FromUnsignedLongLong(id);
    int found = hook_of(key) != NULL ? 1 : PyErr_Occurred() != NULL ? -1 : 0;
    if (found == 1 && PyDict_DelItem(hooks, key) < 0) {
        found = -1;
    }
    Py_XDECREF(key);
    return found;
}

int forget_hooks(void) {
    uint64_t ids[64];
    int32_t n = 64;
    while (PyDict_Size(hooks) > 0 && n == 64) {
        if (check_status(tl_dead_hooks(ids, 64, &n)) < 0) {
            return -1;
        }
        for (int32_t i = 0; i < n; i++) {
            if (hook_forget(ids[i]) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* The answer stays until Python code runs: only holders of the GIL change it. */
bool owns_hook(uint64_t handle, uint64_t id) {
    int32_t owns = 0;
    return !process.forked && tl_owns_hook(handle, id, &owns) == TL_OK && owns != 0;
}

static void give_hooks(hook_list *l, struct hook *first) {
    l->first = first;
    for (struct hook *h = first; h != NULL; h = h->next) {
        h->owner = l;
    }
}

void swap_hooks(hook_list *a, hook_list *b) {
    struct hook *first = a->first;
    give_hooks(a, b->first);
    give_hooks(b, first);
}

int visit_hooks(const hook_list *l, uint64_t handle, visitproc visit, void *arg) {
    for (struct hook *h = l->first; h != NULL; h = h->next) {
        if (owns_hook(handle, h->id)) {
            Py_VISIT(h->function);
        }
    }
    return 0;
}

void clear_hooks(hook_list *l, uint64_t handle) {
    struct hook *h = l->first;
    while (h != NULL) {
        if (!owns_hook(handle, h->id)) {
            h = h->next;
        } else if (hook_forget(h->id) < 0) {
            PyErr_Clear();
            return;
        } else {
            h = l->first; /* dropping the function may have changed the list */
        }
    }
}

void disown_hooks(hook_list *l) {
    for (struct hook *h = l->first; h != NULL; h = h->next) {
        h->owner = NULL;
    }
    l->first = NULL;
}

int hook_remember(uint64_t id, PyObject *function, hook_list *owner) {
    struct hook *h = PyMem_Malloc(sizeof *h);
    if (h == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *h = (struct hook){.id = id, .function = Py_NewRef(function)};
    PyObject *capsule = PyCapsule_New(h, NULL, hook_free);
    if (capsule == NULL) {
        Py_DECREF(function);
        PyMem_Free(h);
        return -1;
    }
    PyObject *key = PyLong_FromUnsignedLongLong(id);
    int failed = key == NULL ? -1 : PyDict_SetItem(hooks, key, capsule);
    Py_XDECREF(key);
    Py_DECREF(capsule);
    if (failed == 0 && owner != NULL) {
        h->owner = owner;
        h->next = owner->first;
        owner->first = h;
    }
    return failed;
}

int hook_replace(uint64_t id, PyObject *function) {
    PyObject *key = PyLong_FromUnsignedLongLong(id);
    struct hook *h = hook_of(key);
    if (h != NULL) {
        SETREF(h->function, Py_NewRef(function));
    }
    Py_XDECREF(key);
    return PyErr_Occurred() ? -1 : 0;
}

bool hooks_exist(void) { return PyDict_Size(hooks) > 0; }

int hooks_init(void) {
    hooks = PyDict_New();
    return hooks != NULL ? 0 : -1;
}
