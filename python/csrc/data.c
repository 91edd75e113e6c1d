/* Values into tensors and out of them. */
#include "core.h"

/* Half precision and bfloat16 to double. */
static double from_half(uint16_t h) {
    uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = (h >> 10) & 31, fraction = h & 1023, bits;
    if (exponent == 31) {
        bits = sign | 0x7F800000u | fraction << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        float f = (float)fraction / 16777216.0f; /* 2^-24 */
        return sign != 0 ? -(double)f : (double)f;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double from_bfloat(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* Rounds to nearest, ties to even. */
static uint16_t to_bfloat(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) {
        return 0x7FC0;
    }
    return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static uint16_t to_half(double d) {
    float f = (float)d;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
        return sign | 0x7E00;
    }
    if (magnitude >= 0x477FF000) { /* rounds to 65536 or more */
        return sign | 0x7C00;
    }
    if (magnitude < 0x38800000) { /* subnormal: adding 0.5 aligns and rounds the fraction */
        float aligned, magic = 0.5f;
        memcpy(&aligned, &magnitude, sizeof aligned);
        aligned += magic;
        memcpy(&magnitude, &aligned, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3F000000));
    }
    magnitude += 0xC8000FFF + ((magnitude >> 13) & 1); /* rebias by -112, round */
    return (uint16_t)(sign | magnitude >> 13);
}

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
    if (turn_take(t->api) < 0) {
        return -1;
    }
    int failed = wait_read(t->handle, dst, bytes);
    turn_give();
    return failed;
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

/* Values in. */

/* One element, before it is stored: which of Python's three kinds it is. */
typedef struct {
    int kind; /* 0 bool, 1 int, 2 float */
    int64_t i;
    double d;
} number;

static int store(uint8_t dtype, void *p, const number *n) {
    double d = n->kind == 2 ? n->d : (double)n->i;
    /* As PyTorch: a float becomes an integer by truncation. */
    int64_t i = n->kind != 2 ? n->i : d >= -9.3e18 && d <= 9.2e18 ? (int64_t)d : INT64_MIN;
    int16_t i16 = (int16_t)i;
    int32_t i32 = (int32_t)i;
    uint32_t u32 = (uint32_t)i;
    float f = (float)d;
    uint16_t h;
    switch (dtype) {
    case TL_BOOL:
        *(uint8_t *)p = n->kind == 2 ? d != 0 : i != 0;
        return 0;
    case TL_UINT8: /* as PyTorch: negative numbers wrap */
    case TL_INT8:
        if (dtype == TL_UINT8 ? i < -255 || i > 255 : i != (int8_t)i) {
            return set_error(TL_RUNTIME, "value cannot be converted to type %s without overflow", dtype_name(dtype));
        }
        *(uint8_t *)p = (uint8_t)i;
        return 0;
    case TL_INT16:
        if (i != i16) {
            return set_error(TL_RUNTIME, "value cannot be converted to type int16 without overflow");
        }
        memcpy(p, &i16, sizeof i16);
        return 0;
    case TL_INT32:
        if (i != i32) {
            return set_error(TL_RUNTIME, "value cannot be converted to type int32 without overflow");
        }
        memcpy(p, &i32, sizeof i32);
        return 0;
    case TL_UINT32:
        if (i != (int64_t)u32) {
            return set_error(TL_RUNTIME, "value cannot be converted to type uint32 without overflow");
        }
        memcpy(p, &u32, sizeof u32);
        return 0;
    case TL_INT64:
        memcpy(p, &i, sizeof i);
        return 0;
    case TL_FLOAT16:
        h = to_half(d);
        memcpy(p, &h, sizeof h);
        return 0;
    case TL_BFLOAT16:
        h = to_bfloat(f);
        memcpy(p, &h, sizeof h);
        return 0;
    case TL_FLOAT32:
        memcpy(p, &f, sizeof f);
        return 0;
    }
    memcpy(p, &d, sizeof d);
    return 0;
}

static PyObject *make(uint8_t dtype, uint8_t device, int rank, const int64_t *shape, const void *data, size_t bytes,
    bool requires_grad, uint8_t api) {
    if (requires_grad && !dtype_is_float(dtype)) {
        set_error(TL_RUNTIME, "Only Tensors of floating point and complex dtype can require gradients");
        return NULL;
    }
    tl_out out;
    int32_t status = tl_from_data(dtype, device, rank, shape, data, bytes, requires_grad ? TL_REQUIRES_GRAD : 0,
        call_source_loc(), &out);
    return status != TL_OK ? raise_status(status) : tensor_wrap(G.tensor, &out, api == TL_API_CORE ? creation_api() :
        api);
}

static int to_number(PyObject *o, number *n) {
    tl_scalar s;
    int found = number_scalar(o, &s);
    if (found != 1) {
        return found;
    }
    n->kind = s.kind == TL_SCALAR_FLOAT ? 2 : s.kind == TL_SCALAR_INT;
    n->i = (int64_t)s.bits;
    if (n->kind == 2) {
        memcpy(&n->d, &s.bits, sizeof n->d);
    }
    return 1;
}

PyObject *scalar_tensor(PyObject *o, uint8_t dtype, uint8_t device, uint8_t api) {
    number n;
    char v[8];
    if (to_number(o, &n) != 1 || store(dtype, v, &n) < 0) {
        return PyErr_Occurred() ? NULL : raise_text(TL_TYPE, "expected a number, got %R", (PyObject *)Py_TYPE(o));
    }
    return make(dtype, device, 0, NULL, v, dtype_size(dtype), false, api);
}

/* Nested sequences. */

static bool is_sequence(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o) ||
    (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o)); }

