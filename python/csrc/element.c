#include "element.h"

#include "cpython.h"
#include "errors.h"
#include "half.h"
#include "scalar.h"
#include "torchlette.h"
#include "types.h"

PyObject *element_load(uint8_t dtype, const void *p) {
    union {
        uint8_t b;
        int8_t c;
        int16_t s;
        int32_t i;
        int64_t l;
        uint32_t u;
        uint64_t ul;
        uint16_t h;
        float f, ff[2];
        double d, dd[2];
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
    case TL_UINT16:
        return PyLong_FromLong(v.h);
    case TL_UINT64:
        return PyLong_FromUnsignedLongLong(v.ul);
    case TL_FLOAT16:
        return PyFloat_FromDouble((double)tl_half_to_float(v.h));
    case TL_BFLOAT16:
        return PyFloat_FromDouble((double)tl_brain_to_float(v.h));
    case TL_FLOAT32:
        return PyFloat_FromDouble((double)v.f);
    case TL_COMPLEX64:
        return PyComplex_FromDoubles((double)v.ff[0], (double)v.ff[1]);
    case TL_COMPLEX128:
        return PyComplex_FromDoubles(v.dd[0], v.dd[1]);
    }
    return PyFloat_FromDouble(v.d);
}

/* Whether an integer lies in the range of a dtype. Negative numbers wrap in unsigned dtypes, as in PyTorch. */
static bool in_range(uint8_t dtype, int64_t i) {
    int bits = 8 * (int)dtype_size(dtype);
    if (bits == 64) {
        return true;
    }
    int64_t span = (int64_t)1 << bits;
    if (dtype_kind(dtype) == KIND_INT) {
        return i >= -span / 2 && i < span / 2;
    }
    return i < span && i > -span;
}

static int store_int(uint8_t dtype, void *p, int64_t i, bool above) {
    if (above ? dtype != TL_UINT64 : !in_range(dtype, i)) {
        return set_error(TL_RUNTIME, "value cannot be converted to type %s without overflow", dtype_name(dtype));
    }
    memcpy(p, &i, dtype_size(dtype)); /* the low bytes come first */
    return 0;
}

int element_store(uint8_t dtype, void *p, const py_number *n) {
    double whole = n->above ? (double)(uint64_t)n->i : (double)n->i;
    double d = n->kind >= 2 ? n->d : whole, imag = n->kind == 3 ? n->imag : 0;
    float f = (float)d;
    uint16_t h;
    if (imag != 0 && !dtype_is_complex(dtype) && dtype != TL_BOOL) {
        return set_error(TL_RUNTIME, "value cannot be converted to type %s without overflow", dtype_name(dtype));
    }
    switch (dtype) {
    case TL_BOOL:
        *(uint8_t *)p = n->kind >= 2 ? d != 0 || imag != 0 : n->i != 0;
        return 0;
    case TL_COMPLEX64:
        memcpy(p, (float[]){f, (float)imag}, 2 * sizeof f);
        return 0;
    case TL_COMPLEX128:
        memcpy(p, (double[]){d, imag}, 2 * sizeof d);
        return 0;
    case TL_FLOAT16:
        h = tl_float_to_half(f);
        memcpy(p, &h, sizeof h);
        return 0;
    case TL_BFLOAT16:
        h = tl_float_to_brain(f);
        memcpy(p, &h, sizeof h);
        return 0;
    case TL_FLOAT32:
        memcpy(p, &f, sizeof f);
        return 0;
    case TL_FLOAT64:
        memcpy(p, &d, sizeof d);
        return 0;
    }
    if (n->kind < 2) {
        return store_int(dtype, p, n->i, n->above);
    }
    /* As PyTorch: a float becomes an integer by truncation. */
    if (dtype == TL_UINT64 && d >= 9.2e18 && d < 18446744073709551616.0) {
        uint64_t u = (uint64_t)d;
        memcpy(p, &u, sizeof u);
        return 0;
    }
    return store_int(dtype, p, d >= -9.3e18 && d <= 9.2e18 ? (int64_t)d : INT64_MIN, false);
}

int number_from(PyObject *o, py_number *n) {
    tl_scalar s;
    n->above = false;
    int found = number_scalar(o, &s);
    if (found < 0 && PyLong_Check(o) && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        uint64_t bits = PyLong_AsUnsignedLongLong(o);
        if (bits == (uint64_t)-1 && PyErr_Occurred()) {
            PyErr_Restore(type, error, trace);
            return -1;
        }
        Py_DECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        *n = (py_number){.kind = 1, .i = (int64_t)bits, .above = true};
        return 1;
    }
    if (found == 0 && PyComplex_Check(o)) {
        *n = (py_number){.kind = 3, .d = PyComplex_RealAsDouble(o), .imag = PyComplex_ImagAsDouble(o)};
        return 1;
    }
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
