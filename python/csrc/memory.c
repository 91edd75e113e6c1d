#include "memory.h"

#include "buffer.h"
#include "cpython.h"
#include "errors.h"
#include "flush.h"
#include "modes.h"
#include "process.h"
#include "source_loc.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "turn.h"
#include "types.h"
#include "wait.h"

int memory_share(Tensor *t, bool pin, shared_memory *m) {
    tl_meta meta;
    if (turn_take(t->api) < 0) {
        return -1;
    }
    int32_t status = TL_RAISED;
    if (read_allowed() == 0 && drop_flush() == 0) {
        SLICED(status, tl_realize(&t->handle, 1, TL_SLICE_NS));
        status = status == TL_OK ? tl_export_buffer(t->handle, pin, &m->data, &m->export_id) : status;
        status = status == TL_OK ? tl_meta_of(t->handle, &meta) : status;
    }
    turn_give();
    if (check_status(status) < 0) {
        return -1;
    }
    memcpy(m->stride, meta.stride, sizeof m->stride);
    return 0;
}

/* _data_ptr(tensor): the address of the first element, for as long as the storage lives. */
PyObject *py_data_ptr(PyObject *self, PyObject *tensor) {
    (void)self;
    shared_memory m;
    if (!is_tensor(tensor)) {
        return raise_text(TL_TYPE, "_data_ptr(): expected a tensor, not %R", (PyObject *)Py_TYPE(tensor));
    }
    return memory_share((Tensor *)tensor, true, &m) < 0 ? NULL : PyLong_FromVoidPtr(m.data);
}

/* A buffer whose memory is a tensor's. */
typedef struct {
    Py_buffer view;
    uint64_t export_id;
    Py_ssize_t place; /* in watched.list; -1: not there */
} import;

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

