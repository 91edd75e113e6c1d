/* torch.device. Number 0 is the CPU, TL_META is "meta", n + 1 is "wgpu:n", which torchlette.torch calls "cuda:n" where
 * torch.cuda is available. */
#include "device.h"

#include "cpython.h"
#include "errors.h"
#include "hash.h"
#include "source_loc.h"
#include "torchlette.h"

PyTypeObject *DeviceType;

typedef struct {
    PyObject_HEAD
    uint8_t id;
    const char *name; /* one of other_names, whose number id does not have; NULL for "cpu" and "wgpu" */
    long index;       /* -1: not given */
} Device;

/* PyTorch's devices that can always be named and compared. A tensor can be on the first, where it is available, and on
 * the second. */
static const char *const other_names[] = {"cuda", "meta", "mps", "xpu"};
#define CUDA other_names[0]
#define META other_names[1]

static struct {
    int devices;    /* how many GPUs torch.cuda has; -1: not asked yet */
    int named;      /* whether TORCHLETTE_DEVICE names the default device; -1: not asked yet */
    long index;     /* the index of "cuda" without one */
} cuda = {.devices = -1, .named = -1};

/* Asks torchlette._runtime.gpus once. */
static int asked(int *answer, const char *function) {
    if (*answer < 0) {
        PyObject *module = PyImport_ImportModule("torchlette._runtime.gpus");
        PyObject *n = module != NULL ? PyObject_CallMethod(module, function, NULL) : NULL;
        long v = n != NULL ? PyLong_AsLong(n) : -1;
        Py_XDECREF(n);
        Py_XDECREF(module);
        if (v < 0) {
            return -1;
        }
        *answer = (int)v;
    }
    return *answer;
}

/* How many GPUs torch.cuda has; -1: an error. */
static int cuda_devices(void) {
    int n = asked(&cuda.devices, "cuda_count");
    if (n > 0) {
        errors_call_gpus_cuda();
    }
    return n;
}

int device_in_environment(void) { return asked(&cuda.named, "default_is_named"); }

int device_is_cuda(uint8_t id, uint8_t api) {
    if (id == TL_CPU || id == TL_META || (api & TL_API_TORCH) == 0) {
        return 0;
    }
    int n = cuda_devices();
    return n < 0 ? -1 : id <= n;
}

PyObject *device_object(uint8_t id) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(DeviceType, Py_tp_alloc);
    Device *d = (Device *)alloc(DeviceType, 0);
    if (d != NULL) {
        d->id = id;
        d->name = id == TL_META ? META : NULL;
        d->index = id == TL_CPU || id == TL_META ? -1 : id - 1;
    }
    return (PyObject *)d;
}

PyObject *device_called(uint8_t id, uint8_t api) {
    int is_cuda = device_is_cuda(id, api);
    Device *d = is_cuda < 0 ? NULL : (Device *)device_object(id);
    if (d != NULL && is_cuda) {
        d->name = CUDA;
    }
    return (PyObject *)d;
}

static int device_unusable(const char *type) {
    raise_text(TL_RUNTIME,
        "Expected one of cpu, wgpu device type at start of device string: %s: the GPU is the device 'wgpu'", type);
    return -1;
}

static int device_number(const char *type, long index, uint8_t *id) {
    if (strcmp(type, "cpu") == 0) {
        if (index > 0) {
            raise_text(TL_RUNTIME, "CPU device index must be -1 or zero, got %ld", index);
            return -1;
        }
        *id = TL_CPU;
        return 1;
    }
    if (strcmp(type, "wgpu") == 0) {
        if (index > TL_META - 2) {
            raise_text(TL_RUNTIME, "Device index must be at most %d, got %ld", TL_META - 2, index);
            return -1;
        }
        *id = (uint8_t)((index < 0 ? 0 : index) + 1);
        return 1;
    }
    if (strcmp(type, META) == 0) {
        *id = TL_META;
        return 1;
    }
    if (strcmp(type, CUDA) == 0) {
        int n = cuda_devices();
        if (n > 0 && index >= n) {
            raise_text(TL_RUNTIME, "CUDA error: invalid device ordinal: got cuda:%ld, want less than %d", index, n);
            return -1;
        }
        if (n != 0) {
            *id = (uint8_t)((index < 0 ? cuda.index : index) + 1);
            return n < 0 ? -1 : 1;
        }
    }
    return device_unusable(type);
}

