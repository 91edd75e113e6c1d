#include "numbers.h"

#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "tensor.h"
#include "torchlette.h"

/* The handles of a list of tensors, and room for as many numbers in the same block, which PyMem_Free frees. */
static uint64_t *number_block(PyObject *tensors, double **values) {
    if (!PyList_Check(tensors)) {
        set_error(TL_TYPE, "expected a list of tensors, got %R", (PyObject *)Py_TYPE(tensors));
        return NULL;
    }
    Py_ssize_t n = PyList_Size(tensors);
    uint64_t *handles = PyMem_Malloc((size_t)(n + 1) * 2 * sizeof(uint64_t));
    if (handles == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *t = PyList_GetItem(tensors, i);
        if (!is_tensor(t)) {
            PyMem_Free(handles);
            set_error(TL_TYPE, "expected Tensor, but got %R", (PyObject *)Py_TYPE(t));
            return NULL;
        }
        handles[i] = ((Tensor *)t)->handle;
    }
    *values = (double *)(handles + n + 1);
    return handles;
}

/* Modes of tl_numbers. */
enum { NUMBERS_READ, NUMBERS_WRITE, NUMBERS_COUNT, NUMBERS_PEEK };

/* Moves one number by item() and fill_(), for a tensor that the engine does not hold in host memory. */
static int move_number(PyObject *t, double *value, int mode) {
    double number = *value;
    if (mode != NUMBERS_WRITE) {
        PyObject *item = PyObject_CallMethod(t, "item", NULL);
        double held = item == NULL ? -1 : PyFloat_AsDouble(item);
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            return -1;
        }
        number = *value = mode == NUMBERS_COUNT ? number + held : held;
    }
    if (mode == NUMBERS_WRITE || mode == NUMBERS_COUNT) {
        PyObject *r = PyObject_CallMethod(t, "fill_", "d", number);
        Py_XDECREF(r);
        return r == NULL ? -1 : 0;
    }
    return 0;
}

static int move_numbers(PyObject *tensors, const uint64_t *handles, double *values, int mode) {
    int32_t n = (int32_t)PyList_Size(tensors), done;
    for (int32_t i = 0; i < n; i += done + 1) {
        if (check_status(tl_numbers(handles + i, values + i, n - i, mode, &done)) < 0) {
            return -1;
        }
        int32_t at = i + done;
        PyObject *t = at < n ? PyList_GetItem(tensors, at) : NULL; /* borrowed */
        if (at < n && (t == NULL || move_number(t, values + at, mode) < 0)) {
            return -1;
        }
    }
    return 0;
}

static PyObject *floats(const double *values, Py_ssize_t n) {
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyObject *v = PyFloat_FromDouble(values[i]);
        if (v == NULL || PyList_SetItem(list, i, v) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *read_numbers(PyObject *tensors, int mode) {
    double *values;
    uint64_t *handles = number_block(tensors, &values);
    if (handles == NULL) {
        return NULL;
    }
    Py_ssize_t n = PyList_Size(tensors);
    PyObject *list = move_numbers(tensors, handles, values, mode) < 0 ? NULL : floats(values, n);
    PyMem_Free(handles);
    return list;
}

static PyObject *py_numbers(PyObject *self, PyObject *tensors) {
    (void)self;
    return read_numbers(tensors, NUMBERS_READ);
}

static PyObject *py_peek(PyObject *self, PyObject *tensors) {
    (void)self;
    return read_numbers(tensors, NUMBERS_PEEK);
}

static PyObject *py_count(PyObject *self, PyObject *tensors) {
    (void)self;
    double *values;
    uint64_t *handles = number_block(tensors, &values);
    if (handles == NULL) {
        return NULL;
    }
    Py_ssize_t n = PyList_Size(tensors);
    for (Py_ssize_t i = 0; i < n; i++) {
        values[i] = 1;
    }
    PyObject *list = move_numbers(tensors, handles, values, NUMBERS_COUNT) < 0 ? NULL : floats(values, n);
    PyMem_Free(handles);
    return list;
}

static PyObject *py_set_numbers(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tensors, *numbers;
    if (!PyArg_ParseTuple(args, "OO:_set_numbers", &tensors, &numbers)) {
        return NULL;
    }
    double *values;
    uint64_t *handles = number_block(tensors, &values);
    if (handles == NULL) {
        return NULL;
    }
    Py_ssize_t n = PyList_Size(tensors);
    int status = 0;
    if (!PyList_Check(numbers) || PyList_Size(numbers) != n) {
        status = set_error(TL_VALUE, "_set_numbers(): expected a list of %zd numbers", n);
    }
    for (Py_ssize_t i = 0; status == 0 && i < n; i++) {
        values[i] = PyFloat_AsDouble(PyList_GetItem(numbers, i));
        status = PyErr_Occurred() ? -1 : 0;
    }
    status = status < 0 ? -1 : move_numbers(tensors, handles, values, NUMBERS_WRITE);
    PyMem_Free(handles);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

PyMethodDef numbers_functions[] = {
    {"_numbers", py_numbers, METH_O, "The numbers of one-element tensors, as a list of floats."},
    {"_peek", py_peek, METH_O, "_numbers() in a capture, of tensors that the function must not use."},
    {"_count", py_count, METH_O, "Add one to each of some one-element tensors, in place; gives the new numbers."},
    {"_set_numbers", py_set_numbers, METH_VARARGS, "Give each of some one-element tensors a number, in place."},
    {0},
};
