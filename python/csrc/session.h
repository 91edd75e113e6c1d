/* Inference sessions: their runs on buffers. */
#ifndef TORCHLETTE_SESSION_H
#define TORCHLETTE_SESSION_H

#include "cpython.h"

extern PyMethodDef session_functions[];

#endif
