/* A key is split in two. Ints, slices, None and Ellipsis make one view (_index, whose argument is a flat list).
 * Tensors, lists and masks then index dimensions of that view (_index_tensor). A mask stands for the indices of its
 * true elements, so it is read first. Assigning one value under a mask needs no read, and neither does assigning
 * several where a compiled function allows none. */
#include "index.h"

#include "argbuf.h"
#include "call.h"
#include "cpython.h"
#include "data.h"
#include "device.h"
#include "errors.h"
#include "flush.h"
#include "overrides.h"
#include "scalar.h"
#include "sequence.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "tensor_read.h"
#include "threads.h"
#include "torchlette.h"
#include "types.h"

/* Tags of the items in the index list of _index. engine/op/composite reads the list: a tag, then its numbers. */
enum { I_INT = 0, I_SLICE = 1, I_NONE = 2, I_ELLIPSIS = 3 };

typedef struct {
    argbuf spec;  /* the index list is its ints */
    bool trivial; /* the view is the tensor itself */
    int out_dim;  /* dimensions of the view so far */
    int n_advanced;
    PyObject *tensors[TL_MAX_RANK]; /* owned: one index tensor for each of dims */
    int dims[TL_MAX_RANK];
    PyObject *mask; /* owned: a mask at dims[n_advanced] that is not read yet; NULL when there is none */
} plan;

static void plan_clear(plan *p) {
    for (int i = 0; i < p->n_advanced; i++) {
        Py_XDECREF(p->tensors[i]);
    }
    Py_CLEAR(p->mask);
    argbuf_clear(&p->spec);
}

static int add_int(plan *p, PyObject *o) {
    PyObject *n = PyNumber_Index(o);
    int64_t i = n != NULL ? PyLong_AsLongLong(n) : -1;
    Py_XDECREF(n);
    if (PyErr_Occurred()) {
        return -1;
    }
    p->trivial = false;
    return put_int(&p->spec, I_INT) < 0 ? -1 : put_int(&p->spec, i);
}

/* The value of start, stop or step. 1: given; 0: None; -1: an error. */
static int bound(PyObject *slice, const char *name, int64_t *value) {
    PyObject *o = PyObject_GetAttrString(slice, name);
    PyObject *n = o == NULL || o == Py_None ? NULL : PyNumber_Index(o);
    bool none = o == Py_None;
    Py_XDECREF(o);
    *value = 0;
    if (n == NULL) {
        return none ? 0 : -1;
    }
    *value = PyLong_AsLongLong(n);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear(); /* a bound beyond 64 bits lies past every end */
        *value = PyObject_RichCompareBool(n, Py_False, Py_LT) > 0 ? INT64_MIN / 2 : INT64_MAX / 2;
    }
    Py_DECREF(n);
    return PyErr_Occurred() ? -1 : 1;
}

/* Adds a slice. given: which of start (1), stop (2) and step (4) are in v. */
static int put_slice(plan *p, int64_t given, const int64_t v[3]) {
    p->out_dim++;
    return put_int(&p->spec, I_SLICE) < 0 || put_int(&p->spec, given) < 0 || put_int(&p->spec, v[0]) < 0 ||
            put_int(&p->spec, v[1]) < 0 || put_int(&p->spec, v[2]) < 0
        ? -1
        : 0;
}

static int add_slice(plan *p, PyObject *slice) {
    static const char *const names[] = {"start", "stop", "step"};
    int64_t v[3], given = 0;
    for (int i = 0; i < 3; i++) {
        int is_given = bound(slice, names[i], &v[i]);
        if (is_given < 0) {
            return -1;
        }
        given |= (int64_t)is_given << i;
    }
    p->trivial = p->trivial && given == 0;
    return put_slice(p, given, v);
}

static int add_full_slice(plan *p) {
    static const int64_t none[3];
    return put_slice(p, 0, none);
}

static int add_none(plan *p) {
    p->trivial = false;
    p->out_dim++;
    return put_int(&p->spec, I_NONE);
}

