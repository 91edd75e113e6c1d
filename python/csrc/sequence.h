/* Tensors from nested sequences of numbers. */
#ifndef TORCHLETTE_SEQUENCE_H
#define TORCHLETTE_SEQUENCE_H

#include "cpython.h"

/* dtype -1: inferred, as PyTorch does. */
PyObject *sequence_tensor(PyObject *data, int dtype, uint8_t device, bool requires_grad, uint8_t api);

/* Whether a sequence that is an index stands for the tuple of its items, as in x[[rows, columns]]. The rule is
 * PyTorch's, which has it from NumPy: under 32 items, one of them a tensor, a sequence, a slice, None or Ellipsis. */
bool sequence_is_tuple(PyObject *o);

#endif
