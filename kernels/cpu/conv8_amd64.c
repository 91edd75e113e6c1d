// Tiles of convolutions of 8-bit elements: by VNNI, whose instruction multiplies unsigned by signed bytes, and by AVX2.
#include <stddef.h>
#include <stdint.h>
#include <immintrin.h>
#include "conv8.h"
#if defined(__clang__)
#pragma clang fp contract(off)
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define NARROW __attribute__((target("avx2,avxvnni")))
#define MIDDLE __attribute__((target("avx2")))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("O3", "fp-contract=off")
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")))
#define NARROW __attribute__((target("avx2,avxvnni")))
#define MIDDLE __attribute__((target("avx2")))
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define INLINE static inline __attribute__((always_inline))
enum { ROWS = CONV8_ROWS };

INLINE int32_t four(const uint8_t *x) {
	int32_t y;
	__builtin_memcpy(&y, x, 4);
	return y;
}

WIDE INLINE void wide(const tl_conv8 *q, const int panels, const int rows, const uint8_t *const *x, const
	uint32_t *w, int64_t wm, const int32_t *init, int32_t *c, int64_t cm) {
	__m512i t[2][ROWS];
	UNROLL for (int p = 0; p < panels; p++)
		UNROLL for (int i = 0; i < rows; i++) t[p][i] = _mm512_loadu_si512(init + p * TLK_PANEL);
	for (int64_t tap = 0; tap < q->taps; tap++) {
		const uint8_t *row[ROWS];
		UNROLL for (int i = 0; i < rows; i++) row[i] = x[i] + q->tap[tap];
		for (int64_t k = 0; k < q->words; k++, w += TLK_PANEL) {
			__m512i f[2];
			UNROLL for (int p = 0; p < panels; p++) f[p] = _mm512_loadu_si512(w + p * wm);
			UNROLL for (int i = 0; i < rows; i++) {
				const __m512i y = _mm512_set1_epi32(four(row[i] + 4 * k));
				UNROLL for (int p = 0; p < panels; p++) t[p][i] = _mm512_dpbusd_epi32(t[p][i], y, f[p]);
			}
		}
	}
	UNROLL for (int p = 0; p < panels; p++)
		UNROLL for (int i = 0; i < rows; i++) _mm512_storeu_si512(c + p * cm + i * TLK_PANEL, t[p][i]);
}

WIDE static void wide_tile(const tl_conv8 *q, int panels, int rows, const uint8_t *const *x, const uint32_t *w,
	int64_t wm, const int32_t *init, int32_t *c, int64_t cm) {
	if (panels == 2 && rows > 4) wide(q, 2, ROWS, x, w, wm, init, c, cm);
	else if (panels == 2 && rows > 1) wide(q, 2, 4, x, w, wm, init, c, cm);
	else if (panels == 2) wide(q, 2, 1, x, w, wm, init, c, cm);
	else wide(q, 1, ROWS, x, w, wm, init, c, cm);
}

// Sixteen bytes of each of four taps become words of a lane's four taps.
WIDE static void wide_alone(const tl_conv8 *q, const uint8_t *const *x, const uint32_t *w, const int32_t *init,
	int32_t *c) {
	const __m512i across = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	const __m512i within = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
	__m512i t[ROWS];
	UNROLL for (int i = 0; i < ROWS; i++) t[i] = _mm512_loadu_si512(init);
	for (int64_t tap = 0; tap < q->taps; tap += 4, w += TLK_PANEL) {
		const __m512i f = _mm512_loadu_si512(w);
		const int64_t *at = q->tap + tap;
		UNROLL for (int i = 0; i < ROWS; i++) {
			__m512i y = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(x[i] + at[0])));
			y = _mm512_inserti32x4(y, _mm_loadu_si128((const __m128i *)(x[i] + at[1])), 1);
			y = _mm512_inserti32x4(y, _mm_loadu_si128((const __m128i *)(x[i] + at[2])), 2);
			y = _mm512_inserti32x4(y, _mm_loadu_si128((const __m128i *)(x[i] + at[3])), 3);
			y = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(across, y), within);
			t[i] = _mm512_dpbusd_epi32(t[i], y, f);
		}
	}
	UNROLL for (int i = 0; i < ROWS; i++) _mm512_storeu_si512(c + i * TLK_PANEL, t[i]);
}

