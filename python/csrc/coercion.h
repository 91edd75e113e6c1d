/* Tensors as Python numbers: bool(t), float(t), int(t), and t as an index.
 *
 * In torchlette a tensor is not silently a Python number: the read is written as item(). PyTorch's rule holds for
 * tensors that came through torchlette.torch, and in modules that import it. */
#ifndef TORCHLETTE_COERCION_H
#define TORCHLETTE_COERCION_H

#include "cpython.h"
#include "tensor.h"

int coercion_allowed(Tensor *t, const char *what); /* else the exception is set */
PyObject *coercion_text(PyObject *what);
extern PyType_Slot coercion_slots[];

#endif
