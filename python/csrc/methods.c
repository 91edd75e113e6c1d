#include "methods.h"

#include "call.h"
#include "cpython.h"
#include "device.h"
#include "errors.h"
#include "flush.h"
#include "hooks.h"
#include "overrides.h"
#include "process.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "types.h"

static int meta_of(PyObject *self, tl_meta *m) { return check_status(tl_meta_of(((Tensor *)self)->handle, m)); }

static PyObject *get_shape(PyObject *self, void *c) {
    (void)c;
    return size_from(((Tensor *)self)->shape, ((Tensor *)self)->rank);
}

static PyObject *get_dtype(PyObject *self, void *c) {
    (void)c;
    return dtype_object(((Tensor *)self)->dtype);
}

static PyObject *get_device(PyObject *self, void *c) {
    (void)c;
    return device_called(((Tensor *)self)->device, ((Tensor *)self)->api);
}

static PyObject *get_is_cuda(PyObject *self, void *c) {
    (void)c;
    int cuda = device_is_cuda(((Tensor *)self)->device, ((Tensor *)self)->api);
    return cuda < 0 ? NULL : PyBool_FromLong(cuda);
}

static PyObject *get_is_meta(PyObject *self, void *c) {
    (void)c;
    return PyBool_FromLong(((Tensor *)self)->device == TL_META);
}

static PyObject *get_ndim(PyObject *self, void *c) {
    (void)c;
    return PyLong_FromLong(((Tensor *)self)->rank);
}

static PyObject *get_itemsize(PyObject *self, void *c) {
    (void)c;
    return PyLong_FromSize_t(dtype_size(((Tensor *)self)->dtype));
}

static PyObject *get_nbytes(PyObject *self, void *c) {
    (void)c;
    Tensor *t = (Tensor *)self;
    return PyLong_FromLongLong(t->numel * (int64_t)dtype_size(t->dtype));
}

static PyObject *get_false(PyObject *self, void *c) {
    (void)self, (void)c;
    Py_RETURN_FALSE;
}

/* A flag that is off is asked of the engine again: an in-place operation through another view may have made the whole
 * base part of the graph. */
static PyObject *get_requires_grad(PyObject *self, void *c) {
    (void)c;
    Tensor *t = (Tensor *)self;
    if ((t->flags & TL_REQUIRES_GRAD) == 0 && dtype_has_gradients(t->dtype)) {
        tl_meta m;
        if (meta_of(self, &m) < 0) {
            return NULL;
        }
        t->flags = (uint8_t)(m.flags & (TL_REQUIRES_GRAD | TL_LEAF));
    }
    return PyBool_FromLong(t->flags & TL_REQUIRES_GRAD);
}

static int require_grad(Tensor *t, bool v) {
    if (v && !dtype_has_gradients(t->dtype)) {
        raise_text(TL_RUNTIME, "only Tensors of floating point dtype can require gradients");
        return -1;
    }
    if (check_status(tl_requires_grad(t->handle, v)) < 0) {
        return -1;
    }
    t->flags = (uint8_t)((t->flags & ~TL_REQUIRES_GRAD) | (v ? TL_REQUIRES_GRAD : 0));
    return 0;
}

static int set_requires_grad(PyObject *self, PyObject *v, void *c) {
    (void)c;
    if (v == NULL || !PyBool_Check(v)) {
        raise_text(TL_RUNTIME, "requires_grad must be a bool");
        return -1;
    }
    return require_grad((Tensor *)self, v == Py_True);
}

static PyObject *requires_grad_(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"requires_grad", NULL};
    int v = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:requires_grad_", names, &v) ||
        require_grad((Tensor *)self, v) < 0) {
        return NULL;
    }
    return Py_NewRef(self);
}

static PyObject *meta_flag(PyObject *self, uint32_t bit) {
    tl_meta m;
    return meta_of(self, &m) < 0 ? NULL : PyBool_FromLong((m.flags & bit) != 0);
}

