/* One operator call: the handles to drop, the results as Python objects, and the
 * functions and methods that Python sees. */
#include "core.h"
#include "table.h"

/* Handles of dead tensors. The GIL orders all access. A list that must grow and
 * cannot loses the handle: the engine then holds the value until it is reset. */
static struct {
    uint64_t *handles;
    int32_t n, cap;
} dead;

void drop_handle(uint64_t handle) {
    if (dead.n == dead.cap) {
        int32_t cap = dead.cap > 0 ? 2 * dead.cap : 1024;
        uint64_t *grown = PyMem_Realloc(dead.handles, (size_t)cap * sizeof *grown);
        if (grown == NULL) {
            return;
        }
        dead.handles = grown;
        dead.cap = cap;
    }
    dead.handles[dead.n++] = handle;
}

int32_t queue_flush(void) {
    do {
        if (queue_waits() && (G.flush_status = TL_TURN()) != TL_OK) {
            return G.flush_status;
        }
        if (thread_here() < 0) {
            return TL_RAISED;
        }
    } while (queue_waits() && TL_BUSY_NOW());
    return queue_record();
}

int32_t queue_record(void) {
    int32_t n, n_dead = dead.n;
    const tl_deferred *calls = queue_take(&n);
    if (n == 0 && n_dead == 0) {
        return TL_OK;
    }
    dead.n = 0; /* the engine runs no Python, so nothing is added meanwhile */
    if (G.forked) {
        return TL_OK;
    }
    return n == 0 ? tl_release(dead.handles, n_dead) : tl_record(calls, n, dead.handles, n_dead);
}

int drop_flush(void) {
    if (G.forked) {
        return 0;
    }
    do {
        if (check_status(queue_flush()) < 0) {
            return -1;
        }
        if (forget_hooks() < 0) { /* may drop tensors that the hooks held */
            return -1;
        }
    } while (dead.n > 0);
    return 0;
}

int engine_op(overload *o, argbuf *b, uint8_t mode, PyObject *const *outs, int n_outs, tl_out *out, int max, int *n) {
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
    c.drop = dead.handles;
    c.n_drop = dead.n;
    c.queued = queue_take(&c.n_queued);
    dead.n = 0;
    int32_t status = tl_op(&c, out, max, &count);
    *n = count;
    if (check_status(status) < 0) {
        return -1;
    }
    for (int i = 0; i < b->n_tensors && i < TL_DEFERRED_TENSORS; i++) {
        b->tensors[i]->epoch = G.epoch;
    }
    if (G.packer == NULL || pack_saved(b) == 0) {
        return 0;
    }
    for (int i = 0; mode == TL_FUNCTIONAL && i < count; i++) {
        if ((out[i].flags & TL_SAME_HANDLE) == 0) {
            drop_handle(out[i].handle);
        }
    }
    return -1;
}

/* An upper bound of the number of results of an operator that returns a list: the
 * pieces of a dimension, or as many as a list of sizes names. */
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
        PyObject *t = tuple != NULL ? tensor_wrap(G.tensor, &out[i], api) : NULL;
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
    PyObject *cached_call = queue_call(o, b, api, &l, &known);
    if (known) {
        return cached_call;
    }
    if (engine_op(o, b, TL_FUNCTIONAL, NULL, 0, out, 8, &n) < 0) {
        return NULL;
    }
    if (o->def->nresults == 1 && n == 1) {
        queue_insert(&l, b, &out[0]);
        if ((out[0].flags & TL_SAME_HANDLE) != 0 && b->first != NULL) {
            return Py_NewRef(b->first); /* contiguous() of a dense tensor and the like */
        }
        return tensor_wrap(G.tensor, &out[0], api);
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
        return raise_text(TL_TYPE, "%s(): argument 'out' must be %d Tensors, not %zd", o->def->name,
            (int)o->def->nresults, n);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!is_tensor(targets[i])) {
            return raise_text(TL_TYPE, "%s(): argument 'out' must be Tensor, not %R", o->def->name,
                (PyObject *)Py_TYPE(targets[i]));
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
    if (!dtype_is_float(t->dtype)) {
        raise_text(TL_RUNTIME, "Only Tensors of floating point and complex dtype can require gradients");
        return -1;
    }
    t->flags |= TL_REQUIRES_GRAD;
    return check_status(tl_requires_grad(t->handle, 1));
}

/* A generator's words are (seed, draws taken, 0, 0); those of the default one, None, are the
 * engine's. They change places with the engine's for one call. */
static int swap_words(PyObject *generator, uint64_t outer[4]) {
    unsigned long long w[4];
    PyObject *words = PyObject_GetAttrString(generator, "_words");
    if (words == NULL || words == Py_None) {
        Py_XDECREF(words);
        return words == NULL ? -1 : 0;
    }
    int found = PyTuple_Check(words) ? PyArg_ParseTuple(words, "KKKK", &w[0], &w[1], &w[2], &w[3])
                                     : set_error(TL_TYPE, "generator: its state is no tuple of four ints");
    Py_DECREF(words);
    if (found <= 0) {
        return -1;
    }
    uint64_t inner[4] = {w[0], w[1], w[2], w[3]};
    return check_status(tl_rng(TL_RNG_GET, outer)) < 0 || check_status(tl_rng(TL_RNG_SET, inner)) < 0 ? -1 : 1;
}

