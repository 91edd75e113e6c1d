/* What a captured function reaches, and the call that its last program serves again. */
#include "captured.h"
#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "modes.h"
#include "source_loc.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

/* The parts of what a function reaches, and of what is known of its last call. Python gives them by name. */
#define WATCHED_PARTS(X) \
    X(ENTRIES, "entries") \
    X(VALUES, "values") \
    X(CONTAINERS, "containers") \
    X(LENGTHS, "lengths") \
    X(CELLS, "cells") \
    X(LEAVES, "leaves") \
    X(LISTS, "lists") \
    X(READ, "read") \
    X(CONSTANTS, "constants") \
    X(FOUND, "found")
#define LAST_PARTS(X) \
    X(WATCHED_BY, "watched") \
    X(LAYOUTS, "layouts") \
    X(NUMBER, "number") \
    X(RESULTS, "results") \
    X(SINGLE, "single") \
    X(TORCH, "torch") \
    X(MARK, "mark") \
    X(PROGRAM, "program")
#define AS_NUMBER(number, name) number,
#define AS_NAME(number, name) name,

enum { WATCHED_PARTS(AS_NUMBER) WATCHED };
enum { LAST_PARTS(AS_NUMBER) LAST };
enum { FEW = 16 };

/* How many reasons there are that captured calls look at more than their last one: a capture or a backward pass in
 * progress, in any thread, and a stance. */
static int suspended;

/* A tuple of arguments that are given by these names, in their order. */
static PyObject *parts_by_name(const char *function, const char *const *names, Py_ssize_t n, PyObject *args,
    PyObject *kwargs) {
    if (PyTuple_Size(args) != 0 || kwargs == NULL || PyDict_Size(kwargs) != n) {
        return raise_text(TL_TYPE, "%s(): expected %d arguments by name", function, (int)n);
    }
    PyObject *parts = PyTuple_New(n);
    for (Py_ssize_t i = 0; parts != NULL && i < n; i++) {
        PyObject *part = PyDict_GetItemString(kwargs, names[i]);
        if (part == NULL) {
            Py_DECREF(parts);
            return raise_text(TL_TYPE, "%s(): expected the argument %s", function, names[i]);
        }
        PyTuple_SetItem(parts, i, Py_NewRef(part));
    }
    return parts;
}

/* _watched(*, entries, values, ...): what a function reaches, for _unchanged. */
static PyObject *py_watched(PyObject *self, PyObject *args, PyObject *kwargs) {
    (void)self;
    static const char *const names[] = {WATCHED_PARTS(AS_NAME)};
    return parts_by_name("_watched", names, WATCHED, args, kwargs);
}

/* _last_call(*, watched, layouts, ...): what is known of a call, for _captured_again. */
static PyObject *py_last_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    (void)self;
    static const char *const names[] = {LAST_PARTS(AS_NAME)};
    return parts_by_name("_last_call", names, LAST, args, kwargs);
}

/* Whether table[name] is value; names is a tuple, and the values begin at *at of a list. */
static bool holds_entries(PyObject *table, PyObject *names, PyObject *values, Py_ssize_t *at) {
    bool plain = PyDict_Check(table);
    Py_ssize_t n = PyTuple_Size(names);
    for (Py_ssize_t i = 0; i < n; i++, ++*at) {
        PyObject *name = PyTuple_GetItem(names, i), *want = PyList_GetItem(values, *at), *found;
        if (plain) {
            found = PyDict_GetItemWithError(table, name);
        } else { /* the attributes of a class */
            found = PyObject_GetItem(table, name);
            Py_XDECREF(found); /* the table holds it */
        }
        if (found == NULL || want == NULL || found != want) {
            return false;
        }
    }
    return true;
}

/* Whether the entries of the tables, (table, names) each, are these objects. An exception may be set. */
static bool holds(PyObject *tables, PyObject *values) {
    Py_ssize_t at = 0, n = PyList_Size(tables);
    bool same = true;
    for (Py_ssize_t i = 0; same && i < n; i++) {
        PyObject *pair = PyList_GetItem(tables, i), *names = PyTuple_GetItem(pair, 1);
        same = names != NULL && holds_entries(PyTuple_GetItem(pair, 0), names, values, &at);
    }
    return same && at == PyList_Size(values);
}