static PyObject *get_is_leaf(PyObject *self, void *c) {
    (void)c;
    return meta_flag(self, TL_LEAF);
}

static PyObject *get_retains_grad(PyObject *self, void *c) {
    (void)c;
    return meta_flag(self, TL_RETAINS_GRAD);
}

static PyObject *is_view(PyObject *self, PyObject *n) {
    (void)n;
    return meta_flag(self, TL_VIEW);
}

static PyObject *is_contiguous(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"memory_format", NULL};
    PyObject *format = NULL; /* accepted and ignored: row-major is the only format */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:is_contiguous", names, &format)) {
        return NULL;
    }
    return meta_flag(self, TL_CONTIGUOUS);
}

/* Whether two handles name the same elements of the same base. a may have been made in a capture, and be gone. */
static int same_tensor(uint64_t a, uint64_t b) {
    tl_meta x, y;
    int32_t status = tl_meta_of(a, &x);
    if (status == TL_TRACE_ESCAPE) {
        return 0;
    }
    if (check_status(status) < 0 || check_status(tl_meta_of(b, &y)) < 0) {
        return -1;
    }
    size_t n = x.rank * sizeof *x.shape;
    return x.base == y.base && x.offset == y.offset && x.rank == y.rank && memcmp(x.shape, y.shape, n) == 0 &&
        memcmp(x.stride, y.stride, n) == 0;
}

/* Warns where a gradient is looked for that backward will not keep. -1: the warning is an error. */
static int warn_of_no_grad(PyObject *self) {
    static const char text[] =
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.";
    tl_meta m;
    if ((((Tensor *)self)->flags & TL_REQUIRES_GRAD) == 0) {
        return 0;
    }
    if (meta_of(self, &m) < 0) {
        return -1;
    }
    return (m.flags & (TL_LEAF | TL_RETAINS_GRAD)) != 0 ? 0 : PyErr_WarnEx(PyExc_UserWarning, text, 1);
}

/* The engine gives a new handle each time. While the slot holds the same tensor, Python gets the same object. */
static PyObject *get_grad(PyObject *self, void *c) {
    (void)c;
    Tensor *t = (Tensor *)self;
    tl_out out;
    int32_t has;
    if (check_status(tl_grad(t->handle, &out, &has)) < 0) {
        return NULL;
    }
    if (!has) {
        Py_CLEAR(t->grad);
        return warn_of_no_grad(self) < 0 ? NULL : Py_NewRef(Py_None);
    }
    if (t->grad != NULL) {
        Tensor *last = (Tensor *)t->grad;
        int same = same_tensor(last->handle, out.handle);
        if (same > 0) {
            drop_handle(out.handle);
            out.handle = last->handle;
            return tensor_update(last, &out) < 0 ? NULL : Py_NewRef(t->grad);
        }
        if (same < 0) { /* a capture has disposed the object's handle */
            PyErr_Clear();
        }
    }
    PyObject *grad = tensor_wrap(&out, t->api);
    if (grad == NULL) {
        return NULL;
    }
    SETREF(t->grad, Py_NewRef(grad));
    return grad;
}

static int set_grad(PyObject *self, PyObject *v, void *c) {
    (void)c;
    Tensor *t = (Tensor *)self;
    bool none = v == NULL || v == Py_None;
    if (!none && !is_tensor(v)) {
        PyObject *type = PyType_GetName(Py_TYPE(v));
        raise_text(TL_TYPE, "assigned grad expected to be a Tensor or None but got grad of type %V", type, "?");
        Py_XDECREF(type);
        return -1;
    }
    if (v == self) {
        raise_text(TL_RUNTIME, "can't assign Variable as its own grad");
        return -1;
    }
    if (check_status(tl_set_grad(t->handle, none ? 0 : ((Tensor *)v)->handle)) < 0) {
        return -1;
    }
    if (t->grad != NULL) {
        ((Tensor *)t->grad)->epoch = process.epoch - 1; /* the handle may have become unusable with the slot */
    }
    SETREF(t->grad, none ? NULL : Py_NewRef(v));
    return 0;
}

