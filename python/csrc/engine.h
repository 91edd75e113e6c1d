/* Functions of the engine as a whole: flushes and steps, scopes, random numbers, options, reset. */
#ifndef TORCHLETTE_ENGINE_H
#define TORCHLETTE_ENGINE_H

#include "cpython.h"

extern PyMethodDef engine_functions[];

#endif
