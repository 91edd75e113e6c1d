/* The overloads of a name are tried in order. An attempt that fails raises no exception: it notes why. When all have
 * failed, a second round also takes 0-dim tensors for numbers, which reads them. When that fails too, the TypeError is
 * made from the last note. */
#include "parser.h"

#include "argbuf.h"
#include "coercion.h"
#include "cpython.h"
#include "device.h"
#include "errors.h"
#include "mismatch.h"
#include "ops_table.h"
#include "scalar.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "tensor_read.h"
#include "torchlette.h"
#include "types.h"

enum { MAX_PARAMS = 32 };

/* One attempt at binding an overload. */
typedef struct {
    overload *o;
    PyObject *value[MAX_PARAMS]; /* borrowed; NULL when not given */
    int position[MAX_PARAMS];
    PyObject *const *spread; /* the values that are given one by one for the parameter spread_at */
    Py_ssize_t n_spread;
    int spread_at;
    bool reading; /* the second round */
    mismatch why;
} attempt;

/* Converters return 1 when the value is encoded, 0 when it is of another type, -1 with an exception. */

/* The value of a 0-dim tensor: a new reference. NULL for any other object, or with an exception. */
static PyObject *read_number(PyObject *o, const char *what) {
    if (!is_tensor(o) || ((Tensor *)o)->rank != 0 || !coercion_allowed((Tensor *)o, what)) {
        return NULL;
    }
    return tensor_item((Tensor *)o);
}