/* The result of an operator that is a property. */
static PyObject *property_of(PyObject *self, const char *name, const char *operator) {
    PyObject *r;
    return overrides_on && overridden(OVERRIDE_PROPERTY, name, self, NULL, 0, NULL, &r) ? r
                                                                                       : call_name(operator, &self, 1);
}

static PyObject *get_data(PyObject *self, void *c) {
    (void)c;
    return property_of(self, "data", "_data");
}

static int set_data(PyObject *self, PyObject *v, void *c) {
    (void)c;
    if (v == NULL || !is_tensor(v)) {
        raise_text(
            TL_TYPE, "Variable data has to be a tensor, but got %R", v != NULL ? (PyObject *)Py_TYPE(v) : Py_None);
        return -1;
    }
    Tensor *t = (Tensor *)self, *s = (Tensor *)v;
    if (check_status(tl_set_data(t->handle, s->handle)) < 0) {
        return -1;
    }
    tl_out out = tensor_out(s);
    out.flags = t->flags;
    return tensor_update(t, &out);
}

static PyObject *get_T(PyObject *self, void *c) {
    (void)c;
    return property_of(self, "T", "_T");
}

static PyObject *get_H(PyObject *self, void *c) {
    (void)c;
    return property_of(self, "H", "_H");
}

static PyObject *get_mH(PyObject *self, void *c) {
    (void)c;
    return property_of(self, "mH", "adjoint");
}

static PyObject *get_mT(PyObject *self, void *c) {
    (void)c;
    return property_of(self, "mT", "_mT");
}

static PyObject *get_version(PyObject *self, void *c) {
    (void)c;
    tl_meta m;
    return meta_of(self, &m) < 0 ? NULL : PyLong_FromUnsignedLongLong(m.commits);
}

/* The entry of v for one dimension, or all of them: as a Size where size is set, else as a tuple. */
static PyObject *pick(
    PyObject *self, PyObject *args, PyObject *kwargs, const int64_t *v, const char *format, bool size) {
    static char *names[] = {"dim", NULL};
    Tensor *t = (Tensor *)self;
    PyObject *dim = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &dim)) {
        return NULL;
    }
    if (dim == Py_None) {
        if (size) {
            return size_from(v, t->rank);
        }
        PyObject *all = PyTuple_New(t->rank);
        for (int i = 0; all != NULL && i < t->rank; i++) {
            PyTuple_SetItem(all, i, PyLong_FromLongLong(v[i]));
        }
        return all;
    }
    int64_t d = PyLong_AsLongLong(dim);
    if (d == -1 && PyErr_Occurred()) {
        return NULL;
    }
    int64_t lo = t->rank > 0 ? -t->rank : -1, hi = t->rank > 0 ? t->rank - 1 : 0;
    if (t->rank == 0) {
        return raise_text(TL_INDEX, "Dimension specified as %lld but tensor has no dimensions", (long long)d);
    }
    if (d < lo || d > hi) {
        return raise_text(TL_INDEX, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
            (long long)lo, (long long)hi, (long long)d);
    }
    return PyLong_FromLongLong(v[d < 0 ? d + t->rank : d]);
}

static PyObject *size(PyObject *self, PyObject *args, PyObject *kwargs) {
    return pick(self, args, kwargs, ((Tensor *)self)->shape, "|O:size", true);
}

static PyObject *stride(PyObject *self, PyObject *args, PyObject *kwargs) {
    tl_meta m;
    return meta_of(self, &m) < 0 ? NULL : pick(self, args, kwargs, m.stride, "|O:stride", false);
}

static PyObject *storage_offset(PyObject *self, PyObject *n) {
    (void)n;
    tl_meta m;
    return meta_of(self, &m) < 0 ? NULL : PyLong_FromLongLong(m.offset);
}

