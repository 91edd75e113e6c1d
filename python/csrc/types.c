#include "types.h"

#include "cpython.h"
#include "device.h"
#include "errors.h"
#include "torchlette.h"

PyTypeObject *DtypeType, *SizeType;

typedef struct {
    PyObject_HEAD
    uint8_t id;
} Dtype;

static PyObject *dtype_objects[TL_NUM_DTYPES];

static const struct {
    const char *name;
    const char *alias; /* PyTorch's second name; NULL when it has none */
    size_t size;
    enum dtype_kind kind;
    const char *format; /* of the struct module; NULL when it has none */
} dtypes[TL_NUM_DTYPES] = {
#include "dtypes.inc"
};

/* What to use in place of a dtype that no tensor here has. */
#define COMPLEX_ADVICE "use complex64"
#define FLOAT8_ADVICE "WebGPU stores no floats of 8 bits: use float16 or bfloat16"

/* PyTorch's dtypes that no tensor here has: programs name them in tables and comparisons. Their ids begin at
 * TL_NUM_DTYPES. */
static const struct {
    const char *name;
    const char *alias;
    size_t size;
    const char *advice;
} absent[] = {
    {"complex32", "chalf", 4, COMPLEX_ADVICE},
    {"float8_e4m3fn", NULL, 1, FLOAT8_ADVICE},
    {"float8_e4m3fnuz", NULL, 1, FLOAT8_ADVICE},
    {"float8_e5m2", NULL, 1, FLOAT8_ADVICE},
    {"float8_e5m2fnuz", NULL, 1, FLOAT8_ADVICE},
};

enum { NUM_ABSENT = sizeof absent / sizeof absent[0] };
static bool is_absent(uint8_t id) { return id >= TL_NUM_DTYPES; }

static bool is_absent_with(uint8_t id, const char *advice) {
    return is_absent(id) && absent[id - TL_NUM_DTYPES].advice == advice;
}

const char *dtype_name(uint8_t id) { return is_absent(id) ? absent[id - TL_NUM_DTYPES].name : dtypes[id].name; }
size_t dtype_size(uint8_t id) { return id < TL_NUM_DTYPES ? dtypes[id].size : 0; }
enum dtype_kind dtype_kind(uint8_t id) { return id < TL_NUM_DTYPES ? dtypes[id].kind : KIND_NONE; }
const char *dtype_format(uint8_t id) { return id < TL_NUM_DTYPES ? dtypes[id].format : NULL; }
bool dtype_is_float(uint8_t id) { return dtype_kind(id) == KIND_FLOAT || dtype_kind(id) == KIND_BRAIN; }
bool dtype_is_complex(uint8_t id) { return dtype_kind(id) == KIND_COMPLEX; }
bool dtype_has_gradients(uint8_t id) { return dtype_kind(id) >= KIND_FLOAT; }
bool dtype_is_int(uint8_t id) { return dtype_kind(id) == KIND_UINT || dtype_kind(id) == KIND_INT; }

PyObject *dtype_object(uint8_t id) {
    if (id == 0 || id >= TL_NUM_DTYPES) {
        return PyErr_Format(PyExc_SystemError, "BUG: dtype number %d", id);
    }
    return Py_NewRef(dtype_objects[id]);
}

int dtype_from(PyObject *o, uint8_t *id) {
    if (Py_TYPE(o) == DtypeType) {
        *id = ((Dtype *)o)->id;
        if (is_absent(*id)) {
            raise_text(TL_NOT_IMPLEMENTED, "no tensor has the dtype %R: %s", o, absent[*id - TL_NUM_DTYPES].advice);
            return -1;
        }
        return 1;
    }
    if (o == (PyObject *)&PyFloat_Type) {
        *id = TL_FLOAT64;
    } else if (o == (PyObject *)&PyLong_Type) {
        *id = TL_INT64;
    } else if (o == (PyObject *)&PyBool_Type) {
        *id = TL_BOOL;
    } else if (o == (PyObject *)&PyComplex_Type) {
        *id = TL_COMPLEX128;
    } else {
        return 0;
    }
    return 1;
}

static PyObject *dtype_repr(PyObject *self) {
    return PyUnicode_FromFormat("torch.%s", dtype_name(((Dtype *)self)->id));
}

static PyObject *dtype_get(PyObject *self, void *what) {
    uint8_t id = ((Dtype *)self)->id;
    switch ((char)(intptr_t)what) {
    case 'z':
        return PyLong_FromSize_t(is_absent(id) ? absent[id - TL_NUM_DTYPES].size : dtype_size(id));
    case 'f':
        return PyBool_FromLong(dtype_is_float(id) || is_absent_with(id, FLOAT8_ADVICE));
    case 'c':
        return PyBool_FromLong(dtype_is_complex(id) || is_absent_with(id, COMPLEX_ADVICE));
    case 's':
        return PyBool_FromLong(is_absent(id) || dtype_kind(id) >= KIND_INT);
    case 'i':
        return PyLong_FromLong(id);
    case 'n':
        return PyUnicode_FromString(dtype_name(id));
    }
    Py_UNREACHABLE();
}

static PyObject *dtype_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return PyUnicode_FromString(dtype_name(((Dtype *)self)->id));
}

static PyObject *dtype_copy(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

static PyGetSetDef dtype_getset[] = {
    {"itemsize", dtype_get, NULL, "Bytes of an element.", (void *)'z'},
    {"is_floating_point", dtype_get, NULL, "Whether it is a floating point type.", (void *)'f'},
    {"is_complex", dtype_get, NULL, "Whether it is a complex type.", (void *)'c'},
    {"is_signed", dtype_get, NULL, "Whether it has negative values.", (void *)'s'},
    {"_id", dtype_get, NULL, "Number in the C ABI.", (void *)'i'},
    {"_name", dtype_get, NULL, "Name without the module.", (void *)'n'},
    {0},
};

static PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, NULL},
    {"__copy__", dtype_copy, METH_NOARGS, NULL},
    {"__deepcopy__", dtype_copy, METH_O, NULL},
    {0},
};

