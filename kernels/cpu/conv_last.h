// Convolutions of float32 whose channels come last: launch.ConvLast.
#pragma once
#include "vector/cpu.h"

// The kind of a step is TLK_STEP_CONV_LAST, plus 1 if channels stay alone, plus 2 if an operand is added. par has the
// parameters of launch.ConvLast.
enum { TLK_STEP_CONV_LAST = 96 };

// winograd: weights of tl_winograd_pack, or NULL.
int64_t tl_run_conv_last(int form, tl_pool *pool, int isa, char **buf, const int64_t *par, const char *winograd);

// Of convolutions with 3x3 taps whose results are computed as squares of 2x2. pack makes factors of weights; it returns
// their bytes, 0 for convolutions that are better computed otherwise. Writes nothing to NULL.
int64_t tl_winograd_pack(int32_t form, const int64_t *par, const char *weights, char *to);
int64_t tl_run_winograd(int adds, tl_pool *pool, int isa, char **buf, const int64_t *par, const char *factors);
