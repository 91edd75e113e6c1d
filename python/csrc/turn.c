/* Other threads stand in line without the GIL, first come, first served. Code that imported torchlette.torch waits, as
 * under PyTorch. Other code gets EngineBusyError, or waits under set_busy_policy("wait"). The GIL orders all access to
 * the line. */
#include "turn.h"

#include "cpython.h"
#include "errors.h"
#include "process.h"
#include "source_loc.h"
#include "torchlette.h"
#include "wait.h"

/* A thread in line. Its lock is released when its turn comes. */
typedef struct waiter {
    PyThread_type_lock lock;
    unsigned long thread;
    struct waiter *next;
} waiter;

static struct {
    unsigned long owner;
    int depth; /* how many nested calls the owner is in; 0: nobody computes */
    waiter *first, *last;
    bool all_wait; /* policy "wait" */
} turn;

static bool waits(uint8_t api) {
    return turn.all_wait || api == TL_API_TORCH || creation_api() == TL_API_TORCH || caller_in_facade();
}

static void join_line(waiter *w) {
    w->next = NULL;
    if (turn.last != NULL) {
        turn.last->next = w;
    } else {
        turn.first = w;
    }
    turn.last = w;
}

static void leave_line(waiter *w) {
    waiter *before = NULL;
    for (waiter *x = turn.first; x != w; x = x->next) {
        before = x;
    }
    *(before != NULL ? &before->next : &turn.first) = w->next;
    if (turn.last == w) {
        turn.last = before;
    }
}

void turn_give(void) {
    waiter *w = turn.first;
    if (--turn.depth > 0 || w == NULL) {
        return;
    }
    leave_line(w);
    turn.owner = w->thread;
    turn.depth = 1;
    PyThread_release_lock(w->lock);
}

/* Waits for the turn, in slices, so that signals are seen. */
static int stand_in_line(unsigned long me) {
    waiter w = {.lock = PyThread_allocate_lock(), .thread = me};
    if (w.lock == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyThread_acquire_lock(w.lock, WAIT_LOCK);
    join_line(&w);
    int failed = 0;
    PyLockStatus got = PY_LOCK_FAILURE;
    while (got != PY_LOCK_ACQUIRED && failed == 0) {
        Py_BEGIN_ALLOW_THREADS;
        got = PyThread_acquire_lock_timed(w.lock, TL_SLICE_NS / 1000, 0);
        Py_END_ALLOW_THREADS;
        failed = PyErr_CheckSignals();
    }
    if (got != PY_LOCK_ACQUIRED && turn.owner == me && turn.depth > 0) {
        got = PyThread_acquire_lock_timed(w.lock, 0, 0); /* the turn came while the signal was handled */
    }
    if (got != PY_LOCK_ACQUIRED) {
        leave_line(&w);
    } else if (failed != 0) {
        turn_give();
    }
    PyThread_release_lock(w.lock);
    PyThread_free_lock(w.lock);
    return failed;
}

int turn_take(uint8_t api) {
    unsigned long me = PyThread_get_thread_ident();
    if (turn.depth > 0 && turn.owner != me && !process.forked) {
        if (!waits(api)) {
            return set_error(TL_BUSY,
                "the engine is busy in another thread; "
                "call again later, or torchlette.set_busy_policy(\"wait\")");
        }
        return stand_in_line(me);
    }
    turn.owner = me;
    turn.depth++;
    return 0;
}

PyObject *py_set_busy_wait(PyObject *self, PyObject *value) {
    (void)self;
    int wait = PyObject_IsTrue(value);
    if (wait < 0) {
        return NULL;
    }
    bool old = turn.all_wait;
    turn.all_wait = wait != 0;
    return PyBool_FromLong(old);
}