/* Puts the engine's words back and keeps the generator's. It works under an exception too. */
static int restore_words(PyObject *generator, uint64_t outer[4]) {
    uint64_t inner[4];
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    int failed = check_status(tl_rng(TL_RNG_GET, inner)) < 0 || check_status(tl_rng(TL_RNG_SET, outer)) < 0;
    PyObject *words = failed ? NULL
                             : Py_BuildValue("(KKKK)", (unsigned long long)inner[0], (unsigned long long)inner[1],
                                 (unsigned long long)inner[2],
                                             (unsigned long long)inner[3]);
    failed = words == NULL || PyObject_SetAttrString(generator, "_words", words) < 0;
    Py_XDECREF(words);
    if (type != NULL) {
        PyErr_Restore(type, value, trace);
        return -1;
    }
    return failed ? -1 : 0;
}

PyObject *call_group(group *g, uint8_t api, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
    PyObject *kwnames) {
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
        if (g->mode == TL_IN_PLACE) {
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
    argbuf_clear(&b);
    return r;
}

PyObject *call_name(const char *name, PyObject *const *args, Py_ssize_t nargs) {
    group *g = group_find(name);
    if (g == NULL) {
        return raise_text(TL_NOT_IMPLEMENTED, "there is no operator %s", name);
    }
    return call_group(g, TL_API_CORE, NULL, args, nargs, NULL);
}

/* Functions: builtin objects whose self says which group, and through which API flavour. */
typedef struct {
    PyObject_HEAD
    group *g;
    uint8_t api;
} Binding;

static PyTypeObject *binding_type;

static void binding_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot binding_slots[] = {{Py_tp_dealloc, binding_dealloc}, {0, NULL}};
static PyType_Spec binding_spec = {
    .name = "torchlette._C._Binding",
    .basicsize = sizeof(Binding),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = binding_slots,
};

static PyObject *function_entry(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    Binding *bound = (Binding *)self;
    return call_group(bound->g, bound->api, NULL, args, nargs, kwnames);
}

/* Documentation of a name: its signatures, then the first line of the first. */
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

/* Methods: a method descriptor's C function is not told which method it is, so each
 * group has an entry of its own. */
#define ENTRY(i) \
    static PyObject *method_##i(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) { \
        return call_group(method_groups[0x##i], TL_API_CORE, self, args, nargs, kwnames); \
    }
#define ADDRESS(i) method_##i,
#define ROW(M, h) M(h##0) M(h##1) M(h##2) M(h##3) M(h##4) M(h##5) M(h##6) M(h##7) M(h##8) M(h##9) M(h##a) M(h##b) M( \
    h##c) M(h##d) M(h##e) M(h##f)
#define PAGE(M, h) ROW(M, h##0) ROW(M, h##1) ROW(M, h##2) ROW(M, h##3) ROW(M, h##4) ROW(M, h##5) ROW(M, h##6) ROW(M, \
    h##7) \
    ROW(M, h##8) ROW(M, h##9) ROW(M, h##a) ROW(M, h##b) ROW(M, h##c) ROW(M, h##d) ROW(M, h##e) ROW(M, h##f)
#define ALL(M) PAGE(M, 0) PAGE(M, 1) PAGE(M, 2) PAGE(M, 3) PAGE(M, 4) PAGE(M, 5) PAGE(M, 6) PAGE(M, 7)

enum { MAX_METHODS = 8 * 256 };
static group *method_groups[MAX_METHODS];

ALL(ENTRY)

typedef PyObject *(*fast_method)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
static const fast_method method_entries[MAX_METHODS] = {ALL(ADDRESS)};

static int add_method(PyObject *type, group *g, int number, const char *doc) {
    if (PyObject_HasAttrString(type, g->name)) {
        return 0; /* written by hand */
    }
    PyMethodDef *def = PyMem_Calloc(1, sizeof *def);
    if (def == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    method_groups[number] = g;
    *def = (PyMethodDef){g->name, (PyCFunction)(void (*)(void))method_entries[number], METH_FASTCALL | METH_KEYWORDS,
        doc};
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

int call_init(PyObject *module) {
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
        /* Method-only names stay out: "float" and "bool" are dtypes in the module. */
        bool function = (g->where & ~TL_W_METHOD) != 0;
        if (doc == NULL || (function && add_functions(module, facade, g, doc, names) < 0)) {
            return -1;
        }
        /* in the sub-module only */
        bool prefixed = strncmp(g->name, "linalg_", 7) == 0 || strncmp(g->name, "special_", 8) == 0;
        if ((g->where & TL_W_METHOD) != 0 && !prefixed && add_method((PyObject *)G.tensor, g, i, doc) < 0) {
            return -1;
        }
        PyObject *flags = PyLong_FromLong(g->where | (g->mode == TL_IN_PLACE ? 64 : 0));
        if (flags == NULL || PyDict_SetItemString(where, g->name, flags) < 0) {
            return -1;
        }
        Py_DECREF(flags);
    }
    Py_DECREF(names[0]);
    Py_DECREF(names[1]);
    /* _facade: the same functions, whose results follow PyTorch's rules of coercion.
     * _where: name -> 1 function, 2 method, 4 nn.functional, 8 hidden, 16 linalg, 32 special, 64 in place. */
    int failed = PyModule_AddObjectRef(module, "_facade", facade) < 0 || PyModule_AddObjectRef(module, "_where",
        where) < 0 ||
                 PyModule_AddObjectRef(module, "_return_types", return_types) < 0;
    Py_DECREF(facade);
    Py_DECREF(where);
    return failed ? -1 : 0;
}