static int int_value(PyObject *o, bool reading, int64_t *v) {
    if (PyBool_Check(o) || is_tensor(o)) {
        PyObject *n = reading && is_tensor(o) && !dtype_has_gradients(((Tensor *)o)->dtype) ? read_number(o, "__index__")
                                                                                       : NULL;
        if (n == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        *v = PyLong_AsLongLong(n);
        Py_DECREF(n);
        return PyErr_Occurred() ? -1 : 1;
    }
    if (!PyLong_Check(o)) {
        if (!PyIndex_Check(o)) {
            return 0;
        }
        PyObject *n = PyNumber_Index(o);
        if (n == NULL) {
            PyErr_Clear(); /* such as an array of more than one element */
            return 0;
        }
        *v = PyLong_AsLongLong(n);
        Py_DECREF(n);
    } else {
        *v = PyLong_AsLongLong(o);
    }
    if (*v == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return set_error(TL_RUNTIME, "Overflow when unpacking long long");
    }
    return 1;
}

static int scalar_value(PyObject *o, bool reading, tl_scalar *s) {
    if (is_tensor(o)) {
        PyObject *n = reading ? read_number(o, "Scalar") : NULL;
        if (n == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        int found = number_scalar(n, s);
        Py_DECREF(n);
        return found;
    }
    return number_scalar(o, s);
}

static int float_value(PyObject *o, bool reading, double *v) {
    tl_scalar s;
    int found = scalar_value(o, reading, &s);
    if (found != 1 || s.kind == TL_SCALAR_BOOL) {
        return found < 0 ? -1 : 0;
    }
    if (s.kind == TL_SCALAR_FLOAT) {
        memcpy(v, &s.bits, sizeof *v);
    } else {
        *v = (double)(int64_t)s.bits;
    }
    return 1;
}

static int put_word(argbuf *b, const param *p, PyObject *o, const overload *ov) {
    if (!PyUnicode_Check(o)) {
        return 0;
    }
    for (int i = 0; p->words != NULL && p->words[i] != NULL; i++) {
        if (PyUnicode_CompareWithASCIIString(o, p->words[i]) == 0) {
            return put_int(b, i) < 0 ? -1 : 1;
        }
    }
    char words[256] = "";
    size_t used = 0;
    for (int i = 0; p->words != NULL && p->words[i] != NULL && used < sizeof words - 1; i++) {
        int n = snprintf(words + used, sizeof words - used, "%s'%s'", i > 0 ? ", " : "", p->words[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return set_error(TL_RUNTIME, "%s: %s: expected one of %s, got '%U'", ov->def->name, p->text, words, o);
}

/* Lists are read by index, since the conversion of an item may run Python code that changes the list. -1: no list. */
static Py_ssize_t list_size(PyObject *o) {
    return PyTuple_Check(o) ? PyTuple_Size(o) : PyList_Check(o) ? PyList_Size(o) : -1;
}

static PyObject *list_item(PyObject *o, Py_ssize_t i) {
    return PyTuple_Check(o) ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i);
}

static int put_int_list(argbuf *b, PyObject *o, bool reading) {
    int64_t v;
    Py_ssize_t n = list_size(o);
    if (n < 0) {
        int found = int_value(o, reading, &v);
        return found != 1 ? found : put_int(b, 1) < 0 || put_int(b, v) < 0 ? -1 : 1;
    }
    if (put_int(b, n) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *e = list_item(o, i);
        int found = e != NULL ? int_value(e, reading, &v) : -1;
        if (found != 1) {
            return found;
        }
        if (put_int(b, v) < 0) {
            return -1;
        }
    }
    return 1;
}

static int put_tensor_list(argbuf *b, const param *p, PyObject *o) {
    Py_ssize_t n = list_size(o);
    if (n < 0 || put_int(b, n) < 0) {
        return n < 0 ? 0 : -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *e = list_item(o, i);
        if (e == NULL) {
            return -1;
        }
        if (e == Py_None && (p->mods & TL_P_OPT) != 0) {
            if (put_in(b, 0) < 0) {
                return -1;
            }
            continue;
        }
        if (!is_tensor(e)) {
            return 0;
        }
        if (put_tensor(b, e) < 0) {
            return -1;
        }
    }
    return 1;
}

static int put_none(argbuf *b, const param *p) {
    if ((p->mods & TL_P_OPT) == 0) {
        return p->dkind == D_NONE ? (put_default(b, p) < 0 ? -1 : 1) : 0;
    }
    param none = *p;
    none.dkind = D_NONE;
    return put_default(b, &none) < 0 ? -1 : 1;
}

static int put_number(argbuf *b, const param *p, PyObject *o, bool reading) {
    int64_t i;
    double f;
    tl_scalar s;
    int found;
    switch (p->type) {
    case TL_P_INT:
        found = int_value(o, reading, &i);
        break;
    case TL_P_BOOL:
        found = PyBool_Check(o);
        i = o == Py_True;
        break;
    case TL_P_FLOAT:
        found = float_value(o, reading, &f);
        return found != 1 ? found : put_float(b, f) < 0 ? -1 : 1;
    default:
        if (PyComplex_Check(o)) {
            return put_complex(b, o) < 0 ? -1 : 1;
        }
        found = scalar_value(o, reading, &s);
        return found != 1 ? found : put_scalar(b, s.kind, s.bits) < 0 ? -1 : 1;
    }
    if (found != 1) {
        return found;
    }
    if ((p->mods & TL_P_OPT) != 0 && put_int(b, 1) < 0) {
        return -1;
    }
    return put_int(b, i) < 0 ? -1 : 1;
}

static int put_value(argbuf *b, const attempt *a, const param *p, PyObject *o) {
    uint8_t id;
    int found;
    if (o == Py_None) {
        return put_none(b, p);
    }
    if ((p->mods & TL_P_LIST) != 0) {
        return p->type == TL_P_TENSOR ? put_tensor_list(b, p, o) : put_int_list(b, o, a->reading);
    }
    switch (p->type) {
    case TL_P_TENSOR:
        return !is_tensor(o) ? 0 : put_tensor(b, o) < 0 ? -1 : 1;
    case TL_P_OPERAND:
        return put_operand(b, o);
    case TL_P_DTYPE:
        found = dtype_from(o, &id);
        return found != 1 ? found : put_int(b, id) < 0 ? -1 : 1;
    case TL_P_DEVICE:
        found = device_from(o, &id);
        return found != 1 ? found : put_int(b, id) < 0 ? -1 : 1;
    case TL_P_STR:
        return put_word(b, p, o, a->o);
    }
    return put_number(b, p, o, a->reading);
}

/* Takes a keyword that is in no signature. 1: taken; 0: unknown, or of the wrong type; -1: an error. */
static int implicit_keyword(attempt *a, extras *x, PyObject *name, PyObject *value) {
    const char *s = PyUnicode_AsUTF8AndSize(name, NULL);
    if (s == NULL) {
        return -1;
    }
    if (strcmp(s, "out") == 0) {
        if ((a->o->def->flags & TL_F_OUT) == 0) {
            return value == Py_None;
        }
        x->out = value != Py_None ? value : NULL;
        return 1;
    }
    if (a->o->creates) {
        if (strcmp(s, "requires_grad") == 0) {
            x->requires_grad = value == Py_True;
            return PyBool_Check(value);
        }
        if (strcmp(s, "pin_memory") == 0) {
            return 1; /* ignored: there is no pinned memory */
        }
        if (strcmp(s, "layout") == 0) {
            PyObject *name = value != Py_None ? PyObject_Str(value) : NULL;
            bool dense = name == NULL || PyUnicode_CompareWithASCIIString(name, "torch.strided") == 0;
            Py_XDECREF(name);
            return dense ? 1
                         : set_error(TL_NOT_IMPLEMENTED,
                               "%s(): argument 'layout': every tensor is torch.strided, got %S", a->o->def->name,
                               value);
        }
    }
    if (strcmp(s, "memory_format") == 0) {
        return 1; /* ignored: row-major is the only format */
    }
    if (strcmp(s, "generator") == 0) {
        x->generator = value != Py_None ? value : NULL;
        return value == Py_None || PyObject_HasAttrString(value, "_words");
    }
    return 0;
}

static int keyword_index(const overload *o, PyObject *name, bool method) {
    for (int i = method ? 1 : 0; i < o->nparams; i++) {
        if (o->params[i].name == name) {
            return i;
        }
    }
    for (int i = method ? 1 : 0; i < o->nparams; i++) {
        const param *p = &o->params[i];
        if (PyUnicode_Compare(p->name, name) == 0) {
            return i;
        }
        for (int k = 0; k < 4 && p->alias[k] != NULL; k++) {
            if (p->alias[k] == name || PyUnicode_Compare(p->alias[k], name) == 0) {
                return i;
            }
        }
    }
    return -1;
}

static int fail(attempt *a, int reason, int index, int position, PyObject *culprit) {
    a->why = (mismatch){.reason = reason, .index = index, .position = position, .culprit = culprit};
    return 0;
}

/* Assigns positional arguments to parameters. */
static int bind_positional(attempt *a, PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    overload *o = a->o;
    int at = 0;
    if (self != NULL) {
        a->value[0] = self;
        at = 1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++, at++) {
        if (at >= o->npos) {
            return fail(a, R_TOO_MANY, at, (int)i, NULL);
        }
        const param *p = &o->params[at];
        bool list = PyTuple_Check(args[i]) || PyList_Check(args[i]);
        if ((p->mods & TL_P_SPREAD) != 0 && !list && args[i] != Py_None) {
            a->spread = args + i;
            a->n_spread = nargs - i;
            a->spread_at = at;
            return 1;
        }
        a->value[at] = args[i];
        a->position[at] = (int)i + 1;
    }
    return 1;
}

static int bind_keywords(attempt *a, bool method, PyObject *const *values, PyObject *names, extras *x) {
    Py_ssize_t n = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int at = keyword_index(a->o, name, method);
        if (at < 0) {
            int taken = implicit_keyword(a, x, name, values[i]);
            if (taken < 0) {
                return -1;
            }
            if (!taken) {
                return fail(a, R_UNEXPECTED, 0, -1, name);
            }
            continue;
        }
        if (a->value[at] != NULL || a->spread_at == at) {
            return fail(a, R_DUPLICATE, at, -1, name);
        }
        a->value[at] = values[i];
        a->position[at] = -1;
    }
    return 1;
}

static int put_spread(attempt *a, argbuf *b, const param *p) {
    if (p->type == TL_P_TENSOR) {
        if (put_int(b, a->n_spread) < 0) {
            return -1;
        }
        for (Py_ssize_t i = 0; i < a->n_spread; i++) {
            if (!is_tensor(a->spread[i])) {
                return fail(a, R_TYPE, a->spread_at, (int)i + 1, a->spread[i]);
            }
            if (put_tensor(b, a->spread[i]) < 0) {
                return -1;
            }
        }
        return 1;
    }
    if (put_int(b, a->n_spread) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < a->n_spread; i++) {
        int64_t v;
        int found = int_value(a->spread[i], a->reading, &v);
        if (found == 0) {
            return fail(a, R_TYPE, a->spread_at, (int)i + 1, a->spread[i]);
        }
        if (found < 0 || put_int(b, v) < 0) {
            return -1;
        }
    }
    return 1;
}

/* Encodes the bound values in the order of the parameters. */
static int encode(attempt *a, argbuf *b) {
    for (int i = 0; i < a->o->nparams; i++) {
        const param *p = &a->o->params[i];
        int found;
        if (i == a->spread_at) {
            found = put_spread(a, b, p);
        } else if (a->value[i] == NULL) {
            if (p->dkind == D_REQUIRED) {
                if ((p->mods & TL_P_SPREAD) == 0) {
                    return fail(a, R_MISSING, i, -1, NULL);
                }
                found = put_int(b, 0) < 0 ? -1 : 1; /* f() gives an empty list */
            } else {
                found = put_default(b, p) < 0 ? -1 : 1;
            }
        } else {
            found = put_value(b, a, p, a->value[i]);
            if (found == 0) {
                return fail(a, R_TYPE, i, a->position[i], a->value[i]);
            }
        }
        if (found != 1) {
            return found;
        }
    }
    return 1;
}

static int try_overload(
    attempt *a, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, argbuf *b, extras *x) {
    overload *o = a->o;
    memset(a->value, 0, sizeof *a->value * (size_t)o->nparams);
    a->spread_at = -1;
    a->n_spread = 0;
    a->why.reason = R_NONE;
    x->out = NULL;
    x->requires_grad = false;
    b->n_in = b->n_ints = b->n_scalars = 0;
    b->first = NULL;
    b->api = TL_API_CORE;
    int ok = bind_positional(a, self, args, nargs);
    if (ok == 1) {
        ok = bind_keywords(a, self != NULL, args + nargs, kwnames, x);
    }
    if (ok == 1) {
        ok = encode(a, b);
    }
    return ok;
}

overload *group_bind(
    group *g, PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, argbuf *b, extras *x) {
    attempt a;
    for (int round = 0; round < 2; round++) {
        a.reading = round == 1;
        for (int i = 0; i < g->n; i++) {
            a.o = g->overloads[i];
            int ok = try_overload(&a, self, args, nargs, kwnames, b, x);
            if (ok != 0) {
                return ok == 1 ? a.o : NULL;
            }
        }
    }
    raise_mismatch(g, a.o, &a.why, self != NULL, args, nargs, kwnames);
    return NULL;
}
