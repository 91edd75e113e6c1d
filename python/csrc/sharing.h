/* Owners of memory that tensors on the CPU share with other code, and what the engine asks for at the end of a call. */
#ifndef TORCHLETTE_SHARING_H
#define TORCHLETTE_SHARING_H

#include "cpython.h"
#include "process.h"
#include "torchlette.h"

/* Memory of a tensor that a buffer shows. */
typedef struct {
    Py_ssize_t shape[TL_MAX_RANK], strides[TL_MAX_RANK];
    uint64_t export_id;
    void *block; /* a copy of the elements in place of the tensor's memory; freed by PyMem_Free */
} exported;

exported *exported_new(void);
PyObject *exported_owner(exported *x); /* a capsule that ends the export; on failure it has ended */

/* A buffer whose memory is a tensor's. The engine knows it as the memory's owner. */
typedef struct {
    Py_buffer view;
    uint64_t export_id;
    Py_ssize_t place; /* among the imports that are watched; -1: not there */
} import;

/* Lets the memory be the tensor's alone once nothing else can reach the buffer's owner. */
void import_watch(import *i);

bool is_array(PyObject *o); /* a numpy.ndarray; does not import NumPy */

/* Whether code outside may write to a tensor's memory; also, rarely, of other tensors. */
static inline bool sharing_handle(uint64_t handle) {
    enum { SLOTS = sizeof process.engine->shared / sizeof *process.engine->shared };
    return __atomic_load_n(&process.engine->shared[(uint32_t)handle % SLOTS], __ATOMIC_RELAXED) != 0;
}

/* Ends a call of the engine: does what the engine asks for before other code runs. Takes and returns a status. */
int32_t sharing_settle(int32_t status);

static inline int32_t sharing_settled(int32_t status) {
    int32_t due = __atomic_load_n(&process.engine->due, __ATOMIC_RELAXED) & (TL_DUE_SHARED | TL_DUE_OWNERS);
    return due != 0 || process.engine->exports != 0 ? sharing_settle(status) : status;
}

#endif
