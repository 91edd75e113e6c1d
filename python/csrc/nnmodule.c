/* A parameter, buffer or submodule is an entry of one of three dicts of the instance. Python's own protocol would first
 * make an AttributeError on each access, throw it away, and then call __getattr__. Here the three dicts are searched
 * right after the instance's own attributes. */
#include "nnmodule.h"

#include "cpython.h"

enum { N_TABLES = 3, N_HOOKS = 4 };
static PyObject *tables[N_TABLES], *hooks[N_HOOKS];
static PyObject *name_forward, *name_with_hooks, *name_compiled;

/* Tables of the hooks that run with the call of any module: a tuple of dicts. */
static PyObject *every_module;

/* Looks name up in the table that the instance has as table_name: borrowed; NULL when there is none, or with an
 * exception. */
static PyObject *entry(PyObject *dict, PyObject *table_name, PyObject *name) {
    PyObject *table = PyDict_GetItemWithError(dict, table_name);
    return table != NULL && PyDict_Check(table) ? PyDict_GetItemWithError(table, name) : NULL;
}

static PyObject *module_getattro(PyObject *self, PyObject *name) {
    PyObject *dict = PyObject_GenericGetDict(self, NULL);
    if (dict == NULL) {
        return NULL;
    }
    PyObject *found = PyDict_GetItemWithError(dict, name);
    if (found == NULL && !PyErr_Occurred()) {
        for (int i = 0; i < N_TABLES && found == NULL && !PyErr_Occurred(); i++) {
            found = entry(dict, tables[i], name);
        }
        Py_XINCREF(found);
    } else {
        found = NULL; /* the instance has the name; Python's protocol prefers a property of the class */
    }
    Py_DECREF(dict);
    if (found != NULL || PyErr_Occurred()) {
        return found;
    }
    return PyObject_GenericGetAttr(self, name);
}

static PyObject *set_module_hooks(PyObject *module, PyObject *dicts) {
    (void)module;
    for (Py_ssize_t i = 0; i < PyTuple_Size(dicts); i++) {
        if (!PyDict_Check(PyTuple_GetItem(dicts, i))) {
            PyErr_SetString(PyExc_TypeError, "_set_module_hooks(): expected dicts");
            return NULL;
        }
    }
    PyObject *before = every_module;
    every_module = Py_NewRef(dicts);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* Whether a call of self does more than forward: hooks run, or compile() was called; compiled is then what it made. */
static int has_more(PyObject *self, PyObject **compiled) {
    PyObject *dict = PyObject_GenericGetDict(self, NULL);
    if (dict == NULL) {
        return -1;
    }
    *compiled = PyDict_GetItemWithError(dict, name_compiled);
    if (*compiled == Py_None) {
        *compiled = NULL;
    }
    Py_XINCREF(*compiled);
    int found = *compiled != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
    for (Py_ssize_t i = 0; every_module != NULL && found == 0 && i < PyTuple_Size(every_module); i++) {
        found = PyDict_Size(PyTuple_GetItem(every_module, i)) > 0;
    }
    for (int i = 0; i < N_HOOKS && found == 0; i++) {
        PyObject *table = PyDict_GetItemWithError(dict, hooks[i]);
        if (table == NULL) {
            found = PyErr_Occurred() ? -1 : 0;
        } else {
            found = PyDict_Size(table) > 0;
        }
    }
    Py_DECREF(dict);
    return found;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *compiled = NULL;
    int hooked = has_more(self, &compiled);
    if (hooked < 0) {
        return NULL;
    }
    if (compiled != NULL) {
        PyObject *r = PyObject_Call(compiled, args, kwargs);
        Py_DECREF(compiled);
        return r;
    }
    if (hooked > 0) {
        PyObject *none = kwargs == NULL ? PyDict_New() : Py_NewRef(kwargs);
        PyObject *r = none != NULL ? PyObject_CallMethodObjArgs(self, name_with_hooks, args, none, NULL) : NULL;
        Py_XDECREF(none);
        return r;
    }
    PyObject *forward = PyObject_GetAttr(self, name_forward);
    if (forward == NULL) {
        return NULL;
    }
    PyObject *r = PyObject_Call(forward, args, kwargs);
    Py_DECREF(forward);
    return r;
}

static PyType_Slot slots[] = {
    {Py_tp_doc, "Attributes and calls of nn.Module."},
    {Py_tp_getattro, module_getattro},
    {Py_tp_call, module_call},
    {0, NULL},
};

static int intern_all(PyObject **into, const char *const *names, int n) {
    for (int i = 0; i < n; i++) {
        into[i] = PyUnicode_InternFromString(names[i]);
        if (into[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static PyMethodDef functions[] = {
    {"_set_module_hooks", set_module_hooks, METH_VARARGS,
        "Give the dicts of the hooks that run with every module's call."},
    {NULL, NULL, 0, NULL},
};

int nnmodule_init(PyObject *module) {
    static const char *const table_names[N_TABLES] = {"_parameters", "_buffers", "_modules"};
    static const char *const hook_names[N_HOOKS] = {
        "_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks"};
    static const char *const others[3] = {"forward", "_call_with_hooks", "_compiled_call_impl"};
    PyObject *names[3];
    if (intern_all(tables, table_names, N_TABLES) < 0 || intern_all(hooks, hook_names, N_HOOKS) < 0 ||
        intern_all(names, others, 3) < 0) {
        return -1;
    }
    name_forward = names[0];
    name_with_hooks = names[1];
    name_compiled = names[2];
    PyType_Spec spec = {
        .name = "torchlette._C._ModuleBase",
        .basicsize = sizeof(PyObject),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    PyObject *type = PyType_FromSpec(&spec);
    int failed = type == NULL || PyModule_AddFunctions(module, functions) < 0 ||
        PyModule_AddObjectRef(module, "_ModuleBase", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