NARROW INLINE void narrow(const tl_conv8 *q, const int rows, const uint8_t *const *x, const uint32_t *w, const
	int32_t *init, int32_t *c) {
	__m256i t[4][2];
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int v = 0; v < 2; v++) t[i][v] = _mm256_loadu_si256((const __m256i *)(init + 8 * v));
	for (int64_t tap = 0; tap < q->taps; tap++) {
		const uint8_t *row[4];
		UNROLL for (int i = 0; i < rows; i++) row[i] = x[i] + q->tap[tap];
		for (int64_t k = 0; k < q->words; k++, w += TLK_PANEL) {
			__m256i f[2];
			UNROLL for (int v = 0; v < 2; v++) f[v] = _mm256_loadu_si256((const __m256i *)(w + 8 * v));
			UNROLL for (int i = 0; i < rows; i++) {
				const __m256i y = _mm256_set1_epi32(four(row[i] + 4 * k));
				UNROLL for (int v = 0; v < 2; v++) t[i][v] = _mm256_dpbusd_avx_epi32(t[i][v], y, f[v]);
			}
		}
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int v = 0; v < 2; v++)
			_mm256_storeu_si256((__m256i *)(c + i * TLK_PANEL + 8 * v), t[i][v]);
}

NARROW static void narrow_tile(const tl_conv8 *q, int panels, int rows, const uint8_t *const *x, const uint32_t
	*w, int64_t wm, const int32_t *init, int32_t *c, int64_t cm) {
	for (int p = 0; p < panels; p++, w += wm, init += TLK_PANEL, c += cm)
		for (int i = 0; i < rows; i += 4) {
			if (rows - i == 1) narrow(q, 1, x + i, w, init, c + i * TLK_PANEL);
			else narrow(q, 4, x + i, w, init, c + i * TLK_PANEL);
		}
}

INLINE int64_t four_wide(const uint8_t *x) {
	int64_t y;
	__builtin_memcpy(&y, x, 8);
	return y;
}

// Products of 16 bits, which AVX2 adds in pairs: a sum is in two lanes until the end. Four positions by half a panel,
// as a load spreads the elements of a position, and a shuffle widens weights, which each serve four sums.
MIDDLE INLINE void middle(const tl_conv8 *q, const int rows, const uint8_t *const *x, const uint32_t *w, const
	int32_t *init, int32_t *c) {
	__m256i t[4][2];
	UNROLL for (int i = 0; i < rows; i++) UNROLL for (int v = 0; v < 2; v++) t[i][v] = _mm256_setzero_si256();
	for (int64_t tap = 0; tap < q->taps; tap++) {
		const uint8_t *row[4];
		UNROLL for (int i = 0; i < rows; i++) row[i] = x[i] + q->tap[tap];
		for (int64_t k = 0; k < q->words; k++, w += TLK_PANEL) {
			__m256i f[2];
			UNROLL for (int v = 0; v < 2; v++)
				f[v] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 4 * v)));
			UNROLL for (int i = 0; i < rows; i++) {
				const __m256i y = _mm256_set1_epi64x(four_wide(row[i] + 8 * k));
				UNROLL for (int v = 0; v < 2; v++)
					t[i][v] = _mm256_add_epi32(t[i][v], _mm256_madd_epi16(f[v], y));
			}
		}
	}
	const __m256i first = _mm256_loadu_si256((const __m256i *)init);
	UNROLL for (int i = 0; i < rows; i++) {
		const __m256i sum = _mm256_permute4x64_epi64(_mm256_hadd_epi32(t[i][0], t[i][1]), 0xd8);
		_mm256_storeu_si256((__m256i *)(c + i * TLK_PANEL), _mm256_add_epi32(sum, first));
	}
}

