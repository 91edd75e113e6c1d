/* The type of Tensor objects, put together from the protocols. */
#ifndef TORCHLETTE_TENSOR_TYPE_H
#define TORCHLETTE_TENSOR_TYPE_H

#include "cpython.h"

int tensor_type_init(PyObject *module);

#endif
