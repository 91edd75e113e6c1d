/* Saved programs: their recording, their files, their runs. */
#ifndef TORCHLETTE_PROGRAM_H
#define TORCHLETTE_PROGRAM_H

#include "cpython.h"

extern PyMethodDef program_functions[];

#endif