MIDDLE static void middle_tile(const tl_conv8 *q, int panels, int rows, const uint8_t *const *x, const uint32_t
	*w, int64_t wm, const int32_t *init, int32_t *c, int64_t cm) {
	for (int p = 0; p < panels; p++, w += wm, init += TLK_PANEL, c += cm)
		for (int i = 0; i < rows; i += 4)
			for (int half = 0; half < TLK_PANEL; half += 8) {
				int32_t *to = c + i * TLK_PANEL + half;
				if (rows - i == 1) middle(q, 1, x + i, w + half, init + half, to);
				else middle(q, 4, x + i, w + half, init + half, to);
			}
}

// Weights that are narrow: sums of two products of bytes have 16 bits.
MIDDLE INLINE void pairs(const tl_conv8 *q, const int rows, const uint8_t *const *x, const uint32_t *w, const
	int32_t *init, int32_t *c) {
	const __m256i ones = _mm256_set1_epi16(1);
	__m256i t[4][2];
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int v = 0; v < 2; v++) t[i][v] = _mm256_loadu_si256((const __m256i *)(init + 8 * v));
	for (int64_t tap = 0; tap < q->taps; tap++) {
		const uint8_t *row[4];
		UNROLL for (int i = 0; i < rows; i++) row[i] = x[i] + q->tap[tap];
		for (int64_t k = 0; k < q->words; k++, w += TLK_PANEL) {
			__m256i f[2];
			UNROLL for (int v = 0; v < 2; v++) f[v] = _mm256_loadu_si256((const __m256i *)(w + 8 * v));
			UNROLL for (int i = 0; i < rows; i++) {
				const __m256i y = _mm256_set1_epi32(four(row[i] + 4 * k));
				UNROLL for (int v = 0; v < 2; v++) t[i][v] = _mm256_add_epi32(t[i][v],
					_mm256_madd_epi16(_mm256_maddubs_epi16(y, f[v]), ones));
			}
		}
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int v = 0; v < 2; v++)
			_mm256_storeu_si256((__m256i *)(c + i * TLK_PANEL + 8 * v), t[i][v]);
}

MIDDLE static void pairs_tile(const tl_conv8 *q, int panels, int rows, const uint8_t *const *x, const uint32_t
	*w, int64_t wm, const int32_t *init, int32_t *c, int64_t cm) {
	for (int p = 0; p < panels; p++, w += wm, init += TLK_PANEL, c += cm)
		for (int i = 0; i < rows; i += 4) {
			if (rows - i == 1) pairs(q, 1, x + i, w, init, c + i * TLK_PANEL);
			else pairs(q, 4, x + i, w, init, c + i * TLK_PANEL);
		}
}

