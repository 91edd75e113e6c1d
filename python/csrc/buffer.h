/* The buffer protocol: tensors from NumPy arrays, array.array and memoryview, and tensors as buffers. */
#ifndef TORCHLETTE_BUFFER_H
#define TORCHLETTE_BUFFER_H

#include "cpython.h"

/* dtype -1: the buffer's own. NULL without an exception when data has no buffer. */
PyObject *buffer_tensor(PyObject *data, int dtype, uint8_t device, bool requires_grad, uint8_t api);
uint8_t buffer_dtype(const Py_buffer *v);  /* of the elements; 0 when there is none */
/* Over the array's memory. dtype -1: the array's own. NULL without an exception if that cannot be. */
PyObject *array_tensor(PyObject *array, int dtype, uint8_t api);
uint8_t buffer_scalar_dtype(PyObject *o); /* of a NumPy scalar; 0 when o is none */

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);

#endif
