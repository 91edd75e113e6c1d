/* Memory that tensors on the CPU share with code outside of the engine. */
#ifndef TORCHLETTE_MEMORY_H
#define TORCHLETTE_MEMORY_H

#include "cpython.h"
#include "process.h"
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

bool is_array(PyObject *o);                            /* a numpy.ndarray */
/* Over its memory. dtype -1: the array's own. NULL without an exception if that cannot be. */
PyObject *array_tensor(PyObject *array, int dtype, uint8_t api);

/* A tensor over memory of a buffer, which it takes over; stride counts elements. */
PyObject *memory_tensor(Py_buffer *v, void *first, uint8_t dtype, int rank, const int64_t *shape, const int64_t *stride,
    uint8_t api);

/* Ends a call of the engine: does what the engine asks for before other code runs. Takes and returns a status. */
int32_t memory_settle(int32_t status);

static inline int32_t memory_settled(int32_t status) {
    int32_t due = __atomic_load_n(&process.engine->due, __ATOMIC_RELAXED) & (TL_DUE_SHARED | TL_DUE_OWNERS);
    return due != 0 || process.engine->exports != 0 ? memory_settle(status) : status;
}

PyObject *py_data_ptr(PyObject *self, PyObject *tensor);
PyObject *py_address(PyObject *self, PyObject *buffer);
PyObject *py_from_memory(PyObject *self, PyObject *args);

#endif
