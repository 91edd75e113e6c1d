#include "tensor.h"

#include "cpython.h"
#include "errors.h"
#include "hooks.h"
#include "process.h"
#include "torchlette.h"

PyTypeObject *TensorType;

/* Memory of dead tensors for the next ones. Objects of subclasses are not kept. */
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

/* Copies the shape. The rank may change: out= resizes. */
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
    t->epoch = process.epoch;
    t->dtype = out->dtype;
    t->device = out->device;
    t->flags = out->flags & (TL_REQUIRES_GRAD | TL_LEAF | TL_BATCHED);
    return set_shape(t, out);
}

tl_out tensor_out(const Tensor *t) {
    tl_out out = {.handle = t->handle,
        .dtype = t->dtype,
        .device = t->device,
        .rank = t->rank,
        .flags = t->flags,
        .layout = t->layout,
        .numel = t->numel};
    memcpy(out.shape, t->shape, t->rank * sizeof *t->shape);
    return out;
}

/* The block of a shape moves with its tensor; a shape inside the object is copied with it. */
static void own_shape(Tensor *t, const Tensor *from) {
    if (t->shape == from->inline_shape) {
        t->shape = t->inline_shape;
    }
}

void tensor_swap(Tensor *a, Tensor *b) {
    enum { HEAD = offsetof(Tensor, handle) };
    char kept[sizeof(Tensor)];
    PyObject *weak_a = a->weakrefs, *weak_b = b->weakrefs;
    swap_hooks(&a->hooks, &b->hooks);
    hook_list hooks_a = a->hooks, hooks_b = b->hooks;
    memcpy(kept, (char *)a + HEAD, sizeof(Tensor) - HEAD);
    memcpy((char *)a + HEAD, (char *)b + HEAD, sizeof(Tensor) - HEAD);
    memcpy((char *)b + HEAD, kept, sizeof(Tensor) - HEAD);
    own_shape(a, b);
    own_shape(b, a);
    a->weakrefs = weak_a;
    b->weakrefs = weak_b;
    a->hooks = hooks_a;
    b->hooks = hooks_b;
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

PyObject *tensor_wrap(const tl_out *out, uint8_t api) { return (PyObject *)wrap(TensorType, tensor_alloc, out, api); }

PyObject *tensor_wrap_as(PyTypeObject *type, const tl_out *out, uint8_t api) {
    return (PyObject *)wrap(type, (allocfunc)PyType_GetSlot(type, Py_tp_alloc), out, api);
}

int tensor_traverse(PyObject *self, visitproc visit, void *arg) {
    Tensor *t = (Tensor *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(t->dict);
    Py_VISIT(t->grad);
    return visit_hooks(&t->hooks, t->handle, visit, arg);
}

int tensor_clear(PyObject *self) {
    Tensor *t = (Tensor *)self;
    clear_hooks(&t->hooks, t->handle);
    Py_CLEAR(t->dict);
    Py_CLEAR(t->grad);
    return 0;
}

/* The handle joins the list that the next call releases: a destructor must not enter the engine. */
void tensor_dealloc(PyObject *self) {
    Tensor *t = (Tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (t->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    disown_hooks(&t->hooks);
    tensor_clear(self);
    if (t->handle != 0) {
        drop_handle(t->handle);
    }
    if (t->shape != t->inline_shape) {
        PyMem_Free(t->shape);
    }
    if (type == TensorType && spare.n < SPARE) {
        spare.tensors[spare.n++] = t;
    } else {
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    }
    Py_DECREF(type);
}

uint64_t *handles_of(PyObject *sequence, Py_ssize_t *n, bool none_ok) {
    *n = sequence != NULL ? PySequence_Size(sequence) : 0;
    if (*n < 0) {
        return NULL;
    }
    uint64_t *hs = PyMem_Malloc(((size_t)*n + 1) * sizeof *hs);
    if (hs == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *n; i++) {
        PyObject *t = PySequence_GetItem(sequence, i);
        bool tensor = t != NULL && is_tensor(t);
        if (!tensor && !(t == Py_None && none_ok)) {
            if (t != NULL) {
                raise_text(TL_TYPE, "expected Tensor as element %zd, but got %R", i, (PyObject *)Py_TYPE(t));
            }
            Py_XDECREF(t);
            PyMem_Free(hs);
            return NULL;
        }
        hs[i] = tensor ? ((Tensor *)t)->handle : 0;
        Py_DECREF(t);
    }
    return hs;
}
