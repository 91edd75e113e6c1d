/* Hooks of tensors and of saved values, as Python adds them and as calls run them. */
#ifndef TORCHLETTE_SAVED_TENSORS_H
#define TORCHLETTE_SAVED_TENSORS_H

#include "argbuf.h"
#include "cpython.h"

/* Gives the values that steps have just saved to the packer. b: the arguments of the call, or NULL. */
int pack_saved(const argbuf *b);
PyObject *unpack_saved(uint64_t hook);
extern PyMethodDef hook_functions[];

#endif
