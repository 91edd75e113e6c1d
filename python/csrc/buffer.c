#include "buffer.h"

#include "cpython.h"
#include "element.h"
#include "errors.h"
#include "half.h"
#include "host_data.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "types.h"

/* The dtype of a buffer's elements; 0 when there is none. *code is the letter of the struct module that load() takes,
 * with integers by size; 0 when the format is of another kind. */
static uint8_t format_dtype(const Py_buffer *v, char *code) {
    static const char signed_codes[] = "?bh?i???q", unsigned_codes[] = "?BH?I???Q";
    const char *f = v->format != NULL ? v->format : "B";
    *code = 0;
    if (f[0] == 'Z' && (f[1] == 'f' || f[1] == 'd') && f[2] == 0) {
        *code = f[1] == 'f' ? 'F' : 'D';
        return f[1] == 'f' ? TL_COMPLEX64 : TL_COMPLEX128;
    }
    if (*f == '@' || *f == '=' || *f == '<') {
        f++;
    }
    if (f[0] == 0 || f[1] != 0) {
        return 0;
    }
    if (strchr("bhilqn", *f) != NULL) {
        *code = v->itemsize <= 8 ? signed_codes[v->itemsize] : '?';
    } else if (strchr("BHILQN", *f) != NULL) {
        *code = v->itemsize <= 8 ? unsigned_codes[v->itemsize] : '?';
    } else if (strchr("?efd", *f) != NULL) {
        *code = *f;
    }
    for (uint8_t id = 1; id < TL_NUM_DTYPES; id++) {
        if (dtype_format(id) != NULL && *dtype_format(id) == *code) {
            return id;
        }
    }
    return 0;
}

uint8_t buffer_scalar_dtype(PyObject *o) {
    Py_buffer v;
    char code;
    if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || is_tensor(o) || PyBytes_Check(o) ||
        !PyObject_CheckBuffer(o)) {
        return 0;
    }
    if (PyObject_GetBuffer(o, &v, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return 0;
    }
    uint8_t id = v.ndim == 0 ? format_dtype(&v, &code) : 0;
    PyBuffer_Release(&v);
    return id;
}

static void load(char code, const char *p, py_number *n) {
    n->kind = strchr("FD", code) != NULL ? 3 : strchr("efd", code) != NULL ? 2 : code == '?' ? 0 : 1;
#define LOAD(letter, type, into) \
    case letter: {               \
        type v;                  \
        memcpy(&v, p, sizeof v); \
        into;                    \
        break;                   \
    }
    switch (code) {
        LOAD('?', uint8_t, n->i = v != 0)
        LOAD('b', int8_t, n->i = v)
        LOAD('B', uint8_t, n->i = v)
        LOAD('h', int16_t, n->i = v)
        LOAD('H', uint16_t, n->i = v)
        LOAD('i', int32_t, n->i = v)
        LOAD('I', uint32_t, n->i = v)
        LOAD('q', int64_t, n->i = v)
        LOAD('Q', uint64_t, n->i = (int64_t)v)
        LOAD('e', uint16_t, n->d = (double)tl_half_to_float(v))
        LOAD('f', float, n->d = (double)v)
        LOAD('d', double, n->d = v)
    case 'F':
        n->d = (double)((const float *)p)[0];
        n->imag = (double)((const float *)p)[1];
        break;
    case 'D':
        n->d = ((const double *)p)[0];
        n->imag = ((const double *)p)[1];
        break;
    }
#undef LOAD
}

static PyObject *convert_buffer(
    const char *raw, Py_ssize_t count, Py_ssize_t itemsize, char code, host_options o, int rank, const int64_t *shape) {
    size_t size = dtype_size(o.dtype), bytes = (size_t)count * size;
    char *block = PyMem_Malloc(bytes + 8);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *r = NULL;
    py_number n = {0};
    for (Py_ssize_t i = 0; i < count; i++) {
        load(code, raw + i * itemsize, &n);
        if (element_store(o.dtype, block + (size_t)i * size, &n) < 0) {
            goto done;
        }
    }
    r = host_tensor(o, rank, shape, block, bytes);
done:
    PyMem_Free(block);
    return r;
}

PyObject *buffer_tensor(PyObject *data, int dtype, uint8_t device, bool requires_grad, uint8_t api) {
    Py_buffer v;
    if (PyObject_GetBuffer(data, &v, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *r = NULL;
    char code = 0, *raw = NULL;
    uint8_t own = format_dtype(&v, &code);
    if (code == 0 || v.ndim > TL_MAX_RANK) {
        raise_text(TL_TYPE, "can't convert data of format '%s' and %d dimensions to a tensor",
            v.format != NULL ? v.format : "B", v.ndim);
        goto done;
    }
    if (own == 0 && dtype < 0) {
        raise_text(TL_TYPE,
            "can't convert data of format '%s' without a dtype: the types are bool, uint8, int8, int16, int32, "
            "int64, uint32, float16, bfloat16, float32, float64, complex64, complex128; "
            "convert the array first, e.g. array.astype('int32') for uint16, or give tensor() a dtype",
            v.format != NULL ? v.format : "B");
        goto done;
    }
    host_options o = {
        .dtype = dtype < 0 ? own : (uint8_t)dtype, .device = device, .api = api, .requires_grad = requires_grad};
    int64_t shape[TL_MAX_RANK];
    Py_ssize_t count = v.len / v.itemsize;
    for (int i = 0; i < v.ndim; i++) {
        shape[i] = v.shape != NULL ? (int64_t)v.shape[i] : (int64_t)count;
    }
    const char *dense = v.buf;
    if (!PyBuffer_IsContiguous(&v, 'C')) {
        raw = PyMem_Malloc((size_t)v.len + 1);
        if (raw == NULL) {
            PyErr_NoMemory();
            goto done;
        }
        if (PyBuffer_ToContiguous(raw, &v, v.len, 'C') < 0) {
            goto done;
        }
        dense = raw;
    }
    if (dtype < 0 || dtype == own) {
        r = host_tensor(o, v.ndim, shape, dense, (size_t)v.len);
    } else {
        r = convert_buffer(dense, count, v.itemsize, code, o, v.ndim, shape);
    }
done:
    PyMem_Free(raw);
    PyBuffer_Release(&v);
    return r;
}

/* What a view of a tensor keeps: a copy, so that the view stays at the version it was taken at. */
typedef struct {
    Py_ssize_t shape[TL_MAX_RANK], strides[TL_MAX_RANK];
    void *block;
} snapshot;

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    Tensor *t = (Tensor *)self;
    const char *format = dtype_format(t->dtype);
    view->obj = NULL;
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "Tensor: the buffer is a read-only snapshot");
        return -1;
    }
    if (format == NULL || (t->flags & TL_REQUIRES_GRAD) != 0) {
        PyErr_Format(PyExc_BufferError,
            format == NULL ? "Tensor: the buffer protocol has no format for %s"
                           : "Tensor: no buffer of a %s tensor that requires grad; use detach()",
            dtype_name(t->dtype));
        return -1;
    }
    snapshot *s = PyMem_Malloc(sizeof *s);
    size_t bytes = 0;
    void *block = s != NULL ? tensor_read_all(t, &bytes) : NULL;
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
        .format = (flags & PyBUF_FORMAT) != 0 ? (char *)format : NULL,
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
