#include "number.h"

#include "argbuf.h"
#include "call.h"
#include "cpython.h"
#include "errors.h"
#include "host_data.h"
#include "ops_table.h"
#include "overrides.h"
#include "scalar.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"
#include "types.h"

/* A binary operator: its overload of two operands, and the encoded defaults of the other parameters. Both are found at
 * import, so that an operator in an expression needs no parsing. */
typedef struct {
    const char *name;
    overload *o;
    bool commutes;
    bool takes_number_first; /* the first parameter may be a number */
    const char *reflected;   /* the operator that takes (b, a), or NULL */
    argbuf rest;
} binary;

enum { B_ADD, B_SUB, B_MUL, B_DIV, B_FLOORDIV, B_MOD, B_POW, B_MATMUL, B_AND, B_OR, B_XOR, B_SHL, B_SHR, B_EQ, B_NE,
    B_LT, B_LE, B_GT, B_GE, B_RSUB, B_COUNT };

static binary ops[B_COUNT] = {
    [B_ADD] = {.name = "add", .commutes = true},
    [B_SUB] = {.name = "sub", .reflected = "rsub"},
    [B_MUL] = {.name = "mul", .commutes = true},
    [B_DIV] = {.name = "div"},
    [B_FLOORDIV] = {.name = "floor_divide"},
    [B_MOD] = {.name = "remainder"},
    [B_POW] = {.name = "pow"},
    [B_MATMUL] = {.name = "matmul"},
    [B_AND] = {.name = "bitwise_and", .commutes = true},
    [B_OR] = {.name = "bitwise_or", .commutes = true},
    [B_XOR] = {.name = "bitwise_xor", .commutes = true},
    [B_SHL] = {.name = "bitwise_left_shift"},
    [B_SHR] = {.name = "bitwise_right_shift"},
    [B_EQ] = {.name = "eq", .commutes = true},
    [B_NE] = {.name = "ne", .commutes = true},
    [B_LT] = {.name = "lt"},
    [B_LE] = {.name = "le"},
    [B_GT] = {.name = "gt"},
    [B_GE] = {.name = "ge"},
    [B_RSUB] = {.name = "rsub"},
};

static PyObject *run_binary(binary *op, PyObject *x, PyObject *y, uint8_t mode) {
    argbuf b;
    argbuf_init(&b);
    PyObject *r = NULL;
    int found = put_operand(&b, x);
    if (found == 1) {
        found = put_operand(&b, y);
    }
    if (found == 0) {
        r = Py_NewRef(Py_NotImplemented);
    } else if (found == 1) {
        /* Few entries: they fit the inline arrays. */
        for (int32_t i = 0; i < op->rest.n_in; i++) {
            b.in[b.n_in++] = op->rest.in[i];
        }
        for (int32_t i = 0; i < op->rest.n_ints; i++) {
            b.ints[b.n_ints++] = op->rest.ints[i];
        }
        for (int32_t i = 0; i < op->rest.n_scalars; i++) {
            b.scalars[b.n_scalars++] = op->rest.scalars[i];
        }
        r = mode == TL_IN_PLACE ? call_in_place(op->o, &b, x) : call_overload(op->o, &b, TL_API_CORE);
    }
    argbuf_clear(&b);
    PyObject *both[] = {x, y};
    return mode == TL_IN_PLACE || r == Py_NotImplemented ? r : call_observed(op->name, NULL, both, 2, NULL, r);
}

static bool is_number(PyObject *o) {
    tl_scalar s;
    int found = PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) ? 1 : number_scalar(o, &s);
    if (found < 0) {
        PyErr_Clear();
    }
    return found != 0;
}

