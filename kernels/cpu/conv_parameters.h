// What the runs of convolutions whose channels come last share.
#pragma once
#include <string.h>
#include "conv_last.h"
#include "vector/conv.h"

// Numbers of parameters.
enum { BATCH, CHANNELS, OUTPUTS, HIGH, WIDE, OUT_HIGH, OUT_WIDE, TAPS_HIGH, TAPS_WIDE, STEP_HIGH, STEP_WIDE, TOP, LEFT,
	GAP_HIGH, GAP_WIDE, LEAST, MOST, STRIDE_X, AT_X = STRIDE_X + 4, AT_W, AT_BIAS, AT_ADD };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t up(int64_t n, int64_t m) { return (n + m - 1) / m; }

static inline float number(int64_t bits) {
	const uint32_t low = (uint32_t)bits;
	float f;
	memcpy(&f, &low, sizeof f);
	return f;
}

static inline const tl_conv_table *table(int isa) {
#if defined(__x86_64__)
	if (isa >= TLK_ISA_AVX512) return &tl_conv_avx512;
	if (isa >= TLK_ISA_AVX2) return &tl_conv_avx2;
#else
	(void)isa;
#endif
	return &tl_conv_base;
}
