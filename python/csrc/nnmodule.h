/* _ModuleBase, under nn.Module: attributes and calls, which every layer of every model pays for. */
#ifndef TORCHLETTE_NNMODULE_H
#define TORCHLETTE_NNMODULE_H

#include "cpython.h"

int nnmodule_init(PyObject *module);

#endif
