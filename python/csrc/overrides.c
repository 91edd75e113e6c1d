#include "overrides.h"

#include "cpython.h"
#include "errors.h"
#include "tensor.h"
#include "torchlette.h"

bool overrides_on;

static PyObject *disabled_impl; /* the __torch_function__ of classes that leave calls alone, such as Parameter */

/* What a thread has switched off, and how many modes it has entered. */
static _Thread_local struct {
    int off; /* SUBCLASSES: the classes of arguments; EVERYTHING: also modes */
    int modes;
} here;

enum { SUBCLASSES = 1, EVERYTHING = 2 };

/* Whether an object is a tensor of PyTorch itself: its class would give each call back to us. */
static bool is_pytorchs(PyObject *o) {
    PyObject *modules = PyImport_GetModuleDict(); /* PyTorch may be there without our import */
    PyObject *module = modules != NULL ? PyDict_GetItemString(modules, "torch._C") : NULL;
    PyObject *base = module != NULL ? PyObject_GetAttrString(module, "TensorBase") : NULL;
    int is = base != NULL && base != (PyObject *)TensorType ? PyObject_IsInstance(o, base) : 0;
    PyErr_Clear();
    Py_XDECREF(base);
    return is > 0;
}

/* Whether the class of an object answers calls: asked once for each of the last classes. A weak reference tells whether
 * the class at an address is still the same. */
static bool answers(PyObject *o) {
    static struct {
        PyTypeObject *type;
        PyObject *reference;
        bool answers;
    } known[64];
    PyTypeObject *type = Py_TYPE(o);
    if (type == TensorType || o == Py_None || PyLong_CheckExact(o) || PyFloat_CheckExact(o)) {
        return false;
    }
    size_t at = ((uintptr_t)type >> 4) % (sizeof known / sizeof *known);
    if (known[at].type != type || PyWeakref_GetObject(known[at].reference) != (PyObject *)type) {
        PyObject *f = PyObject_GetAttrString((PyObject *)type, "__torch_function__");
        if (f == NULL) {
            PyErr_Clear();
        }
        SETREF(known[at].reference, PyWeakref_NewRef((PyObject *)type, NULL));
        if (known[at].reference == NULL) {
            PyErr_Clear();
        }
        bool dispatches = PyObject_HasAttrString((PyObject *)type, "__torch_dispatch__");
        known[at].type = known[at].reference != NULL ? type : NULL;
        known[at].answers = f != NULL && (f != disabled_impl || dispatches) && !PyType_Check(o) && !is_pytorchs(o);
        Py_XDECREF(f);
    }
    return known[at].answers;
}

static PyObject *item_of(PyObject *o, Py_ssize_t i) {
    return PyTuple_Check(o) ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i);
}

/* Appends o to found where its class answers; looks into a list or tuple too. found NULL: only tells. */
static int collect(PyObject *o, PyObject *found) {
    bool sequence = PyTuple_CheckExact(o) || PyList_CheckExact(o);
    if (!sequence) {
        return !answers(o) ? 0 : found == NULL || PyList_Append(found, o) == 0 ? 1 : -1;
    }
    int any = 0;
    for (Py_ssize_t i = 0; i < PyObject_Length(o); i++) {
        PyObject *e = item_of(o, i);
        int one = e == NULL ? -1 : !answers(e) ? 0 : found == NULL || PyList_Append(found, e) == 0 ? 1 : -1;
        if (one != 0) {
            any = one;
        }
        if (one < 0 || (one > 0 && found == NULL)) {
            break;
        }
    }
    return any;
}

static int collect_all(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *found) {
    int any = self != NULL ? collect(self, found) : 0;
    for (Py_ssize_t i = 0; any >= 0 && i < n; i++) {
        int one = collect(args[i], found);
        any = one != 0 ? one : any;
    }
    return any;
}

/* Calls torchlette.overrides, which asks the classes and modes in turn. */
static PyObject *ask(override_kind kind, const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
    PyObject *kwnames) {
    Py_ssize_t n_names = kwnames != NULL ? PyTuple_Size(kwnames) : 0, own = self != NULL;
    PyObject *module = PyImport_ImportModule("torchlette.overrides"), *r = NULL;
    PyObject *tuple = PyTuple_New(nargs + own), *dict = PyDict_New(), *found = PyList_New(0);
    int failed = module == NULL || tuple == NULL || dict == NULL || found == NULL;
    if (failed == 0 && own != 0) {
        failed = PyTuple_SetItem(tuple, 0, Py_NewRef(self));
    }
    for (Py_ssize_t i = 0; failed == 0 && i < nargs; i++) {
        failed = PyTuple_SetItem(tuple, i + own, Py_NewRef(args[i]));
    }
    for (Py_ssize_t i = 0; failed == 0 && i < n_names; i++) {
        failed = PyDict_SetItem(dict, PyTuple_GetItem(kwnames, i), args[nargs + i]);
    }
    if (failed == 0 && here.off == 0) {
        failed = collect_all(self, args, nargs + n_names, found) < 0;
    }
    if (failed == 0) {
        r = PyObject_CallMethod(module, "_answer_call", "isOOO", (int)kind, name, found, tuple, dict);
    }
    Py_XDECREF(module);
    Py_XDECREF(tuple);
    Py_XDECREF(dict);
    Py_XDECREF(found);
    return r;
}

