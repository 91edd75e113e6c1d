/* One operator call, from bound arguments to results as Python objects. */
#ifndef TORCHLETTE_CALL_H
#define TORCHLETTE_CALL_H

#include "argbuf.h"
#include "cpython.h"
#include "table.h"

PyObject *call_overload(overload *o, argbuf *b, uint8_t api);
PyObject *call_in_place(overload *o, argbuf *b, PyObject *self);
PyObject *call_group(group *g, uint8_t api, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* Gives a call to the observer, if there is one, which returns the result to use. Takes the reference of r. */
PyObject *call_observed(
    const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject *r);
extern PyMethodDef call_functions[];
PyObject *call_name(const char *name, PyObject *const *args, Py_ssize_t nargs); /* by Python name */

#endif
