/* Turns of threads: one thread computes at a time. It reads, waits, or walks backward. */
#ifndef TORCHLETTE_TURN_H
#define TORCHLETTE_TURN_H

#include "cpython.h"
#include "source_loc.h"

int turn_take(uint8_t api); /* before computing, which releases the GIL; TL_API_TORCH waits in line */
void turn_give(void);
PyObject *py_set_busy_wait(PyObject *self, PyObject *value);

/* Defines NAME_in_turn, which runs a Python function in a turn. */
#define IN_TURN(function)                                                     \
    static PyObject *function##_in_turn(PyObject *self, PyObject *argument) { \
        if (turn_take(TL_API_CORE) < 0) {                                     \
            return NULL;                                                      \
        }                                                                     \
        PyObject *r = function(self, argument);                               \
        turn_give();                                                          \
        return r;                                                             \
    }

#endif
