#include "wait.h"

#include "cpython.h"
#include "errors.h"
#include "torchlette.h"

/* How long an exception of a signal handler is held back until the work has stopped. */
#define TL_PATIENCE_NS 50000000

int32_t wait_stop(void) {
    Py_BEGIN_ALLOW_THREADS;
    tl_interrupt(TL_PATIENCE_NS);
    Py_END_ALLOW_THREADS;
    return TL_INTERRUPTED;
}

int32_t wait_idle(void) {
    int32_t status;
    if (!PyErr_Occurred()) {
        SLICED(status, tl_idle(TL_SLICE_NS));
        return status;
    }
    do { /* an exception is set: signal handlers, which could raise another one, wait */
        Py_BEGIN_ALLOW_THREADS;
        status = tl_idle(TL_SLICE_NS);
        Py_END_ALLOW_THREADS;
    } while (status == TL_PENDING);
    return status;
}

int wait_due(void) {
    int32_t status;
    SLICED(status, tl_flush_within(1, TL_SLICE_NS));
    return check_status(status);
}