/* The device object of a type and an index (-1: none), also for devices that no tensor can be on. */
static PyObject *device_named(const char *type, long index) {
    uint8_t id = TL_CPU;
    const char *name = NULL;
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        name = strcmp(type, other_names[i]) == 0 ? other_names[i] : name;
    }
    if (name == NULL && device_number(type, index, &id) < 0) {
        return NULL;
    }
    Device *d = (Device *)device_object(id);
    if (d != NULL && name != NULL) {
        d->name = name;
        d->index = index;
    }
    return (PyObject *)d;
}

/* Splits "type" or "type:index". *index is -1 where there is none. */
static int device_parse(PyObject *text, char type[32], long *index) {
    Py_ssize_t n;
    const char *s = PyUnicode_AsUTF8AndSize(text, &n);
    if (s == NULL) {
        return -1;
    }
    const char *colon = strchr(s, ':');
    size_t head = colon != NULL ? (size_t)(colon - s) : (size_t)n;
    if (head == 0 || head >= 32) {
        raise_text(TL_RUNTIME, "Invalid device string: '%s'", s);
        return -1;
    }
    memcpy(type, s, head);
    type[head] = 0;
    *index = -1;
    if (colon != NULL) {
        char *end;
        *index = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end != 0 || *index < 0 || colon[1] < '0' || colon[1] > '9') {
            raise_text(TL_RUNTIME, "Invalid device string: '%s'", s);
            return -1;
        }
    }
    return 0;
}

int device_from(PyObject *o, uint8_t *id) {
    if (Py_TYPE(o) == DeviceType) {
        const Device *d = (Device *)o;
        *id = d->id;
        return d->name != NULL ? device_number(d->name, d->index, id) : 1;
    }
    if (PyUnicode_Check(o)) {
        char type[32];
        long index;
        return device_parse(o, type, &index) < 0 ? -1 : device_number(type, index, id);
    }
    if (PyLong_Check(o) && !PyBool_Check(o)) {
        long v = PyLong_AsLong(o);
        if (v == -1 && PyErr_Occurred()) {
            return -1;
        }
        return device_number("wgpu", v, id);
    }
    return 0;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)type;
    static char *names[] = {"type", "index", NULL};
    PyObject *what;
    PyObject *index = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", names, &what, &index)) {
        return NULL;
    }
    uint8_t id;
    if (index != Py_None) {
        Py_ssize_t n;
        const char *s = PyUnicode_Check(what) ? PyUnicode_AsUTF8AndSize(what, &n) : NULL;
        if (s == NULL) {
            return PyErr_Occurred() ? NULL : raise_text(TL_TYPE, "device(): argument 'type' must be str");
        }
        if (strchr(s, ':') != NULL) {
            return raise_text(
                TL_RUNTIME, "type (string) must not include an index because index was passed explicitly: %s", s);
        }
        long v = PyLong_AsLong(index);
        if (v == -1 && PyErr_Occurred()) {
            return NULL;
        }
        if (v < 0) {
            return raise_text(TL_RUNTIME, "Device index must not be negative");
        }
        return device_named(s, v);
    }
    if (PyUnicode_Check(what)) {
        char kind[32];
        long number;
        return device_parse(what, kind, &number) < 0 ? NULL : device_named(kind, number);
    }
    if (Py_TYPE(what) == DeviceType) {
        return Py_NewRef(what);
    }
    switch (device_from(what, &id)) {
    case 1:
        return device_called(id, caller_in_facade() ? TL_API_TORCH : TL_API_CORE);
    case 0:
        raise_text(TL_TYPE, "device(): argument 'type' must be str, int or device");
    }
    return NULL;
}

