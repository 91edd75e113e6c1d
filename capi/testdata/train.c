/* Trains y = relu(x W1 + b1) W2 + b2 on y = x0 * x1 through torchlette.h alone. */
#include "torchlette.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 64, HIDDEN = 32, STEPS = 300, PARAMS = 4 };

static void check(int32_t status, const char *what) {
    if (status != TL_OK) {
        fprintf(stderr, "%s: status %d: %s\n", what, status, tl_last_error()->message);
        exit(1);
    }
}

static uint16_t find(const char *name) {
    uint16_t op;
    check(tl_op_find(name, &op), name);
    return op;
}

/* Records an operator with one result. */
static uint64_t record(uint16_t op, uint8_t mode, const uint64_t *in, int n_in, const int64_t *ints, int n_ints,
    const tl_scalar *scalars, int n_scalars) {
    tl_call call = {.op = op, .mode = mode, .in = in, .n_in = n_in, .ints = ints, .n_ints = n_ints, .scalars = scalars,
        .n_scalars = n_scalars};
    tl_out out;
    int32_t n;
    check(tl_op(&call, &out, 1, &n), "tl_op");
    return out.handle;
}

/* op(a, b), and op(a, b, alpha=1) for add and sub. */
static uint64_t binary(uint16_t op, uint64_t a, uint64_t b, int alpha) {
    uint64_t in[] = {a, b};
    tl_scalar one = {TL_SCALAR_INT, 1};
    return record(op, TL_FUNCTIONAL, in, 2, NULL, 0, &one, alpha);
}

static uint64_t tensor(int rank, const int64_t *shape, const float *data, size_t count, uint32_t flags) {
    tl_out out;
    check(tl_from_data(TL_FLOAT32, TL_CPU, rank, shape, data, count * sizeof *data, flags, 0, &out), "tl_from_data");
    return out.handle;
}

static float read_float(uint64_t t) {
    float v;
    int32_t status;
    while ((status = tl_force(t, 50000000)) == TL_PENDING) {
    }
    check(status, "tl_force");
    check(tl_read(t, &v, sizeof v), "tl_read");
    return v;
}

static float uniform(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

/* p -= rate * p.grad, in place, outside the graph. */
static void descend(uint64_t p, uint16_t sub, double rate) {
    tl_out grad;
    int32_t has;
    int64_t recorded;
    tl_scalar alpha = {TL_SCALAR_FLOAT, 0};
    check(tl_grad(p, &grad, &has), "tl_grad");
    if (!has) {
        fprintf(stderr, "a parameter has no gradient\n");
        exit(1);
    }
    __builtin_memcpy(&alpha.bits, &rate, sizeof rate);
    uint64_t in[] = {p, grad.handle};
    check(tl_set_mode(TL_MODE_GRAD, 0, &recorded), "tl_set_mode");
    record(sub, TL_IN_PLACE, in, 2, NULL, 0, &alpha, 1);
    check(tl_set_mode(TL_MODE_GRAD, recorded, NULL), "tl_set_mode");
    check(tl_set_grad(p, 0), "tl_set_grad");
    check(tl_release(&grad.handle, 1), "tl_release");
}

static void check_errors(uint64_t x, uint64_t y, uint16_t matmul) {
    uint64_t in[] = {x, y};
    uint16_t op;
    tl_call call = {.op = matmul, .in = in, .n_in = 2};
    tl_out out;
    int32_t n;
    if (tl_op(&call, &out, 1, &n) != TL_RUNTIME || tl_op_find("no such operator", &op) != TL_VALUE) {
        fprintf(stderr, "wrong calls must fail with their status\n");
        exit(1);
    }
    call.op = TL_OP_COUNT + 1;
    if (tl_op(&call, &out, 1, &n) == TL_OK || tl_last_error()->message[0] == 0) {
        fprintf(stderr, "an unknown operator must fail\n");
        exit(1);
    }
}

int main(void) {
    if (tl_abi_version() != TL_ABI_VERSION || tl_ops_hash() != TL_OPERATORS_HASH) {
        fprintf(stderr, "the library is not of this header\n");
        return 1;
    }
    uint16_t matmul = find("matmul"), add = find("add"), sub = find("sub"), mul = find("mul"), relu = find("relu"),
        sum = find("sum");
    static float x[SAMPLES * 2], y[SAMPLES], w1[2 * HIDDEN], b1[HIDDEN], w2[HIDDEN], b2[1];
    srand(1);
    for (int i = 0; i < SAMPLES; i++) {
        x[2 * i] = uniform();
        x[2 * i + 1] = uniform();
        y[i] = x[2 * i] * x[2 * i + 1];
    }
    for (int i = 0; i < HIDDEN; i++) {
        w1[i] = uniform();
        w1[HIDDEN + i] = uniform();
        w2[i] = uniform() / sqrtf(HIDDEN);
    }
    int64_t in_shape[] = {SAMPLES, 2}, out_shape[] = {SAMPLES, 1}, w1_shape[] = {2, HIDDEN}, w2_shape[] = {HIDDEN, 1},
        hidden[] = {HIDDEN}, one[] = {1};
    uint64_t xs = tensor(2, in_shape, x, SAMPLES * 2, 0), ys = tensor(2, out_shape, y, SAMPLES, 0);
    uint64_t p[PARAMS] = {
        tensor(2, w1_shape, w1, 2 * HIDDEN, TL_REQUIRES_GRAD),
        tensor(1, hidden, b1, HIDDEN, TL_REQUIRES_GRAD),
        tensor(2, w2_shape, w2, HIDDEN, TL_REQUIRES_GRAD),
        tensor(1, one, b2, 1, TL_REQUIRES_GRAD),
    };
    check_errors(xs, ys, matmul);
    float first = 0, last = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t t[8];
        int64_t no_dtype = 0; /* sum(dtype=None) */
        t[0] = binary(matmul, xs, p[0], 0);
        t[1] = binary(add, t[0], p[1], 1);
        t[2] = record(relu, TL_FUNCTIONAL, &t[1], 1, NULL, 0, NULL, 0);
        t[3] = binary(matmul, t[2], p[2], 0);
        t[4] = binary(add, t[3], p[3], 1);
        t[5] = binary(sub, t[4], ys, 1);
        t[6] = binary(mul, t[5], t[5], 0);
        t[7] = record(sum, TL_FUNCTIONAL, &t[6], 1, &no_dtype, 1, NULL, 0);
        uint64_t session;
        tl_event event;
        check(tl_backward(&t[7], (uint64_t[]){0}, 1, NULL, 0, TL_ACCUMULATE, &session), "tl_backward");
        check(tl_backward_next(session, 0, &event), "tl_backward_next");
        for (int i = 0; i < PARAMS; i++) {
            descend(p[i], sub, 0.2 / SAMPLES);
        }
        last = read_float(t[7]) / SAMPLES;
        first = step == 0 ? last : first;
        check(tl_release(t, 8), "tl_release");
    }
    printf("loss %.5f -> %.5f in %d steps\n", (double)first, (double)last, STEPS);
    return last < first / 10 ? 0 : 1;
}
