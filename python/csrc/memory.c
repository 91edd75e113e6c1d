#include "memory.h"

#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "sharing.h"
#include "source_loc.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "turn.h"
#include "types.h"
#include "wait.h"

int memory_share(Tensor *t, bool pin, shared_memory *m) {
    tl_meta meta;
    if (turn_take(t->api) < 0) {
        return -1;
    }
    int32_t status = TL_RAISED;
    if (read_allowed() == 0 && drop_flush() == 0) {
        SLICED(status, tl_realize(&t->handle, 1, TL_SLICE_NS));
        status = status == TL_OK ? tl_export_buffer(t->handle, pin, &m->data, &m->export_id) : status;
        status = status == TL_OK ? tl_meta_of(t->handle, &meta) : status;
    }
    turn_give();
    if (check_status(status) < 0) {
        return -1;
    }
    memcpy(m->stride, meta.stride, sizeof m->stride);
    return 0;
}

/* _data_ptr(tensor): the address of the first element, for as long as the storage lives. */
PyObject *py_data_ptr(PyObject *self, PyObject *tensor) {
    (void)self;
    shared_memory m;
    if (!is_tensor(tensor)) {
        return raise_text(TL_TYPE, "_data_ptr(): expected a tensor, not %R", (PyObject *)Py_TYPE(tensor));
    }
    return memory_share((Tensor *)tensor, true, &m) < 0 ? NULL : PyLong_FromVoidPtr(m.data);
}

PyObject *memory_tensor(Py_buffer *v, void *first, uint8_t dtype, int rank, const int64_t *shape,
    const int64_t *stride, bool shared, uint8_t api) {
    import *i = PyMem_Malloc(sizeof *i);
    if (i == NULL) {
        PyBuffer_Release(v);
        return PyErr_NoMemory();
    }
    *i = (import){.view = *v, .place = -1};
    tl_out out;
    int32_t status = tl_from_memory(dtype, rank, shape, stride, first,
        (v->readonly ? TL_READ_ONLY : 0) | (shared ? 0 : TL_PAGES), (uint64_t)(uintptr_t)i, call_source_loc(), &out,
        &i->export_id);
    if (status != TL_OK) {
        PyBuffer_Release(&i->view);
        PyMem_Free(i);
        return raise_status(status);
    }
    if (shared) {
        import_watch(i);
    } else {
        tl_private(i->export_id);
    }
    return tensor_wrap(&out, api == TL_API_CORE ? creation_api() : api);
}

/* _address(buffer): where a buffer's memory is. */
PyObject *py_address(PyObject *self, PyObject *buffer) {
    (void)self;
    Py_buffer v;
    if (PyObject_GetBuffer(buffer, &v, PyBUF_STRIDED_RO) < 0) {
        return NULL;
    }
    PyObject *r = PyLong_FromVoidPtr(v.buf);
    PyBuffer_Release(&v);
    return r;
}

/* _from_memory(buffer, dtype, shape, stride, offset, private=False): a tensor over a buffer from byte offset on.
 * stride None: dense. private: a private mapping of a file that nothing else uses and nothing has written;
 * elements that are not aligned are copied. */
PyObject *py_from_memory(PyObject *self, PyObject *args) {
    PyObject *buffer, *type, *sizes, *steps, *tuple = (PyObject *)&PyTuple_Type;
    Py_ssize_t offset;
    int private = 0;
    if (!PyArg_ParseTuple(args, "OOO!On|p:_from_memory", &buffer, &type, tuple, &sizes, &steps, &offset, &private)) {
        return NULL;
    }
    uint8_t dtype;
    int64_t shape[TL_MAX_RANK], stride[TL_MAX_RANK], last = 0, numel = 1;
    Py_ssize_t rank = PyTuple_Size(sizes);
    bool dense = steps == Py_None;
    if (dtype_from(type, &dtype) != 1 || rank > TL_MAX_RANK || (!dense && PyTuple_Size(steps) != rank)) {
        return PyErr_Occurred() ? NULL : raise_text(TL_VALUE, "_from_memory(): expected a dtype, sizes and strides");
    }
    for (Py_ssize_t k = rank - 1; k >= 0; k--) {
        shape[k] = PyLong_AsLongLong(PyTuple_GetItem(sizes, k));
        stride[k] = dense ? numel : PyLong_AsLongLong(PyTuple_GetItem(steps, k));
        if (PyErr_Occurred()) {
            return NULL;
        }
        last += (shape[k] - 1) * stride[k];
        numel *= shape[k];
    }
    Py_buffer v;
    if (PyObject_GetBuffer(buffer, &v, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int64_t size = (int64_t)dtype_size(dtype);
    char *first = (char *)v.buf + offset;
    if (offset < 0 || (numel > 0 && (Py_ssize_t)((last + 1) * size) > v.len - offset) ||
        (!private && (uintptr_t)first % (uintptr_t)size != 0)) {
        PyBuffer_Release(&v);
        return raise_text(TL_VALUE, "_from_memory(): expected aligned elements inside of the buffer");
    }
    return memory_tensor(
        &v, first, dtype, (int)rank, shape, stride, !private, self == Py_True ? TL_API_TORCH : TL_API_CORE);
}
