#include "tensor_type.h"

#include "buffer.h"
#include "call.h"
#include "coercion.h"
#include "cpython.h"
#include "data.h"
#include "errors.h"
#include "hash.h"
#include "index.h"
#include "methods.h"
#include "number.h"
#include "source_loc.h"
#include "tensor.h"
#include "tensor_read.h"
#include "threads.h"
#include "torchlette.h"

#include <structmember.h>

static Py_hash_t tensor_hash(PyObject *self) {
    Py_hash_t h = (Py_hash_t)hash_identity(self);
    return h == -1 ? -2 : h;
}

/* Tensor(data) and Tensor(*sizes): the constructor of old PyTorch programs. The dtype is the default one. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        return raise_text(TL_TYPE, "Tensor() takes no keyword arguments; use tensor()");
    }
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *made;
    if (n == 1 && !PyLong_Check(PyTuple_GetItem(args, 0))) {
        made = data_tensor(PyTuple_GetItem(args, 0), current.default_dtype, -1, false, TL_API_CORE);
    } else {
        PyObject *sizes = n == 0 ? Py_BuildValue("(i)", 0) : Py_NewRef(args);
        if (sizes == NULL) {
            return NULL;
        }
        PyObject *argv[1] = {sizes};
        made = call_name("empty", argv, 1);
        Py_DECREF(sizes);
    }
    if (made == NULL || type == TensorType) {
        return made;
    }
    PyObject *sub = PyObject_CallMethod((PyObject *)TensorType, "_make_subclass", "OO", (PyObject *)type, made);
    Py_DECREF(made);
    return sub;
}

static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weakrefs), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Tensor, dict), READONLY, NULL},
    {NULL},
};

static int contains(PyObject *self, PyObject *value) {
    PyObject *equal = tensor_richcompare(self, value, Py_EQ);
    if (equal == NULL) {
        return -1;
    }
    if (!is_tensor(equal)) {
        raise_text(TL_RUNTIME, "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
            (PyObject *)Py_TYPE(value));
        Py_DECREF(equal);
        return -1;
    }
    PyObject *any = call_name("any", &equal, 1);
    Py_DECREF(equal);
    PyObject *truth = any != NULL ? tensor_item((Tensor *)any) : NULL;
    Py_XDECREF(any);
    int found = truth != NULL ? PyObject_IsTrue(truth) : -1;
    Py_XDECREF(truth);
    return found;
}

static PyType_Slot own_slots[] = {
    {Py_tp_doc, "An array with a dtype and a device, computed lazily, with gradients."},
    {Py_tp_new, tensor_new},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_hash, tensor_hash},
    {Py_tp_richcompare, tensor_richcompare},
    {Py_tp_iter, tensor_iter},
    {Py_tp_members, tensor_members},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {Py_mp_subscript, tensor_getitem},
    {Py_mp_ass_subscript, tensor_setitem},
    {Py_mp_length, tensor_length},
    {Py_sq_contains, contains},
    {Py_bf_getbuffer, tensor_getbuffer},
    {0, NULL},
};

int tensor_type_init(PyObject *module) {
    PyType_Slot slots[96];
    int n = 0;
    const PyType_Slot *const tables[] = {own_slots, number_slots, coercion_slots};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const PyType_Slot *s = tables[i]; s->slot != 0; s++) {
            slots[n++] = *s;
        }
    }
    slots[n] = (PyType_Slot){0, NULL};
    PyType_Spec spec = {
        .name = "torchlette.Tensor",
        .basicsize = sizeof(Tensor),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    TensorType = (PyTypeObject *)PyType_FromSpec(&spec);
    if (TensorType == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Tensor", (PyObject *)TensorType);
}
