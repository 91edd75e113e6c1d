// Convolutions of float32 whose channels come last: launch.ConvLast.
#pragma once
#include "vector/cpu.h"

// The kind of a step is TLK_STEP_CONV_LAST, plus 1 if channels stay alone, plus 2 if an operand is added. par has the
// parameters of launch.ConvLast.
enum { TLK_STEP_CONV_LAST = 80 };
int64_t tl_run_conv_last(int form, tl_pool *pool, int isa, char **buf, const int64_t *par);
