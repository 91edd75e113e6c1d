/* Arguments that no overload takes: why, and the TypeError that says so. */
#ifndef TORCHLETTE_MISMATCH_H
#define TORCHLETTE_MISMATCH_H

#include "cpython.h"
#include "table.h"

/* Why an overload does not take the arguments. */
typedef struct {
    enum { R_NONE, R_TOO_MANY, R_MISSING, R_UNEXPECTED, R_DUPLICATE, R_TYPE } reason;
    int index;         /* of the parameter */
    int position;      /* of the argument; -1 for a keyword */
    PyObject *culprit; /* borrowed: the keyword or the value */
} mismatch;

/* Raises the error of a call. why: of the overload that was tried last; method: the receiver is not among args. */
void raise_mismatch(const group *g, const overload *last, const mismatch *why, bool method, PyObject *const *args,
    Py_ssize_t nargs, PyObject *kwnames);

#endif