/* Computes (number op tensor). */
static PyObject *run_reflected(binary *op, PyObject *number, PyObject *tensor) {
    if (!is_number(number) || op == &ops[B_MATMUL]) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (op->takes_number_first) {
        return run_binary(op, number, tensor, TL_FUNCTIONAL);
    }
    if (op->commutes) {
        return run_binary(op, tensor, number, TL_FUNCTIONAL);
    }
    if (op == &ops[B_SUB] && ops[B_RSUB].o != NULL) {
        return run_binary(&ops[B_RSUB], tensor, number, TL_FUNCTIONAL);
    }
    if (op == &ops[B_DIV]) { /* as PyTorch's __rtruediv__ */
        PyObject *inverse = call_name("reciprocal", &tensor, 1);
        PyObject *r = inverse != NULL ? run_binary(&ops[B_MUL], inverse, number, TL_FUNCTIONAL) : NULL;
        Py_XDECREF(inverse);
        return r;
    }
    Tensor *t = (Tensor *)tensor;
    uint8_t dtype = PyBool_Check(number) ? TL_BOOL
        : PyLong_Check(number)           ? (t->dtype != TL_BOOL ? t->dtype : TL_INT64)
                                         : (dtype_has_gradients(t->dtype) ? t->dtype : current.default_dtype);
    PyObject *zero_dim = scalar_tensor(number, dtype, t->device, t->api);
    PyObject *r = zero_dim != NULL ? run_binary(op, zero_dim, tensor, TL_FUNCTIONAL) : NULL;
    Py_XDECREF(zero_dim);
    return r;
}

/* What a class or a mode makes of an operator: Python calls a method of the first tensor. */
static bool operator_overridden(int which, PyObject *a, PyObject *b, uint8_t mode, PyObject **r) {
    static const char *const reflected[B_COUNT] = {[B_SUB] = "__rsub__", [B_DIV] = "__rtruediv__",
        [B_FLOORDIV] = "__rfloordiv__", [B_MOD] = "__rmod__", [B_POW] = "__rpow__", [B_SHL] = "__rlshift__",
        [B_SHR] = "__rrshift__", [B_MATMUL] = "__rmatmul__"};
    char name[32];
    bool own = is_tensor(a);
    snprintf(name, sizeof name, "%s%s", !own && reflected[which] != NULL ? reflected[which] : ops[which].name,
        mode == TL_IN_PLACE ? "_" : "");
    return overridden(OVERRIDE_METHOD, name, own ? a : b, own ? &b : &a, 1, NULL, r);
}

static PyObject *dispatch(int which, PyObject *a, PyObject *b) {
    binary *op = &ops[which];
    PyObject *r;
    if (overrides_on && operator_overridden(which, a, b, TL_FUNCTIONAL, &r)) {
        return r;
    }
    if (op->o == NULL || (which == B_MATMUL && !is_tensor(b))) {
        Py_RETURN_NOTIMPLEMENTED; /* a product with a number is no matrix product */
    }
    PyObject *made = is_tensor(a) ? run_binary(op, a, b, TL_FUNCTIONAL) : run_reflected(op, a, b);
    if (made == Py_NotImplemented && operator_overridden(which, a, b, TL_FUNCTIONAL, &r)) {
        Py_DECREF(made);
        return r;
    }
    return made;
}

static PyObject *in_place(int which, PyObject *a, PyObject *b) {
    binary *op = &ops[which];
    PyObject *r;
    if (overrides_on && operator_overridden(which, a, b, TL_IN_PLACE, &r)) {
        return r;
    }
    if (op->o == NULL || (op->o->def->flags & TL_F_INPLACE) == 0) {
        Py_RETURN_NOTIMPLEMENTED; /* Python then computes a = a op b */
    }
    return run_binary(op, a, b, TL_IN_PLACE);
}

#define BINARY(fn, which) \
    static PyObject *nb_##fn(PyObject *a, PyObject *b) { return dispatch(which, a, b); }
#define IN_PLACE(fn, which) \
    static PyObject *nb_i##fn(PyObject *a, PyObject *b) { return in_place(which, a, b); }

BINARY(add, B_ADD) IN_PLACE(add, B_ADD)
BINARY(sub, B_SUB) IN_PLACE(sub, B_SUB)
BINARY(mul, B_MUL) IN_PLACE(mul, B_MUL)
BINARY(div, B_DIV) IN_PLACE(div, B_DIV)
BINARY(floordiv, B_FLOORDIV) IN_PLACE(floordiv, B_FLOORDIV)
BINARY(mod, B_MOD) IN_PLACE(mod, B_MOD)
BINARY(and, B_AND) IN_PLACE(and, B_AND)
BINARY(or, B_OR) IN_PLACE(or, B_OR)
BINARY(xor, B_XOR) IN_PLACE(xor, B_XOR)
BINARY(lshift, B_SHL) IN_PLACE(lshift, B_SHL)
BINARY(rshift, B_SHR) IN_PLACE(rshift, B_SHR)
BINARY(matmul, B_MATMUL)

