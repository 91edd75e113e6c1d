/* Threads: whose turn it is to compute, and the modes of each.
 *
 * One thread computes at a time: it reads, waits, or walks backward. The others stand in line, in the order in which
 * they came, without the GIL. Code that imported torchlette.torch waits, as PyTorch's does; other code gets
 * EngineBusyError, or waits under set_busy_policy("wait"). The GIL orders all access to what is here.
 *
 * Modes (gradient recording, inference, autocast, the default device, hooks of saved values) are a thread's own.
 * Those of the thread that runs are in G and in the engine; both change when another thread comes to the engine. */
#include "core.h"

#include "pythread.h"

/* A thread in line. Its lock is released when the turn is its own. */
typedef struct waiter {
    PyThread_type_lock lock;
    unsigned long thread;
    struct waiter *next;
} waiter;

static struct {
    unsigned long owner;
    int depth; /* of the owner's calls; 0: nobody computes */
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

/* Waits for the turn; signals are seen meanwhile. */
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
        got = PyThread_acquire_lock_timed(w.lock, 0, 0); /* it came at the same time */
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
    if (turn.depth > 0 && turn.owner != me && !G.forked) {
        if (!waits(api)) {
            return set_error(TL_BUSY, "the engine is busy in another thread; "
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

/* Modes of a thread that is not running. */
typedef struct modes {
    uint64_t id; /* of tl_thread */
    uint64_t modes;
    int default_device;
    PyObject *packer;
} modes;

enum { ENDED = 64 };

static struct {
    modes *now;        /* whose modes are in G; NULL before the first thread, and when that has ended */
    uint64_t ids;      /* given so far */
    uint64_t ended[ENDED];
    int n_ended;
} threads;

/* A thread ends. This runs where no engine may be called. */
static void end_thread(PyObject *capsule) {
    modes *m = PyCapsule_GetPointer(capsule, NULL);
    if (m == threads.now) {
        threads.now = NULL;
        G.running = NULL;
        m->packer = G.packer;
        G.packer = NULL;
    }
    if (threads.n_ended < ENDED && m->id != 0) {
        threads.ended[threads.n_ended++] = m->id;
    }
    Py_XDECREF(m->packer);
    PyMem_Free(m);
}

/* The modes of the calling thread: those of a new one are the defaults. */
static modes *own_modes(void) {
    PyObject *dict = PyThreadState_GetDict(), *key = G.thread_key; /* borrowed */
    PyObject *capsule = dict != NULL ? PyDict_GetItemWithError(dict, key) : NULL;
    if (capsule != NULL) {
        return PyCapsule_GetPointer(capsule, NULL);
    }
    modes *m = dict != NULL && !PyErr_Occurred() ? PyMem_Calloc(1, sizeof *m) : NULL;
    capsule = m != NULL ? PyCapsule_New(m, NULL, end_thread) : NULL;
    if (capsule == NULL) {
        PyMem_Free(m);
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return NULL;
    }
    m->id = threads.ids++; /* that of the first thread is 0 */
    m->default_device = -1;
    int failed = PyDict_SetItem(dict, key, capsule);
    Py_DECREF(capsule);
    return failed == 0 ? m : NULL;
}

int thread_switch(void) {
    if (G.forked) {
        return 0;
    }
    if (check_status(TL_TURN()) < 0) { /* others may run meanwhile: only from here on is G looked at */
        return -1;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    modes *mine = own_modes();
    if (mine == NULL) {
        return -1;
    }
    PyErr_Restore(type, value, trace);
    if (mine == threads.now) {
        G.running = PyThreadState_Get();
        return 0;
    }
    /* What is queued was called under the modes before. No other thread runs until the end. */
    if (check_status(queue_record()) < 0 || check_status(tl_thread(mine->id, 0)) < 0) {
        return -1;
    }
    for (int i = 0; i < threads.n_ended; i++) {
        tl_thread(threads.ended[i], 1);
    }
    threads.n_ended = 0;
    if (threads.now != NULL) {
        *threads.now = (modes){threads.now->id, G.modes, G.default_device, G.packer};
    }
    /* Settings of the process have no thread. */
    uint64_t shared = (uint64_t)0xFF << 8 * TL_MODE_DEFAULT_DTYPE | (uint64_t)0xFF << 8 * TL_MODE_DETERMINISTIC;
    G.modes = (G.modes & shared) | (mine->modes & ~shared);
    G.default_device = mine->default_device;
    G.packer = mine->packer;
    threads.now = mine;
    G.running = PyThreadState_Get();
    return 0;
}
