// Products of pairs of bfloat16 by AVX512-BF16: 14 rows of 32 sums.
#include <stddef.h>
#include <stdint.h>
#include <immintrin.h>
#include "cpu.h"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), \
	apply_to = function)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")
#define UNROLL _Pragma("GCC unroll 32")
#endif

enum { MR = 14, NR = 32 };

static inline __attribute__((always_inline)) void tile(const int rows, int64_t units, const uint32_t *a, int64_t am,
	const uint32_t *b, float *sums, int first) {
	__m512 x[MR][2];
	UNROLL for (int i = 0; i < rows; i++) x[i][0] = x[i][1] = _mm512_setzero_ps();
	for (int64_t u = 0; u < units; u++, b += NR) {
		const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + 16);
		UNROLL for (int i = 0; i < rows; i++) {
			int32_t pair;
			__builtin_memcpy(&pair, a + i * am + u, 4);
			const __m512bh y = (__m512bh)_mm512_set1_epi32(pair);
			x[i][0] = _mm512_dpbf16_ps(x[i][0], y, b0);
			x[i][1] = _mm512_dpbf16_ps(x[i][1], y, b1);
		}
	}
	UNROLL for (int i = 0; i < rows; i++)
		for (int j = 0; j < 2; j++) {
			float *to = sums + i * NR + j * 16;
			_mm512_storeu_ps(to, first ? x[i][j] : _mm512_add_ps(x[i][j], _mm512_loadu_ps(to)));
		}
}

static void pairs(int rows, int64_t units, const uint32_t *a, int64_t am, const uint32_t *b, float *sums, int first,
	int *shape) {
	(void)shape;
#define ROWS(n) case n: tile(n, units, a, am, b, sums, first); break;
	switch (rows) {
		ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14)
	}
}

static void leave(int shape) { (void)shape; }

const tl_half_kernel tl_pairs_avx512 = {MR, NR, 1, pairs, leave};
#if defined(__clang__)
#pragma clang attribute pop
#endif
