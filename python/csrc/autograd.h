/* Backward walks, the functions of the graph, and fences. */
#ifndef TORCHLETTE_AUTOGRAD_H
#define TORCHLETTE_AUTOGRAD_H

#include "cpython.h"

extern PyMethodDef autograd_functions[];

#endif
