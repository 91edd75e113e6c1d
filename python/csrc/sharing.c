#include "sharing.h"

#include "cpython.h"
#include "process.h"
#include "torchlette.h"
#include "wait.h"

static const char OWNER[] = "torchlette.memory";

static void end_export(PyObject *capsule) {
    exported *x = PyCapsule_GetPointer(capsule, OWNER);
    tl_release_export(x->export_id);
    PyMem_Free(x->block);
    PyMem_Free(x);
}

exported *exported_new(void) { return PyMem_Calloc(1, sizeof(exported)); }

PyObject *exported_owner(exported *x) {
    PyObject *capsule = PyCapsule_New(x, OWNER, end_export);
    if (capsule == NULL) {
        tl_release_export(x->export_id);
        PyMem_Free(x->block);
        PyMem_Free(x);
    }
    return capsule;
}

static uint64_t export_of(PyObject *capsule) {
    return PyCapsule_IsValid(capsule, OWNER) ? ((exported *)PyCapsule_GetPointer(capsule, OWNER))->export_id : 0;
}

bool is_array(PyObject *o) {
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *numpy = modules != NULL ? PyDict_GetItemString(modules, "numpy") : NULL;
    PyObject *type = numpy != NULL ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    int is = type != NULL ? PyObject_IsInstance(o, type) : 0;
    Py_XDECREF(type);
    PyErr_Clear();
    return is > 0;
}

/* Imports whose memory may be no one else's some day. */
static struct {
    import **list;
    Py_ssize_t n, room, next;
} watched;

static void unwatch(import *i) {
    if (i->place >= 0) {
        import *last = watched.list[--watched.n];
        watched.list[i->place] = last;
        last->place = i->place;
        i->place = -1;
    }
}

void import_watch(import *i) {
    if (watched.n == watched.room) {
        Py_ssize_t room = 2 * watched.room + 16;
        import **list = PyMem_Realloc(watched.list, (size_t)room * sizeof *list);
        if (list == NULL) {
            return;
        }
        watched.list = list;
        watched.room = room;
    }
    i->place = watched.n;
    watched.list[watched.n++] = i;
}

static bool no_weak_references(PyObject *array) {
    PyObject *module = PyImport_ImportModule("weakref");
    PyObject *count = module != NULL ? PyObject_CallMethod(module, "getweakrefcount", "O", array) : NULL;
    bool none = count != NULL && PyLong_AsLong(count) == 0;
    Py_XDECREF(module);
    Py_XDECREF(count);
    return none;
}

/* Whether nobody can write to the memory of a buffer's owner but through the references that the caller counts. */
static bool alone(PyObject *o, Py_ssize_t references) {
    if (PyBytes_CheckExact(o)) {
        return true;
    }
    if (Py_REFCNT(o) != references) {
        return false;
    }
    if (Py_TYPE(o) == &PyByteArray_Type) {
        return true;
    }
    if (PyCapsule_CheckExact(o)) {
        int32_t sole = 0;
        uint64_t export_id = export_of(o);
        return export_id != 0 && tl_sole(export_id, &sole) == TL_OK && sole;
    }
    bool view = Py_TYPE(o) == &PyMemoryView_Type;
    if (!view && (!is_array(o) || !no_weak_references(o))) {
        return false;
    }
    PyObject *base = PyObject_GetAttrString(o, view ? "obj" : "base");
    bool own = base != NULL && (base == Py_None || alone(base, 2));
    Py_XDECREF(base);
    return own;
}

/* Looks at some of the arrays in turn. One that only its tensor holds is made private: calls on it can be deferred. */
static void look_around(void) {
    enum { LOOKS = 4 };
    for (int k = 0; k < LOOKS && watched.n > 0; k++) {
        import *i = watched.list[watched.next++ % watched.n];
        if (alone(i->view.obj, 1)) {
            unwatch(i);
            tl_private(i->export_id);
        }
        PyErr_Clear();
    }
}

static void release_owners(void) {
    uint64_t owners[16];
    int32_t n = 0;
    do {
        if (tl_owners(owners, 16, &n) != TL_OK) {
            return;
        }
        for (int32_t k = 0; k < n; k++) {
            import *i = (import *)(uintptr_t)owners[k];
            unwatch(i);
            PyBuffer_Release(&i->view); /* may run Python code */
            PyMem_Free(i);
        }
    } while (n == 16);
}

int32_t sharing_settle(int32_t status) {
    int32_t due = __atomic_load_n(&process.engine->due, __ATOMIC_RELAXED);
    if ((due & TL_DUE_SHARED) != 0) {
        int32_t settled;
        SLICED(settled, tl_flush_within(1, TL_SLICE_NS));
        status = status == TL_OK ? settled : status;
    }
    if ((due & TL_DUE_OWNERS) != 0 && !PyErr_Occurred()) {
        release_owners();
    }
    if (watched.n > 0 && !PyErr_Occurred()) {
        look_around();
    }
    return status;
}

