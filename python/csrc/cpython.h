/* Python's C API, as every source of the extension includes it, with what that API lacks.
 *
 * A function that returns PyObject * or int -1 has set an exception on failure. */
#ifndef TORCHLETTE_CPYTHON_H
#define TORCHLETTE_CPYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Py_SETREF, which the limited API leaves out. */
#define SETREF(place, value)                  \
    do {                                      \
        PyObject *old_ = (PyObject *)(place); \
        (place) = (value);                    \
        Py_XDECREF(old_);                     \
    } while (0)

/* A row of a method table for a function with keyword arguments. */
#define KEYWORDS (METH_VARARGS | METH_KEYWORDS)
#define WITH_KEYWORDS(f) ((PyCFunction)(void (*)(void))(f))

/* tp_dealloc of objects that own nothing but a reference to their heap type. */
static inline void plain_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

#endif
