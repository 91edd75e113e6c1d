#include "bindings.h"

#include "call.h"
#include "cpython.h"
#include "ops_table.h"
#include "overrides.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "torchlette.h"

/* The self of a builtin function: which group it calls, and through which API flavour. */
typedef struct {
    PyObject_HEAD
    group *g;
    uint8_t api;
} Binding;

static PyTypeObject *binding_type;
static PyType_Slot binding_slots[] = {{Py_tp_dealloc, plain_dealloc}, {0, NULL}};

static PyType_Spec binding_spec = {
    .name = "torchlette._C._Binding",
    .basicsize = sizeof(Binding),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = binding_slots,
};

static PyObject *function_entry(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    Binding *bound = (Binding *)self;
    override_kind kind = bound->api == TL_API_CORE ? OVERRIDE_FUNCTION : OVERRIDE_FACADE_FUNCTION;
    PyObject *r;
    if (overrides_on && overridden(kind, bound->g->name, NULL, args, nargs, kwnames, &r)) {
        return r;
    }
    r = call_group(bound->g, bound->api, NULL, args, nargs, kwnames);
    return r != NULL ? r : overridden_failure(kind, bound->g->name, NULL, args, nargs, kwnames, r);
}

/* The docstring of a name: the signatures of its overloads, then the text of the first one. */
static char *doc_of(const group *g) {
    size_t bytes = 1;
    for (int i = 0; i < g->n; i++) {
        bytes += strlen(g->overloads[i]->def->sig) + 1;
    }
    const char *line = g->overloads[0]->def->doc;
    char *doc = PyMem_Malloc(bytes + strlen(line) + 2);
    if (doc == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    char *p = doc;
    for (int i = 0; i < g->n; i++) {
        p += sprintf(p, "%s\n", g->overloads[i]->def->sig);
    }
    sprintf(p, "\n%s", line);
    return doc;
}

static PyObject *make_function(PyMethodDef *def, group *g, uint8_t api, PyObject *module_name) {
    Binding *bound = (Binding *)((allocfunc)PyType_GetSlot(binding_type, Py_tp_alloc))(binding_type, 0);
    if (bound == NULL) {
        return NULL;
    }
    bound->g = g;
    bound->api = api;
    PyObject *f = PyCFunction_NewEx(def, (PyObject *)bound, module_name);
    Py_DECREF(bound);
    return f;
}

/* The C function of a method descriptor is not told which method it is. So each group has a function of its own: entry
 * number i calls group number i. */
#define ENTRY(i) \
    static PyObject *method_##i(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) { \
        return call_method(method_groups[0x##i], self, args, nargs, kwnames); \
    }
#define ADDRESS(i) method_##i,
#define ROW(M, h) \
    M(h##0) M(h##1) M(h##2) M(h##3) M(h##4) M(h##5) M(h##6) M(h##7) \
    M(h##8) M(h##9) M(h##a) M(h##b) M(h##c) M(h##d) M(h##e) M(h##f)
#define PAGE(M, h) \
    ROW(M, h##0) ROW(M, h##1) ROW(M, h##2) ROW(M, h##3) ROW(M, h##4) ROW(M, h##5) ROW(M, h##6) ROW(M, h##7) \
    ROW(M, h##8) ROW(M, h##9) ROW(M, h##a) ROW(M, h##b) ROW(M, h##c) ROW(M, h##d) ROW(M, h##e) ROW(M, h##f)
#define ALL(M) PAGE(M, 0) PAGE(M, 1) PAGE(M, 2) PAGE(M, 3) PAGE(M, 4) PAGE(M, 5) PAGE(M, 6) PAGE(M, 7)

enum { MAX_METHODS = 8 * 256 };
static group *method_groups[MAX_METHODS];

/* Not inlined into each of the entries below. */
__attribute__((noinline)) static PyObject *call_method(
    group *g, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *r;
    if (overrides_on && overridden(OVERRIDE_METHOD, g->name, self, args, nargs, kwnames, &r)) {
        return r;
    }
    r = call_group(g, TL_API_CORE, self, args, nargs, kwnames);
    return r != NULL ? r : overridden_failure(OVERRIDE_METHOD, g->name, self, args, nargs, kwnames, r);
}

ALL(ENTRY)
typedef PyObject *(*fast_method)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
static const fast_method method_entries[MAX_METHODS] = {ALL(ADDRESS)};

static int add_method(PyObject *type, group *g, int number, const char *doc) {
    if (PyObject_HasAttrString(type, g->name)) {
        return 0; /* methods.c has it */
    }
    PyMethodDef *def = PyMem_Calloc(1, sizeof *def);
    if (def == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    method_groups[number] = g;
    *def = (PyMethodDef){
        g->name, (PyCFunction)(void (*)(void))method_entries[number], METH_FASTCALL | METH_KEYWORDS, doc};
    PyObject *descriptor = PyDescr_NewMethod((PyTypeObject *)type, def);
    int failed = descriptor == NULL || PyObject_SetAttrString(type, g->name, descriptor) < 0;
    Py_XDECREF(descriptor);
    return failed ? -1 : 0;
}

/* Puts the functions of a group into the module and into the facade's dict. */
static int add_functions(PyObject *module, PyObject *facade, group *g, const char *doc, PyObject *names[2]) {
    PyMethodDef *def = PyMem_Calloc(1, sizeof *def);
    if (def == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *def = (PyMethodDef){g->name, (PyCFunction)(void (*)(void))function_entry, METH_FASTCALL | METH_KEYWORDS, doc};
    PyObject *core = make_function(def, g, TL_API_CORE, names[0]);
    PyObject *torch = make_function(def, g, TL_API_TORCH, names[1]);
    int failed = core == NULL || torch == NULL || PyObject_SetAttrString(module, g->name, core) < 0 ||
        PyDict_SetItemString(facade, g->name, torch) < 0;
    Py_XDECREF(core);
    Py_XDECREF(torch);
    return failed ? -1 : 0;
}

int bindings_init(PyObject *module) {
    binding_type = (PyTypeObject *)PyType_FromSpec(&binding_spec);
    PyObject *facade = PyDict_New(), *where = PyDict_New();
    PyObject *names[2] = {PyUnicode_FromString("torchlette"), PyUnicode_FromString("torchlette.torch")};
    if (binding_type == NULL || facade == NULL || where == NULL || names[0] == NULL || names[1] == NULL) {
        return -1;
    }
    group *g;
    for (int i = 0; (g = group_at(i)) != NULL; i++) {
        if (i >= MAX_METHODS) {
            PyErr_Format(PyExc_SystemError, "BUG: more than %d names of operators", MAX_METHODS);
            return -1;
        }
        char *doc = doc_of(g);
        /* A name that is only a method is no function: in the module, "float" and "bool" are dtypes. */
        bool function = (g->where & ~TL_W_METHOD) != 0;
        if (doc == NULL || (function && add_functions(module, facade, g, doc, names) < 0)) {
            return -1;
        }
        /* torch.linalg, torch.special and torch.fft have these without the prefix, and Tensor has none of them */
        bool prefixed = strncmp(g->name, "linalg_", 7) == 0 || strncmp(g->name, "special_", 8) == 0 ||
            strncmp(g->name, "fft_", 4) == 0;
        if ((g->where & TL_W_METHOD) != 0 && !prefixed && add_method((PyObject *)TensorType, g, i, doc) < 0) {
            return -1;
        }
        PyObject *flags = PyLong_FromLong(g->where | (g->mode == TL_IN_PLACE ? 128 : 0));
        if (flags == NULL || PyDict_SetItemString(where, g->name, flags) < 0) {
            return -1;
        }
        Py_DECREF(flags);
    }
    Py_DECREF(names[0]);
    Py_DECREF(names[1]);
    /* _facade: the same functions for torchlette.torch, whose results follow PyTorch's rules of coercion.
     * _where: name -> the bits TL_W_*, and 128 for names in place. */
    int failed = PyModule_AddObjectRef(module, "_facade", facade) < 0 ||
        PyModule_AddObjectRef(module, "_where", where) < 0 ||
        PyModule_AddObjectRef(module, "_return_types", return_types) < 0;
    Py_DECREF(facade);
    Py_DECREF(where);
    return failed ? -1 : 0;
}
