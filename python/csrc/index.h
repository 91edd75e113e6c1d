/* The mapping and sequence protocols: x[...], x[...] = v, len(x), iteration. */
#ifndef TORCHLETTE_INDEX_H
#define TORCHLETTE_INDEX_H

#include "cpython.h"

PyObject *tensor_getitem(PyObject *self, PyObject *key);
int tensor_setitem(PyObject *self, PyObject *key, PyObject *value);
Py_ssize_t tensor_length(PyObject *self);
PyObject *tensor_iter(PyObject *self);
PyObject *py_nonzero(PyObject *self, PyObject *mask);
PyObject *py_put_at(PyObject *ignored, PyObject *args);

#endif
