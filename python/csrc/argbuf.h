/* The flat encoding of a call's arguments: operands, integers and numbers, in lists that grow. */
#ifndef TORCHLETTE_ARGBUF_H
#define TORCHLETTE_ARGBUF_H

#include "cpython.h"
#include "table.h"
#include "tensor.h"
#include "torchlette.h"

typedef struct {
    uint64_t *in;
    int64_t *ints;
    tl_scalar *scalars;
    int32_t n_in, n_ints, n_scalars;
    int32_t cap_in, cap_ints, cap_scalars;
    uint8_t api;
    uint64_t in0[16];
    PyObject *first;                      /* borrowed: the first operand when it is a tensor */
    Tensor *tensors[TL_DEFERRED_TENSORS]; /* borrowed: the first tensors among the operands */
    int32_t n_tensors;                    /* how many tensors there are */
    int64_t ints0[48];
    tl_scalar scalars0[12];
} argbuf;

void argbuf_init(argbuf *b);
void argbuf_clear(argbuf *b);
int put_in(argbuf *b, uint64_t handle);
int put_int(argbuf *b, int64_t v);
int put_scalar(argbuf *b, uint8_t kind, uint64_t bits);
int put_float(argbuf *b, double v);
int put_complex(argbuf *b, PyObject *number); /* two entries */
int put_tensor(argbuf *b, PyObject *tensor);
int put_operand(argbuf *b, PyObject *o); /* a tensor or a number. 1: put; 0: neither; -1: an error */
int put_default(argbuf *b, const param *p);

#endif