/* _holds(tables, values): whether the entries of the tables, (table, names) each, are these objects. */
static PyObject *py_holds(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *tables, *values;
    if (!PyArg_ParseTuple(args, "O!O!:_holds", &PyList_Type, &tables, &PyList_Type, &values)) {
        return NULL;
    }
    bool same = holds(tables, values);
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_KeyError)) {
            return NULL;
        }
        PyErr_Clear();
    }
    return PyBool_FromLong(same);
}

/* _lengths(containers): how many items each of a list of containers has, as bytes. */
static PyObject *py_lengths(PyObject *self, PyObject *containers) {
    (void)self;
    Py_ssize_t n = PyList_Size(containers);
    Py_ssize_t *lengths = n < 0 ? NULL : PyMem_Malloc(((size_t)n + 1) * sizeof *lengths);
    if (lengths == NULL) {
        return n < 0 ? NULL : PyErr_NoMemory();
    }
    PyObject *r = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        if ((lengths[i] = PyObject_Size(PyList_GetItem(containers, i))) < 0) {
            goto done;
        }
    }
    r = PyBytes_FromStringAndSize((char *)lengths, n * (Py_ssize_t)sizeof *lengths);
done:
    PyMem_Free(lengths);
    return r;
}

/* Whether containers have these lengths, the bytes of _lengths. */
static bool as_long(PyObject *containers, PyObject *lengths) {
    Py_ssize_t n = PyList_Size(containers);
    if (n * (Py_ssize_t)sizeof n != PyBytes_Size(lengths)) {
        return false;
    }
    const char *want = PyBytes_AsString(lengths);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t size = PyObject_Size(PyList_GetItem(containers, i));
        if (memcmp(&size, want + i * (Py_ssize_t)sizeof size, sizeof size) != 0) {
            return false;
        }
    }
    return true;
}

/* What a variable of a closure holds, as a new reference; NULL where that is nothing. PyCell_Get is public, but not in
 * the limited API. */
static PyObject *contents(PyObject *cell) {
    static PyObject *(*get)(PyObject *);
    static bool looked_up;
    static PyObject *name;
    if (!looked_up) {
        looked_up = true;
        name = PyUnicode_InternFromString("cell_contents");
#if !defined(_WIN32)
        void *p = dlsym(RTLD_DEFAULT, "PyCell_Get"); /* ISO C cannot cast it to a function */
        memcpy(&get, &p, sizeof get);
#endif
    }
    return get != NULL ? get(cell) : PyObject_GetAttr(cell, name);
}

/* Whether the item at *at of a list is this object, which is a new reference or NULL. */
static bool next_is(PyObject *read, Py_ssize_t *at, PyObject *o) {
    bool same = o != NULL && *at < PyList_Size(read) && PyList_GetItem(read, *at) == o;
    ++*at;
    Py_XDECREF(o);
    return same;
}

/* Whether a tensor needs a gradient, as a new reference. A flag that is off is asked of the engine again. */
static PyObject *needs_gradient(PyObject *t) {
    return (((Tensor *)t)->flags & TL_REQUIRES_GRAD) != 0 ? Py_NewRef(Py_True)
                                                          : PyObject_GetAttrString(t, "requires_grad");
}

/* Whether the variables, the leaves' need of gradients, and the lists with their lengths are what was read. */
static bool reads_the_same(PyObject *watched) {
    PyObject *cells = PyTuple_GetItem(watched, CELLS), *leaves = PyTuple_GetItem(watched, LEAVES);
    PyObject *lists = PyTuple_GetItem(watched, LISTS), *read = PyTuple_GetItem(watched, READ);
    Py_ssize_t at = 0, n = PyList_Size(cells);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!next_is(read, &at, contents(PyList_GetItem(cells, i)))) {
            return false;
        }
    }
    n = PyList_Size(leaves);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!next_is(read, &at, needs_gradient(PyList_GetItem(leaves, i)))) {
            return false;
        }
    }
    n = PyList_Size(lists);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *items = PyList_GetItem(lists, i);
        Py_ssize_t size = PyList_Size(items);
        if (at >= PyList_Size(read) || PyLong_AsSsize_t(PyList_GetItem(read, at++)) != size) {
            return false;
        }
        for (Py_ssize_t k = 0; k < size; k++) {
            if (!next_is(read, &at, Py_NewRef(PyList_GetItem(items, k)))) {
                return false;
            }
        }
    }
    return at == PyList_Size(read);
}

