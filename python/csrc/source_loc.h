/* Source locations: which line of Python called an operator, and through which API flavour. */
#ifndef TORCHLETTE_SOURCE_LOC_H
#define TORCHLETTE_SOURCE_LOC_H

#include "cpython.h"

/* API flavours: of tensors, and of the code that calls. */
enum { TL_API_CORE = 0, TL_API_TORCH = 1 };

/* The location of the line that runs, or of the line outside of the package that called it; 0 when there is none. */
uint32_t call_source_loc(void);
PyObject *set_package(PyObject *self, PyObject *folder);

PyObject *py_set_facade_everywhere(PyObject *self, PyObject *on); /* all code counts as if it had imported it */
bool globals_in_facade(PyObject *globals); /* the module with these globals imported torchlette.torch */
bool caller_in_facade(void);               /* the module of the running code did */
/* The API flavour of a tensor that is made from no other: the flavour of the code outside of the package. */
uint8_t creation_api(void);

#endif