/* Reads a mask, and makes the indices of its true elements: one int64 tensor for each dimension of the mask. */
static int read_mask(Tensor *mask, PyObject **tensors) {
    size_t n = (size_t)mask->numel;
    int64_t hits = 0;
    uint8_t *bits = PyMem_Malloc(n + 1);
    int64_t *index = NULL;
    int made = 0, result = -1;
    if (bits == NULL || (n > 0 && tensor_read(mask, bits, n) < 0)) {
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        hits += bits[i] != 0;
    }
    index = PyMem_Malloc(((size_t)hits + 1) * sizeof *index);
    if (index == NULL) {
        goto done;
    }
    int64_t stride = mask->numel;
    for (; made < mask->rank; made++) {
        int64_t k = 0, extent = mask->shape[made];
        stride = extent > 0 ? stride / extent : 0;
        for (size_t i = 0; i < n; i++) {
            if (bits[i] != 0) {
                index[k++] = (int64_t)i / stride % extent;
            }
        }
        tl_out out;
        if (check_status(tl_from_data(TL_INT64, mask->device, 1, &hits, index, (size_t)hits * sizeof *index, 0,
                call_source_loc(), &out)) < 0 ||
            (tensors[made] = tensor_wrap(&out, mask->api)) == NULL) {
            goto done;
        }
    }
    result = 0;
done:
    if (result < 0) {
        while (made > 0) {
            Py_CLEAR(tensors[--made]);
        }
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
    }
    PyMem_Free(bits);
    PyMem_Free(index);
    return result;
}

/* Turns the mask that is not read yet into index tensors. */
static int settle_mask(plan *p) {
    if (p->mask == NULL) {
        return 0;
    }
    int first = p->dims[p->n_advanced];
    int rank = ((Tensor *)p->mask)->rank;
    if (read_mask((Tensor *)p->mask, &p->tensors[p->n_advanced]) < 0) {
        return -1;
    }
    for (int i = 0; i < rank; i++) {
        p->dims[p->n_advanced++] = first + i;
    }
    Py_CLEAR(p->mask);
    return 0;
}

static int check_mask(Tensor *self, int in_dim, Tensor *mask) {
    for (int i = 0; i < mask->rank; i++) {
        int64_t have = in_dim + i < self->rank ? self->shape[in_dim + i] : -1;
        if (have != mask->shape[i]) {
            PyObject *m = size_from(mask->shape, mask->rank), *s = size_from(self->shape, self->rank);
            PyObject *ml = m != NULL ? PySequence_List(m) : NULL, *sl = s != NULL ? PySequence_List(s) : NULL;
            if (ml != NULL && sl != NULL) {
                set_error(TL_INDEX,
                    "The shape of the mask %R at index %d does not match the shape of the indexed tensor %R at "
                    "index %d",
                    ml, i, sl, in_dim + i);
            }
            Py_XDECREF(m), Py_XDECREF(s), Py_XDECREF(ml), Py_XDECREF(sl);
            return -1;
        }
    }
    return 0;
}

/* Adds a bool: a new dimension of length 1 or 0, indexed by one zero or none. */
static int add_bool(plan *p, bool value, uint8_t device) {
    int64_t n = value, zero = 0;
    tl_out out;
    if (settle_mask(p) < 0 || add_none(p) < 0 ||
        check_status(tl_from_data(TL_INT64, device, 1, &n, &zero, value ? 8 : 0, 0, call_source_loc(), &out)) < 0) {
        return -1;
    }
    PyObject *t = tensor_wrap(&out, TL_API_CORE);
    if (t == NULL) {
        return -1;
    }
    p->tensors[p->n_advanced] = t;
    p->dims[p->n_advanced++] = p->out_dim - 1;
    return 0;
}