/* Whether what a function reaches is what it was when this tuple was made. */
static bool unchanged(PyObject *watched) {
    bool same = holds(PyTuple_GetItem(watched, ENTRIES), PyTuple_GetItem(watched, VALUES)) &&
        as_long(PyTuple_GetItem(watched, CONTAINERS), PyTuple_GetItem(watched, LENGTHS)) && reads_the_same(watched) &&
        holds(PyTuple_GetItem(watched, CONSTANTS), PyTuple_GetItem(watched, FOUND));
    PyErr_Clear(); /* an entry is gone, or a variable is empty */
    return same;
}

/* _unchanged(watched): whether what a function reaches is what it was when this tuple was made. */
static PyObject *py_unchanged(PyObject *self, PyObject *watched) {
    (void)self;
    return PyTuple_Check(watched) && PyTuple_Size(watched) == WATCHED
        ? PyBool_FromLong(unchanged(watched))
        : raise_text(TL_TYPE, "_unchanged(): expected %d parts", (int)WATCHED);
}

/* The words of a signature: the thread's modes, which thread_here has brought in, and each tensor's dtype, device,
 * layout and need of a gradient. */
static void modes_as_words(uint64_t *words) {
    words[0] = current.modes;
    words[1] = (uint64_t)(uint16_t)current.chosen_device << 40 |
        (uint64_t)(uint32_t)current.default_device << 8 | current.default_dtype;
}

static uint64_t tensor_as_word(const Tensor *t) {
    return (uint64_t)t->layout << 32 | (uint64_t)t->dtype << 16 | (uint64_t)t->device << 8 | t->flags;
}

/* _signature(tensors): the thread's modes, and each tensor's dtype, device, layout and need of a gradient, as bytes.
 * None where the layout of a tensor is not known before it is computed. */
static PyObject *py_signature(PyObject *self, PyObject *tensors) {
    (void)self;
    Py_ssize_t n = PyList_Size(tensors);
    if (n < 0 || thread_here() < 0) {
        return NULL;
    }
    uint64_t few[FEW + 2], *words = n <= FEW ? few : PyMem_Malloc(((size_t)n + 2) * sizeof *words);
    if (words == NULL) {
        return PyErr_NoMemory();
    }
    modes_as_words(words);
    PyObject *key = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        Tensor *t = (Tensor *)PyList_GetItem(tensors, i);
        if (!is_tensor((PyObject *)t)) {
            raise_text(TL_TYPE, "_signature(): expected tensors, got %R", (PyObject *)Py_TYPE((PyObject *)t));
            goto done;
        }
        if (t->layout == 0) {
            key = Py_NewRef(Py_None);
            goto done;
        }
        words[i + 2] = tensor_as_word(t);
    }
    key = PyBytes_FromStringAndSize((char *)words, (n + 2) * (Py_ssize_t)sizeof *words);
done:
    if (words != few) {
        PyMem_Free(words);
    }
    return key;
}

/* Whether all arguments of a call are different plain tensors that have this signature. handles gets theirs. */
static bool fits(PyObject *args, PyObject *layouts, uint64_t *handles) {
    Py_ssize_t n = PyTuple_Size(args);
    uint64_t words[FEW + 2];
    if (n > FEW || PyBytes_Size(layouts) != (n + 2) * (Py_ssize_t)sizeof *words) {
        return false;
    }
    modes_as_words(words);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *arg = PyTuple_GetItem(args, i);
        if (Py_TYPE(arg) != TensorType || ((Tensor *)arg)->layout == 0) {
            return false;
        }
        for (Py_ssize_t k = 0; k < i; k++) {
            if (PyTuple_GetItem(args, k) == arg) {
                return false;
            }
        }
        words[i + 2] = tensor_as_word((Tensor *)arg);
        handles[i] = ((Tensor *)arg)->handle;
    }
    return memcmp(words, PyBytes_AsString(layouts), (size_t)PyBytes_Size(layouts)) == 0;
}