/* Without memory for the list, the array stays shared. */
static void watch(import *i) {
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
        uint64_t export_id = buffer_export(o);
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

int32_t memory_settle(int32_t status) {
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

PyObject *memory_tensor(Py_buffer *v, void *first, uint8_t dtype, int rank, const int64_t *shape,
    const int64_t *stride, uint8_t api) {
    import *i = PyMem_Malloc(sizeof *i);
    if (i == NULL) {
        PyBuffer_Release(v);
        return PyErr_NoMemory();
    }
    *i = (import){.view = *v, .place = -1};
    tl_out out;
    int32_t status = tl_from_memory(dtype, rank, shape, stride, first, v->readonly ? TL_READ_ONLY : 0,
        (uint64_t)(uintptr_t)i, call_source_loc(), &out, &i->export_id);
    if (status != TL_OK) {
        PyBuffer_Release(&i->view);
        PyMem_Free(i);
        return raise_status(status);
    }
    watch(i);
    return tensor_wrap(&out, api == TL_API_CORE ? creation_api() : api);
}

bool is_array(PyObject *o) {
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *numpy = modules != NULL ? PyDict_GetItemString(modules, "numpy") : NULL;
    PyObject *type = numpy != NULL ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    int is = type != NULL ? PyObject_IsInstance(o, type) : 0;
    Py_XDECREF(type);
    if (is < 0 || (type == NULL && numpy != NULL)) {
        PyErr_Clear();
    }
    return is > 0;
}

/* The elements' strides of a buffer. 0: the buffer cannot be a tensor's memory; -1: an error. */
static int element_strides(const Py_buffer *v, int64_t *stride) {
    for (int k = 0; k < v->ndim; k++) {
        Py_ssize_t bytes = v->strides[k];
        if (v->shape[k] > 1 && bytes < 0) {
            return set_error(TL_VALUE, "At least one stride in the given numpy array is negative, and tensors with negative "
                "strides are not currently supported. (You can probably work around this by making a copy of your array  "
                "with array.copy().) ");
        }
        if (v->shape[k] > 1 && bytes % v->itemsize != 0) {
            return set_error(TL_VALUE, "given numpy array strides not a multiple of the element byte size. Copy the numpy "
                "array to reallocate the memory.");
        }
        stride[k] = v->shape[k] > 1 ? bytes / v->itemsize : 1;
    }
    return (uintptr_t)v->buf % (uintptr_t)v->itemsize == 0;
}

static int warn_read_only(void) {
    static bool warned;
    if (warned) {
        return 0;
    }
    warned = true;
    return PyErr_WarnEx(PyExc_UserWarning, "The given NumPy array is not writable, and PyTorch does not support "
        "non-writable tensors. This means writing to this tensor will result in undefined behavior. You may want to copy "
        "the array to protect its data or make it writable before converting it to a tensor. This type of warning will be "
        "suppressed for the rest of this program.", 1);
}

PyObject *array_tensor(PyObject *array, int wanted, uint8_t api) {
    Py_buffer v;
    int64_t shape[TL_MAX_RANK], stride[TL_MAX_RANK];
    if (PyObject_GetBuffer(array, &v, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return NULL;
    }
    uint8_t dtype = v.ndim <= TL_MAX_RANK ? buffer_dtype(&v) : 0;
    int fits = dtype != 0 && (wanted < 0 || wanted == dtype) ? element_strides(&v, stride) : 0;
    if (fits <= 0 || (v.readonly && warn_read_only() < 0)) {
        PyBuffer_Release(&v);
        return NULL;
    }
    for (int k = 0; k < v.ndim; k++) {
        shape[k] = (int64_t)v.shape[k];
    }
    return memory_tensor(&v, v.buf, dtype, v.ndim, shape, stride, api);
}

/* _address(buffer): where a buffer's memory is. */
PyObject *py_address(PyObject *self, PyObject *buffer) {
    (void)self;
    Py_buffer v;
    if (PyObject_GetBuffer(buffer, &v, PyBUF_STRIDED_RO) < 0) {
        return NULL;
    }
    PyObject *r = PyLong_FromVoidPtr(v.buf);
    PyBuffer_Release(&v);
    return r;
}

/* _from_memory(buffer, dtype, shape, stride, offset): a tensor over the bytes of a buffer from offset on. stride None:
 * dense. */
PyObject *py_from_memory(PyObject *self, PyObject *args) {
    PyObject *buffer, *type, *sizes, *steps;
    Py_ssize_t offset;
    if (!PyArg_ParseTuple(args, "OOO!On:_from_memory", &buffer, &type, (PyObject *)&PyTuple_Type, &sizes, &steps, &offset)) {
        return NULL;
    }
    uint8_t dtype;
    int64_t shape[TL_MAX_RANK], stride[TL_MAX_RANK], last = 0, numel = 1;
    Py_ssize_t rank = PyTuple_Size(sizes);
    bool dense = steps == Py_None;
    if (dtype_from(type, &dtype) != 1 || rank > TL_MAX_RANK || (!dense && PyTuple_Size(steps) != rank)) {
        return PyErr_Occurred() ? NULL : raise_text(TL_VALUE, "_from_memory(): expected a dtype, sizes and strides");
    }
    for (Py_ssize_t k = rank - 1; k >= 0; k--) {
        shape[k] = PyLong_AsLongLong(PyTuple_GetItem(sizes, k));
        stride[k] = dense ? numel : PyLong_AsLongLong(PyTuple_GetItem(steps, k));
        if (PyErr_Occurred()) {
            return NULL;
        }
        last += (shape[k] - 1) * stride[k];
        numel *= shape[k];
    }
    Py_buffer v;
    if (PyObject_GetBuffer(buffer, &v, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int64_t size = (int64_t)dtype_size(dtype);
    char *first = (char *)v.buf + offset;
    if (offset < 0 || (numel > 0 && (Py_ssize_t)((last + 1) * size) > v.len - offset) ||
        (uintptr_t)first % (uintptr_t)size != 0) {
        PyBuffer_Release(&v);
        return raise_text(TL_VALUE, "_from_memory(): expected aligned elements inside of the buffer");
    }
    return memory_tensor(
        &v, first, dtype, (int)rank, shape, stride, self == Py_True ? TL_API_TORCH : TL_API_CORE);
}
