// Products of int8 by VNNI, whose instruction multiplies unsigned by signed bytes: 128 is added to the weights, and 128
// times the sum of a row taken from its results.
#include <stddef.h>
#include <stdint.h>
#include <immintrin.h>
#include "cpu.h"
#if defined(__clang__)
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define NARROW __attribute__((target("avx2,avxvnni")))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("O3")
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")))
#define NARROW __attribute__((target("avx2,avxvnni")))
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE int32_t four(const int8_t *x) {
	int32_t y;
	__builtin_memcpy(&y, x, 4);
	return y;
}

WIDE INLINE void wide(const int mr, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums, const uint32_t *w,
	int32_t *c) {
	__m512i t[8];
	UNROLL for (int i = 0; i < mr; i++) t[i] = _mm512_set1_epi32(-128 * sums[i]);
	for (int64_t k = 0; k < words; k++, w += TLK_PANEL) {
		const __m512i f = _mm512_xor_si512(_mm512_loadu_si512(w), _mm512_set1_epi8(-128));
		UNROLL for (int i = 0; i < mr; i++)
			t[i] = _mm512_dpbusd_epi32(t[i], f, _mm512_set1_epi32(four(x + i * xm + 4 * k)));
	}
	UNROLL for (int i = 0; i < mr; i++) _mm512_storeu_si512(c + i * TLK_PANEL, t[i]);
}

WIDE void tl_int8_avx512_vnni(int rows, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums,
	const uint32_t *w, int32_t *c) {
	int i = 0;
	for (; i + 8 <= rows; i += 8) wide(8, words, x + i * xm, xm, sums + i, w, c + i * TLK_PANEL);
	for (; i < rows; i++) wide(1, words, x + i * xm, xm, sums + i, w, c + i * TLK_PANEL);
}

NARROW INLINE void narrow(const int mr, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums,
	const uint32_t *w, int32_t *c) {
	__m256i t[4][2];
	UNROLL for (int i = 0; i < mr; i++) t[i][0] = t[i][1] = _mm256_set1_epi32(-128 * sums[i]);
	for (int64_t k = 0; k < words; k++, w += TLK_PANEL) {
		const __m256i turned = _mm256_set1_epi8(-128);
		const __m256i f = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)w), turned);
		const __m256i g = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(w + 8)), turned);
		UNROLL for (int i = 0; i < mr; i++) {
			const __m256i y = _mm256_set1_epi32(four(x + i * xm + 4 * k));
			t[i][0] = _mm256_dpbusd_avx_epi32(t[i][0], f, y);
			t[i][1] = _mm256_dpbusd_avx_epi32(t[i][1], g, y);
		}
	}
	UNROLL for (int i = 0; i < mr; i++) {
		_mm256_storeu_si256((__m256i *)(c + i * TLK_PANEL), t[i][0]);
		_mm256_storeu_si256((__m256i *)(c + i * TLK_PANEL + 8), t[i][1]);
	}
}

NARROW void tl_int8_avx2_vnni(int rows, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums,
	const uint32_t *w, int32_t *c) {
	int i = 0;
	for (; i + 4 <= rows; i += 4) narrow(4, words, x + i * xm, xm, sums + i, w, c + i * TLK_PANEL);
	for (; i < rows; i++) narrow(1, words, x + i * xm, xm, sums + i, w, c + i * TLK_PANEL);
}