static PyObject *nb_pow(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return dispatch(B_POW, a, b);
}

static PyObject *nb_ipow(PyObject *a, PyObject *b, PyObject *modulus) {
    (void)modulus;
    return in_place(B_POW, a, b);
}

PyObject *tensor_richcompare(PyObject *a, PyObject *b, int op) {
    static const int which[] = {
        [Py_LT] = B_LT, [Py_LE] = B_LE, [Py_EQ] = B_EQ, [Py_NE] = B_NE, [Py_GT] = B_GT, [Py_GE] = B_GE};
    PyObject *r;
    if (!is_tensor(b) && !is_number(b)) {
        return operator_overridden(which[op], a, b, TL_FUNCTIONAL, &r) ? r : Py_NewRef(Py_NotImplemented);
    }
    return dispatch(which[op], a, b);
}

static PyObject *unary(const char *name, PyObject *a) {
    PyObject *r;
    return overrides_on && overridden(OVERRIDE_METHOD, name, a, NULL, 0, NULL, &r) ? r : call_name(name, &a, 1);
}

static PyObject *nb_neg(PyObject *a) { return unary("neg", a); }
static PyObject *nb_abs(PyObject *a) { return unary("abs", a); }
static PyObject *nb_pos(PyObject *a) { return unary("positive", a); }

static PyObject *nb_invert(PyObject *a) {
    if (dtype_has_gradients(((Tensor *)a)->dtype)) {
        return raise_text(TL_TYPE, "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    }
    return unary("bitwise_not", a);
}

PyType_Slot number_slots[] = {
    {Py_nb_add, nb_add},
    {Py_nb_inplace_add, nb_iadd},
    {Py_nb_subtract, nb_sub},
    {Py_nb_inplace_subtract, nb_isub},
    {Py_nb_multiply, nb_mul},
    {Py_nb_inplace_multiply, nb_imul},
    {Py_nb_true_divide, nb_div},
    {Py_nb_inplace_true_divide, nb_idiv},
    {Py_nb_floor_divide, nb_floordiv},
    {Py_nb_inplace_floor_divide, nb_ifloordiv},
    {Py_nb_remainder, nb_mod},
    {Py_nb_inplace_remainder, nb_imod},
    {Py_nb_power, nb_pow},
    {Py_nb_inplace_power, nb_ipow},
    {Py_nb_matrix_multiply, nb_matmul},
    {Py_nb_and, nb_and},
    {Py_nb_inplace_and, nb_iand},
    {Py_nb_or, nb_or},
    {Py_nb_inplace_or, nb_ior},
    {Py_nb_xor, nb_xor},
    {Py_nb_inplace_xor, nb_ixor},
    {Py_nb_lshift, nb_lshift},
    {Py_nb_inplace_lshift, nb_ilshift},
    {Py_nb_rshift, nb_rshift},
    {Py_nb_inplace_rshift, nb_irshift},
    {Py_nb_negative, nb_neg},
    {Py_nb_positive, nb_pos},
    {Py_nb_absolute, nb_abs},
    {Py_nb_invert, nb_invert},
    {0, NULL},
};

/* Whether an overload takes two operands, and has defaults for all other parameters. */
static bool fits(const overload *o) {
    for (int i = 0; i < o->nparams; i++) {
        const param *p = &o->params[i];
        bool operand = (p->type == TL_P_TENSOR || p->type == TL_P_OPERAND) && (p->mods & TL_P_LIST) == 0;
        if (i < 2 ? !operand : p->dkind == D_REQUIRED) {
            return false;
        }
    }
    return o->nparams >= 2;
}

int number_init(void) {
    for (int i = 0; i < B_COUNT; i++) {
        group *g = group_find(ops[i].name);
        for (int k = 0; g != NULL && k < g->n && ops[i].o == NULL; k++) {
            if (fits(g->overloads[k])) {
                ops[i].o = g->overloads[k];
            }
        }
        if (ops[i].o == NULL) {
            continue;
        }
        ops[i].takes_number_first = ops[i].o->params[0].type == TL_P_OPERAND;
        argbuf_init(&ops[i].rest);
        for (int k = 2; k < ops[i].o->nparams; k++) {
            if (put_default(&ops[i].rest, &ops[i].o->params[k]) < 0) {
                return -1;
            }
        }
    }
    return 0;
}
