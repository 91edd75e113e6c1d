#include "errors.h"

#include <string.h>

#include "cpython.h"
#include "process.h"
#include "source_loc.h"
#include "torchlette.h"

static PyObject *error_classes[TL_NUM_CODES];

PyObject *error_class(int code) {
    return code > 0 && code < TL_NUM_CODES && error_classes[code] != NULL ? error_classes[code] : PyExc_RuntimeError;
}

static void set_text(int code, const char *format, va_list args) {
    PyObject *text = PyUnicode_FromFormatV(format, args);
    if (text != NULL) {
        PyErr_SetObject(error_class(code), text);
        Py_DECREF(text);
    }
}

int set_error(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_text(code, format, args);
    va_end(args);
    return -1;
}

PyObject *raise_text(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_text(code, format, args);
    va_end(args);
    return NULL;
}

/* Adds the line that recorded the failing operator as a note, where the error is raised by another line. */
static void note_site(PyObject *exception, uint32_t source_loc) {
    if (source_loc == 0 || source_loc == call_source_loc()) {
        return;
    }
    char where[512];
    if (tl_site_string(source_loc, where, sizeof where) != TL_OK || where[0] == 0) {
        return;
    }
    PyObject *r = PyObject_CallMethod(exception, "add_note", "N", PyUnicode_FromFormat("recorded at %s", where));
    Py_XDECREF(r);
    PyErr_Clear();
}

static bool gpus_are_cuda;

void errors_call_gpus_cuda(void) { gpus_are_cuda = true; }

/* The engine's text, with the names that users have for GPUs. */
static PyObject *user_text(const char *message) {
    PyObject *text = PyUnicode_FromString(message);
    if (text == NULL || strstr(message, "wgpu:") == NULL || !gpus_are_cuda) {
        return text;
    }
    PyObject *named = PyObject_CallMethod(text, "replace", "ss", "wgpu:", "cuda:");
    Py_DECREF(text);
    return named;
}

PyObject *raise_status(int32_t status) {
    if (status == TL_RAISED) {
        return NULL;
    }
    if (status == TL_INTERRUPTED) {
        if (!PyErr_Occurred()) { /* a signal handler may have raised its own exception */
            PyErr_SetNone(PyExc_KeyboardInterrupt);
        }
        return NULL;
    }
    const tl_error *e = tl_last_error();
    PyObject *class = error_class(status);
    uint32_t source_loc = e->source_loc;
    PyObject *exception = PyObject_CallFunction(class, "N", user_text(e->message));
    if (exception == NULL) {
        return NULL;
    }
    note_site(exception, source_loc);
    PyErr_SetObject(class, exception);
    Py_DECREF(exception);
    return NULL;
}

int check_status(int32_t status) {
    if (status == TL_OK) {
        return 0;
    }
    process.epoch++; /* the failure may have made handles unusable */
    raise_status(status);
    return -1;
}

PyObject *none_or_raise(int32_t status) {
    if (status != TL_OK) {
        return raise_status(status);
    }
    Py_RETURN_NONE;
}

PyObject *py_set_errors(PyObject *self, PyObject *classes) {
    (void)self;
    if (!PyDict_Check(classes)) {
        return raise_text(TL_TYPE, "_set_errors(): expected a dict, got %R", (PyObject *)Py_TYPE(classes));
    }
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(classes, &at, &key, &value)) {
        long code = PyLong_AsLong(key);
        if (code == -1 && PyErr_Occurred()) {
            return NULL;
        }
        if (code <= 0 || code >= TL_NUM_CODES || !PyType_Check(value)) {
            return raise_text(
                TL_VALUE, "_set_errors(): expected codes from 1 to %d and classes, got code %ld", TL_NUM_CODES - 1,
                code);
        }
        SETREF(error_classes[code], Py_NewRef(value));
    }
    Py_RETURN_NONE;
}