static PyType_Slot dtype_slots[] = {
    {Py_tp_doc, "An element type."},
    {Py_tp_repr, dtype_repr},
    {Py_tp_getset, dtype_getset},
    {Py_tp_methods, dtype_methods},
    {Py_tp_dealloc, plain_dealloc},
    {0},
};

static PyType_Spec dtype_spec = {
    .name = "torchlette.dtype",
    .basicsize = sizeof(Dtype),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = dtype_slots,
};

PyObject *size_from(const int64_t *v, Py_ssize_t n) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(SizeType, Py_tp_alloc);
    PyObject *s = alloc(SizeType, n);
    if (s == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *d = PyLong_FromLongLong(v[i]);
        if (d == NULL || PyTuple_SetItem(s, i, d) < 0) {
            Py_DECREF(s);
            return NULL;
        }
    }
    return s;
}

static PyObject *size_repr(PyObject *self) {
    PyObject *list = PySequence_List(self);
    PyObject *text = list != NULL ? PyUnicode_FromFormat("torch.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}

static PyObject *size_numel(PyObject *self, PyObject *ignored) {
    (void)ignored;
    int64_t n = 1;
    for (Py_ssize_t i = 0; i < PyTuple_Size(self); i++) {
        n *= PyLong_AsLongLong(PyTuple_GetItem(self, i));
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(n);
}

/* Makes a Size of a tuple that a slot of tuple returned. Steals the reference. */
static PyObject *as_size(PyObject *plain) {
    if (plain == NULL || !PyTuple_Check(plain)) {
        return plain;
    }
    PyObject *s = PyObject_CallFunctionObjArgs((PyObject *)SizeType, plain, NULL);
    Py_DECREF(plain);
    return s;
}

static PyObject *size_subscript(PyObject *self, PyObject *key) {
    binaryfunc base = (binaryfunc)PyType_GetSlot(&PyTuple_Type, Py_mp_subscript);
    PyObject *item = base(self, key);
    return PySlice_Check(key) ? as_size(item) : item;
}

static PyObject *size_concat(PyObject *a, PyObject *b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    binaryfunc base = (binaryfunc)PyType_GetSlot(&PyTuple_Type, Py_sq_concat);
    return as_size(base(a, b));
}

static PyObject *size_repeat(PyObject *self, Py_ssize_t n) {
    ssizeargfunc base = (ssizeargfunc)PyType_GetSlot(&PyTuple_Type, Py_sq_repeat);
    return as_size(base(self, n));
}

static PyObject *size_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    PyObject *plain = PySequence_Tuple(self);
    PyObject *list = plain != NULL ? PySequence_List(self) : NULL;
    Py_XDECREF(plain);
    return list != NULL ? Py_BuildValue("(O(N))", (PyObject *)SizeType, list) : NULL;
}

static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "Product of the sizes."},
    {"__reduce__", size_reduce, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot size_slots[] = {
    {Py_tp_doc, "The shape of a tensor: a tuple of ints."},
    {Py_tp_repr, size_repr},
    {Py_tp_methods, size_methods},
    {Py_mp_subscript, size_subscript},
    {Py_sq_concat, size_concat},
    {Py_sq_repeat, size_repeat},
    {0},
};

static PyType_Spec size_spec = {
    .name = "torchlette.Size",
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = size_slots,
};

/* Makes the object of a dtype, and puts it into the module under its names. */
static PyObject *add_dtype(PyObject *module, uint8_t id, const char *name, const char *alias) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(DtypeType, Py_tp_alloc);
    Dtype *d = (Dtype *)alloc(DtypeType, 0);
    if (d == NULL) {
        return NULL;
    }
    d->id = id;
    if (PyModule_AddObjectRef(module, name, (PyObject *)d) < 0 ||
        (alias != NULL && PyModule_AddObjectRef(module, alias, (PyObject *)d) < 0)) {
        Py_DECREF(d);
        return NULL;
    }
    return (PyObject *)d;
}

static int add_dtypes(PyObject *module) {
    for (uint8_t id = 1; id < TL_NUM_DTYPES; id++) {
        dtype_objects[id] = add_dtype(module, id, dtypes[id].name, dtypes[id].alias);
        if (dtype_objects[id] == NULL) {
            return -1;
        }
    }
    for (uint8_t i = 0; i < NUM_ABSENT; i++) {
        PyObject *made = add_dtype(module, (uint8_t)(TL_NUM_DTYPES + i), absent[i].name, absent[i].alias);
        if (made == NULL) {
            return -1;
        }
        Py_DECREF(made); /* the module holds it */
    }
    return 0;
}

int types_init(PyObject *module) {
    DtypeType = (PyTypeObject *)PyType_FromSpec(&dtype_spec);
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&PyTuple_Type);
    SizeType = bases != NULL ? (PyTypeObject *)PyType_FromSpecWithBases(&size_spec, bases) : NULL;
    Py_XDECREF(bases);
    if (DtypeType == NULL || SizeType == NULL) {
        return -1;
    }
    if (PyModule_AddObjectRef(module, "dtype", (PyObject *)DtypeType) < 0 ||
        device_type_init(module) < 0 || PyModule_AddObjectRef(module, "Size", (PyObject *)SizeType) < 0) {
        return -1;
    }
    return add_dtypes(module);
}
