#include "program.h"

#include "captured.h"
#include "errors.h"
#include "flush.h"
#include "process.h"
#include "source_loc.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"

enum { MAX_CONSTANTS = 1 << 16 };

/* _export_begin(tensors, known): the placeholders on which a function is to be recorded as a saved program. */
static PyObject *py_export_begin(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tensors, *names, *list = NULL;
    Py_ssize_t n = 0, m = 0;
    if (!PyArg_ParseTuple(args, "OO:_export_begin", &tensors, &names)) {
        return NULL;
    }
    uint64_t *hs = handles_of(tensors, &n, false), *known = hs != NULL ? handles_of(names, &m, false) : NULL;
    tl_out *outs = PyMem_Calloc((size_t)n + 1, sizeof *outs);
    if (known != NULL && outs == NULL) {
        PyErr_NoMemory();
    } else if (known != NULL && trace_enter() == 0) {
        if (check_status(tl_export_begin(hs, (int32_t)n, known, (int32_t)m, outs)) == 0) {
            list = wrapped_list(outs, (int32_t)n, api_of(tensors));
        } else {
            trace_leave();
        }
    }
    PyMem_Free(hs);
    PyMem_Free(known);
    PyMem_Free(outs);
    return list;
}

/* _export_end(results): ends a recording; without results nothing is kept. Gives the steps as text, and the tensors
 * that the function took from outside. */
static PyObject *py_export_end(PyObject *self, PyObject *results) {
    (void)self;
    Py_ssize_t n;
    char *json = NULL;
    size_t bytes = 0;
    int32_t count = 0;
    uint64_t *hs = handles_of(results == Py_None ? NULL : results, &n, false);
    tl_out *outs = PyMem_Calloc(MAX_CONSTANTS, sizeof *outs);
    PyObject *r = NULL;
    if (hs != NULL && outs == NULL) {
        PyErr_NoMemory();
    } else if (hs != NULL) {
        int keep = results != Py_None && drop_flush() == 0;
        if (!keep) {
            queue_flush(); /* the recording must end, even if a call fails */
        }
        int32_t status = tl_export_end(keep, hs, (int32_t)n, &json, &bytes, outs, MAX_CONSTANTS, &count);
        trace_leave();
        process.epoch++; /* the tensors that the function made are gone */
        if (PyErr_Occurred() == NULL && check_status(status) == 0) {
            PyObject *list = wrapped_list(outs, count, creation_api());
            r = list == NULL ? NULL : Py_BuildValue("(s#N)", json != NULL ? json : "", (Py_ssize_t)bytes, list);
        }
    }
    tl_free_text(json);
    PyMem_Free(hs);
    PyMem_Free(outs);
    return r;
}

/* _program_parse(text): the number of a program. */
static PyObject *py_program_parse(PyObject *self, PyObject *text) {
    (void)self;
    Py_ssize_t n;
    uint64_t id = 0;
    const char *json = PyUnicode_AsUTF8AndSize(text, &n);
    if (json == NULL || check_status(tl_program_parse(json, (size_t)n, &id)) < 0) {
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(id);
}

/* _program_open(path): the number of the program of a file; _info("program", number) has its text. */
static PyObject *py_program_open(PyObject *self, PyObject *path) {
    (void)self;
    PyObject *bytes = NULL;
    uint64_t id = 0;
    if (!PyUnicode_FSConverter(path, &bytes)) {
        return NULL;
    }
    int failed = check_status(tl_program_open(PyBytes_AsString(bytes), &id)) < 0;
    Py_DECREF(bytes);
    return failed ? NULL : PyLong_FromUnsignedLongLong(id);
}

/* _program_constant(id, i): constant i of an opened program, on the CPU. */
static PyObject *py_program_constant(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long id;
    int i;
    tl_out out = {0};
    if (!PyArg_ParseTuple(args, "Ki:_program_constant", &id, &i) ||
        check_status(tl_program_constant(id, i, &out)) < 0) {
        return NULL;
    }
    return tensor_wrap(&out, creation_api());
}

/* A list of numbers. */
static PyObject *list_of(const double *values, Py_ssize_t n) {
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *v = PyFloat_FromDouble(values[i]);
        if (v == NULL || PyList_SetItem(list, i, v) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* _program_numbers(id, function, numbers, supplied): the numbers that a function takes, and all numbers after a run;
 * None where the function is for others. */
static PyObject *py_program_numbers(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long id;
    const char *function;
    PyObject *list, *r = NULL;
    int max, count = 0;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "KsOi:_program_numbers", &id, &function, &list, &max)) {
        return NULL;
    }
    double *numbers = doubles_of(list, &n);
    double *after = PyMem_Calloc((size_t)n + 1, sizeof *after);
    double *supplied = PyMem_Calloc((size_t)max + 1, sizeof *supplied);
    if (numbers != NULL && (after == NULL || supplied == NULL)) {
        PyErr_NoMemory();
    } else if (numbers != NULL &&
        check_status(tl_program_numbers(id, function, numbers, (int32_t)n, supplied, max, after, &count)) == 0) {
        r = count < 0 ? Py_NewRef(Py_None) : Py_BuildValue("(NN)", list_of(supplied, count), list_of(after, n));
    }
    PyMem_Free(numbers);
    PyMem_Free(after);
    PyMem_Free(supplied);
    return r;
}

/* _program_run(id, function, inputs, constants, numbers, evaluation, results): the function's results. */
static PyObject *py_program_run(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long id;
    const char *function;
    PyObject *inputs, *constants, *list, *all = NULL, *r = NULL;
    int evaluation, max, count = 0;
    Py_ssize_t n = 0, n_numbers = 0;
    if (!PyArg_ParseTuple(args, "KsOOOpi:_program_run", &id, &function, &inputs, &constants, &list, &evaluation,
            &max) ||
        (all = PySequence_Concat(inputs, constants)) == NULL) {
        return NULL;
    }
    double *numbers = doubles_of(list, &n_numbers);
    uint64_t *hs = numbers != NULL ? handles_of(all, &n, false) : NULL;
    tl_out *outs = PyMem_Calloc((size_t)max + 1, sizeof *outs);
    if (hs != NULL && outs == NULL) {
        PyErr_NoMemory();
    } else if (hs != NULL) {
        Py_ssize_t n_inputs = PySequence_Size(inputs);
        int32_t status = tl_program_run(id, function, hs, (int32_t)n_inputs, (int32_t)(n - n_inputs), numbers,
            (int32_t)n_numbers, evaluation, outs, max, &count);
        r = check_status(status) == 0 ? wrapped_list(outs, count, api_of(inputs)) : NULL;
    }
    PyMem_Free(hs);
    PyMem_Free(numbers);
    PyMem_Free(outs);
    Py_DECREF(all);
    return r;
}

PyMethodDef program_functions[] = {
    {"_export_begin", py_export_begin, METH_VARARGS, "Start to record a saved program; gives placeholders."},
    {"_export_end", py_export_end, METH_O, "End a recording with these results, or None; gives (text, tensors)."},
    {"_program_parse", py_program_parse, METH_O, "Check the text of a saved program; gives its number."},
    {"_program_open", py_program_open, METH_O, "Open a saved program; gives its number."},
    {"_program_constant", py_program_constant, METH_VARARGS, "Read a constant of an opened program."},
    {"_program_numbers", py_program_numbers, METH_VARARGS, "Compute the numbers that a function takes."},
    {"_program_run", py_program_run, METH_VARARGS, "Run a function of a saved program."},
    {0},
};