/* A number that is equal for aliases that begin at the same element, and no address. */
static PyObject *identity(PyObject *self, PyObject *n) {
    (void)n;
    tl_meta m;
    if (meta_of(self, &m) < 0) {
        return NULL;
    }
    uint64_t p = (m.base << 20) + (uint64_t)m.offset * dtype_size(m.dtype);
    return PyLong_FromUnsignedLongLong(((Tensor *)self)->numel == 0 ? 0 : p);
}

static PyObject *numel(PyObject *self, PyObject *n) {
    (void)n;
    return PyLong_FromLongLong(((Tensor *)self)->numel);
}

static PyObject *dim(PyObject *self, PyObject *n) {
    (void)n;
    return get_ndim(self, NULL);
}

static PyObject *element_size(PyObject *self, PyObject *n) {
    (void)n;
    return get_itemsize(self, NULL);
}

static PyObject *is_floating_point(PyObject *self, PyObject *n) {
    (void)n;
    return PyBool_FromLong(dtype_is_float(((Tensor *)self)->dtype));
}

static PyObject *is_complex(PyObject *self, PyObject *n) {
    (void)n;
    return PyBool_FromLong(dtype_is_complex(((Tensor *)self)->dtype));
}

static PyObject *item(PyObject *self, PyObject *n) {
    (void)n;
    return tensor_item((Tensor *)self);
}

static PyObject *get_device_index(PyObject *self, PyObject *n) {
    (void)n;
    return PyLong_FromLong((long)((Tensor *)self)->device - 1);
}

