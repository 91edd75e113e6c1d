/* Modes of threads: gradient recording, inference, autocast, the default device and the hooks of saved values are a
 * thread's own. The modes of the running thread are in current and in the engine; both change when another thread
 * comes to the engine. */
#ifndef TORCHLETTE_THREADS_H
#define TORCHLETTE_THREADS_H

#include "cpython.h"
#include "errors.h"
#include "wait.h"

/* current.compile: in a compiled function; which refuses reads; whose operators are marked as a region */
enum { COMPILING = 1, REFUSES_READS = 2, MARKED = 4, COMPILE_BITS = 3 };

extern struct current_modes {
    PyThreadState *thread; /* whose modes these are */
    uint64_t modes;        /* a byte for each mode that was set */
    int default_device;    /* what the engine has been told; -1: nothing, so that it looks for a GPU */
    int chosen_device;     /* of set_default_device; -1: none, so that the API flavour decides */
    PyObject *packer;      /* takes saved values; NULL without hooks of saved values */
    uint8_t default_dtype; /* of the process */
    int vmap_levels;       /* of the process: calls enter the engine at once at a level of vmap */
    uint8_t compile;
} current;

int threads_init(void);
int thread_switch(void);

/* A trace begins, after those of other threads, and ends. */
int trace_enter(void);
void trace_leave(void);

/* After an error of a session that cannot run while a function is traced: waits for another thread's trace. 1: the call
 * may be repeated; 0: the trace is this thread's. */
int trace_passed(void);

/* Makes the modes those of the calling thread. Python code that runs later may bring in another one. */
static inline int thread_here(void) { return PyThreadState_Get() == current.thread ? 0 : thread_switch(); }

/* Waits until the engine is at work for nobody, under the modes of the calling thread; a status. */
static inline int32_t thread_ready(void) {
    for (;;) {
        int32_t status = TL_TURN();
        if (status != TL_OK || (status = thread_here() < 0 ? TL_RAISED : TL_OK) != TL_OK || !TL_BUSY_NOW()) {
            return status;
        }
    }
}

#endif
