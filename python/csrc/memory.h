/* Memory that tensors on the CPU share with code outside of the engine. */
#ifndef TORCHLETTE_MEMORY_H
#define TORCHLETTE_MEMORY_H

#include "cpython.h"
#include "tensor.h"
#include "torchlette.h"

/* Elements of a tensor: the address of the first one, and the strides in elements. */
typedef struct {
    void *data;
    int64_t stride[TL_MAX_RANK];
    uint64_t export_id; /* for tl_release_export */
} shared_memory;

/* Computes a tensor and shares its memory. pin: as long as the tensor or an alias lives. */
int memory_share(Tensor *t, bool pin, shared_memory *m);

/* A tensor over memory of a buffer, which it takes over; stride counts elements. shared: others may use the memory. */
PyObject *memory_tensor(Py_buffer *v, void *first, uint8_t dtype, int rank, const int64_t *shape, const int64_t *stride,
    bool shared, uint8_t api);

PyObject *py_data_ptr(PyObject *self, PyObject *tensor);
PyObject *py_address(PyObject *self, PyObject *buffer);
PyObject *py_from_memory(PyObject *self, PyObject *args);

#endif
