/* Captured functions: their capture, their calls, and what their programs are chosen by. */
#ifndef TORCHLETTE_CAPTURED_H
#define TORCHLETTE_CAPTURED_H

#include "cpython.h"

extern PyMethodDef captured_functions[];

#endif
