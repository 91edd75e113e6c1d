/* Tensors from host memory. */
#ifndef TORCHLETTE_HOST_DATA_H
#define TORCHLETTE_HOST_DATA_H

#include "cpython.h"

/* Of a tensor that is to be made. */
typedef struct {
    uint8_t dtype, device, api;
    bool requires_grad;
} host_options;

/* A tensor with a copy of dense, row-major data. */
PyObject *host_tensor(host_options o, int rank, const int64_t *shape, const void *data, size_t bytes);
PyObject *scalar_tensor(PyObject *number, uint8_t dtype, uint8_t device, uint8_t api);

#endif
