#include "scalar.h"

#include "cpython.h"
#include "tensor.h"
#include "torchlette.h"

int number_scalar(PyObject *o, tl_scalar *s) {
    double d;
    if (PyFloat_Check(o)) {
        s->kind = TL_SCALAR_FLOAT;
        d = PyFloat_AsDouble(o);
        memcpy(&s->bits, &d, sizeof d);
        return 1;
    }
    if (PyBool_Check(o)) {
        s->kind = TL_SCALAR_BOOL;
        s->bits = o == Py_True;
        return 1;
    }
    if (PyLong_Check(o)) {
        s->kind = TL_SCALAR_INT;
        int64_t v = PyLong_AsLongLong(o);
        if (v == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            PyErr_SetString(PyExc_OverflowError, "int too big to convert");
            return -1;
        }
        s->bits = (uint64_t)v;
        return 1;
    }
    if (PyComplex_Check(o) || is_tensor(o) || PySequence_Check(o) || PyUnicode_Check(o)) {
        return 0;
    }
    PyObject *n = PyIndex_Check(o) ? PyNumber_Index(o) : NULL;
    if (n == NULL) {
        PyErr_Clear();
        if (PyType_GetSlot(Py_TYPE(o), Py_nb_float) == NULL || (n = PyNumber_Float(o)) == NULL) {
            PyErr_Clear();
            return 0;
        }
    }
    int found = PyLong_CheckExact(n) || PyFloat_Check(n) ? number_scalar(n, s) : 0;
    Py_DECREF(n);
    return found;
}
