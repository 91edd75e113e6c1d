// Parts of 3x3 convolutions of 8-bit elements by Winograd's minimal filtering F(2x2, 3x3), as in conv_winograd.c. In
// integers it is exact: with factors of weights four times as large none is a fraction, and a result is a quarter of
// what they give.
#include "conv8.h"
#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("O3")
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline))

// Factors of elements have 11 bits.
AVX2 static void factors(int64_t channels, const uint8_t *const *x, int16_t *v, int64_t vm) {
	for (int64_t c = 0; c < channels; c += CONV8_LANES) {
		__m256i d[4][4];
#define AT(i) _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(x[i] + c)))
		UNROLL for (int j = 0; j < 4; j++) {
			const __m256i second = AT(4 + j), third = AT(8 + j);
			d[0][j] = _mm256_sub_epi16(AT(j), third);
			d[1][j] = _mm256_add_epi16(second, third);
			d[2][j] = _mm256_sub_epi16(third, second);
			d[3][j] = _mm256_sub_epi16(second, AT(12 + j));
		}
#undef AT
		int16_t *to = v + c;
#define PUT(i, y) _mm256_storeu_si256((__m256i *)(to + (i) * vm), y)
		UNROLL for (int i = 0; i < 4; i++, to += 4 * vm) {
			PUT(0, _mm256_sub_epi16(d[i][0], d[i][2]));
			PUT(1, _mm256_add_epi16(d[i][1], d[i][2]));
			PUT(2, _mm256_sub_epi16(d[i][2], d[i][1]));
			PUT(3, _mm256_sub_epi16(d[i][1], d[i][3]));
		}
#undef PUT
	}
}

AVX2 INLINE void rows_by_panel(const int rows, int64_t channels, const int16_t *v, const int16_t *w, int32_t *sums) {
	__m256i t[CONV8_SQUARES][2];
	UNROLL for (int i = 0; i < rows; i++) t[i][0] = t[i][1] = _mm256_setzero_si256();
	for (int64_t k = 0; k < channels; k += 2, w += 2 * TLK_PANEL) {
		const __m256i f = _mm256_loadu_si256((const __m256i *)w);
		const __m256i g = _mm256_loadu_si256((const __m256i *)(w + TLK_PANEL));
		UNROLL for (int i = 0; i < rows; i++) {
			int32_t two;
			__builtin_memcpy(&two, v + i * channels + k, 4);
			const __m256i y = _mm256_set1_epi32(two);
			t[i][0] = _mm256_add_epi32(t[i][0], _mm256_madd_epi16(f, y));
			t[i][1] = _mm256_add_epi32(t[i][1], _mm256_madd_epi16(g, y));
		}
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < 2; j++) _mm256_storeu_si256((__m256i *)(sums + i * TLK_PANEL + 8 * j), t[i][j]);
}

AVX2 static void multiply(int rows, int64_t channels, const int16_t *v, const int16_t *w, int32_t *sums) {
	switch (rows) {
	case 1: rows_by_panel(1, channels, v, w, sums); break;
	case 2: rows_by_panel(2, channels, v, w, sums); break;
	case 3: rows_by_panel(3, channels, v, w, sums); break;
	case 4: rows_by_panel(4, channels, v, w, sums); break;
	case 5: rows_by_panel(5, channels, v, w, sums); break;
	case 6: rows_by_panel(6, channels, v, w, sums); break;
	}
}

AVX2 static void results(const int32_t *sums, int64_t sm, const int32_t *init, int32_t *const *c) {
	for (int n = 0; n < TLK_PANEL; n += 8) {
		__m256i r[2][4];
#define AT(i) _mm256_loadu_si256((const __m256i *)(sums + (i) * sm + n))
		UNROLL for (int j = 0; j < 4; j++) {
			const __m256i second = AT(4 + j), third = AT(8 + j);
			r[0][j] = _mm256_add_epi32(_mm256_add_epi32(AT(j), second), third);
			r[1][j] = _mm256_sub_epi32(_mm256_sub_epi32(second, third), AT(12 + j));
		}
#undef AT
		const __m256i first = _mm256_loadu_si256((const __m256i *)(init + n));
#define PUT(k, z) if (c[k]) _mm256_storeu_si256((__m256i *)(c[k] + n), \
	_mm256_add_epi32(_mm256_srai_epi32(z, 2), first))
		UNROLL for (int i = 0; i < 2; i++) {
			PUT(2 * i, _mm256_add_epi32(_mm256_add_epi32(r[i][0], r[i][1]), r[i][2]));
			PUT(2 * i + 1, _mm256_sub_epi32(_mm256_sub_epi32(r[i][1], r[i][2]), r[i][3]));
		}
#undef PUT
	}
}

static const tl_conv8_squares squares = {factors, multiply, results};

const tl_conv8_squares *tl_conv8_squares_of(int isa) { return tl_conv8_vectors(isa, 0)->wide ? &squares : NULL; }
#else
const tl_conv8_squares *tl_conv8_squares_of(int isa) {
	(void)isa;
	return NULL;
}
#endif

// Sixteen factors of the 3x3 weights g, each `apart` from the one before, with 12 bits.
static void weight_factors(const int *g, int16_t *to, int64_t apart) {
	int d[4][3];
	for (int u = 0; u < 3; u++) {
		const int a = g[u], b = g[3 + u], c = g[6 + u];
		d[0][u] = 2 * a;
		d[1][u] = a + b + c;
		d[2][u] = a - b + c;
		d[3][u] = 2 * c;
	}
	for (int i = 0; i < 4; i++, to += 4 * apart) {
		to[0] = (int16_t)(2 * d[i][0]);
		to[apart] = (int16_t)(d[i][0] + d[i][1] + d[i][2]);
		to[2 * apart] = (int16_t)(d[i][0] - d[i][1] + d[i][2]);
		to[3 * apart] = (int16_t)(2 * d[i][2]);
	}
}

void tl_conv8_factors(int64_t panels, int64_t channels, const int8_t *weights, int16_t *to) {
	const int64_t words = (channels + 3) / 4, whole = tl_conv8_whole(channels), apart = whole * TLK_PANEL;
	for (int64_t p = 0; p < panels; p++, weights += 9 * words * 4 * TLK_PANEL, to += CONV8_AREA * apart)
		for (int64_t c = 0; c < whole; c++)
			for (int64_t n = 0; n < TLK_PANEL; n++) {
				int g[9];
				for (int64_t t = 0; t < 9; t++)
					g[t] = c < channels ? weights[((t * words + c / 4) * TLK_PANEL + n) * 4 + c % 4] : 0;
				weight_factors(g, to + (c / 2 * TLK_PANEL + n) * 2 + c % 2, apart);
			}
}
