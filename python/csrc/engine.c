#include "engine.h"

#include "call_cache.h"
#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "process.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "turn.h"
#include "wait.h"

/* _realize(tensors): computes the tensors of a list, which keeps them alive meanwhile. */
static PyObject *py_realize(PyObject *self, PyObject *list) {
    (void)self;
    if (!PyList_Check(list)) {
        return raise_text(TL_TYPE, "_realize(): expected a list, got %R", (PyObject *)Py_TYPE(list));
    }
    Py_ssize_t n = PyList_Size(list);
    uint64_t few[8], *handles = n <= 8 ? few : PyMem_Malloc((size_t)n * sizeof *handles);
    int32_t status = TL_PENDING;
    if (handles == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *t = PyList_GetItem(list, i);
        if (!is_tensor(t)) {
            raise_text(TL_TYPE, "_realize(): expected tensors, got %R", (PyObject *)Py_TYPE(t));
            goto done;
        }
        handles[i] = ((Tensor *)t)->handle;
    }
    if (read_allowed() == 0 && drop_flush() == 0) {
        SLICED(status, tl_realize(handles, (int32_t)n, TL_SLICE_NS));
    }
done:
    if (handles != few) {
        PyMem_Free(handles);
    }
    return status == TL_PENDING ? NULL : none_or_raise(status); /* still pending: an exception is set */
}

static PyObject *py_mark_step(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    int32_t status;
    if (read_allowed() < 0 || drop_flush() < 0) {
        return NULL;
    }
    SLICED(status, tl_mark_step(TL_SLICE_NS));
    return none_or_raise(status);
}

static PyObject *py_flush(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    int32_t status;
    if (drop_flush() < 0) {
        return NULL;
    }
    SLICED(status, tl_flush_within(0, TL_SLICE_NS));
    return none_or_raise(status);
}

static PyObject *py_writes(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    uint64_t count;
    int32_t status = tl_writes(&count);
    return status == TL_OK ? PyLong_FromUnsignedLongLong(count) : none_or_raise(status);
}

static PyObject *py_manual_seed(PyObject *self, PyObject *seed) {
    (void)self;
    PyObject *index = PyNumber_Index(seed);
    if (index == NULL) {
        return NULL;
    }
    /* As PyTorch: any 64 bits, also of a negative number. */
    uint64_t word = PyLong_AsUnsignedLongLongMask(index);
    Py_DECREF(index);
    return PyErr_Occurred() ? NULL : none_or_raise(tl_rng(TL_RNG_SEED, &word));
}

static PyObject *py_rng_state(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    unsigned long long w[4];
    uint64_t s[4];
    if (check_status(tl_rng(TL_RNG_GET, s)) < 0) {
        return NULL;
    }
    for (int i = 0; i < 4; i++) {
        w[i] = s[i];
    }
    return Py_BuildValue("(KKKK)", w[0], w[1], w[2], w[3]);
}

static PyObject *py_set_rng_state(PyObject *self, PyObject *words) {
    (void)self;
    unsigned long long w[4];
    if (!PyTuple_Check(words)) {
        return raise_text(TL_TYPE, "_set_rng_state(): argument must be a tuple of four ints");
    }
    if (!PyArg_ParseTuple(words, "KKKK:_set_rng_state", &w[0], &w[1], &w[2], &w[3])) {
        return NULL;
    }
    uint64_t s[4] = {w[0], w[1], w[2], w[3]};
    return none_or_raise(tl_rng(TL_RNG_SET, s));
}

static PyObject *py_info(PyObject *self, PyObject *args) {
    (void)self;
    const char *kind;
    PyObject *tensor = Py_None;
    if (!PyArg_ParseTuple(args, "s|O:_info", &kind, &tensor)) {
        return NULL;
    }
    uint64_t h = is_tensor(tensor) ? ((Tensor *)tensor)->handle
        : PyLong_Check(tensor)     ? PyLong_AsUnsignedLongLong(tensor)
                                   : 0;
    if (PyErr_Occurred()) {
        return NULL;
    }
    char *json;
    size_t bytes;
    int32_t status;
    if (drop_flush() < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tl_info(kind, h, &json, &bytes);
    Py_END_ALLOW_THREADS;
    if (status != TL_OK) {
        return raise_status(status);
    }
    PyObject *text = PyUnicode_DecodeUTF8(json, (Py_ssize_t)bytes, "replace");
    tl_free_text(json);
    return text;
}

static PyObject *py_set_option(PyObject *self, PyObject *args) {
    (void)self;
    const char *key, *value;
    if (!PyArg_ParseTuple(args, "ss:_set_option", &key, &value)) {
        return NULL;
    }
    call_cache_forget();
    return none_or_raise(tl_set_option(key, value));
}

static PyObject *py_reset(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    int32_t status;
    if (drop_flush() < 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tl_reset();
    Py_END_ALLOW_THREADS;
    call_cache_reset();
    return none_or_raise(status);
}

static PyObject *py_after_fork(PyObject *self, PyObject *ignored) {
    (void)self, (void)ignored;
    process.forked = true;
    call_cache_reset(); /* so that the next call enters the engine, which refuses it */
    tl_after_fork();
    Py_RETURN_NONE;
}

static PyObject *py_tidy(PyObject *self, PyObject *args) {
    (void)self;
    int begin;
    PyObject *returned = NULL;
    if (!PyArg_ParseTuple(args, "p|O:_tidy", &begin, &returned) || drop_flush() < 0) {
        return NULL;
    }
    Py_ssize_t n;
    uint64_t *hs = handles_of(returned, &n, false);
    if (hs == NULL) {
        return NULL;
    }
    int32_t status = tl_tidy(begin, hs, (int32_t)n);
    process.epoch += !begin;
    PyMem_Free(hs);
    return none_or_raise(status);
}

IN_TURN(py_mark_step)
IN_TURN(py_flush)
IN_TURN(py_writes)
IN_TURN(py_realize)
IN_TURN(py_reset)

PyMethodDef engine_functions[] = {
    {"mark_step", py_mark_step_in_turn, METH_NOARGS,
        "mark_step()\n--\n\nRun everything pending, wait for it, and begin a new step."},
    {"flush", py_flush_in_turn, METH_NOARGS, "flush()\n--\n\nSubmit everything pending without waiting."},
    {"_writes", py_writes_in_turn, METH_NOARGS, "How many writes to tensors were recorded so far."},
    {"_realize", py_realize_in_turn, METH_O, "Compute the values of a list of tensors and wait."},
    {"_tidy", py_tidy, METH_VARARGS, "Open or close a scope."},
    {"_manual_seed", py_manual_seed, METH_O, "Seed the generator."},
    {"_rng_state", py_rng_state, METH_NOARGS, "State of the generator: four words."},
    {"_set_rng_state", py_set_rng_state, METH_O, "Restore the generator's state."},
    {"_info", py_info, METH_VARARGS, "A JSON text about the engine: kind, and a tensor or a captured function."},
    {"_set_option", py_set_option, METH_VARARGS, "Set an engine option."},
    {"_reset", py_reset_in_turn, METH_NOARGS, "Restart the engine: tensors become invalid, devices are reopened."},
    {"_after_fork", py_after_fork, METH_NOARGS, "Runs in a forked child."},
    {0},
};
