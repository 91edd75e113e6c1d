/* Captured functions: their capture, their calls, and what their programs are chosen by. */
#ifndef TORCHLETTE_CAPTURED_H
#define TORCHLETTE_CAPTURED_H

#include "cpython.h"
#include "torchlette.h"

PyObject *wrapped_list(const tl_out *outs, int32_t n, uint8_t api);
uint8_t api_of(PyObject *tensors);
double *doubles_of(PyObject *list, Py_ssize_t *n);

extern PyMethodDef captured_functions[];
extern PyMethodDef guard_functions[];

#endif