bool overridden(override_kind kind, const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
    PyObject *kwnames, PyObject **r) {
    Py_ssize_t n = nargs + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    if (here.off == EVERYTHING || (here.modes == 0 && (here.off != 0 || collect_all(self, args, n, NULL) == 0))) {
        return false;
    }
    *r = PyErr_Occurred() ? NULL : ask(kind, name, self, args, nargs, kwnames);
    return true;
}

PyObject *overridden_failure(override_kind kind, const char *name, PyObject *self, PyObject *const *args,
    Py_ssize_t nargs, PyObject *kwnames, PyObject *r) {
    Py_ssize_t n = nargs + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    if (r != NULL || here.off != 0 || !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return r;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (collect_all(self, args, n, NULL) == 0) {
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return ask(kind, name, self, args, nargs, kwnames);
}

static PyObject *py_enable(PyObject *self, PyObject *n) {
    (void)self, (void)n;
    overrides_on = true;
    Py_RETURN_NONE;
}

static PyObject *py_switch_off(PyObject *self, PyObject *level) {
    (void)self;
    long old = here.off, v = PyLong_AsLong(level);
    if (v == -1 && PyErr_Occurred()) {
        return NULL;
    }
    here.off = v < 0 ? here.off : (int)v;
    return PyLong_FromLong(old);
}

static PyObject *py_count_modes(PyObject *self, PyObject *modes) {
    (void)self;
    long v = PyLong_AsLong(modes);
    if (v == -1 && PyErr_Occurred()) {
        return NULL;
    }
    here.modes = (int)v;
    overrides_on = overrides_on || v > 0;
    Py_RETURN_NONE;
}

static PyObject *py_overriding(PyObject *self, PyObject *values) {
    (void)self;
    PyObject *found = here.off != 0 ? NULL : PyList_New(0);
    Py_ssize_t n = PyTuple_Check(values) ? PyTuple_Size(values) : -1;
    if (n < 0) {
        Py_XDECREF(found);
        return raise_text(TL_TYPE, "_overriding(): want a tuple, got %R", (PyObject *)Py_TYPE(values));
    }
    if (here.off != 0) {
        return PyList_New(0);
    }
    for (Py_ssize_t i = 0; found != NULL && i < n; i++) {
        PyObject *o = PyTuple_GetItem(values, i);
        if (answers(o) && PyList_Append(found, o) < 0) {
            Py_CLEAR(found);
        }
    }
    return found;
}

/* Calls a function while no class answers. */
static PyObject *py_disabled_impl(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *f, *types, *arguments = NULL, *kwargs = NULL;
    if (!PyArg_ParseTuple(args, "OO|OO:_disabled_torch_function_impl", &f, &types, &arguments, &kwargs)) {
        return NULL;
    }
    PyObject *tuple = arguments != NULL ? Py_NewRef(arguments) : PyTuple_New(0);
    int old = here.off;
    here.off = old > SUBCLASSES ? old : SUBCLASSES;
    PyObject *r = tuple != NULL ? PyObject_Call(f, tuple, kwargs == Py_None ? NULL : kwargs) : NULL;
    here.off = old;
    Py_XDECREF(tuple);
    return r;
}

PyMethodDef overrides_functions[] = {
    {"_enable_overrides", py_enable, METH_NOARGS, "Let classes with __torch_function__ answer calls."},
    {"_switch_off_overrides", py_switch_off, METH_O,
        "Let no class (1), or no class nor mode (2), answer calls of this thread; gives the level so far. -1 asks."},
    {"_count_modes", py_count_modes, METH_O, "Tell how many modes answer calls of this thread."},
    {"_overriding", py_overriding, METH_O, "The objects of a tuple whose classes answer calls."},
    {"_disabled_torch_function_impl", py_disabled_impl, METH_VARARGS,
        "Call a function while no class answers: the __torch_function__ of classes that leave calls alone."},
    {0},
};

int overrides_init(PyObject *module) {
    disabled_impl = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
    return disabled_impl != NULL ? 0 : -1;
}
