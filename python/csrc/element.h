/* One element in memory, to a Python number and from one. */
#ifndef TORCHLETTE_ELEMENT_H
#define TORCHLETTE_ELEMENT_H

#include "cpython.h"

/* A number of one of Python's four kinds. */
typedef struct {
    int kind; /* 0 bool, 1 int, 2 float, 3 complex */
    int64_t i;
    bool above; /* an int from 2^63 on, whose bits i has */
    double d, imag;
} py_number;

enum { MAX_ELEMENT = 16 }; /* bytes */

int number_from(PyObject *o, py_number *n); /* 1: a Python number; 0: none; -1: an error */
PyObject *element_load(uint8_t dtype, const void *p);
int element_store(uint8_t dtype, void *p, const py_number *n);

#endif
