/* Attributes and methods of Tensor that are no operators. */
#ifndef TORCHLETTE_METHODS_H
#define TORCHLETTE_METHODS_H

#include "cpython.h"

extern PyMethodDef tensor_methods[];
extern PyGetSetDef tensor_getset[];

#endif
