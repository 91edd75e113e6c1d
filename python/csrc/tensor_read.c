#include "tensor_read.h"

#include "cpython.h"
#include "element.h"
#include "errors.h"
#include "flush.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"
#include "turn.h"
#include "types.h"
#include "wait.h"

int read_allowed(void) {
    if (thread_here() < 0) {
        return -1;
    }
    return current.compile & REFUSES_READS
        ? set_error(TL_HOST_READ,
              "a value is read inside of a compiled function: return the tensor and read it outside, or call the code "
              "that reads through torchlette.compiler.disable")
        : 0;
}

int force_value(uint64_t handle) {
    int32_t status;
    if (read_allowed() < 0 || drop_flush() < 0) {
        return -1;
    }
    SLICED(status, tl_force(handle, TL_SLICE_NS));
    return check_status(status);
}

/* Computes a value and copies its elements: one call of the engine for a value that is soon computed. */
static int copy_value(uint64_t handle, void *dst, size_t bytes) {
    int32_t status;
    if (read_allowed() < 0 || drop_flush() < 0) {
        return -1;
    }
    SLICED(status, tl_read_within(handle, dst, bytes, TL_SLICE_NS));
    return check_status(status);
}

PyObject *tensor_copy_to_host_async(PyObject *self, PyObject *ignored) {
    (void)ignored;
    int32_t status;
    Tensor *t = (Tensor *)self;
    if (turn_take(t->api) < 0) {
        return NULL;
    }
    if (thread_here() < 0 || drop_flush() < 0) {
        turn_give();
        return NULL;
    }
    SLICED(status, tl_copy_to_host(t->handle, TL_SLICE_NS));
    turn_give();
    return none_or_raise(status);
}

int tensor_read(Tensor *t, void *dst, size_t bytes) {
    if (turn_take(t->api) < 0) {
        return -1;
    }
    int failed = copy_value(t->handle, dst, bytes);
    turn_give();
    return failed;
}

PyObject *tensor_item(Tensor *t) {
    char v[MAX_ELEMENT];
    if (t->numel != 1) {
        set_error(TL_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->numel);
        return NULL;
    }
    return tensor_read(t, v, dtype_size(t->dtype)) < 0 ? NULL : element_load(t->dtype, v);
}

void *tensor_read_all(Tensor *t, size_t *bytes) {
    *bytes = (size_t)t->numel * dtype_size(t->dtype);
    void *block = PyMem_Malloc(*bytes + 1);
    if (block == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (*bytes > 0 && tensor_read(t, block, *bytes) < 0) {
        PyMem_Free(block);
        return NULL;
    }
    return block;
}

static PyObject *nested(const Tensor *t, int dim, const char **p) {
    if (dim == t->rank) {
        PyObject *e = element_load(t->dtype, *p);
        *p += dtype_size(t->dtype);
        return e;
    }
    PyObject *list = PyList_New((Py_ssize_t)t->shape[dim]);
    for (int64_t i = 0; list != NULL && i < t->shape[dim]; i++) {
        PyObject *e = nested(t, dim + 1, p);
        if (e == NULL || PyList_SetItem(list, (Py_ssize_t)i, e) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

PyObject *tensor_tolist(PyObject *self, PyObject *ignored) {
    (void)ignored;
    Tensor *t = (Tensor *)self;
    size_t bytes;
    void *block = tensor_read_all(t, &bytes);
    if (block == NULL) {
        return NULL;
    }
    const char *p = block;
    PyObject *r = nested(t, 0, &p);
    PyMem_Free(block);
    return r;
}

/* _tobytes(tensor): the elements as bytes, dense and row-major. */
PyObject *py_tobytes(PyObject *self, PyObject *tensor) {
    (void)self;
    if (!is_tensor(tensor)) {
        return raise_text(TL_TYPE, "_tobytes(): expected Tensor, got %R", (PyObject *)Py_TYPE(tensor));
    }
    size_t bytes;
    void *block = tensor_read_all((Tensor *)tensor, &bytes);
    PyObject *r = block != NULL ? PyBytes_FromStringAndSize(block, (Py_ssize_t)bytes) : NULL;
    PyMem_Free(block);
    return r;
}