static PyObject *retain_grad(PyObject *self, PyObject *n) {
    (void)n;
    if (check_status(tl_requires_grad(((Tensor *)self)->handle, 2)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *dispose(PyObject *self, PyObject *n) {
    (void)n;
    if (check_status(tl_dispose(((Tensor *)self)->handle)) < 0) {
        return NULL;
    }
    ((Tensor *)self)->epoch = process.epoch - 1;
    Py_RETURN_NONE;
}

static PyObject *keep(PyObject *self, PyObject *n) {
    (void)n;
    return check_status(tl_keep(((Tensor *)self)->handle)) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *make_subclass(PyObject *ignored, PyObject *args) {
    (void)ignored;
    PyObject *class, *data;
    int grad = 0;
    if (!PyArg_ParseTuple(
            args, "O!O!|p:_make_subclass", (PyObject *)&PyType_Type, &class, (PyObject *)TensorType, &data, &grad)) {
        return NULL;
    }
    if (!PyType_IsSubtype((PyTypeObject *)class, TensorType)) {
        return raise_text(TL_TYPE, "_make_subclass(): %R is no subclass of Tensor", class);
    }
    PyObject *alias = call_name("detach", &data, 1);
    if (alias == NULL) {
        return NULL;
    }
    Tensor *a = (Tensor *)alias;
    tl_out out = tensor_out(a);
    a->handle = 0; /* the handle moves to the new object */
    PyObject *made = tensor_wrap_as((PyTypeObject *)class, &out, a->api);
    Py_DECREF(alias);
    if (made != NULL && grad && require_grad((Tensor *)made, true) < 0) {
        Py_CLEAR(made);
    }
    return made;
}

/* _replace(other): self takes the handle of other, which cannot be used from then on. detach_() replaces a tensor by
 * its own detached alias. */
static PyObject *replace(PyObject *self, PyObject *other) {
    if (!is_tensor(other) || other == self) {
        return raise_text(TL_TYPE, "_replace(): argument must be another Tensor");
    }
    Tensor *t = (Tensor *)self, *o = (Tensor *)other;
    tl_out out = tensor_out(o);
    if (tensor_update(t, &out) < 0) {
        return NULL;
    }
    drop_handle(t->handle);
    t->handle = o->handle;
    o->handle = 0;
    Py_CLEAR(t->grad);
    Py_RETURN_NONE;
}

/* Everything but the class, which Python code swaps: assignment to __class__ compares the layouts. */
static PyObject *swap(PyObject *self, PyObject *other) {
    if (!is_tensor(other) || other == self) {
        return raise_text(TL_TYPE, "_swap(): argument must be another Tensor");
    }
    tensor_swap((Tensor *)self, (Tensor *)other);
    Py_RETURN_NONE;
}

static PyObject *owns_hook_of(PyObject *self, PyObject *number) {
    uint64_t id = PyLong_AsUnsignedLongLong(number);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(owns_hook(((Tensor *)self)->handle, id));
}

/* view(*shape) is an operator; view(dtype) is not, for it copies. */
static PyObject *view(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static group *by_shape;
    bool named = kwnames != NULL && PyTuple_Size(kwnames) == 1 &&
        PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kwnames, 0), "dtype") == 0;
    if (named ? nargs == 0 : nargs == 1 && kwnames == NULL && Py_TYPE(args[0]) == DtypeType) {
        PyObject *module = PyImport_ImportModule("torchlette._ops.storage");
        PyObject *r = module != NULL ? PyObject_CallMethod(module, "bits_as", "OO", self, args[0]) : NULL;
        Py_XDECREF(module);
        return r;
    }
    if (by_shape == NULL) {
        by_shape = group_find("view");
    }
    PyObject *r;
    if (overrides_on && overridden(OVERRIDE_METHOD, "view", self, args, nargs, kwnames, &r)) {
        return r;
    }
    return call_group(by_shape, TL_API_CORE, self, args, nargs, kwnames);
}

/* _meta(): what the Python part of the package asks of the engine, as a dict. */
static PyObject *meta(PyObject *self, PyObject *n) {
    (void)n;
    tl_meta m;
    if (meta_of(self, &m) < 0) {
        return NULL;
    }
    return Py_BuildValue("{s:s,s:O,s:K,s:K,s:I,s:L,s:L}", "grad_fn", m.grad_fn, "on_host",
        m.on_host ? Py_True : Py_False, "base", (unsigned long long)m.base, "commits", (unsigned long long)m.commits,
        "site", m.source_loc, "offset", (long long)m.offset, "storage", (long long)m.storage);
}

static PyObject *get_api(PyObject *self, void *c) {
    (void)c;
    return PyLong_FromLong(((Tensor *)self)->api);
}

static int set_api(PyObject *self, PyObject *v, void *c) {
    (void)c;
    int truth = v != NULL ? PyObject_IsTrue(v) : 0;
    if (truth < 0) {
        return -1;
    }
    ((Tensor *)self)->api = truth ? TL_API_TORCH : TL_API_CORE;
    return 0;
}

static PyObject *get_handle(PyObject *self, void *c) {
    (void)c;
    return PyLong_FromUnsignedLongLong(((Tensor *)self)->handle);
}

PyGetSetDef tensor_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"shape", get_shape, NULL, "Sizes of the dimensions.", NULL},
    {"dtype", get_dtype, NULL, "Type of the elements.", NULL},
    {"device", get_device, NULL, "Where the values are.", NULL},
    {"ndim", get_ndim, NULL, "Number of dimensions.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether operations are recorded for gradients.", NULL},
    {"is_leaf", get_is_leaf, NULL, "Whether no recorded operation made it.", NULL},
    {"retains_grad", get_retains_grad, NULL, "Whether a non-leaf keeps its gradient.", NULL},
    {"grad", get_grad, set_grad, "The accumulated gradient, or None.", NULL},
    {"_grad", get_grad, set_grad, "The same as grad.", NULL},
    {"data", get_data, set_data, "The same values without history.", NULL},
    {"T", get_T, NULL, "The dimensions reversed.", NULL},
    {"H", get_H, NULL, "A matrix transposed.", NULL},
    {"mH", get_mH, NULL, "The last two dimensions swapped.", NULL},
    {"mT", get_mT, NULL, "The last two dimensions swapped.", NULL},
    {"_version", get_version, NULL, "Count of in-place changes of the base.", NULL},
    {"_door", get_api, set_api, "1 when made through torchlette.torch.", NULL},
    {"_handle", get_handle, NULL, "Number of the tensor in the engine.", NULL},
    {"is_cuda", get_is_cuda, NULL, "Whether it is on a GPU that torchlette.torch calls cuda.", NULL},
    {"is_sparse", get_false, NULL, "Always false.", NULL},
    {"is_quantized", get_false, NULL, "Always false.", NULL},
    {"is_meta", get_is_meta, NULL, "Whether it is on the device meta, without memory.", NULL},
    {0},
};

