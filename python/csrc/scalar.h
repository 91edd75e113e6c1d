/* Python numbers as the engine takes them. */
#ifndef TORCHLETTE_SCALAR_H
#define TORCHLETTE_SCALAR_H

#include "cpython.h"
#include "torchlette.h"

/* Takes Python numbers, and NumPy's scalars, which have __index__ or __float__. 1: a number; 0: none; -1: an error. */
int number_scalar(PyObject *o, tl_scalar *s);

#endif