MIDDLE static void middle_alone(const tl_conv8 *q, const uint8_t *const *x, const uint32_t *w, const int32_t *init,
	int32_t *c) {
	for (int i = 0; i < ROWS; i++, c += TLK_PANEL) {
		__m256i t[4], f[4];
		UNROLL for (int v = 0; v < 4; v++) t[v] = _mm256_setzero_si256();
		const uint32_t *g = w;
		for (int64_t tap = 0; tap < q->taps; tap += 4, g += TLK_PANEL) {
			const int64_t *at = q->tap + tap;
			__m128i y[4];
			UNROLL for (int j = 0; j < 4; j++) y[j] = _mm_loadu_si128((const __m128i *)(x[i] + at[j]));
			const __m128i ab = _mm_unpacklo_epi8(y[0], y[1]), cd = _mm_unpacklo_epi8(y[2], y[3]);
			const __m128i ef = _mm_unpackhi_epi8(y[0], y[1]), gh = _mm_unpackhi_epi8(y[2], y[3]);
			y[0] = _mm_unpacklo_epi16(ab, cd);
			y[1] = _mm_unpackhi_epi16(ab, cd);
			y[2] = _mm_unpacklo_epi16(ef, gh);
			y[3] = _mm_unpackhi_epi16(ef, gh);
			UNROLL for (int v = 0; v < 4; v++) {
				f[v] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(g + 4 * v)));
				t[v] = _mm256_add_epi32(t[v], _mm256_madd_epi16(f[v], _mm256_cvtepu8_epi16(y[v])));
			}
		}
		UNROLL for (int v = 0; v < 4; v += 2) {
			const __m256i sum = _mm256_permute4x64_epi64(_mm256_hadd_epi32(t[v], t[v + 1]), 0xd8);
			_mm256_storeu_si256((__m256i *)(c + 4 * v),
				_mm256_add_epi32(sum, _mm256_loadu_si256((const __m256i *)(init + 4 * v))));
		}
	}
}

// Numbers are within limits before they are rounded, half to even, and beyond those of bytes afterwards only by zero.
MIDDLE static void middle_finish(const tl_conv8 *q, int64_t rows, const int32_t *c, const float *scale,
	const float *bias, uint8_t *y) {
	const __m256 least = _mm256_set1_ps(q->least), most = _mm256_set1_ps(q->most);
	const __m256i zero = _mm256_set1_epi32(q->zero), low = _mm256_set1_epi32(255);
	for (int64_t i = 0; i < rows; i++, c += TLK_PANEL, y += TLK_PANEL) {
		__m256i t[2];
		UNROLL for (int v = 0; v < 2; v++) {
			__m256 f = _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(c + 8 * v)));
			f = _mm256_add_ps(_mm256_mul_ps(f, _mm256_loadu_ps(scale + 8 * v)), _mm256_loadu_ps(bias + 8 * v));
			f = _mm256_min_ps(_mm256_max_ps(f, least), most);
			t[v] = _mm256_and_si256(_mm256_add_epi32(_mm256_cvtps_epi32(f), zero), low);
		}
		const __m256i half = _mm256_permute4x64_epi64(_mm256_packus_epi32(t[0], t[1]), 0xd8);
		_mm_storeu_si128((__m128i *)y, _mm_packus_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
	}
}

WIDE static void wide_finish(const tl_conv8 *q, int64_t rows, const int32_t *c, const float *scale, const float *bias,
	uint8_t *y) {
	const __m512 least = _mm512_set1_ps(q->least), most = _mm512_set1_ps(q->most);
	const __m512 factor = _mm512_loadu_ps(scale), plus = _mm512_loadu_ps(bias);
	const __m512i zero = _mm512_set1_epi32(q->zero);
	for (int64_t i = 0; i < rows; i++, c += TLK_PANEL, y += TLK_PANEL) {
		__m512 f = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(c)), factor), plus);
		f = _mm512_min_ps(_mm512_max_ps(f, least), most);
		_mm_storeu_si128((__m128i *)y, _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(f), zero)));
	}
}

const tl_conv8_kernel *tl_conv8_vectors(int isa, int narrow) {
	static const tl_conv8_kernel avx2 = {1, middle_tile, middle_alone, middle_finish},
		avx2_pairs = {0, pairs_tile, middle_alone, middle_finish},
		avx2_vnni = {0, narrow_tile, middle_alone, middle_finish}, avx512_vnni = {0, wide_tile, wide_alone, wide_finish};
	if (isa >= TLK_ISA_AVX512_VNNI) return &avx512_vnni;
	if (isa == TLK_ISA_AVX2_VNNI) return &avx2_vnni;
	if (isa >= TLK_ISA_AVX2) return narrow ? &avx2_pairs : &avx2;
	return &tl_conv8_plain;
}
