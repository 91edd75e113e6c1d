/* The number protocol: Python's operators on tensors. */
#ifndef TORCHLETTE_NUMBER_H
#define TORCHLETTE_NUMBER_H

#include "cpython.h"

int number_init(void);
PyObject *tensor_richcompare(PyObject *a, PyObject *b, int op);
extern PyType_Slot number_slots[];

#endif
