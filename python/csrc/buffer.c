#include "buffer.h"

#include "cpython.h"
#include "element.h"
#include "errors.h"
#include "half.h"
#include "host_data.h"
#include "memory.h"
#include "sharing.h"
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

uint8_t buffer_dtype(const Py_buffer *v) {
    char code;
    return format_dtype(v, &code);
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
        LOAD('Q', uint64_t, (n->i = (int64_t)v, n->above = v >> 63))
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
            "int64, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128; "
            "convert the array first, or give tensor() a dtype",
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

/* The elements' strides of a buffer. 0: the buffer cannot be a tensor's memory; -1: an error. */
static int element_strides(const Py_buffer *v, int64_t *stride) {
    for (int k = 0; k < v->ndim; k++) {
        Py_ssize_t bytes = v->strides[k];
        if (v->shape[k] > 1 && bytes < 0) {
            return set_error(TL_VALUE,
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                "currently supported. (You can probably work around this by making a copy of your array  with "
                "array.copy().) ");
        }
        if (v->shape[k] > 1 && bytes % v->itemsize != 0) {
            return set_error(TL_VALUE,
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                "reallocate the memory.");
        }
        stride[k] = v->shape[k] > 1 ? bytes / v->itemsize : 1;
    }
    return (uintptr_t)v->buf % (uintptr_t)v->itemsize == 0;
}

static int warn_read_only(void) {
    static bool warned;
    if (warned) {
        return 0;
    }
    warned = true;
    return PyErr_WarnEx(PyExc_UserWarning,
        "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means writing "
        "to this tensor will result in undefined behavior. You may want to copy the array to protect its data or make "
        "it writable before converting it to a tensor. This type of warning will be suppressed for the rest of this "
        "program.",
        1);
}

PyObject *array_tensor(PyObject *array, int wanted, uint8_t api) {
    Py_buffer v;
    int64_t shape[TL_MAX_RANK], stride[TL_MAX_RANK];
    if (PyObject_GetBuffer(array, &v, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return NULL;
    }
    char code;
    uint8_t dtype = v.ndim <= TL_MAX_RANK ? format_dtype(&v, &code) : 0;
    int fits = dtype != 0 && (wanted < 0 || wanted == dtype) ? element_strides(&v, stride) : 0;
    if (fits <= 0 || (v.readonly && warn_read_only() < 0)) {
        PyBuffer_Release(&v);
        return NULL;
    }
    for (int k = 0; k < v.ndim; k++) {
        shape[k] = (int64_t)v.shape[k];
    }
    return memory_tensor(&v, v.buf, dtype, v.ndim, shape, stride, true, api);
}

/* Fills in the elements of a tensor: on the CPU its memory, else a copy. Returns their address. */
static void *show(Tensor *t, exported *x) {
    Py_ssize_t width = (Py_ssize_t)dtype_size(t->dtype), stride = width;
    size_t bytes;
    shared_memory m;
    bool shared = t->device == TL_CPU;
    if (shared ? memory_share(t, false, &m) < 0 : (x->block = tensor_read_all(t, &bytes)) == NULL) {
        return NULL;
    }
    for (int i = t->rank - 1; i >= 0; i--) {
        x->shape[i] = (Py_ssize_t)t->shape[i];
        x->strides[i] = shared ? (Py_ssize_t)m.stride[i] * width : stride;
        stride *= (Py_ssize_t)t->shape[i];
    }
    x->export_id = shared ? m.export_id : 0;
    return shared ? m.data : x->block;
}

/* The buffer's owner is a capsule, so that a NumPy array keeps the memory and not the tensor. */
int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    Tensor *t = (Tensor *)self;
    const char *format = dtype_format(t->dtype);
    view->obj = NULL;
    bool typed = format != NULL || (flags & PyBUF_FORMAT) == 0;
    if (!typed || (t->flags & TL_REQUIRES_GRAD) != 0) {
        PyErr_Format(PyExc_BufferError,
            !typed ? "Tensor: the buffer protocol has no format for %s"
                           : "Tensor: no buffer of a %s tensor that requires grad; use detach()",
            dtype_name(t->dtype));
        return -1;
    }
    if (t->device != TL_CPU && (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "Tensor: the buffer of a GPU's tensor is a copy, and read-only");
        return -1;
    }
    exported *x = exported_new();
    void *data = x != NULL ? show(t, x) : NULL;
    if (data == NULL) {
        PyMem_Free(x);
        return -1;
    }
    PyObject *owner = exported_owner(x);
    if (owner == NULL) {
        return -1;
    }
    Py_ssize_t width = (Py_ssize_t)dtype_size(t->dtype);
    *view = (Py_buffer){
        .buf = data,
        .obj = owner,
        .len = (Py_ssize_t)t->numel * width,
        .itemsize = width,
        .readonly = x->block != NULL,
        .ndim = t->rank,
        .format = (flags & PyBUF_FORMAT) != 0 ? (char *)format : NULL,
        .shape = (flags & PyBUF_ND) != 0 ? x->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? x->strides : NULL,
    };
    bool dense = PyBuffer_IsContiguous(&(Py_buffer){.buf = data,
                     .len = view->len,
                     .itemsize = width,
                     .ndim = t->rank,
                     .shape = x->shape,
                     .strides = x->strides},
        'C');
    if (!dense && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        PyBuffer_Release(view);
        PyErr_SetString(PyExc_BufferError, "Tensor: the elements are not contiguous: use contiguous()");
        return -1;
    }
    return 0;
}
