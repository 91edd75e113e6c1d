/* Functions that make tensors from Python data: tensor(), as_tensor(), from_numpy(). */
#ifndef TORCHLETTE_DATA_H
#define TORCHLETTE_DATA_H

#include "cpython.h"

/* dtype and device -1: not given. */
PyObject *data_tensor(PyObject *data, int dtype, int device, bool requires_grad, uint8_t api);
PyObject *py_tensor(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_as_tensor(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_asarray(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_from_numpy(PyObject *self, PyObject *array);
PyObject *py_frombytes(PyObject *self, PyObject *args);

#endif