typedef struct {
    int64_t shape[TL_MAX_RANK];
    int rank;
    int kind; /* the highest kind of number seen; -1 none */
    uint8_t typed; /* widest dtype of tensors and arrays inside, 0 none */
} survey;

static int find_shape(PyObject *o, survey *s) {
    PyObject *at = Py_NewRef(o);
    while (is_sequence(at) || is_tensor(at)) {
        Py_ssize_t n = is_tensor(at) && ((Tensor *)at)->rank == 0 ? -2 : PySequence_Size(at);
        if (n == -2) {
            break;
        }
        if (n < 0) {
            if (s->rank > 0 || !PyErr_ExceptionMatches(PyExc_TypeError)) {
                Py_DECREF(at);
                return -1;
            }
            PyErr_Clear(); /* a 0-dim array */
            break;
        }
        if (s->rank == TL_MAX_RANK) {
            Py_DECREF(at);
            raise_text(TL_VALUE, "too many dimensions: got more than %d", TL_MAX_RANK);
            return -1;
        }
        s->shape[s->rank++] = n;
        if (n == 0) {
            break;
        }
        PyObject *next = PySequence_GetItem(at, 0);
        Py_DECREF(at);
        if (next == NULL) {
            return -1;
        }
        at = next;
    }
    Py_DECREF(at);
    return 0;
}

static uint8_t format_dtype(const Py_buffer *v, char *code);