static const char *device_type(PyObject *self) {
    const Device *d = (Device *)self;
    return d->name != NULL ? d->name : d->id == TL_CPU ? "cpu" : "wgpu";
}

static PyObject *device_text(PyObject *self, bool repr) {
    long index = ((Device *)self)->index;
    if (index < 0) {
        return PyUnicode_FromFormat(repr ? "device(type='%s')" : "%s", device_type(self));
    }
    return PyUnicode_FromFormat(repr ? "device(type='%s', index=%ld)" : "%s:%ld", device_type(self), index);
}

static PyObject *device_repr(PyObject *self) { return device_text(self, true); }
static PyObject *device_str(PyObject *self) { return device_text(self, false); }

static PyObject *device_get_type(PyObject *self, void *closure) {
    (void)closure;
    return PyUnicode_FromString(device_type(self));
}

static PyObject *device_get_index(PyObject *self, void *closure) {
    (void)closure;
    long index = ((Device *)self)->index;
    return index < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(index);
}

/* What the device is: "cuda:0" and "wgpu:0" are one GPU. */
static const char *device_kind(const Device *d) {
    return d->name != NULL ? d->name : d->id == TL_CPU ? "cpu" : CUDA;
}

static PyObject *device_richcompare(PyObject *a, PyObject *b, int op) {
    if (Py_TYPE(b) != DeviceType || (op != Py_EQ && op != Py_NE)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    const Device *x = (Device *)a, *y = (Device *)b;
    return PyBool_FromLong((x->index == y->index && device_kind(x) == device_kind(y)) == (op == Py_EQ));
}

static Py_hash_t device_hash(PyObject *self) {
    return (Py_hash_t)(hash_text(device_kind((Device *)self)) >> 1) + ((Device *)self)->index;
}

static PyObject *device_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_BuildValue("(O(N))", (PyObject *)DeviceType, device_str(self));
}

static PyGetSetDef device_getset[] = {
    {"type", device_get_type, NULL, "\"cpu\" or \"wgpu\"; \"cuda\" for a GPU under torchlette.torch.", NULL},
    {"index", device_get_index, NULL, "Number of the adapter; None for the CPU.", NULL},
    {0},
};

static PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot device_slots[] = {
    {Py_tp_doc, "device(type, index=None)\n--\n\nWhere a tensor lives: \"cpu\" or \"wgpu:0\"."},
    {Py_tp_new, device_new},
    {Py_tp_repr, device_repr},
    {Py_tp_str, device_str},
    {Py_tp_getset, device_getset},
    {Py_tp_methods, device_methods},
    {Py_tp_richcompare, device_richcompare},
    {Py_tp_hash, device_hash},
    {Py_tp_dealloc, plain_dealloc},
    {0},
};

static PyObject *py_set_cuda_device(PyObject *self, PyObject *index) {
    (void)self;
    long old = cuda.index, v = PyLong_AsLong(index);
    if (v == -1 && PyErr_Occurred()) {
        return NULL;
    }
    cuda.index = v < 0 ? old : v;
    return PyLong_FromLong(old);
}

PyMethodDef device_functions[] = {
    {"_set_cuda_device", py_set_cuda_device, METH_O,
        "Set the index of \"cuda\" without one; gives the old one. -1 changes nothing."},
    {0},
};

static PyType_Spec device_spec = {
    .name = "torchlette.device",
    .basicsize = sizeof(Device),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = device_slots,
};

int device_type_init(PyObject *module) {
    DeviceType = (PyTypeObject *)PyType_FromSpec(&device_spec);
    return DeviceType != NULL ? PyModule_AddObjectRef(module, "device", (PyObject *)DeviceType) : -1;
}
