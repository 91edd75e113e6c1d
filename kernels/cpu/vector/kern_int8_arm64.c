// Products of int8 by the dot products of ARMv8.2.
#include <stdint.h>
#include <arm_neon.h>
#include "cpu.h"
#if defined(__clang__)
#define DOT __attribute__((target("dotprod")))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("O3")
#define DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define UNROLL _Pragma("GCC unroll 32")
#endif

DOT static inline __attribute__((always_inline)) void dots(const int mr, int64_t words, const int8_t *x, int64_t xm,
	const uint32_t *w, int32_t *c) {
	int32x4_t t[4][4];
	UNROLL for (int i = 0; i < mr; i++) UNROLL for (int v = 0; v < 4; v++) t[i][v] = vdupq_n_s32(0);
	for (int64_t k = 0; k < words; k++, w += TLK_PANEL) {
		int8x16_t f[4];
		UNROLL for (int v = 0; v < 4; v++) f[v] = vld1q_s8((const int8_t *)(w + 4 * v));
		UNROLL for (int i = 0; i < mr; i++) {
			int32_t four;
			__builtin_memcpy(&four, x + i * xm + 4 * k, 4);
			const int8x16_t y = vreinterpretq_s8_s32(vdupq_n_s32(four));
			UNROLL for (int v = 0; v < 4; v++) t[i][v] = vdotq_s32(t[i][v], f[v], y);
		}
	}
	UNROLL for (int i = 0; i < mr; i++)
		UNROLL for (int v = 0; v < 4; v++) vst1q_s32(c + i * TLK_PANEL + 4 * v, t[i][v]);
}

DOT void tl_int8_neon(int rows, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums, const uint32_t *w,
	int32_t *c) {
	(void)sums;
	int i = 0;
	for (; i + 4 <= rows; i += 4) dots(4, words, x + i * xm, xm, w, c + i * TLK_PANEL);
	for (; i < rows; i++) dots(1, words, x + i * xm, xm, w, c + i * TLK_PANEL);
}
