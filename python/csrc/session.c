#include "session.h"

#include "buffer.h"
#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"
#include "wait.h"

static const char capsule_name[] = "torchlette.session";

/* The inputs and then the outputs of a session, without memory; or, bound, with the memory of buffers. */
typedef struct {
    uint64_t session;
    int32_t n_in, n_out;
    bool bound;
    Py_buffer *views; /* of each value where it is bound */
    tl_session_value values[];
} ports;

static void ports_free(ports *p) {
    for (int32_t i = 0; p->views != NULL && i < p->n_in + p->n_out; i++) {
        PyBuffer_Release(&p->views[i]);
    }
    PyMem_Free(p->views);
    PyMem_Free(p);
}

static void capsule_free(PyObject *capsule) {
    ports *p = PyCapsule_GetPointer(capsule, capsule_name);
    if (p != NULL && !p->bound) {
        (void)tl_session_close(p->session);
    }
    if (p != NULL) {
        ports_free(p);
    }
}

static ports *ports_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, capsule_name); }

static ports *ports_new(uint64_t session, int32_t n_in, int32_t n_out) {
    ports *p = PyMem_Calloc(1, sizeof *p + (size_t)(n_in + n_out) * sizeof *p->values);
    if (p == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    p->session = session;
    p->n_in = n_in;
    p->n_out = n_out;
    return p;
}

/* _session_of(program, tensors, sole, device, threads, precision): a session on an opened program with these constants,
 * which with sole nothing else uses. It is closed with the capsule. */
static PyObject *py_session_of(PyObject *self, PyObject *args) {
    (void)self;
    unsigned long long program;
    PyObject *tensors;
    int sole, device, threads;
    const char *precision;
    Py_ssize_t n;
    uint64_t session = 0, *hs;
    if (!PyArg_ParseTuple(args, "KOpiis:_session_of", &program, &tensors, &sole, &device, &threads, &precision) ||
        drop_flush() < 0 || (hs = handles_of(tensors, &n, false)) == NULL) {
        return NULL;
    }
    if (trace_enter() < 0) { /* in another thread's trace the session's tensors would end with it */
        PyMem_Free(hs);
        return NULL;
    }
    uint8_t low = strcmp(precision, "float16") == 0 ? TL_FLOAT16 : strcmp(precision, "bfloat16") == 0 ? TL_BFLOAT16 : 0;
    int32_t status, n_in = 0, n_out = 0;
    Py_BEGIN_ALLOW_THREADS;
    status = tl_session_of(program, hs, (int32_t)n, (uint8_t)device, threads, low, sole, &session);
    Py_END_ALLOW_THREADS;
    trace_leave();
    PyMem_Free(hs);
    if (check_status(status) < 0) {
        return NULL;
    }
    ports *p = NULL;
    if (check_status(tl_session_describe(session, 0, NULL, 0, &n_in)) == 0 &&
        check_status(tl_session_describe(session, 1, NULL, 0, &n_out)) == 0 &&
        (p = ports_new(session, n_in, n_out)) != NULL &&
        check_status(tl_session_describe(session, 0, p->values, n_in, &n_in)) == 0 &&
        check_status(tl_session_describe(session, 1, p->values + n_in, n_out, &n_out)) == 0) {
        PyObject *capsule = PyCapsule_New(p, capsule_name, capsule_free);
        if (capsule != NULL) {
            return capsule;
        }
    }
    if (p != NULL) {
        ports_free(p);
    }
    (void)tl_session_close(session);
    return NULL;
}

/* _session_info(session, kind): a JSON text. */
static PyObject *py_session_info(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    const char *kind;
    char *json = NULL;
    size_t bytes = 0;
    ports *p;
    if (!PyArg_ParseTuple(args, "Os:_session_info", &capsule, &kind) || (p = ports_of(capsule)) == NULL) {
        return NULL;
    }
    int32_t status;
    Py_BEGIN_ALLOW_THREADS;
    status = tl_info(kind, p->session, &json, &bytes);
    Py_END_ALLOW_THREADS;
    PyObject *r = check_status(status) < 0 ? NULL : PyUnicode_FromStringAndSize(json, (Py_ssize_t)bytes);
    tl_free_text(json);
    return r;
}

/* _session_reset(session): gives the buffers that runs write their first values. */
static PyObject *py_session_reset(PyObject *self, PyObject *capsule) {
    (void)self;
    ports *p = ports_of(capsule);
    if (p == NULL) {
        return NULL;
    }
    int32_t status;
    Py_BEGIN_ALLOW_THREADS;
    status = tl_session_reset(p->session);
    Py_END_ALLOW_THREADS;
    return check_status(status) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Fills in a value from a buffer, which the caller releases. */
static int take(tl_session_value *v, Py_buffer *view, PyObject *o, bool writable) {
    int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(o, view, flags) < 0) {
        return -1;
    }
    if (view->ndim > TL_MAX_RANK) {
        PyBuffer_Release(view);
        return set_error(TL_VALUE, "session: \"%s\": got %d dims, want at most %d", v->name, view->ndim, TL_MAX_RANK);
    }
    uint8_t dtype = buffer_dtype(view);
    if (v->dtype == TL_BFLOAT16 && (dtype == 0 || dtype == TL_UINT16) && view->itemsize == 2) {
        dtype = TL_BFLOAT16; /* which NumPy has not: its bits */
    }
    if (dtype == 0) {
        int r = set_error(TL_VALUE, "session: \"%s\": no dtype has the format \"%s\"", v->name,
            view->format != NULL ? view->format : "B");
        PyBuffer_Release(view);
        return r;
    }
    v->dtype = dtype;
    v->rank = view->ndim;
    for (int d = 0; d < view->ndim; d++) {
        v->shape[d] = view->shape[d];
    }
    v->data = view->buf;
    v->bytes = (size_t)view->len;
    return 0;
}

/* Fills in values [from, from + n) from a tuple of buffers. Returns how many views are taken; fewer than n after an
 * error. */
static int32_t take_all(ports *p, Py_buffer *views, PyObject *tuple, int32_t from, int32_t n, bool writable) {
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != n) {
        set_error(TL_VALUE, "session: expected a tuple of %d buffers", (int)n);
        return 0;
    }
    for (int32_t i = 0; i < n; i++) {
        if (take(&p->values[from + i], &views[from + i], PyTuple_GetItem(tuple, i), writable) < 0) {
            return i;
        }
    }
    return n;
}

