#include "captured.h"

#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "process.h"
#include "source_loc.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"

enum { FEW = 16 };

/* A list of the tensors of n results. */
PyObject *wrapped_list(const tl_out *outs, int32_t n, uint8_t api) {
    PyObject *list = PyList_New(n);
    for (int32_t i = 0; i < n; i++) {
        PyObject *t = tensor_wrap(&outs[i], api); /* drops the handle when it fails */
        if (t == NULL || list == NULL || PyList_SetItem(list, i, t) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* Starts a trace; the list of its placeholders. */
static PyObject *placeholders(PyObject *tensors, int32_t (*begin)(const uint64_t *, int32_t, tl_out *), uint8_t api) {
    Py_ssize_t n;
    uint64_t *hs = handles_of(tensors, &n, false);
    tl_out *outs = PyMem_Calloc((size_t)n + 1, sizeof *outs);
    PyObject *list = NULL;
    if (hs != NULL && outs == NULL) {
        PyErr_NoMemory();
    } else if (hs != NULL && trace_enter() == 0) {
        if (check_status(begin(hs, (int32_t)n, outs)) == 0) {
            list = wrapped_list(outs, (int32_t)n, api);
        } else {
            trace_leave();
        }
    }
    PyMem_Free(hs);
    PyMem_Free(outs);
    return list;
}

/* _trace_begin(tensors): the placeholders on which a function is to be captured. */
static PyObject *py_trace_begin(PyObject *self, PyObject *tensors) {
    (void)self;
    return placeholders(tensors, tl_trace_begin, creation_api());
}

/* _trace_end(results): ends a capture; without results nothing is captured. Gives the program's number, whether the
 * function made each of the results, and whether it flushes. */
static PyObject *py_trace_end(PyObject *self, PyObject *results) {
    (void)self;
    Py_ssize_t n;
    int32_t flushes = 0;
    uint64_t id = 0, *hs = handles_of(results == Py_None ? NULL : results, &n, false);
    uint8_t *made = PyMem_Calloc((size_t)n + 1, 1);
    PyObject *r = NULL;
    if (hs != NULL && made == NULL) {
        PyErr_NoMemory();
    } else if (hs != NULL) {
        int keep = results != Py_None && drop_flush() == 0;
        if (!keep) {
            queue_flush(); /* the trace must end, even if a call fails */
        }
        int32_t status = tl_trace_end(keep, hs, (int32_t)n, made, &flushes, &id);
        trace_leave();
        process.epoch++; /* the tensors that the function made are gone */
        if (PyErr_Occurred() == NULL && check_status(status) == 0) {
            r = Py_BuildValue("(Ky#N)", (unsigned long long)id, (char *)made, n, PyBool_FromLong(flushes));
        }
    }
    PyMem_Free(hs);
    PyMem_Free(made);
    return r;
}

/* _supplied(place): the number that stands in a capture for the one that each call supplies there. */
static PyObject *py_supplied(PyObject *self, PyObject *place) {
    (void)self;
    unsigned long i = PyLong_AsUnsignedLong(place);
    if (PyErr_Occurred()) {
        return NULL;
    }
    uint64_t bits = TL_SUPPLIED + (uint32_t)i;
    double value;
    memcpy(&value, &bits, sizeof value);
    return PyFloat_FromDouble(value);
}

/* The numbers of a list, in memory of PyMem_Malloc; NULL with an error set. */
double *doubles_of(PyObject *list, Py_ssize_t *n) {
    *n = PyList_Size(list);
    double *values = *n < 0 ? NULL : PyMem_Malloc(((size_t)*n + 1) * sizeof *values);
    for (Py_ssize_t i = 0; values != NULL && i < *n; i++) {
        values[i] = PyFloat_AsDouble(PyList_GetItem(list, i));
    }
    if (PyErr_Occurred() || values == NULL) {
        PyMem_Free(values);
        return PyErr_Occurred() ? NULL : (double *)PyErr_NoMemory();
    }
    return values;
}

/* _captured_call(id, tensors, numbers, results, torch): the results that the program makes; None where it does not
 * fit. */
static PyObject *py_captured_call(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long id;
    PyObject *tensors, *numbers, *r = NULL;
    int max, torch, count = 0;
    Py_ssize_t n, supplied;
    if (!PyArg_ParseTuple(args, "KOOip:_captured_call", &id, &tensors, &numbers, &max, &torch)) {
        return NULL;
    }
    double *values = doubles_of(numbers, &supplied);
    if (values == NULL) {
        return NULL;
    }
    tl_out few[FEW], *outs = max <= FEW ? few : PyMem_Malloc((size_t)max * sizeof *outs);
    uint64_t *hs = outs != NULL ? handles_of(tensors, &n, false) : (uint64_t *)PyErr_NoMemory();
    if (hs != NULL &&
        check_status(tl_captured_call(
            id, hs, (int32_t)n, values, (int32_t)supplied, call_source_loc(), outs, max, &count)) == 0) {
        r = count < 0 ? Py_NewRef(Py_None) : wrapped_list(outs, count, torch ? TL_API_TORCH : TL_API_CORE);
    }
    PyMem_Free(hs);
    PyMem_Free(values);
    if (outs != few) {
        PyMem_Free(outs);
    }
    return r;
}

/* _capture_tangents(args, results): the number of the program by which results depend on args; 0 where args were
 * computed before. */
static PyObject *py_capture_tangents(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *from, *to, *r = NULL;
    Py_ssize_t n, m;
    uint64_t id = 0, *hs = NULL, *results = NULL;
    if (PyArg_ParseTuple(args, "OO:_capture_tangents", &from, &to) && (hs = handles_of(from, &n, false)) != NULL &&
        (results = handles_of(to, &m, false)) != NULL &&
        check_status(tl_capture_tangents(hs, (int32_t)n, results, (int32_t)m, &id)) == 0) {
        r = PyLong_FromUnsignedLongLong(id);
    }
    PyMem_Free(hs);
    PyMem_Free(results);
    return r;
}

/* The API through which tensors were made, or the calling module's. */
uint8_t api_of(PyObject *tensors) {
    uint8_t api = creation_api();
    for (Py_ssize_t i = 0; i < PyList_Size(tensors); i++) {
        api |= ((Tensor *)PyList_GetItem(tensors, i))->api;
    }
    return api;
}

/* _body_begin(tensors): the placeholders on which the body of a loop is to be traced. */
static PyObject *py_body_begin(PyObject *self, PyObject *tensors) {
    (void)self;
    return placeholders(tensors, tl_body_begin, api_of(tensors));
}

/* _body_end(results, fresh): ends the trace of a body; without results nothing is kept. Gives the body's number. */
static PyObject *py_body_end(PyObject *self, PyObject *args) {
    (void)self;
    Py_ssize_t n;
    PyObject *results;
    int fresh;
    if (!PyArg_ParseTuple(args, "Oi:_body_end", &results, &fresh)) {
        return NULL;
    }
    uint64_t id = 0, *hs = handles_of(results == Py_None ? NULL : results, &n, false);
    PyObject *r = NULL;
    if (hs != NULL) {
        int keep = results != Py_None && drop_flush() == 0;
        if (!keep) {
            queue_flush(); /* the trace must end, even if a call fails */
        }
        int32_t status = tl_body_end(keep, hs, (int32_t)n, fresh, &id);
        trace_leave();
        process.epoch++; /* the tensors that the body made are gone */
        if (PyErr_Occurred() == NULL && check_status(status) == 0) {
            r = PyLong_FromUnsignedLongLong(id);
        }
    }
    PyMem_Free(hs);
    return r;
}

/* _loop(body, tensors, carries, xs, length, reverse, ends, results): the last carries and the stacked results. */
static PyObject *py_loop(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long body;
    long long carries, xs, length;
    PyObject *tensors, *r = NULL;
    int reverse, ends, max, count = 0;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "KOLLLppi:_loop", &body, &tensors, &carries, &xs, &length, &reverse, &ends, &max)) {
        return NULL;
    }
    int64_t shape[5] = {carries, xs, length, reverse, ends};
    tl_out few[FEW], *outs = max <= FEW ? few : PyMem_Malloc((size_t)max * sizeof *outs);
    uint64_t *hs = outs != NULL ? handles_of(tensors, &n, false) : (uint64_t *)PyErr_NoMemory();
    if (hs != NULL &&
        check_status(tl_loop(body, shape, hs, (int32_t)n, call_source_loc(), outs, max, &count)) == 0) {
        r = wrapped_list(outs, count, api_of(tensors));
    }
    PyMem_Free(hs);
    if (outs != few) {
        PyMem_Free(outs);
    }
    return r;
}

/* _captured_free(id): a finalizer calls it, and must not enter the engine. Saved programs are freed likewise. */
static PyObject *py_captured_free(PyObject *self, PyObject *id) {
    (void)self;
    unsigned long long number = PyLong_AsUnsignedLongLong(id);
    if (PyErr_Occurred()) {
        return NULL;
    }
    drop_program(number);
    Py_RETURN_NONE;
}

PyMethodDef captured_functions[] = {
    {"_trace_begin", py_trace_begin, METH_O, "Start a capture; gives placeholders of tensors."},
    {"_trace_end", py_trace_end, METH_O, "End a capture with these results, or None; gives (number, made, flushes)."},
    {"_supplied", py_supplied, METH_O, "The number that stands in a capture for one that each call supplies."},
    {"_captured_call", py_captured_call, METH_VARARGS, "Call a captured function."},
    {"_capture_tangents", py_capture_tangents, METH_VARARGS, "Capture how tensors depend on pending ones."},
    {"_body_begin", py_body_begin, METH_O, "Start the trace of a loop's body; gives placeholders of tensors."},
    {"_body_end", py_body_end, METH_VARARGS, "End the trace of a loop's body with results, or None."},
    {"_loop", py_loop, METH_VARARGS, "Run the body of a loop."},
    {"_captured_free", py_captured_free, METH_O, "Forget a captured function at the next call that waits."},
    {0},
};