/* Adds an index tensor or a mask. *in_dim moves past the dimensions that it indexes. */
static int add_tensor(plan *p, Tensor *self, PyObject *o, int *in_dim) {
    Tensor *t = (Tensor *)o;
    if (t->dtype == TL_UINT8) { /* a mask, as PyTorch had them before dtype bool */
        if (PyErr_WarnEx(PyExc_UserWarning,
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.", 1) < 0) {
            return -1;
        }
        PyObject *mask = call_name("bool", &o, 1);
        int r = mask != NULL ? add_tensor(p, self, mask, in_dim) : -1;
        Py_XDECREF(mask);
        return r;
    }
    if (dtype_has_gradients(t->dtype) || (t->dtype != TL_BOOL && dtype_size(t->dtype) < 4)) {
        return set_error(TL_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
    }
    bool mask = t->dtype == TL_BOOL && t->rank > 0;
    int takes = mask ? t->rank : 1;
    if (t->dtype == TL_BOOL && t->rank == 0) {
        PyObject *v = tensor_item(t);
        int failed = v == NULL || add_bool(p, v == Py_True, self->device) < 0;
        Py_XDECREF(v);
        return failed ? -1 : 0;
    }
    if (settle_mask(p) < 0 || (mask && check_mask(self, *in_dim, t) < 0)) {
        return -1;
    }
    if (p->n_advanced + takes > TL_MAX_RANK) {
        return set_error(TL_INDEX, "too many indices for tensor of dimension %d", self->rank);
    }
    p->dims[p->n_advanced] = p->out_dim;
    for (int i = 0; i < takes; i++) {
        if (add_full_slice(p) < 0) {
            return -1;
        }
    }
    *in_dim += takes;
    if (mask) {
        p->mask = Py_NewRef(o);
    } else {
        p->tensors[p->n_advanced++] = Py_NewRef(o);
    }
    return 0;
}

static bool is_float(PyObject *t) { return dtype_is_float(((Tensor *)t)->dtype); }

/* Adds a list, an array or another sequence as an index tensor. */
static int add_sequence(plan *p, Tensor *self, PyObject *o, int *in_dim) {
    PyObject *t = data_tensor(o, -1, self->device, false, TL_API_CORE);
    if (t == NULL || is_float(t) || (((Tensor *)t)->numel == 0 && ((Tensor *)t)->dtype != TL_BOOL)) {
        PyErr_Clear(); /* the device may have no tensors of that dtype */
        Py_XDECREF(t);
        t = data_tensor(o, TL_INT64, self->device, false, TL_API_CORE); /* floats are cut, as by PyTorch */
    }
    int r = t != NULL ? add_tensor(p, self, t, in_dim) : -1;
    Py_XDECREF(t);
    return r;
}

/* How many dimensions an item indexes; the rest is what Ellipsis stands for. */
static int takes(PyObject *o) {
    if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) {
        return 0;
    }
    if (is_tensor(o) && (((Tensor *)o)->dtype == TL_BOOL || ((Tensor *)o)->dtype == TL_UINT8)) {
        return ((Tensor *)o)->rank;
    }
    return 1;
}

static int make_plan(plan *p, Tensor *self, PyObject *key);

static int add_item(plan *p, Tensor *self, PyObject *o, int *in_dim, int hidden) {
    if (o == Py_None) {
        return add_none(p);
    }
    if (o == Py_Ellipsis) {
        p->out_dim += hidden;
        *in_dim += hidden;
        return put_int(&p->spec, I_ELLIPSIS);
    }
    if (PySlice_Check(o)) {
        (*in_dim)++;
        return add_slice(p, o);
    }
    if (PyBool_Check(o)) {
        return add_bool(p, o == Py_True, self->device);
    }
    if (is_tensor(o)) {
        return add_tensor(p, self, o, in_dim);
    }
    if (PyLong_Check(o) || (PyIndex_Check(o) && !PySequence_Check(o))) {
        (*in_dim)++;
        return add_int(p, o);
    }
    if (PySequence_Check(o) && !PyUnicode_Check(o)) {
        return add_sequence(p, self, o, in_dim);
    }
    PyObject *type = PyType_GetName(Py_TYPE(o));
    if (type != NULL) {
        set_error(TL_INDEX,
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %U)",
            type);
        Py_DECREF(type);
    }
    return -1;
}

/* Makes the plan of a sequence that stands for the tuple of its items. */
static int plan_listed(plan *p, Tensor *self, PyObject *key) {
    static const char text[] =
        "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; "
        "use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
        "x[torch.tensor(seq)], which will result either in an error or a different result";
    if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) {
        return -1;
    }
    PyObject *items = PySequence_Tuple(key);
    int r = items != NULL ? make_plan(p, self, items) : -1;
    Py_XDECREF(items);
    return r;
}

static int make_plan(plan *p, Tensor *self, PyObject *key) {
    argbuf_init(&p->spec);
    p->trivial = true;
    p->out_dim = p->n_advanced = 0;
    p->mask = NULL;
    int in_dim = 0;
    if (!PyTuple_Check(key)) {
        if (sequence_is_tuple(key)) {
            return plan_listed(p, self, key);
        }
        if (takes(key) > self->rank) {
            return self->rank == 0 && PyLong_Check(key)
                ? set_error(TL_INDEX,
                      "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                      "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number")
                : set_error(TL_INDEX, "too many indices for tensor of dimension %d", self->rank);
        }
        return add_item(p, self, key, &in_dim, self->rank);
    }
    Py_ssize_t n = PyTuple_Size(key);
    int taken = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        taken += takes(PyTuple_GetItem(key, i));
    }
    if (taken > self->rank) {
        return set_error(TL_INDEX, "too many indices for tensor of dimension %d", self->rank);
    }
    int hidden = self->rank - taken;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyTuple_GetItem(key, i);
        if (add_item(p, self, o, &in_dim, hidden) < 0) {
            return -1;
        }
        if (o == Py_Ellipsis) {
            hidden = 0;
        }
    }
    return 0;
}

