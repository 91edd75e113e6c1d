/* The Tensor object: its fields, and how objects come from results of the engine. */
#ifndef TORCHLETTE_TENSOR_H
#define TORCHLETTE_TENSOR_H

#include "cpython.h"
#include "hooks.h"
#include "torchlette.h"

enum { TL_INLINE_RANK = 4 };

typedef struct {
    PyObject_HEAD
    uint64_t handle;
    PyObject *dict;
    PyObject *weakrefs;
    hook_list hooks; /* the hooks that were added through this object */
    PyObject *grad;  /* the object that .grad gave last, so that it is the same object next time */
    int64_t numel;
    int64_t *shape; /* inline_shape, or a block of its own */
    uint8_t dtype, device, rank;
    uint8_t flags;   /* TL_REQUIRES_GRAD, TL_LEAF, TL_BATCHED */
    uint8_t api;     /* TL_API_TORCH: made through torchlette.torch, or from such a tensor */
    uint32_t layout; /* of tl_out */
    uint32_t epoch;  /* while this is process.epoch, the engine is known to have the handle */
    int64_t inline_shape[TL_INLINE_RANK];
} Tensor;

extern PyTypeObject *TensorType;

static inline bool is_tensor(PyObject *o) {
    return Py_TYPE(o) == TensorType || PyType_IsSubtype(Py_TYPE(o), TensorType);
}

PyObject *tensor_wrap(const tl_out *out, uint8_t api);
PyObject *tensor_wrap_as(PyTypeObject *type, const tl_out *out, uint8_t api); /* type: a subclass of Tensor */
int tensor_update(Tensor *t, const tl_out *out);
tl_out tensor_out(const Tensor *t); /* makes another tensor the same through tensor_update */

void tensor_swap(Tensor *a, Tensor *b); /* all but the weak references and the class */

/* Slots of the type: life of the object. */
int tensor_traverse(PyObject *self, visitproc visit, void *arg);
int tensor_clear(PyObject *self);
void tensor_dealloc(PyObject *self);

/* The handles of a sequence of tensors, freed by PyMem_Free. sequence NULL: none. none_ok: None gives handle 0. */
uint64_t *handles_of(PyObject *sequence, Py_ssize_t *n, bool none_ok);

#endif