/* A copy of the ports of a session with the memory of buffers; outputs NULL: of the inputs only. */
static ports *bound(PyObject *capsule, PyObject *inputs, PyObject *outputs) {
    ports *p = ports_of(capsule), *q = p == NULL ? NULL : ports_new(p->session, p->n_in, p->n_out);
    if (q == NULL) {
        return NULL;
    }
    memcpy(q->values, p->values, (size_t)(p->n_in + p->n_out) * sizeof *p->values);
    q->bound = true;
    q->views = PyMem_Calloc((size_t)(p->n_in + p->n_out) + 1, sizeof *q->views);
    if (q->views == NULL) {
        PyErr_NoMemory();
    } else if (take_all(q, q->views, inputs, 0, q->n_in, false) == q->n_in &&
               (outputs == NULL || take_all(q, q->views, outputs, q->n_in, q->n_out, true) == q->n_out)) {
        return q;
    }
    ports_free(q);
    return NULL;
}

/* Runs a session on its bound values or, with prepare, describes the outputs. A signal handler that raises an exception
 * ends it early. When it returns, nothing uses the values any more. */
static int run(ports *p, int32_t prepare) {
    int32_t status, stop = 0;
    int passed = 1;
    do {
        uint64_t pending = 0;
        Py_BEGIN_ALLOW_THREADS;
        status = tl_session_begin(
            p->session, p->values, p->n_in, p->values + p->n_in, p->n_out, prepare, TL_SLICE_NS, &pending);
        Py_END_ALLOW_THREADS;
        while (status == TL_PENDING) {
            stop = PyErr_CheckSignals() < 0;
            Py_BEGIN_ALLOW_THREADS;
            status = tl_session_wait(pending, stop, TL_SLICE_NS);
            Py_END_ALLOW_THREADS;
        }
    } while (status == TL_BUSY && !stop && (passed = trace_passed()) > 0);
    return stop || passed < 0 ? -1 : check_status(status);
}