static int64_t number_in(PyObject *last, int part) { return PyLong_AsLongLong(PyTuple_GetItem(last, part)); }

/* Records the program of the last call. None where it does not fit. */
static PyObject *recorded(PyObject *last, const uint64_t *handles, int32_t n) {
    uint64_t id = PyLong_AsUnsignedLongLong(PyTuple_GetItem(last, NUMBER));
    int32_t max = (int32_t)number_in(last, RESULTS), count = 0;
    uint8_t api = number_in(last, TORCH) ? TL_API_TORCH : TL_API_CORE;
    tl_out few[FEW], *outs = max <= FEW ? few : PyMem_Malloc((size_t)max * sizeof *outs);
    if (outs == NULL) {
        return PyErr_NoMemory();
    }
    double none = 0;
    int32_t status = tl_captured_call(id, handles, n, &none, 0, call_source_loc(), outs, max, &count);
    PyObject *r = NULL;
    if (status == TL_HANDLE || (status == TL_OK && count < 0)) { /* the engine was reset; other gradients or aliases */
        r = Py_NewRef(Py_None);
    } else if (check_status(status) == 0) {
        r = number_in(last, SINGLE) ? tensor_wrap(&outs[0], api) : wrapped_list(outs, count, api);
    }
    if (outs != few) {
        PyMem_Free(outs);
    }
    return r;
}

/* _captured_again(last, args): what the program of the last call returns: a tensor, or a list of what it makes. None
 * where that program does not serve a call with these arguments: then all is looked at. */
static PyObject *py_captured_again(PyObject *self, PyObject *const *argv, Py_ssize_t given) {
    (void)self;
    PyObject *last = given == 2 ? argv[0] : NULL, *args = given == 2 ? argv[1] : NULL;
    if (last == NULL || !PyTuple_Check(last) || PyTuple_Size(last) != LAST || !PyTuple_Check(args)) {
        return raise_text(TL_TYPE, "_captured_again(): expected what is known of the last call, and arguments");
    }
    if (thread_here() < 0) {
        return NULL;
    }
    uint64_t handles[FEW];
    if (suspended > 0 || current.vmap_levels > 0 || current.packer != NULL ||
        !fits(args, PyTuple_GetItem(last, LAYOUTS), handles) || !unchanged(PyTuple_GetItem(last, WATCHED_BY))) {
        Py_RETURN_NONE;
    }
    int32_t n = (int32_t)PyTuple_Size(args);
    if (!number_in(last, MARK)) {
        return recorded(last, handles, n);
    }
    PyObject *before = compiled_entered(true, false);
    PyObject *r = before != NULL ? recorded(last, handles, n) : NULL;
    PyObject *inside = before != NULL ? compiled_left(before) : NULL;
    if (inside == NULL) {
        Py_CLEAR(r);
    }
    Py_XDECREF(inside);
    Py_XDECREF(before);
    return r;
}

/* _suspend_captured(delta): one more, or one less, reason to look at more than the last call. */
static PyObject *py_suspend_captured(PyObject *self, PyObject *delta) {
    (void)self;
    long n = PyLong_AsLong(delta);
    if (PyErr_Occurred()) {
        return NULL;
    }
    suspended += (int)n;
    Py_RETURN_NONE;
}

PyMethodDef guard_functions[] = {
    {"_holds", py_holds, METH_VARARGS, "Whether entries of tables are these objects."},
    {"_lengths", py_lengths, METH_O, "How many items each of a list of containers has."},
    {"_watched", WITH_KEYWORDS(py_watched), KEYWORDS, "What a captured function reaches, for _unchanged."},
    {"_last_call", WITH_KEYWORDS(py_last_call), KEYWORDS, "What is known of a call, for _captured_again."},
    {"_unchanged", py_unchanged, METH_O, "Whether what a captured function reaches is unchanged."},
    {"_signature", py_signature, METH_O, "What a captured function depends on of a list of tensors, and the modes."},
    {"_captured_again", WITH_KEYWORDS(py_captured_again), METH_FASTCALL,
        "Call a captured function by the program of its last call, where that serves."},
    {"_suspend_captured", py_suspend_captured, METH_O, "Add to the reasons to look at more than the last call."},
    {0},
};
