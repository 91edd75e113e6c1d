/* Values out of tensors, computed when needed: item(), tolist(), bytes. */
#ifndef TORCHLETTE_TENSOR_READ_H
#define TORCHLETTE_TENSOR_READ_H

#include "cpython.h"
#include "tensor.h"

int read_allowed(void); /* -1 with an error in a compiled function that refuses reads */
int force_value(uint64_t handle); /* computes it; to be called in a turn */
int tensor_read(Tensor *t, void *dst, size_t bytes);
void *tensor_read_all(Tensor *t, size_t *bytes); /* freed by PyMem_Free */
PyObject *tensor_item(Tensor *t);
PyObject *tensor_copy_to_host_async(PyObject *self, PyObject *ignored);
PyObject *tensor_tolist(PyObject *self, PyObject *ignored);
PyObject *py_tobytes(PyObject *self, PyObject *tensor);

#endif