/* _session_prepare(session, inputs): dtype and shape of each output for inputs like these. */
static PyObject *py_session_prepare(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *inputs;
    if (!PyArg_ParseTuple(args, "OO:_session_prepare", &capsule, &inputs)) {
        return NULL;
    }
    ports *p = bound(capsule, inputs, NULL);
    if (p == NULL) {
        return NULL;
    }
    PyObject *list = run(p, 1) < 0 ? NULL : PyList_New(p->n_out);
    for (int32_t k = 0; list != NULL && k < p->n_out; k++) {
        tl_session_value *v = &p->values[p->n_in + k];
        PyObject *shape = PyTuple_New(v->rank), *entry = NULL;
        for (int32_t d = 0; shape != NULL && d < v->rank; d++) {
            PyObject *size = PyLong_FromLongLong(v->shape[d]);
            if (size == NULL || PyTuple_SetItem(shape, d, size) < 0) {
                Py_CLEAR(shape);
            }
        }
        entry = shape == NULL ? NULL : Py_BuildValue("(iN)", (int)v->dtype, shape);
        if (entry == NULL || PyList_SetItem(list, k, entry) < 0) {
            Py_CLEAR(list);
        }
    }
    ports_free(p);
    return list;
}

/* _session_run(session, inputs, outputs): runs a session on tuples of buffers. */
static PyObject *py_session_run(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *inputs, *outputs;
    if (!PyArg_ParseTuple(args, "OOO:_session_run", &capsule, &inputs, &outputs)) {
        return NULL;
    }
    ports *p = bound(capsule, inputs, outputs);
    int status = p == NULL ? -1 : run(p, 0);
    if (p != NULL) {
        ports_free(p);
    }
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

/* _session_bind(session, inputs, outputs): what _session_run_bound runs any number of times. */
static PyObject *py_session_bind(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *inputs, *outputs;
    if (!PyArg_ParseTuple(args, "OOO:_session_bind", &capsule, &inputs, &outputs)) {
        return NULL;
    }
    ports *p = bound(capsule, inputs, outputs);
    PyObject *r = p == NULL ? NULL : PyCapsule_New(p, capsule_name, capsule_free);
    if (p != NULL && r == NULL) {
        ports_free(p);
    }
    return r;
}

static PyObject *py_session_run_bound(PyObject *self, PyObject *capsule) {
    (void)self;
    ports *p = ports_of(capsule);
    return p == NULL || run(p, 0) < 0 ? NULL : Py_NewRef(Py_None);
}

PyMethodDef session_functions[] = {
    {"_session_of", py_session_of, METH_VARARGS, "Open a session on an opened program."},
    {"_session_info", py_session_info, METH_VARARGS, "A description of a session, as JSON."},
    {"_session_reset", py_session_reset, METH_O, "Give the buffers that runs write their first values."},
    {"_session_prepare", py_session_prepare, METH_VARARGS, "Dtype and shape of each output for inputs like these."},
    {"_session_run", py_session_run, METH_VARARGS, "Run a session on tuples of buffers."},
    {"_session_bind", py_session_bind, METH_VARARGS, "Bind tuples of buffers to a session."},
    {"_session_run_bound", py_session_run_bound, METH_O, "Run a session on what was bound."},
    {0},
};
