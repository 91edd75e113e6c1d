#include "argbuf.h"

#include "cpython.h"
#include "ops_table.h"
#include "scalar.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "torchlette.h"

void argbuf_init(argbuf *b) {
    b->in = b->in0;
    b->ints = b->ints0;
    b->scalars = b->scalars0;
    b->n_in = b->n_ints = b->n_scalars = 0;
    b->cap_in = (int32_t)(sizeof b->in0 / sizeof *b->in0);
    b->cap_ints = (int32_t)(sizeof b->ints0 / sizeof *b->ints0);
    b->cap_scalars = (int32_t)(sizeof b->scalars0 / sizeof *b->scalars0);
    b->first = NULL;
    b->n_tensors = 0;
    b->api = TL_API_CORE;
}

void argbuf_clear(argbuf *b) {
    if (b->in != b->in0) {
        PyMem_Free(b->in);
    }
    if (b->ints != b->ints0) {
        PyMem_Free(b->ints);
    }
    if (b->scalars != b->scalars0) {
        PyMem_Free(b->scalars);
    }
}

/* Doubles an array. inlined: the array inside the argbuf, which p may still be. */
static void *grow(void *p, const void *inlined, int32_t *cap, size_t item) {
    size_t bytes = (size_t)*cap * item;
    void *q = p == inlined ? PyMem_Malloc(2 * bytes) : PyMem_Realloc(p, 2 * bytes);
    if (q == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (p == inlined) {
        memcpy(q, p, bytes);
    }
    *cap *= 2;
    return q;
}

int put_in(argbuf *b, uint64_t handle) {
    if (b->n_in == b->cap_in) {
        void *p = grow(b->in, b->in0, &b->cap_in, sizeof *b->in);
        if (p == NULL) {
            return -1;
        }
        b->in = p;
    }
    b->in[b->n_in++] = handle;
    return 0;
}

int put_int(argbuf *b, int64_t v) {
    if (b->n_ints == b->cap_ints) {
        void *p = grow(b->ints, b->ints0, &b->cap_ints, sizeof *b->ints);
        if (p == NULL) {
            return -1;
        }
        b->ints = p;
    }
    b->ints[b->n_ints++] = v;
    return 0;
}

int put_scalar(argbuf *b, uint8_t kind, uint64_t bits) {
    if (b->n_scalars == b->cap_scalars) {
        void *p = grow(b->scalars, b->scalars0, &b->cap_scalars, sizeof *b->scalars);
        if (p == NULL) {
            return -1;
        }
        b->scalars = p;
    }
    b->scalars[b->n_scalars].kind = kind;
    b->scalars[b->n_scalars++].bits = bits;
    return 0;
}

int put_float(argbuf *b, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return put_scalar(b, TL_SCALAR_FLOAT, bits);
}

static int put_part(argbuf *b, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return put_scalar(b, TL_SCALAR_COMPLEX, bits);
}

int put_complex(argbuf *b, PyObject *number) {
    return put_part(b, PyComplex_RealAsDouble(number)) < 0 ? -1 : put_part(b, PyComplex_ImagAsDouble(number));
}

int put_tensor(argbuf *b, PyObject *tensor) {
    b->api |= ((Tensor *)tensor)->api;
    if (b->n_in == 0) {
        b->first = tensor;
    }
    if (b->n_tensors++ < TL_DEFERRED_TENSORS) {
        b->tensors[b->n_tensors - 1] = (Tensor *)tensor;
    }
    return put_in(b, ((Tensor *)tensor)->handle);
}

int put_operand(argbuf *b, PyObject *o) {
    if (is_tensor(o)) {
        return put_tensor(b, o) < 0 ? -1 : 1;
    }
    tl_scalar s;
    int found = number_scalar(o, &s);
    if (found == 0 && PyComplex_Check(o)) {
        return put_in(b, TL_SCALAR_OPERAND) < 0 || put_complex(b, o) < 0 ? -1 : 1;
    }
    if (found != 1) {
        return found;
    }
    return put_in(b, TL_SCALAR_OPERAND) < 0 || put_scalar(b, s.kind, s.bits) < 0 ? -1 : 1;
}

static int put_default_list(argbuf *b, const param *p) {
    if (p->dkind == D_NONE) {
        return put_int(b, -1);
    }
    if (p->type == TL_P_TENSOR) {
        return put_int(b, 0);
    }
    int32_t n = p->dkind == D_LIST ? p->dlen : 1;
    if (put_int(b, n) < 0) {
        return -1;
    }
    for (int32_t i = 0; i < n; i++) {
        if (put_int(b, p->dkind == D_LIST ? p->dlist[i] : p->dint) < 0) {
            return -1;
        }
    }
    return 0;
}

int put_default(argbuf *b, const param *p) {
    bool none = p->dkind == D_NONE;
    if ((p->mods & TL_P_LIST) != 0) {
        return put_default_list(b, p);
    }
    switch (p->type) {
    case TL_P_TENSOR:
        return put_in(b, 0);
    case TL_P_OPERAND:
        if (none) {
            return put_in(b, 0);
        }
        if (put_in(b, TL_SCALAR_OPERAND) < 0) {
            return -1;
        }
        break;
    case TL_P_INT:
    case TL_P_BOOL:
        if ((p->mods & TL_P_OPT) != 0 && put_int(b, !none) < 0) {
            return -1;
        }
        return put_int(b, none ? 0 : p->dint);
    case TL_P_DTYPE:
        return put_int(b, none ? 0 : p->dint);
    case TL_P_DEVICE:
    case TL_P_STR:
        return put_int(b, none ? -1 : p->dint);
    }
    if (none) {
        return put_scalar(b, TL_NONE, 0);
    }
    if (p->type == TL_P_FLOAT || p->dkind == D_FLOAT) {
        return put_float(b, p->dfloat);
    }
    return put_scalar(b, p->dkind == D_BOOL ? TL_SCALAR_BOOL : TL_SCALAR_INT, (uint64_t)p->dint);
}
