/* Waiting for the engine without the GIL, in slices, so that signals are seen. */
#ifndef TORCHLETTE_WAIT_H
#define TORCHLETTE_WAIT_H

#include "cpython.h"
#include "process.h"

/* The length of a slice. */
#define TL_SLICE_NS 20000000

/* Stops the work that is waited for, after a signal handler has raised an exception; a status. */
int32_t wait_stop(void);

/* Repeats a sliced call until it is done. status is TL_INTERRUPTED, with the exception set, when a signal handler has
 * raised one. */
#define SLICED(status, call)                                    \
    do {                                                        \
        Py_BEGIN_ALLOW_THREADS;                                 \
        status = (call);                                        \
        Py_END_ALLOW_THREADS;                                   \
        if (status == TL_PENDING && PyErr_CheckSignals() < 0) { \
            status = wait_stop();                               \
        }                                                       \
    } while (status == TL_PENDING)

/* Nothing that holds the GIL enters the engine while it is at work for a thread that waits without. */
#define TL_BUSY_NOW() __atomic_load_n(&process.engine->busy, __ATOMIC_RELAXED)
#define TL_TURN() (TL_BUSY_NOW() ? wait_idle() : TL_OK)
int32_t wait_idle(void); /* a status */

/* Runs pending work that has grown large. */
#define TL_DUE() \
    ((__atomic_load_n(&process.engine->due, __ATOMIC_RELAXED) & (TL_DUE_NODES | TL_DUE_SHARED)) != 0 ? wait_due() : 0)
int wait_due(void);

#endif
