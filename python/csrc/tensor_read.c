/* Values out of tensors: numbers, lists, buffers. */
#include "core.h"
#include "half.h"

PyObject *element(uint8_t dtype, const void *p) {
    union {
        uint8_t b;
        int8_t c;
        int16_t s;
        int32_t i;
        int64_t l;
        uint32_t u;
        uint16_t h;
        float f;
        double d;
    } v;
    memcpy(&v, p, dtype_size(dtype));
    switch (dtype) {
    case TL_BOOL:
        return PyBool_FromLong(v.b);
    case TL_UINT8:
        return PyLong_FromLong(v.b);
    case TL_INT8:
        return PyLong_FromLong(v.c);
    case TL_INT16:
        return PyLong_FromLong(v.s);
    case TL_INT32:
        return PyLong_FromLong(v.i);
    case TL_INT64:
        return PyLong_FromLongLong(v.l);
    case TL_UINT32:
        return PyLong_FromUnsignedLong(v.u);
    case TL_FLOAT16:
        return PyFloat_FromDouble(from_half(v.h));
    case TL_BFLOAT16:
        return PyFloat_FromDouble(from_bfloat(v.h));
    case TL_FLOAT32:
        return PyFloat_FromDouble((double)v.f);
    }
    return PyFloat_FromDouble(v.d);
}

int tensor_read(Tensor *t, void *dst, size_t bytes) {
    if (wait_force(t->handle) < 0) {
        return -1;
    }
    int32_t status;
    Py_BEGIN_ALLOW_THREADS;
    status = tl_read(t->handle, dst, bytes);
    Py_END_ALLOW_THREADS;
    return check_status(status);
}

PyObject *tensor_item(Tensor *t) {
    char v[8];
    if (t->numel != 1) {
        set_error(TL_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->numel);
        return NULL;
    }
    return tensor_read(t, v, dtype_size(t->dtype)) < 0 ? NULL : element(t->dtype, v);
}

static void *read_all(Tensor *t, size_t *bytes) {
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
        PyObject *e = element(t->dtype, *p);
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
    void *block = read_all(t, &bytes);
    if (block == NULL) {
        return NULL;
    }
    const char *p = block;
    PyObject *r = nested(t, 0, &p);
    PyMem_Free(block);
    return r;
}

/* The buffer protocol, out: a copy, so it keeps the version it was taken at. */
typedef struct {
    Py_ssize_t shape[TL_MAX_RANK], strides[TL_MAX_RANK];
    void *block;
} snapshot;

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    static const char *const formats[TL_NUM_DTYPES] = {NULL, "?", "i", "q", "I", "e", NULL, "f", "d", "B", "b", "h"};
    Tensor *t = (Tensor *)self;
    view->obj = NULL;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "Tensor: the buffer is a read-only snapshot");
        return -1;
    }
    if (formats[t->dtype] == NULL || (t->flags & TL_REQUIRES_GRAD) != 0) {
        PyErr_Format(PyExc_BufferError,
                     formats[t->dtype] == NULL ? "Tensor: the buffer protocol has no format for %s"
                                               : "Tensor: no buffer of a %s tensor that requires grad; use detach()",
                     dtype_name(t->dtype));
        return -1;
    }
    snapshot *s = PyMem_Malloc(sizeof *s);
    size_t bytes = 0;
    void *block = s != NULL ? read_all(t, &bytes) : NULL;
    if (block == NULL) {
        PyMem_Free(s);
        return -1;
    }
    s->block = block;
    Py_ssize_t stride = (Py_ssize_t)dtype_size(t->dtype);
    for (int i = t->rank - 1; i >= 0; i--) {
        s->shape[i] = (Py_ssize_t)t->shape[i];
        s->strides[i] = stride;
        stride *= (Py_ssize_t)t->shape[i];
    }
    *view = (Py_buffer){
        .buf = block,
        .obj = Py_NewRef(self),
        .len = (Py_ssize_t)bytes,
        .itemsize = (Py_ssize_t)dtype_size(t->dtype),
        .readonly = 1,
        .ndim = t->rank,
        .format = (flags & PyBUF_FORMAT) != 0 ? (char *)formats[t->dtype] : NULL,
        .shape = (flags & PyBUF_ND) != 0 ? s->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? s->strides : NULL,
        .internal = s,
    };
    return 0;
}

void tensor_releasebuffer(PyObject *self, Py_buffer *view) {
    (void)self;
    snapshot *s = view->internal;
    PyMem_Free(s->block);
    PyMem_Free(s);
}

/* _tobytes(tensor): the elements, dense and row-major. */
PyObject *py_tobytes(PyObject *self, PyObject *tensor) {
    (void)self;
    if (!is_tensor(tensor)) {
        return raise_text(TL_TYPE, "_tobytes(): argument must be Tensor, not %R", (PyObject *)Py_TYPE(tensor));
    }
    size_t bytes;
    void *block = read_all((Tensor *)tensor, &bytes);
    PyObject *r = block != NULL ? PyBytes_FromStringAndSize(block, (Py_ssize_t)bytes) : NULL;
    PyMem_Free(block);
    return r;
}
