#include "data.h"

#include "buffer.h"
#include "cpython.h"
#include "device.h"
#include "errors.h"
#include "host_data.h"
#include "modes.h"
#include "sequence.h"
#include "sharing.h"
#include "source_loc.h"
#include "tensor.h"
#include "torchlette.h"
#include "types.h"

/* A copy without history. dtype and device -1: the tensor's own. */
static PyObject *from_tensor(PyObject *t, int dtype, int device, bool requires_grad) {
    PyObject *copy = PyObject_CallMethod(t, "detach", NULL);
    if (copy != NULL &&
        ((dtype >= 0 && dtype != ((Tensor *)t)->dtype) || (device >= 0 && device != ((Tensor *)t)->device))) {
        PyObject *d = dtype >= 0 ? dtype_object((uint8_t)dtype) : Py_NewRef(Py_None);
        PyObject *dev = device >= 0 ? device_object((uint8_t)device) : Py_NewRef(Py_None);
        SETREF(copy, PyObject_CallMethod(copy, "to", "NN", dev, d));
    } else if (copy != NULL) {
        SETREF(copy, PyObject_CallMethod(copy, "clone", NULL));
    }
    if (copy != NULL && requires_grad && PyObject_SetAttrString(copy, "requires_grad", Py_True) < 0) {
        Py_CLEAR(copy);
    }
    return copy;
}

PyObject *data_tensor(PyObject *data, int dtype, int device, bool requires_grad, uint8_t api) {
    if (is_tensor(data)) {
        return from_tensor(data, dtype, device, requires_grad);
    }
    uint8_t dev = (uint8_t)device;
    if (device < 0) {
        api |= api == TL_API_CORE ? creation_api() : 0;
        if (default_device_id(api, &dev) < 0) {
            return NULL;
        }
    }
    bool plain = PyFloat_CheckExact(data) || PyLong_CheckExact(data) || PyBool_Check(data) ||
        PyComplex_CheckExact(data) || PyList_Check(data) || PyTuple_Check(data) || PyUnicode_Check(data);
    if (!plain) {
        PyObject *r = buffer_tensor(data, dtype, dev, requires_grad, api);
        if (r == NULL && !PyErr_Occurred() && PyObject_HasAttrString(data, "__array__")) {
            PyObject *array = PyObject_CallMethod(data, "__array__", NULL);
            r = array != NULL ? buffer_tensor(array, dtype, dev, requires_grad, api) : NULL;
            Py_XDECREF(array);
        }
        if (r != NULL || PyErr_Occurred()) {
            return r;
        }
    }
    return sequence_tensor(data, dtype, dev, requires_grad, api);
}

static int options(PyObject *dtype, PyObject *device, int *d, int *dev) {
    uint8_t id;
    *d = *dev = -1;
    if (dtype != NULL && dtype != Py_None) {
        int found = dtype_from(dtype, &id);
        if (found < 0) {
            return -1;
        }
        if (found == 0) {
            raise_text(TL_TYPE, "tensor(): argument 'dtype' must be torch.dtype, not %R", (PyObject *)Py_TYPE(dtype));
            return -1;
        }
        *d = id;
    }
    if (device != NULL && device != Py_None) {
        int found = device_from(device, &id);
        if (found == 0) {
            raise_text(
                TL_TYPE, "tensor(): argument 'device' must be torch.device, not %R", (PyObject *)Py_TYPE(device));
        }
        if (found != 1) {
            return -1;
        }
        *dev = id;
    }
    return 0;
}

/* The API flavour of a function that makes tensors: its self is True in torchlette.torch, else None. */
static uint8_t maker_api(PyObject *self) { return self == Py_True ? TL_API_TORCH : TL_API_CORE; }

PyObject *py_tensor(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
    PyObject *data, *dtype = NULL, *device = NULL;
    int requires_grad = 0, pin = 0, d, dev;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O|$OOpp:tensor", names, &data, &dtype, &device, &requires_grad, &pin) ||
        options(dtype, device, &d, &dev) < 0) {
        return NULL;
    }
    return data_tensor(data, d, dev, requires_grad, maker_api(self));
}

PyObject *py_as_tensor(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"data", "dtype", "device", NULL};
    PyObject *data, *dtype = NULL, *device = NULL;
    int d, dev;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:as_tensor", names, &data, &dtype, &device) ||
        options(dtype, device, &d, &dev) < 0) {
        return NULL;
    }
    if (is_tensor(data)) {
        Tensor *t = (Tensor *)data;
        if ((d < 0 || d == t->dtype) && (dev < 0 || dev == t->device)) {
            return Py_NewRef(data);
        }
        return PyObject_CallMethod(data, "to", "NN", dev >= 0 ? device_object((uint8_t)dev) : Py_NewRef(Py_None),
            d >= 0 ? dtype_object((uint8_t)d) : Py_NewRef(Py_None));
    }
    if (is_array(data)) {
        uint8_t api = maker_api(self), device = (uint8_t)dev;
        if (dev < 0 && default_device_id(api | (api == TL_API_CORE ? creation_api() : 0), &device) < 0) {
            return NULL;
        }
        PyObject *r = device == TL_CPU ? array_tensor(data, d, api) : NULL;
        if (r != NULL || PyErr_Occurred()) {
            return r;
        }
    }
    return data_tensor(data, d, dev, false, maker_api(self));
}

