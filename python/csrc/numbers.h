/* Numbers that Python keeps in tensors of one element: an optimizer's step counts. */
#ifndef TORCHLETTE_NUMBERS_H
#define TORCHLETTE_NUMBERS_H

#include "cpython.h"

extern PyMethodDef numbers_functions[];

#endif
