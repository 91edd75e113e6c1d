/* The Tensor type: life of the object. */
#include "core.h"

#include <structmember.h>

/* Memory of dead tensors (no subclass's), for the next ones. */
enum { SPARE = 256 };
static struct {
    Tensor *tensors[SPARE];
    int n;
} spare;

static PyObject *tensor_alloc(PyTypeObject *type, Py_ssize_t n) {
    static allocfunc generic;
    if (spare.n == 0) {
        if (generic == NULL) {
            generic = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
        }
        return generic(type, n);
    }
    PyObject *o = (PyObject *)spare.tensors[--spare.n];
    memset((char *)o + sizeof(PyObject), 0, sizeof(Tensor) - sizeof(PyObject));
    PyObject_Init(o, type);
    PyObject_GC_Track(o);
    return o;
}

/* Copies the shape; rank may have changed (resized out=). */
static int set_shape(Tensor *t, const tl_out *out) {
    if (out->rank > TL_INLINE_RANK && out->rank > t->rank) {
        int64_t *block = PyMem_Malloc(out->rank * sizeof *block);
        if (block == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        if (t->shape != t->inline_shape) {
            PyMem_Free(t->shape);
        }
        t->shape = block;
    }
    memcpy(t->shape, out->shape, out->rank * sizeof *t->shape);
    t->rank = out->rank;
    t->numel = out->numel;
    return 0;
}

int tensor_update(Tensor *t, const tl_out *out) {
    t->layout = out->layout;
    t->epoch = G.epoch;
    t->dtype = out->dtype;
    t->device = out->device;
    t->flags = out->flags & (TL_REQUIRES_GRAD | TL_LEAF);
    return set_shape(t, out);
}

tl_out tensor_out(const Tensor *t) {
    tl_out out = {.handle = t->handle, .dtype = t->dtype, .device = t->device, .rank = t->rank, .flags = t->flags,
        .layout = t->layout, .numel = t->numel};
    memcpy(out.shape, t->shape, t->rank * sizeof *t->shape);
    return out;
}

static Tensor *wrap(PyTypeObject *type, allocfunc alloc, const tl_out *out, uint8_t api) {
    Tensor *t = (Tensor *)alloc(type, 0); /* zeroed */
    if (t == NULL) {
        drop_handle(out->handle);
        return NULL;
    }
    t->handle = out->handle;
    t->api = api;
    t->shape = t->inline_shape;
    if (tensor_update(t, out) < 0) {
        Py_CLEAR(t);
    }
    return t;
}

PyObject *tensor_wrap(PyTypeObject *type, const tl_out *out, uint8_t api) {
    return (PyObject *)wrap(type, tensor_alloc, out, api);
}

PyObject *tensor_wrap_as(PyTypeObject *type, const tl_out *out, uint8_t api) {
    return (PyObject *)wrap(type, (allocfunc)PyType_GetSlot(type, Py_tp_alloc), out, api);
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg) {
    Tensor *t = (Tensor *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(t->dict);
    Py_VISIT(t->grad);
    return visit_hooks(t, visit, arg);
}

static int tensor_clear(PyObject *self) {
    Tensor *t = (Tensor *)self;
    clear_hooks(t);
    Py_CLEAR(t->dict);
    Py_CLEAR(t->grad);
    return 0;
}

/* Puts the handle into the list that the next call releases; enters no engine. */
static void tensor_dealloc(PyObject *self) {
    Tensor *t = (Tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (t->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    disown_hooks(t);
    tensor_clear(self);
    if (t->handle != 0) {
        drop_handle(t->handle);
    }
    if (t->shape != t->inline_shape) {
        PyMem_Free(t->shape);
    }
    if (type == G.tensor && spare.n < SPARE) {
        spare.tensors[spare.n++] = t;
    } else {
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    }
    Py_DECREF(type);
}

static Py_hash_t tensor_hash(PyObject *self) {
    Py_hash_t h = (Py_hash_t)((uintptr_t)self >> 4);
    return h == -1 ? -2 : h;
}

/* Tensor(data) and Tensor(*sizes): the old constructor, of the default dtype. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        return raise_text(TL_TYPE, "Tensor() takes no keyword arguments; use tensor()");
    }
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *made;
    if (n == 1 && !PyLong_Check(PyTuple_GetItem(args, 0))) {
        made = data_tensor(PyTuple_GetItem(args, 0), G.default_dtype, -1, false, TL_API_CORE);
    } else {
        PyObject *sizes = n == 0 ? Py_BuildValue("(i)", 0) : Py_NewRef(args);
        if (sizes == NULL) {
            return NULL;
        }
        PyObject *argv[1] = {sizes};
        made = call_name("empty", argv, 1);
        Py_DECREF(sizes);
    }
    if (made == NULL || type == G.tensor) {
        return made;
    }
    PyObject *sub = PyObject_CallMethod((PyObject *)G.tensor, "_make_subclass", "OO", (PyObject *)type, made);
    Py_DECREF(made);
    return sub;
}

static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weakrefs), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Tensor, dict), READONLY, NULL},
    {NULL},
};

static int contains(PyObject *self, PyObject *value) {
    PyObject *equal = tensor_richcompare(self, value, Py_EQ);
    if (equal == NULL) {
        return -1;
    }
    if (!is_tensor(equal)) {
        raise_text(TL_RUNTIME, "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
            (PyObject *)Py_TYPE(value));
        Py_DECREF(equal);
        return -1;
    }
    PyObject *any = call_name("any", &equal, 1);
    Py_DECREF(equal);
    PyObject *truth = any != NULL ? tensor_item((Tensor *)any) : NULL;
    Py_XDECREF(any);
    int found = truth != NULL ? PyObject_IsTrue(truth) : -1;
    Py_XDECREF(truth);
    return found;
}

static PyType_Slot own_slots[] = {
    {Py_tp_doc, "An array with a dtype and a device, computed lazily, with gradients."},
    {Py_tp_new, tensor_new},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_hash, tensor_hash},
    {Py_tp_richcompare, tensor_richcompare},
    {Py_tp_iter, tensor_iter},
    {Py_tp_members, tensor_members},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {Py_mp_subscript, tensor_getitem},
    {Py_mp_ass_subscript, tensor_setitem},
    {Py_mp_length, tensor_length},
    {Py_sq_contains, contains},
    {Py_bf_getbuffer, tensor_getbuffer},
    {Py_bf_releasebuffer, tensor_releasebuffer},
    {0, NULL},
};

int tensor_init(PyObject *module) {
    PyType_Slot slots[96];
    int n = 0;
    for (const PyType_Slot *s = own_slots; s->slot != 0; s++) {
        slots[n++] = *s;
    }
    for (const PyType_Slot *s = number_slots; s->slot != 0; s++) {
        slots[n++] = *s;
    }
    slots[n] = (PyType_Slot){0, NULL};
    PyType_Spec spec = {
        .name = "torchlette.Tensor",
        .basicsize = sizeof(Tensor),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    G.tensor = (PyTypeObject *)PyType_FromSpec(&spec);
    if (G.tensor == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Tensor", (PyObject *)G.tensor);
}