/* The dtype of a NumPy scalar: it says its own, where a Python number has a kind only. */
static uint8_t scalar_dtype(PyObject *o) {
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

/* The wider of two dtypes, of the order bool, integers by size, floats. */
static uint8_t wider(uint8_t a, uint8_t b) {
    int x = a >= TL_UINT8 ? a - TL_UINT8 : TL_NUM_DTYPES * (a - TL_BOOL) - (a == TL_BOOL);
    int y = b >= TL_UINT8 ? b - TL_UINT8 : TL_NUM_DTYPES * (b - TL_BOOL) - (b == TL_BOOL);
    return a == 0 || (b != 0 && y > x) ? b : a;
}

static int leaf_kind(PyObject *o, survey *s) {
    number n = {0};
    int kind;
    uint8_t own = scalar_dtype(o);
    if (own != 0) {
        s->typed = wider(s->typed, own);
        return 0;
    }
    if (PyFloat_Check(o)) {
        kind = 2;
    } else if (PyBool_Check(o)) {
        kind = 0;
    } else if (PyLong_Check(o)) {
        kind = 1;
    } else if (is_tensor(o)) {
        uint8_t d = ((Tensor *)o)->dtype;
        s->typed = wider(s->typed, d);
        return 0;
    } else {
        int found = to_number(o, &n);
        if (found < 0) {
            return -1;
        }
        if (found == 0 && is_sequence(o)) {
            raise_text(TL_TYPE, "must be real number, not %R", (PyObject *)Py_TYPE(o));
            return -1;
        }
        if (found == 0) {
            PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
            if (name != NULL) {
                if (PyUnicode_Check(o) || PyBytes_Check(o)) {
                    s->rank > 0 ? raise_text(TL_VALUE, "too many dimensions '%U'", name) : raise_text(TL_TYPE,
                        "new(): invalid data type '%U'", name);
                } else {
                    set_error(TL_RUNTIME, "Could not infer dtype of %U", name);
                }
                Py_DECREF(name);
            }
            return -1;
        }
        kind = n.kind;
    }
    s->kind = kind > s->kind ? kind : s->kind;
    return 0;
}

/* Checks that the nesting is rectangular, and finds the kind of number. */
static int walk_kinds(PyObject *o, int dim, survey *s) {
    if (dim == s->rank) {
        return leaf_kind(o, s);
    }
    Py_ssize_t n = is_sequence(o) || (is_tensor(o) && ((Tensor *)o)->rank > 0) ? PySequence_Size(o) : -1;
    if (n < 0) {
        if (!PyErr_Occurred()) {
            raise_text(TL_TYPE, "not a sequence");
        }
        return -1;
    }
    if (n != s->shape[dim]) {
        raise_text(TL_VALUE, "expected sequence of length %lld at dim %d (got %zd)", (long long)s->shape[dim], dim, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *e = PySequence_GetItem(o, i);
        int failed = e == NULL || walk_kinds(e, dim + 1, s) < 0;
        Py_XDECREF(e);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

static int fill(PyObject *o, int dim, const survey *s, uint8_t dtype, char **p) {
    if (dim == s->rank) {
        number n;
        PyObject *v = is_tensor(o) ? tensor_item((Tensor *)o) : Py_NewRef(o);
        int found = v != NULL ? to_number(v, &n) : -1;
        Py_XDECREF(v);
        if (found == 0) {
            raise_text(TL_TYPE, "must be real number, not %R", (PyObject *)Py_TYPE(o));
        }
        if (found != 1 || store(dtype, *p, &n) < 0) {
            return -1;
        }
        *p += dtype_size(dtype);
        return 0;
    }
    for (Py_ssize_t i = 0; i < (Py_ssize_t)s->shape[dim]; i++) {
        PyObject *e = PySequence_GetItem(o, i);
        int failed = e == NULL || fill(e, dim + 1, s, dtype, p) < 0;
        Py_XDECREF(e);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

static PyObject *from_sequence(PyObject *data, int dtype, uint8_t device, bool requires_grad, uint8_t api) {
    survey s = {.kind = -1};
    if (find_shape(data, &s) < 0 || walk_kinds(data, 0, &s) < 0) {
        return NULL;
    }
    if (dtype < 0) {
        uint8_t by_kind = s.kind == 0 ? TL_BOOL : s.kind == 1 ? TL_INT64 : G.default_dtype;
        dtype = s.kind < 0 && s.typed != 0 ? s.typed : wider(by_kind, s.typed);
    }
    size_t count = 1;
    for (int i = 0; i < s.rank; i++) {
        count *= (size_t)s.shape[i];
    }
    size_t bytes = count * dtype_size((uint8_t)dtype);
    char *block = PyMem_Malloc(bytes + 8), *p = block;
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *r = fill(data, 0, &s, (uint8_t)dtype, &p) < 0 ? NULL : make((uint8_t)dtype, device, s.rank, s.shape,
        block, bytes, requires_grad, api);
    PyMem_Free(block);
    return r;
}

/* Buffers: NumPy arrays, array.array, memoryview. */

/* The dtype of a struct format, 0 when there is none; *code is a type letter that
 * load() knows. */
static uint8_t format_dtype(const Py_buffer *v, char *code) {
    const char *f = v->format != NULL ? v->format : "B";
    if (*f == '@' || *f == '=' || *f == '<') {
        f++;
    }
    if (f[0] == 0 || f[1] != 0) {
        return 0;
    }
    bool sign = strchr("bhilqn", *f) != NULL, whole = sign || strchr("BHILQN", *f) != NULL;
    if (whole) {
        static const char signed_codes[] = "?bh?i???q", unsigned_codes[] = "?BH?I???Q";
        *code = v->itemsize <= 8 ? (sign ? signed_codes : unsigned_codes)[v->itemsize] : '?';
        switch (*code) {
        case 'B':
            return TL_UINT8;
        case 'b':
            return TL_INT8;
        case 'h':
            return TL_INT16;
        case 'i':
            return TL_INT32;
        case 'I':
            return TL_UINT32;
        case 'q':
            return TL_INT64;
        }
        return 0;
    }
    *code = *f;
    switch (*f) {
    case '?':
        return TL_BOOL;
    case 'e':
        return TL_FLOAT16;
    case 'f':
        return TL_FLOAT32;
    case 'd':
        return TL_FLOAT64;
    }
    *code = 0;
    return 0;
}

static void load(char code, const char *p, number *n) {
    n->kind = strchr("efd", code) != NULL ? 2 : code == '?' ? 0 : 1;
#define LOAD(letter, type, into)   \
    case letter: {                 \
        type v;                    \
        memcpy(&v, p, sizeof v);   \
        into;                      \
        break;                     \
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
        LOAD('e', uint16_t, n->d = from_half(v))
        LOAD('f', float, n->d = (double)v)
        LOAD('d', double, n->d = v)
    }
#undef LOAD
}

static PyObject *convert_buffer(const char *raw, Py_ssize_t count, Py_ssize_t itemsize, char code, uint8_t dtype,
    uint8_t device, int rank,
                                const int64_t *shape, bool requires_grad, uint8_t api) {
    size_t size = dtype_size(dtype), bytes = (size_t)count * size;
    char *block = PyMem_Malloc(bytes + 8);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *r = NULL;
    number n = {0};
    for (Py_ssize_t i = 0; i < count; i++) {
        load(code, raw + i * itemsize, &n);
        if (store(dtype, block + (size_t)i * size, &n) < 0) {
            goto done;
        }
    }
    r = make(dtype, device, rank, shape, block, bytes, requires_grad, api);
done:
    PyMem_Free(block);
    return r;
}

/* data's elements through the buffer protocol; NULL without exception when it has no
 * usable buffer. */
static PyObject *from_buffer(PyObject *data, int dtype, uint8_t device, bool requires_grad, uint8_t api) {
    Py_buffer v;
    if (PyObject_GetBuffer(data, &v, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *r = NULL;
    char code = 0, *raw = NULL;
    uint8_t own = format_dtype(&v, &code);
    if (code == 0 || v.ndim > TL_MAX_RANK) {
        raise_text(TL_TYPE, "can't convert data of format '%s' and %d dimensions to a tensor", v.format != NULL ?
            v.format : "B", v.ndim);
        goto done;
    }
    if (own == 0 && dtype < 0) {
        raise_text(TL_TYPE,
                   "can't convert data of format '%s' without a dtype: the types are bool, uint8, int8, int16, int32, "
                   "int64, uint32, float16, bfloat16, float32, float64; "
                   "convert the array first, e.g. array.astype('int32') for uint16, or give tensor() a dtype",
                   v.format != NULL ? v.format : "B");
        goto done;
    }
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
        r = make(own, device, v.ndim, shape, dense, (size_t)v.len, requires_grad, api);
    } else {
        r = convert_buffer(dense, count, v.itemsize, code, (uint8_t)dtype, device, v.ndim, shape, requires_grad, api);
    }
done:
    PyMem_Free(raw);
    PyBuffer_Release(&v);
    return r;
}

/* A copy of another tensor. */
static PyObject *from_tensor(PyObject *t, int dtype, int device, bool requires_grad) {
    PyObject *copy = PyObject_CallMethod(t, "detach", NULL);
    if (copy != NULL && ((dtype >= 0 && dtype != ((Tensor *)t)->dtype) ||
        (device >= 0 && device != ((Tensor *)t)->device))) {
        PyObject *d = dtype >= 0 ? dtype_object((uint8_t)dtype) : Py_NewRef(Py_None);
        PyObject *dev = device >= 0 ? device_object((uint8_t)device) : Py_NewRef(Py_None);
        TL_SETREF(copy, PyObject_CallMethod(copy, "to", "NN", dev, d));
    } else if (copy != NULL) {
        TL_SETREF(copy, PyObject_CallMethod(copy, "clone", NULL));
    }
    if (copy != NULL && requires_grad && PyObject_SetAttrString(copy, "requires_grad", Py_True) < 0) {
        Py_CLEAR(copy);
    }
    return copy;
}

PyObject *data_tensor(PyObject *data, int dtype, int device, bool requires_grad, uint8_t api) {
    if (is_tensor(data)) {
        return from_tensor(data, dtype, device, requires_grad);
    }
    uint8_t dev = (uint8_t)device;
    if (device < 0 && default_device(&dev) < 0) {
        return NULL;
    }
    bool plain = PyFloat_CheckExact(data) || PyLong_CheckExact(data) || PyBool_Check(data) || PyList_Check(data) ||
        PyTuple_Check(data) || PyUnicode_Check(data);
    if (!plain) {
        PyObject *r = from_buffer(data, dtype, dev, requires_grad, api);
        if (r == NULL && !PyErr_Occurred() && PyObject_HasAttrString(data, "__array__")) {
            PyObject *array = PyObject_CallMethod(data, "__array__", NULL);
            r = array != NULL ? from_buffer(array, dtype, dev, requires_grad, api) : NULL;
            Py_XDECREF(array);
        }
        if (r != NULL || PyErr_Occurred()) {
            return r;
        }
    }
    return from_sequence(data, dtype, dev, requires_grad, api);
}

static int options(PyObject *dtype, PyObject *device, int *d, int *dev) {
    uint8_t id;
    *d = *dev = -1;
    if (dtype != NULL && dtype != Py_None) {
        int found = dtype_from(dtype, &id);
        if (found < 0) {
            return -1;
        }
        if (found == 0) {
            raise_text(TL_TYPE, "tensor(): argument 'dtype' must be torch.dtype, not %R", (PyObject *)Py_TYPE(dtype));
            return -1;
        }
        *d = id;
    }
    if (device != NULL && device != Py_None) {
        int found = device_from(device, &id);
        if (found == 0) {
            raise_text(TL_TYPE, "tensor(): argument 'device' must be torch.device, not %R",
                (PyObject *)Py_TYPE(device));
        }
        if (found != 1) {
            return -1;
        }
        *dev = id;
    }
    return 0;
}

/* self is None, or True for the functions of torchlette.torch. */
static uint8_t door_of(PyObject *self) { return self == Py_True ? TL_API_TORCH : TL_API_CORE; }

PyObject *py_tensor(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
    PyObject *data, *dtype = NULL, *device = NULL;
    int requires_grad = 0, pin = 0, d, dev;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOpp:tensor", names, &data, &dtype, &device, &requires_grad,
        &pin) ||
        options(dtype, device, &d, &dev) < 0) {
        return NULL;
    }
    return data_tensor(data, d, dev, requires_grad, door_of(self));
}

PyObject *py_as_tensor(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"data", "dtype", "device", NULL};
    PyObject *data, *dtype = NULL, *device = NULL;
    int d, dev;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:as_tensor", names, &data, &dtype, &device) ||
        options(dtype, device, &d, &dev) < 0) {
        return NULL;
    }
    if (is_tensor(data)) {
        Tensor *t = (Tensor *)data;
        if ((d < 0 || d == t->dtype) && (dev < 0 || dev == t->device)) {
            return Py_NewRef(data);
        }
        return PyObject_CallMethod(data, "to", "NN", dev >= 0 ? device_object((uint8_t)dev) : Py_NewRef(Py_None),
                                   d >= 0 ? dtype_object((uint8_t)d) : Py_NewRef(Py_None));
    }
    return data_tensor(data, d, dev, false, door_of(self));
}

PyObject *py_from_numpy(PyObject *self, PyObject *array) {
    if (is_tensor(array) || PyList_Check(array) || PyTuple_Check(array) || PyNumber_Check(array) == 0) {
        return raise_text(TL_TYPE, "expected np.ndarray (got %R)", (PyObject *)Py_TYPE(array));
    }
    PyObject *r = from_buffer(array, -1, TL_CPU, false, door_of(self));
    if (r == NULL && !PyErr_Occurred()) {
        raise_text(TL_TYPE, "expected np.ndarray (got %R)", (PyObject *)Py_TYPE(array));
    }
    return r;
}

/* _frombytes(bytes, dtype, shape, device): what serialisation reads. */
PyObject *py_frombytes(PyObject *self, PyObject *args) {
    Py_buffer v;
    PyObject *dtype, *shape, *device;
    int d, dev;
    if (!PyArg_ParseTuple(args, "y*OOO:_frombytes", &v, &dtype, &shape, &device)) {
        return NULL;
    }
    PyObject *r = NULL;
    int64_t sizes[TL_MAX_RANK], count = 1;
    Py_ssize_t n = PySequence_Size(shape);
    if (n < 0 || options(dtype, device, &d, &dev) < 0) {
        goto done;
    }
    if (n > TL_MAX_RANK || d < 0 || dev < 0) {
        raise_text(TL_VALUE, "_frombytes(): dtype, device and at most %d sizes are wanted", TL_MAX_RANK);
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *e = PySequence_GetItem(shape, i);
        sizes[i] = e != NULL ? PyLong_AsLongLong(e) : -1;
        Py_XDECREF(e);
        if (PyErr_Occurred()) {
            goto done;
        }
        count *= sizes[i];
    }
    if (count * (int64_t)dtype_size((uint8_t)d) != (int64_t)v.len) {
        raise_text(TL_VALUE, "_frombytes(): the data has %zd bytes, the shape wants %lld", v.len,
            (long long)(count * (int64_t)dtype_size((uint8_t)d)));
        goto done;
    }
    r = make((uint8_t)d, (uint8_t)dev, (int)n, sizes, v.buf, (size_t)v.len, false, door_of(self));
done:
    PyBuffer_Release(&v);
    return r;
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