/* The tensor that asarray works on: obj itself, one over an array's memory, or one with a copy of other data. *shared
 * tells whether its memory is obj's. */
static PyObject *array_source(PyObject *self, PyObject *obj, int d, int dev, bool *shared) {
    uint8_t api = maker_api(self), device = (uint8_t)dev;
    *shared = is_tensor(obj);
    if (*shared) {
        return Py_NewRef(obj);
    }
    if (is_array(obj)) {
        if (dev < 0 && default_device_id(api | (api == TL_API_CORE ? creation_api() : 0), &device) < 0) {
            return NULL;
        }
        PyObject *r = device == TL_CPU ? array_tensor(obj, -1, api) : NULL;
        if (r != NULL || PyErr_Occurred()) {
            *shared = r != NULL;
            return r;
        }
    }
    return data_tensor(obj, d, dev, false, api);
}

PyObject *py_asarray(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"obj", "dtype", "device", "copy", "requires_grad", NULL};
    PyObject *obj, *dtype = NULL, *device = NULL, *copy = Py_None, *requires_grad = Py_None;
    int d, dev;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O|$OOOO:asarray", names, &obj, &dtype, &device, &copy, &requires_grad) ||
        options(dtype, device, &d, &dev) < 0) {
        return NULL;
    }
    bool shared, fresh = copy == Py_None ? false : PyObject_IsTrue(copy) == 1, alias = copy != Py_None && !fresh;
    PyObject *r = array_source(self, obj, d, dev, &shared);
    if (r == NULL) {
        return NULL;
    }
    Tensor *t = (Tensor *)r;
    bool converts = (d >= 0 && d != t->dtype) || (dev >= 0 && dev != t->device);
    if (alias && (!shared || converts)) {
        Py_DECREF(r);
        return raise_text(TL_VALUE, shared ? "can't alias a tensor into another dtype or device: got copy=False" :
            "can't alias arbitrary sequence into a tensor.");
    }
    if (converts) {
        SETREF(r, PyObject_CallMethod(r, "to", "NN", dev >= 0 ? device_object((uint8_t)dev) : Py_NewRef(Py_None),
            d >= 0 ? dtype_object((uint8_t)d) : Py_NewRef(Py_None)));
    } else if (fresh && shared) {
        SETREF(r, PyObject_CallMethod(r, "clone", NULL));
    }
    if (r == NULL || requires_grad == Py_None) {
        return r;
    }
    if (PyObject_IsTrue(requires_grad) == 1) {
        SETREF(r, PyObject_CallMethod(r, "requires_grad_", NULL));
    } else {
        SETREF(r, PyObject_CallMethod(r, "detach", NULL));
    }
    return r;
}

static PyObject *not_an_array(PyObject *object) {
    PyObject *type = PyType_GetName(Py_TYPE(object));
    raise_text(TL_TYPE, "expected np.ndarray (got %V)", type, "?");
    Py_XDECREF(type);
    return NULL;
}

PyObject *py_from_numpy(PyObject *self, PyObject *array) {
    if (is_tensor(array) || PyList_Check(array) || PyTuple_Check(array) || PyNumber_Check(array) == 0) {
        return not_an_array(array);
    }
    PyObject *r = is_array(array) ? array_tensor(array, -1, maker_api(self)) : NULL;
    if (r != NULL || PyErr_Occurred()) {
        return r;
    }
    r = buffer_tensor(array, -1, TL_CPU, false, maker_api(self));
    if (r == NULL && !PyErr_Occurred()) {
        return not_an_array(array);
    }
    return r;
}

/* _frombytes(bytes, dtype, shape, device): a tensor from the bytes of a file. */
PyObject *py_frombytes(PyObject *self, PyObject *args) {
    Py_buffer v;
    PyObject *dtype, *shape, *device;
    int d, dev;
    if (!PyArg_ParseTuple(args, "y*OOO:_frombytes", &v, &dtype, &shape, &device)) {
        return NULL;
    }
    PyObject *r = NULL;
    int64_t sizes[TL_MAX_RANK], count = 1;
    Py_ssize_t n = PySequence_Size(shape);
    if (n < 0 || options(dtype, device, &d, &dev) < 0) {
        goto done;
    }
    if (n > TL_MAX_RANK || d < 0 || dev < 0) {
        raise_text(TL_VALUE, "_frombytes(): expected a dtype, a device and at most %d sizes", TL_MAX_RANK);
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *e = PySequence_GetItem(shape, i);
        sizes[i] = e != NULL ? PyLong_AsLongLong(e) : -1;
        Py_XDECREF(e);
        if (PyErr_Occurred()) {
            goto done;
        }
        count *= sizes[i];
    }
    host_options o = {.dtype = (uint8_t)d, .device = (uint8_t)dev, .api = maker_api(self)};
    if (count * (int64_t)dtype_size(o.dtype) != (int64_t)v.len) {
        raise_text(TL_VALUE, "_frombytes(): expected %lld bytes for the shape, got %zd",
            (long long)(count * (int64_t)dtype_size(o.dtype)), v.len);
        goto done;
    }
    r = host_tensor(o, (int)n, sizes, v.buf, (size_t)v.len);
done:
    PyBuffer_Release(&v);
    return r;
}
