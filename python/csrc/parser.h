/* The argument parser: binds the arguments of a call to a signature and encodes them. */
#ifndef TORCHLETTE_PARSER_H
#define TORCHLETTE_PARSER_H

#include "argbuf.h"
#include "cpython.h"
#include "table.h"

/* Keyword arguments that operators take beside their signatures. */
typedef struct {
    PyObject *out;       /* borrowed; NULL when not given */
    PyObject *generator; /* borrowed; NULL when not given: the engine's own numbers */
    bool requires_grad;
} extras;

/* Binds arguments to the first overload that takes them; self is NULL in a function call. */
overload *group_bind(
    group *g, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, argbuf *b, extras *x);

#endif
