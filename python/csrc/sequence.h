/* Tensors from nested sequences of numbers. */
#ifndef TORCHLETTE_SEQUENCE_H
#define TORCHLETTE_SEQUENCE_H

#include "cpython.h"

/* dtype -1: inferred, as PyTorch does. */
PyObject *sequence_tensor(PyObject *data, int dtype, uint8_t device, bool requires_grad, uint8_t api);

#endif