PyMethodDef tensor_methods[] = {
    {"size", WITH_KEYWORDS(size), KEYWORDS, "size(dim=None)\n--\n\nThe sizes, or that of one dimension."},
    {"stride", WITH_KEYWORDS(stride), KEYWORDS,
        "stride(dim=None)\n--\n\nThe strides in elements, or that of one dimension."},
    {"storage_offset", storage_offset, METH_NOARGS, "storage_offset()\n--\n\nElements before the first one."},
    {"_identity", identity, METH_NOARGS, "A number equal for aliases that begin at the same element; no address."},
    {"view", (PyCFunction)(void (*)(void))view, METH_FASTCALL | METH_KEYWORDS,
        "view(Tensor self, int[]* shape) -> Tensor\nview(Tensor self, dtype dtype) -> Tensor\n\nAn alias "
        "of another shape; with a dtype, a copy of the bits as that dtype."},
    {"dim", dim, METH_NOARGS, "dim()\n--\n\nNumber of dimensions."},
    {"ndimension", dim, METH_NOARGS, "ndimension()\n--\n\nNumber of dimensions."},
    {"numel", numel, METH_NOARGS, "numel()\n--\n\nNumber of elements."},
    {"nelement", numel, METH_NOARGS, "nelement()\n--\n\nNumber of elements."},
    {"element_size", element_size, METH_NOARGS, "element_size()\n--\n\nBytes of an element."},
    {"get_device", get_device_index, METH_NOARGS, "get_device()\n--\n\nNumber of the adapter; -1 for the CPU."},
    {"is_contiguous", WITH_KEYWORDS(is_contiguous), KEYWORDS,
        "is_contiguous()\n--\n\nWhether the elements are dense and row-major."},
    {"is_floating_point", is_floating_point, METH_NOARGS,
        "is_floating_point()\n--\n\nWhether the dtype is a floating point type."},
    {"is_complex", is_complex, METH_NOARGS, "is_complex()\n--\n\nWhether the dtype is complex."},
    {"_is_view", is_view, METH_NOARGS,
        "_is_view()\n--\n\nWhether it was made as a view of another tensor, whose history it shares."},
    {"item", item, METH_NOARGS, "item()\n--\n\nThe only element as a Python number; waits for it."},
    {"copy_to_host_async", tensor_copy_to_host_async, METH_NOARGS,
        "copy_to_host_async()\n--\n\nSubmit everything pending and a copy of the elements to the host, without "
        "waiting.\n\nWhat reads them later waits for this copy, and not for work submitted after it. "
        "On the CPU the value\nis computed."},
    {"tolist", tensor_tolist, METH_NOARGS, "tolist()\n--\n\nThe elements as nested lists."},
    {"requires_grad_", WITH_KEYWORDS(requires_grad_), KEYWORDS,
        "requires_grad_(requires_grad=True)\n--\n\nSet requires_grad; gives self."},
    {"retain_grad", retain_grad, METH_NOARGS, "retain_grad()\n--\n\nKeep the gradient of a non-leaf."},
    {"dispose", dispose, METH_NOARGS, "dispose()\n--\n\nFree the value now."},
    {"keep", keep, METH_NOARGS, "keep()\n--\n\nExempt it from the tidy scopes around."},
    {"_meta", meta, METH_NOARGS, "What the engine knows of it."},
    {"_replace", replace, METH_O, "Take another tensor's place; the other is then unusable."},
    {"_swap", swap, METH_O, "Swap values, history, gradients, hooks and attributes with another tensor."},
    {"_owns_hook", owns_hook_of, METH_O, "Whether this tensor alone keeps the step that a hook is on."},
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, "An alias of a tensor as an object of a subclass."},
    {0},
};
