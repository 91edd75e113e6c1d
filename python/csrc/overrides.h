/* __torch_function__: classes that answer operator calls of their objects, and modes that answer all calls. */
#ifndef TORCHLETTE_OVERRIDES_H
#define TORCHLETTE_OVERRIDES_H

#include "cpython.h"

/* Whether a class or a mode may answer calls. While it is false, which it is until a program makes such a class or
 * mode, calls look at nothing else. */
extern bool overrides_on;

/* How Python names what was called. */
typedef enum { OVERRIDE_FUNCTION, OVERRIDE_FACADE_FUNCTION, OVERRIDE_METHOD, OVERRIDE_PROPERTY } override_kind;

/* The answer of a class or a mode to a call: true, with *r a result or NULL and an exception; else false. self
 * is NULL in a function call. */
bool overridden(override_kind kind, const char *name, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
    PyObject *kwnames, PyObject **r);

/* The same for a call that raised a TypeError, as for arguments that are no tensors: r, or the answer in its place. */
PyObject *overridden_failure(override_kind kind, const char *name, PyObject *self, PyObject *const *args,
    Py_ssize_t nargs, PyObject *kwnames, PyObject *r);

int overrides_init(PyObject *module);
extern PyMethodDef overrides_functions[];

#endif
