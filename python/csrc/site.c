/* Call sites: which line of Python recorded an operator.
 *
 * A site is found by (code object, offset of the running instruction) in a
 * direct-mapped cache; file, function and line are looked up on a miss only.
 * PyFrame_GetLasti is public since Python 3.11 but not in the limited API, so
 * it is taken from the process if it is there; else the attribute f_lasti says
 * the same, more slowly. */
#include "core.h"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

enum { CACHE_SIZE = 4096 };

typedef int (*lasti_fn)(PyFrameObject *);

static struct {
    PyObject *code; /* owned, so that the address is not used again */
    int lasti;
    uint32_t site;
} cache[CACHE_SIZE];

static lasti_fn get_lasti;
static bool looked_up;
static PyObject *name_lasti;

static lasti_fn find_lasti(void) {
#if defined(_WIN32)
    return NULL;
#else
    /* POSIX gives functions as data pointers; ISO C has no cast for it. */
    lasti_fn fn = NULL;
    void *p = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
    memcpy(&fn, &p, sizeof fn);
    return fn;
#endif
}

static int frame_lasti(PyFrameObject *frame) {
    if (get_lasti != NULL) {
        return get_lasti(frame);
    }
    if (!looked_up) {
        looked_up = true;
        get_lasti = find_lasti();
        name_lasti = PyUnicode_InternFromString("f_lasti");
        return frame_lasti(frame);
    }
    PyObject *v = PyObject_GetAttr((PyObject *)frame, name_lasti);
    int lasti = v != NULL ? (int)PyLong_AsLong(v) : -1;
    Py_XDECREF(v);
    if (PyErr_Occurred()) {
        PyErr_Clear();
    }
    return lasti;
}

static const char *attribute_text(PyObject *o, const char *name, PyObject **keep) {
    *keep = PyObject_GetAttrString(o, name);
    const char *s = *keep != NULL && PyUnicode_Check(*keep) ? PyUnicode_AsUTF8AndSize(*keep, NULL) : NULL;
    if (s == NULL) {
        PyErr_Clear();
        return "?";
    }
    return s;
}

static uint32_t intern(PyFrameObject *frame, PyObject *code) {
    PyObject *file, *function;
    const char *f = attribute_text(code, "co_filename", &file);
    const char *q = attribute_text(code, "co_qualname", &function);
    uint32_t site = tl_site(f, q, PyFrame_GetLineNumber(frame));
    Py_XDECREF(file);
    Py_XDECREF(function);
    return site;
}

uint32_t call_site(void) {
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    if (frame == NULL) {
        return 0;
    }
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    int lasti = frame_lasti(frame);
    size_t slot = (((uintptr_t)code >> 5) ^ (size_t)lasti * 0x9E37u) % CACHE_SIZE;
    if (cache[slot].code != code || cache[slot].lasti != lasti) {
        uint32_t site = intern(frame, code);
        PyObject *old = cache[slot].code;
        cache[slot].code = Py_NewRef(code);
        cache[slot].lasti = lasti;
        cache[slot].site = site;
        Py_XDECREF(old);
    }
    uint32_t site = cache[slot].site;
    Py_DECREF(code);
    return site;
}

/* The policy of coercion is lexical: PyTorch's rules hold for tensors made through
 * torchlette.torch, and in code whose module imported it. */
bool globals_in_facade(PyObject *globals) {
    static const char facade[] = "torchlette.torch";
    PyObject *key, *value;
    Py_ssize_t at = 0;
    bool found = false;
    while (!found && PyDict_Next(globals, &at, &key, &value)) {
        if (!PyModule_Check(value)) {
            continue;
        }
        PyObject *name = PyModule_GetNameObject(value);
        const char *s = name != NULL ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        found = s != NULL && strncmp(s, facade, sizeof facade - 1) == 0 && (s[sizeof facade - 1] == 0 || s[sizeof facade - 1] == '.');
        Py_XDECREF(name);
    }
    PyErr_Clear();
    return found;
}

bool site_in_facade(void) {
    PyObject *globals = PyEval_GetGlobals(); /* borrowed */
    return globals != NULL && globals_in_facade(globals);
}
