/* DLPack: memory lent to other libraries and taken from them. */
#ifndef TORCHLETTE_DLPACK_H
#define TORCHLETTE_DLPACK_H

#include "cpython.h"

PyObject *py_to_dlpack(PyObject *self, PyObject *args);
PyObject *py_from_dlpack(PyObject *self, PyObject *capsule);

#endif
