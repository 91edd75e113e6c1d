/* Statuses of the engine as Python exceptions. */
#ifndef TORCHLETTE_ERRORS_H
#define TORCHLETTE_ERRORS_H

#include "cpython.h"
#include "torchlette.h"

/* A status beside the engine's: an exception is set already. */
enum { TL_RAISED = -2 };

PyObject *error_class(int code);        /* borrowed: the registered class of a code, or RuntimeError */
PyObject *raise_status(int32_t status); /* NULL */
PyObject *none_or_raise(int32_t status);
int check_status(int32_t status);                        /* 0, or -1 with the exception set */
int set_error(int code, const char *format, ...);        /* -1 */
PyObject *raise_text(int code, const char *format, ...); /* NULL */
PyObject *py_set_errors(PyObject *self, PyObject *classes);

/* Errors call "wgpu:0" "cuda:0" from now on, under both APIs. */
void errors_call_gpus_cuda(void);

#endif