static overload *op_index, *op_get, *op_put;

static int found(overload **o, const char *full) {
    if (*o == NULL && (*o = overload_named(full)) == NULL) {
        raise_text(TL_NOT_IMPLEMENTED, "there is no operator %s", full);
        return -1;
    }
    return 0;
}

/* The view that the ints, slices, None and Ellipsis of the key make. */
static PyObject *view_of(plan *p, PyObject *self) {
    argbuf b;
    if (p->trivial && p->n_advanced > 0) {
        return Py_NewRef(self);
    }
    if (found(&op_index, "_index") < 0) {
        return NULL;
    }
    argbuf_init(&b);
    int failed = put_tensor(&b, self) < 0 || put_int(&b, p->spec.n_ints) < 0;
    for (int i = 0; !failed && i < p->spec.n_ints; i++) {
        failed = put_int(&b, p->spec.ints[i]) < 0;
    }
    PyObject *r = failed ? NULL : call_overload(op_index, &b, TL_API_CORE);
    argbuf_clear(&b);
    return r;
}

/* Encodes (Tensor self, Tensor[] indices, int[] dims). */
static int put_advanced(argbuf *b, const plan *p, PyObject *view) {
    if (put_tensor(b, view) < 0 || put_int(b, p->n_advanced) < 0) {
        return -1;
    }
    for (int i = 0; i < p->n_advanced; i++) {
        if (put_tensor(b, p->tensors[i]) < 0) {
            return -1;
        }
    }
    if (put_int(b, p->n_advanced) < 0) {
        return -1;
    }
    for (int i = 0; i < p->n_advanced; i++) {
        if (put_int(b, p->dims[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

PyObject *tensor_getitem(PyObject *self, PyObject *key) {
    plan p;
    PyObject *r = NULL;
    if (overrides_on && overridden(OVERRIDE_METHOD, "__getitem__", self, &key, 1, NULL, &r)) {
        return r;
    }
    if (make_plan(&p, (Tensor *)self, key) == 0 && settle_mask(&p) == 0) {
        r = view_of(&p, self);
        if (r != NULL && p.n_advanced > 0) {
            argbuf b;
            argbuf_init(&b);
            SETREF(r,
                found(&op_get, "_index_tensor") < 0 || put_advanced(&b, &p, r) < 0
                    ? NULL
                    : call_overload(op_get, &b, TL_API_CORE));
            argbuf_clear(&b);
        }
    }
    plan_clear(&p);
    return r;
}

/* masked_fill_ of the view. Ones are appended to the mask's shape up to the view's rank. A mask on the CPU serves
 * tensors on every device, as index tensors do. */
static PyObject *fill_masked(plan *p, PyObject *view, PyObject *value) {
    uint8_t device = ((Tensor *)view)->device;
    if (((Tensor *)p->mask)->device == TL_CPU && device != TL_CPU) {
        SETREF(p->mask, PyObject_CallMethod(p->mask, "to", "N", device_object(device)));
        if (p->mask == NULL) {
            return NULL;
        }
    }
    Tensor *mask = (Tensor *)p->mask, *v = (Tensor *)view;
    int trailing = v->rank - p->dims[p->n_advanced] - mask->rank;
    PyObject *shape = PyTuple_New(mask->rank + trailing);
    for (int i = 0; shape != NULL && i < mask->rank + trailing; i++) {
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(i < mask->rank ? mask->shape[i] : 1));
    }
    if (shape == NULL) {
        return NULL;
    }
    PyObject *argv[2] = {p->mask, shape};
    PyObject *wide = call_name("reshape", argv, 2);
    Py_DECREF(shape);
    if (wide == NULL) {
        return NULL;
    }
    PyObject *fill[3] = {view, wide, value};
    PyObject *r = call_name("masked_fill_", fill, 3);
    Py_DECREF(wide);
    return r;
}

static PyObject *put_through(plan *p, PyObject *view, PyObject *value, bool accumulate) {
    argbuf b;
    argbuf_init(&b);
    PyObject *r = NULL;
    bool ready = found(&op_put, "_index_put_") == 0 && put_advanced(&b, p, view) == 0 && put_operand(&b, value) == 1;
    if (ready && put_int(&b, accumulate) == 0) {
        r = call_in_place(op_put, &b, view);
    }
    argbuf_clear(&b);
    return r;
}

static PyObject *assign(plan *p, PyObject *view, PyObject *value, bool accumulate) {
    if (!accumulate && p->mask != NULL && p->n_advanced == 0 && (!is_tensor(value) || ((Tensor *)value)->rank == 0)) {
        return fill_masked(p, view, value);
    }
    if (p->mask != NULL && p->n_advanced == 0 && is_tensor(value) && current.compile & REFUSES_READS) {
        PyObject *module = PyImport_ImportModule("torchlette._ops.indexing"); /* which reads no mask */
        PyObject *r = module == NULL ? NULL : PyObject_CallMethod(module, "put_under", "OOOii", view, p->mask, value,
            p->dims[p->n_advanced], (int)accumulate);
        Py_XDECREF(module);
        return r;
    }
    if (settle_mask(p) < 0) {
        return NULL;
    }
    if (p->n_advanced > 0) {
        return put_through(p, view, value, accumulate);
    }
    return call_name(accumulate ? "add_" : "_setitem_", (PyObject *[]){view, value}, 2);
}

/* self[key] = value. accumulate: self[key] += value, where a repeated index adds each time. */
static int put_at(PyObject *self, PyObject *key, PyObject *value, bool accumulate) {
    plan p;
    int result = -1;
    if (make_plan(&p, (Tensor *)self, key) == 0) {
        PyObject *view = p.trivial ? Py_NewRef(self) : view_of(&p, self);
        PyObject *r = view != NULL ? assign(&p, view, value, accumulate) : NULL;
        result = r != NULL ? 0 : -1;
        Py_XDECREF(view);
        Py_XDECREF(r);
    }
    plan_clear(&p);
    return result;
}

/* _put_at(self, indices, values, accumulate): the indices are a tuple of tensors. */
PyObject *py_put_at(PyObject *ignored, PyObject *args) {
    (void)ignored;
    PyObject *self, *indices, *values;
    int accumulate;
    if (!PyArg_ParseTuple(args, "O!O!O!p:_put_at", (PyObject *)TensorType, &self, (PyObject *)&PyTuple_Type, &indices,
            (PyObject *)TensorType, &values, &accumulate)) {
        return NULL;
    }
    return put_at(self, indices, values, accumulate) < 0 ? NULL : Py_NewRef(self);
}

int tensor_setitem(PyObject *self, PyObject *key, PyObject *value) {
    if (value == NULL) {
        raise_text(TL_TYPE, "Tensor does not support deleting items");
        return -1;
    }
    PyObject *both[] = {key, value}, *done;
    if (overrides_on && overridden(OVERRIDE_METHOD, "__setitem__", self, both, 2, NULL, &done)) {
        Py_XDECREF(done);
        return done != NULL ? 0 : -1;
    }
    tl_scalar s;
    int number = is_tensor(value) || PyComplex_Check(value) ? 1 : number_scalar(value, &s);
    if (number != 1) {
        if (number == 0) {
            PyObject *type = PyType_GetName(Py_TYPE(value));
            raise_text(
                TL_TYPE, "can't assign a %V to a torch.%s tensor", type, "?", dtype_name(((Tensor *)self)->dtype));
            Py_XDECREF(type);
        }
        return -1;
    }
    return put_at(self, key, value, false);
}

Py_ssize_t tensor_length(PyObject *self) {
    Tensor *t = (Tensor *)self;
    if (t->rank == 0) {
        raise_text(TL_TYPE, "len() of a 0-d tensor");
        return -1;
    }
    return (Py_ssize_t)t->shape[0];
}

PyObject *tensor_iter(PyObject *self) {
    if (((Tensor *)self)->rank == 0) {
        return raise_text(TL_TYPE, "iteration over a 0-d tensor");
    }
    PyObject *parts = call_name("unbind", &self, 1);
    PyObject *it = parts != NULL ? PyObject_GetIter(parts) : NULL;
    Py_XDECREF(parts);
    return it;
}

/* _nonzero(mask): indices of the true elements, one tensor for each dimension of the mask. */
PyObject *py_nonzero(PyObject *self, PyObject *mask) {
    (void)self;
    if (!is_tensor(mask) || ((Tensor *)mask)->dtype != TL_BOOL) {
        return raise_text(TL_TYPE, "_nonzero(): expected a Tensor of dtype bool");
    }
    PyObject *tensors[TL_MAX_RANK];
    int rank = ((Tensor *)mask)->rank;
    if (read_mask((Tensor *)mask, tensors) < 0) {
        return NULL;
    }
    PyObject *tuple = PyTuple_New(rank);
    for (int i = 0; i < rank; i++) {
        if (tuple == NULL) {
            Py_DECREF(tensors[i]);
        } else {
            PyTuple_SetItem(tuple, i, tensors[i]);
        }
    }
    return tuple;
}
