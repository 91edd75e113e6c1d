#include "threads.h"

#include "cpython.h"
#include "dispatch_queue.h"
#include "errors.h"
#include "process.h"
#include "torchlette.h"
#include "wait.h"

struct current_modes current = {.default_device = -1, .chosen_device = -1};
static PyObject *thread_key;

/* The modes of a thread while it is not the current one. */
typedef struct modes {
    uint64_t id; /* the thread's number for tl_thread */
    uint64_t modes;
    int default_device, chosen_device;
    uint8_t compile;
    PyObject *packer;
} modes;

enum { ENDED = 64 };

static struct {
    modes *now;   /* the thread whose modes are in current; NULL before the first one, and after that has ended */
    uint64_t ids; /* numbers given so far */
    uint64_t ended[ENDED];
    int n_ended;
} threads;

/* The destructor of a thread's modes. The engine cannot be called here: the next switch tells it that the thread
 * ended. */
static void end_thread(PyObject *capsule) {
    modes *m = PyCapsule_GetPointer(capsule, NULL);
    if (m == threads.now) {
        threads.now = NULL;
        current.thread = NULL;
        m->packer = current.packer;
        current.packer = NULL;
    }
    if (threads.n_ended < ENDED && m->id != 0) {
        threads.ended[threads.n_ended++] = m->id;
    }
    Py_XDECREF(m->packer);
    PyMem_Free(m);
}

/* The modes of the calling thread. A new thread begins with the defaults. */
static modes *own_modes(void) {
    PyObject *dict = PyThreadState_GetDict(), *key = thread_key; /* borrowed */
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
    m->id = threads.ids++; /* the first thread has number 0 */
    m->default_device = m->chosen_device = -1;
    int failed = PyDict_SetItem(dict, key, capsule);
    Py_DECREF(capsule);
    return failed == 0 ? m : NULL;
}

/* The trace in progress. What other threads record would become part of it, so they wait for its end. */
static struct {
    unsigned long owner; /* a thread, where depth is above 0 */
    int depth;           /* the body of a loop is traced within the trace of a function */
    PyThread_type_lock open;
} trace;

/* Slices for which a thread waits. Longer traces may wait for this thread themselves. */
enum { TRACE_SLICES = 3000 };

static bool trace_elsewhere(void) {
    return trace.depth > 0 && trace.owner != PyThread_get_thread_ident() && !process.forked;
}

/* Waits until no other thread traces. With an exception set, signal handlers wait. */
static int trace_wait(void) {
    for (int slices = 0; trace_elsewhere(); slices++) {
        if (slices == TRACE_SLICES) {
            return set_error(TL_BUSY,
                "another thread has been recording a function for a minute, and may wait for this one: the function "
                "must not wait for threads that use the library");
        }
        Py_BEGIN_ALLOW_THREADS;
        if (PyThread_acquire_lock_timed(trace.open, TL_SLICE_NS / 1000, 0) == PY_LOCK_ACQUIRED) {
            PyThread_release_lock(trace.open);
        }
        Py_END_ALLOW_THREADS;
        if (!PyErr_Occurred() && PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
    return 0;
}

int trace_enter(void) {
    if (check_status(thread_ready()) < 0) {
        return -1;
    }
    if (trace.depth++ == 0) {
        trace.owner = PyThread_get_thread_ident();
        PyThread_acquire_lock(trace.open, WAIT_LOCK); /* who waits for it holds it for a moment */
    }
    return 0;
}

void trace_leave(void) {
    if (trace.depth > 0 && --trace.depth == 0) {
        PyThread_release_lock(trace.open);
    }
}

int trace_passed(void) {
    if (trace.depth > 0 && !trace_elsewhere()) {
        return 0;
    }
    return trace_wait() < 0 || check_status(TL_TURN()) < 0 ? -1 : 1;
}

int thread_switch(void) {
    if (process.forked) {
        return 0;
    }
    do { /* other threads may run meanwhile, so current is read only after it */
        if (trace_wait() < 0 || check_status(TL_TURN()) < 0) {
            return -1;
        }
    } while (trace_elsewhere());
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    modes *mine = own_modes();
    if (mine == NULL) {
        return -1;
    }
    PyErr_Restore(type, value, trace);
    if (mine == threads.now) {
        current.thread = PyThreadState_Get();
        return 0;
    }
    /* The queued calls were made under the old modes. From here to the end no other thread runs. */
    if (check_status(queue_record()) < 0 || check_status(tl_thread(mine->id, 0)) < 0) {
        return -1;
    }
    for (int i = 0; i < threads.n_ended; i++) {
        tl_thread(threads.ended[i], 1);
    }
    threads.n_ended = 0;
    if (threads.now != NULL) {
        *threads.now = (modes){threads.now->id, current.modes, current.default_device, current.chosen_device,
            current.compile, current.packer};
    }
    /* These two modes belong to the process. */
    uint64_t shared = (uint64_t)0xFF << 8 * TL_MODE_DEFAULT_DTYPE | (uint64_t)0xFF << 8 * TL_MODE_DETERMINISTIC;
    current.modes = (current.modes & shared) | (mine->modes & ~shared);
    current.default_device = mine->default_device;
    current.chosen_device = mine->chosen_device;
    current.compile = mine->compile;
    current.packer = mine->packer;
    threads.now = mine;
    current.thread = PyThreadState_Get();
    return 0;
}

int threads_init(void) {
    thread_key = PyUnicode_InternFromString("torchlette._C");
    trace.open = PyThread_allocate_lock();
    return thread_key != NULL && trace.open != NULL ? 0 : -1;
}
