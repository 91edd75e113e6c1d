#include "sequence.h"

#include "buffer.h"
#include "cpython.h"
#include "element.h"
#include "errors.h"
#include "host_data.h"
#include "tensor.h"
#include "tensor_read.h"
#include "threads.h"
#include "torchlette.h"
#include "types.h"

static bool is_sequence(PyObject *o) {
    return PyList_Check(o) || PyTuple_Check(o) ||
        (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o));
}

/* What one walk over a sequence finds. */
typedef struct {
    int64_t shape[TL_MAX_RANK];
    int rank;
    int kind;      /* the highest kind among its Python numbers; -1 for none */
    uint8_t typed; /* the widest dtype among its tensors and arrays; 0 for none */
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
            PyErr_Clear(); /* a 0-dim array has no length */
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

/* Orders dtypes: bool, integers by size, floats by size, complex numbers by size. A sequence takes its widest. */
static int width(uint8_t dtype) {
    int category = dtype_is_complex(dtype) ? 3 : dtype_is_float(dtype) ? 2 : dtype_is_int(dtype);
    int kind = (int)dtype_kind(dtype);
    return category << 8 | (int)dtype_size(dtype) << 4 | kind;
}

static uint8_t wider(uint8_t a, uint8_t b) { return a == 0 || (b != 0 && width(b) > width(a)) ? b : a; }

static int leaf_kind(PyObject *o, survey *s) {
    py_number n = {0};
    int kind;
    uint8_t own = buffer_scalar_dtype(o);
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
        int found = number_from(o, &n);
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
                    s->rank > 0 ? raise_text(TL_VALUE, "too many dimensions '%U'", name)
                                : raise_text(TL_TYPE, "new(): invalid data type '%U'", name);
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

/* Checks that the nesting is rectangular, and finds the kind and the dtype of its numbers. */
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
        py_number n;
        PyObject *v = is_tensor(o) ? tensor_item((Tensor *)o) : Py_NewRef(o);
        int found = v != NULL ? number_from(v, &n) : -1;
        Py_XDECREF(v);
        if (found == 0) {
            raise_text(TL_TYPE, "must be real number, not %R", (PyObject *)Py_TYPE(o));
        }
        if (found != 1 || element_store(dtype, *p, &n) < 0) {
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

PyObject *sequence_tensor(PyObject *data, int dtype, uint8_t device, bool requires_grad, uint8_t api) {
    survey s = {.kind = -1};
    if (find_shape(data, &s) < 0 || walk_kinds(data, 0, &s) < 0) {
        return NULL;
    }
    if (dtype < 0) {
        uint8_t complex_dtype = current.default_dtype == TL_FLOAT64 ? TL_COMPLEX128 : TL_COMPLEX64;
        uint8_t by_kind = s.kind == 0 ? TL_BOOL
            : s.kind == 1             ? TL_INT64
            : s.kind == 3             ? complex_dtype
                                      : current.default_dtype;
        dtype = s.kind < 0 && s.typed != 0 ? s.typed : wider(by_kind, s.typed);
    }
    host_options o = {.dtype = (uint8_t)dtype, .device = device, .api = api, .requires_grad = requires_grad};
    size_t count = 1;
    for (int i = 0; i < s.rank; i++) {
        count *= (size_t)s.shape[i];
    }
    size_t bytes = count * dtype_size(o.dtype);
    char *block = PyMem_Malloc(bytes + 8), *p = block;
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *r = fill(data, 0, &s, o.dtype, &p) < 0 ? NULL : host_tensor(o, s.rank, s.shape, block, bytes);
    PyMem_Free(block);
    return r;
}

static bool makes_tuple(PyObject *item) {
    return item == Py_None || item == Py_Ellipsis || PySlice_Check(item) || is_tensor(item) || PySequence_Check(item);
}

bool sequence_is_tuple(PyObject *o) {
    if (is_tensor(o) || PyLong_Check(o) || PySlice_Check(o) || PyUnicode_Check(o) || PyObject_CheckBuffer(o) ||
        !PySequence_Check(o)) {
        return false;
    }
    Py_ssize_t n = PySequence_Size(o);
    bool found = false;
    for (Py_ssize_t i = 0; n < 32 && i < n && !found; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        found = item != NULL && makes_tuple(item);
        Py_XDECREF(item);
    }
    PyErr_Clear(); /* what cannot be walked is no tuple */
    return found;
}
