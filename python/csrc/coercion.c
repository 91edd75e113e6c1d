#include "coercion.h"

#include "cpython.h"
#include "errors.h"
#include "source_loc.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "types.h"

PyObject *coercion_text(PyObject *what) {
    return PyUnicode_FromFormat(
        "%U: a tensor is not converted silently, for that waits for the device: got a Tensor, want t.item()", what);
}

int coercion_allowed(Tensor *t, const char *what) {
    if (t->api == TL_API_TORCH || caller_in_facade()) {
        return 1;
    }
    PyObject *name = PyUnicode_FromString(what), *text = name != NULL ? coercion_text(name) : NULL;
    if (text != NULL) {
        set_error(TL_HOST_COERCION, "%U", text);
    }
    Py_XDECREF(name);
    Py_XDECREF(text);
    return 0;
}

static int nb_bool(PyObject *self) {
    Tensor *t = (Tensor *)self;
    if (!coercion_allowed(t, "bool")) {
        return -1;
    }
    if (t->numel != 1) {
        return set_error(TL_RUNTIME,
            t->numel == 0 ? "Boolean value of Tensor with no values is ambiguous"
                          : "Boolean value of Tensor with more than one value is ambiguous");
    }
    if (t->flags & TL_BATCHED) {
        return set_error(TL_RUNTIME,
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
            "support that yet, please shout over at https://github.com/pytorch/functorch/issues/257 .");
    }
    PyObject *v = tensor_item(t);
    int truth = v != NULL ? PyObject_IsTrue(v) : -1;
    Py_XDECREF(v);
    return truth;
}

static PyObject *coerced(PyObject *self, const char *what) {
    if (!coercion_allowed((Tensor *)self, what)) {
        return NULL;
    }
    if (((Tensor *)self)->numel != 1) {
        return raise_text(TL_VALUE, "only one element tensors can be converted to Python scalars");
    }
    return tensor_item((Tensor *)self);
}

static PyObject *nb_float(PyObject *self) {
    PyObject *v = coerced(self, "float");
    PyObject *f = v != NULL ? PyNumber_Float(v) : NULL;
    Py_XDECREF(v);
    return f;
}

static PyObject *nb_int(PyObject *self) {
    PyObject *v = coerced(self, "int");
    PyObject *i = v != NULL ? PyNumber_Long(v) : NULL;
    Py_XDECREF(v);
    return i;
}

static PyObject *nb_index(PyObject *self) {
    Tensor *t = (Tensor *)self;
    if (!coercion_allowed(t, "__index__")) {
        return NULL;
    }
    if (t->numel != 1 || dtype_has_gradients(t->dtype)) {
        return raise_text(TL_TYPE, "only integer tensors of a single element can be converted to an index");
    }
    PyObject *v = tensor_item(t);
    PyObject *i = v != NULL ? PyNumber_Long(v) : NULL; /* True and False count as 1 and 0 */
    Py_XDECREF(v);
    return i;
}

PyType_Slot coercion_slots[] = {
    {Py_nb_bool, nb_bool},
    {Py_nb_float, nb_float},
    {Py_nb_int, nb_int},
    {Py_nb_index, nb_index},
    {0, NULL},
};
