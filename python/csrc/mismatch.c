#include "mismatch.h"

#include "cpython.h"
#include "errors.h"
#include "ops_table.h"
#include "table.h"
#include "torchlette.h"

static const char *type_text(const param *p) {
    static const char *const plain[] = {
        "Tensor", "Tensor or Number", "int", "bool", "float", "Number", "torch.dtype", "torch.device", "str"};
    if ((p->mods & TL_P_LIST) != 0) {
        return p->type == TL_P_TENSOR ? "tuple of Tensors" : "tuple of ints";
    }
    return plain[p->type];
}

static PyObject *type_name(PyObject *o) { return PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__"); }

/* The text for a name with one overload: it says which argument is wrong. */
static PyObject *single_text(const char *name, const overload *o, const mismatch *w, bool method, Py_ssize_t nargs) {
    const char *param_name = w->index < o->nparams ? o->params[w->index].text : "";
    if (!method && strcmp(param_name, "self") == 0) {
        param_name = "input";
    }
    PyObject *got, *text;
    switch (w->reason) {
    case R_TOO_MANY:
        return PyUnicode_FromFormat("%s() takes %d positional argument%s but %zd %s given", name, o->npos - method,
            o->npos - method == 1 ? "" : "s", nargs, nargs == 1 ? "was" : "were");
    case R_MISSING:
        return PyUnicode_FromFormat("%s() missing 1 required positional arguments: \"%s\"", name, param_name);
    case R_UNEXPECTED:
        return PyUnicode_FromFormat("%s() got an unexpected keyword argument '%U'", name, w->culprit);
    case R_DUPLICATE:
        return PyUnicode_FromFormat("%s() got multiple values for argument '%s'", name, param_name);
    default:
        break;
    }
    got = type_name(w->culprit);
    if (got == NULL) {
        return NULL;
    }
    if (w->position > 0) {
        text = PyUnicode_FromFormat("%s(): argument '%s' (position %d) must be %s, not %U", name, param_name,
            w->position, type_text(&o->params[w->index]), got);
    } else {
        text = PyUnicode_FromFormat(
            "%s(): argument '%s' must be %s, not %U", name, param_name, type_text(&o->params[w->index]), got);
    }
    Py_DECREF(got);
    return text;
}

/* The types of the arguments: "Tensor, int, dim=str". */
static PyObject *given_text(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *parts = PyList_New(0);
    Py_ssize_t n = nargs + (kwnames != NULL ? PyTuple_Size(kwnames) : 0);
    for (Py_ssize_t i = 0; parts != NULL && i < n; i++) {
        PyObject *type = type_name(args[i]);
        PyObject *part = type == NULL ? NULL
            : i < nargs               ? Py_NewRef(type)
                                      : PyUnicode_FromFormat("%U=%U", PyTuple_GetItem(kwnames, i - nargs), type);
        Py_XDECREF(type);
        if (part == NULL || PyList_Append(parts, part) < 0) {
            Py_CLEAR(parts);
        }
        Py_XDECREF(part);
    }
    PyObject *comma = PyUnicode_FromString(", ");
    PyObject *joined = parts != NULL && comma != NULL ? PyUnicode_Join(comma, parts) : NULL;
    Py_XDECREF(parts);
    Py_XDECREF(comma);
    return joined;
}

/* The signature of an overload without its closing parenthesis, and for a method without its receiver. */
static PyObject *accepted_text(const overload *o, bool method) {
    PyObject *text = PyUnicode_FromString("(");
    bool star = false;
    for (int i = method ? 1 : 0; text != NULL && i < o->nparams; i++) {
        const param *p = &o->params[i];
        const char *name = !method && strcmp(p->text, "self") == 0 ? "input" : p->text;
        const char *dflt = o->def->params[i].dflt;
        bool first = i == (method ? 1 : 0);
        bool only = (p->mods & TL_P_KWONLY) != 0 && !star;
        star = star || only;
        PyObject *next = PyUnicode_FromFormat("%U%s%s%s %s%s%s", text, first ? "" : ", ", only ? "*, " : "",
            type_text(p), name, *dflt != 0 ? " = " : "", dflt);
        Py_DECREF(text);
        text = next;
    }
    return text;
}

void raise_mismatch(const group *g, const overload *last, const mismatch *why, bool method, PyObject *const *args,
    Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *text;
    if (g->n == 1) {
        text = single_text(g->name, last, why, method, nargs);
    } else {
        PyObject *given = given_text(args, nargs, kwnames);
        text = given == NULL ? NULL
                             : PyUnicode_FromFormat("%s() received an invalid combination of arguments - got (%U), but "
                                                    "expected one of:",
                                   g->name, given);
        Py_XDECREF(given);
        for (int i = 0; text != NULL && i < g->n; i++) {
            PyObject *one = accepted_text(g->overloads[i], method);
            PyObject *next = one != NULL ? PyUnicode_FromFormat("%U\n * %U)", text, one) : NULL;
            Py_XDECREF(one);
            Py_DECREF(text);
            text = next;
        }
    }
    if (text != NULL) {
        PyErr_SetObject(error_class(TL_TYPE), text);
        Py_DECREF(text);
    }
}
