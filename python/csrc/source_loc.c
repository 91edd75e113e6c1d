/* A direct-mapped cache finds a location by code object and offset of the running instruction. Only a miss looks up
 * file, function and line. PyFrame_GetLasti and PyFrame_GetBack are public, but not in the limited API. They are taken
 * from the process where it has them; else the attributes f_lasti and f_back give the same, more slowly. */
#include "source_loc.h"

#include "cpython.h"
#include "hash.h"
#include "torchlette.h"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif
enum { CACHE_SIZE = 4096 };
typedef int (*lasti_fn)(PyFrameObject *);
typedef PyFrameObject *(*back_fn)(PyFrameObject *);

static struct {
    PyObject *code; /* owned, so that its address is not reused */
    int lasti;
    uint32_t source_loc; /* INTERNAL for code of this package */
    int8_t facade;       /* whether its module imported torchlette.torch; -1: not known yet */
} cache[CACHE_SIZE];

/* Code below this folder is the package's own. Its location is the line outside that called it. */
static char package[4096];

static size_t package_len;
#define INTERNAL UINT32_MAX
static lasti_fn get_lasti;
static back_fn get_back;
static bool looked_up;
static PyObject *name_lasti, *name_back;

/* Finds the functions that the limited API leaves out, where the process has them. */
static void look_up(void) {
    looked_up = true;
#if !defined(_WIN32)
    /* dlsym gives functions as data pointers, which ISO C cannot cast. */
    void *p = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
    memcpy(&get_lasti, &p, sizeof get_lasti);
    p = dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
    memcpy(&get_back, &p, sizeof get_back);
#endif
    name_lasti = PyUnicode_InternFromString("f_lasti");
    name_back = PyUnicode_InternFromString("f_back");
}

/* A new reference to the caller's frame, NULL at the outermost. */
static PyFrameObject *frame_back(PyFrameObject *frame) {
    if (get_back != NULL) {
        return get_back(frame);
    }
    PyObject *v = PyObject_GetAttr((PyObject *)frame, name_back);
    if (v == NULL || v == Py_None) {
        PyErr_Clear();
        Py_XDECREF(v);
        return NULL;
    }
    return (PyFrameObject *)v;
}

static int frame_lasti(PyFrameObject *frame) {
    if (get_lasti != NULL) {
        return get_lasti(frame);
    }
    if (!looked_up) {
        look_up();
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
    bool own = package_len > 0 && strncmp(f, package, package_len) == 0;
    uint32_t source_loc = own ? INTERNAL : tl_site(f, q, PyFrame_GetLineNumber(frame));
    Py_XDECREF(file);
    Py_XDECREF(function);
    return source_loc;
}

/* The cache entry of the instruction at which a frame is. */
static size_t frame_slot(PyFrameObject *frame) {
    PyObject *code = (PyObject *)PyFrame_GetCode(frame);
    int lasti = frame_lasti(frame);
    size_t slot = hash_place(code, lasti) % CACHE_SIZE;
    if (cache[slot].code != code || cache[slot].lasti != lasti) {
        uint32_t source_loc = intern(frame, code);
        PyObject *old = cache[slot].code;
        cache[slot].code = Py_NewRef(code);
        cache[slot].lasti = lasti;
        cache[slot].source_loc = source_loc;
        cache[slot].facade = -1;
        Py_XDECREF(old);
    }
    Py_DECREF(code);
    return slot;
}

static uint32_t frame_site(PyFrameObject *frame) { return cache[frame_slot(frame)].source_loc; }

/* The first frame of code outside of the package, as a new reference; NULL when there is none. *source_loc is its
 * location. */
static PyFrameObject *outer_frame(PyFrameObject *frame, uint32_t *source_loc) {
    frame = frame_back(frame);
    while (frame != NULL && (*source_loc = frame_site(frame)) == INTERNAL) {
        PyFrameObject *back = frame_back(frame);
        Py_DECREF((PyObject *)frame);
        frame = back;
    }
    return frame;
}

uint32_t call_source_loc(void) {
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    if (frame == NULL) {
        return 0;
    }
    uint32_t source_loc = frame_site(frame);
    if (source_loc != INTERNAL) {
        return source_loc;
    }
    Py_XDECREF((PyObject *)outer_frame(frame, &source_loc));
    return source_loc == INTERNAL ? 0 : source_loc;
}

PyObject *set_package(PyObject *self, PyObject *folder) {
    (void)self;
    Py_ssize_t n;
    const char *s = PyUnicode_AsUTF8AndSize(folder, &n);
    if (s == NULL || (size_t)n >= sizeof package) {
        return s == NULL ? NULL
                         : PyErr_Format(PyExc_ValueError,
                               "_set_package(): expected a path of less than %zu bytes, got %zd", sizeof package, n);
    }
    memcpy(package, s, (size_t)n + 1);
    package_len = (size_t)n;
    Py_RETURN_NONE;
}

static bool everywhere;

PyObject *py_set_facade_everywhere(PyObject *self, PyObject *on) {
    (void)self;
    int truth = PyObject_IsTrue(on);
    if (truth < 0) {
        return NULL;
    }
    everywhere = truth != 0;
    Py_RETURN_NONE;
}

bool globals_in_facade(PyObject *globals) {
    if (everywhere) {
        return true;
    }
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
        found = s != NULL && strncmp(s, facade, sizeof facade - 1) == 0 &&
            (s[sizeof facade - 1] == 0 || s[sizeof facade - 1] == '.');
        Py_XDECREF(name);
    }
    PyErr_Clear();
    return found;
}

bool caller_in_facade(void) {
    PyObject *globals = PyEval_GetGlobals(); /* borrowed */
    return globals != NULL && globals_in_facade(globals);
}

uint8_t creation_api(void) {
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    uint32_t source_loc;
    if (frame == NULL || frame_site(frame) != INTERNAL || (frame = outer_frame(frame, &source_loc)) == NULL) {
        return TL_API_CORE;
    }
    size_t slot = frame_slot(frame);
    if (cache[slot].facade < 0) {
        PyObject *globals = PyObject_GetAttrString((PyObject *)frame, "f_globals");
        cache[slot].facade = globals != NULL && globals_in_facade(globals);
        Py_XDECREF(globals);
    }
    Py_DECREF((PyObject *)frame);
    return cache[slot].facade ? TL_API_TORCH : TL_API_CORE;
}
