/* The functions and methods that Python sees, one for each name of the table. */
#ifndef TORCHLETTE_BINDINGS_H
#define TORCHLETTE_BINDINGS_H

#include "cpython.h"

int bindings_init(PyObject *module);

#endif
