// Products of planes and panels of quantized weights by AVX2. With weights of four bits planes are of int8, and a
// multiplication adds up pairs of products in 16 bits: 15 * 128 * 2 is 3,840, so those of four words of eight terms
// fit. With weights of eight bits they would not. There two planes of 12 bits, in 16, take the place of three, and sums
// have 32 bits.
#include <stdint.h>
#include <immintrin.h>
#include "planes.h"
#if defined(__clang__)
#define WIDE __attribute__((target("avx2,fma")))
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#pragma GCC optimize("O3")
#define WIDE __attribute__((target("avx2,fma")))
#define UNROLL _Pragma("GCC unroll 32")
#define ROLLED _Pragma("GCC unroll 1")
#endif
#define INLINE static inline __attribute__((always_inline))

enum { HALVES = TLK_PANEL / 8, WORDS = 4 }; // vectors of a row of words; rows whose products fit 16 bits

// The first n of eight numbers, and zeros.
WIDE INLINE __m256 first(const float *x, int64_t n) {
	if (n >= 8) return _mm256_loadu_ps(x);
	return _mm256_maskload_ps(x, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

WIDE static float greatest(int64_t n, const float *x) {
	const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
	__m256 most = _mm256_setzero_ps(), none = most;
	for (int64_t i = 0; i < n; i += 8) {
		const __m256 v = _mm256_and_ps(first(x + i, n - i), magnitude);
		most = _mm256_max_ps(most, v);
		none = _mm256_or_ps(none, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
	}
	if (_mm256_movemask_ps(none)) return __builtin_inff();
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

WIDE static int32_t total_of(__m256i v) {
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

WIDE INLINE int split_into(const int planes, const tl_quantized *q, int64_t K, const float *x, int8_t *to,
	int64_t pitch, tl_plane_block *b) {
	// Words have a column's even terms in the low halves of bytes, and the odd ones in the high halves.
	const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);
	for (int64_t k = 0; k < K; k += q->group, b++) {
		const int64_t n = planes_least(q->group, K - k);
		float scale;
		if (planes == 1) planes_step(greatest(n, x + k), &b->factor, &scale);
		else if (!planes_scale(greatest(n, x + k), &b->factor, &scale)) return 0;
		const __m256 up = _mm256_set1_ps(scale);
		__m256i sum[PLANES];
		UNROLL for (int p = 0; p < planes; p++) sum[p] = _mm256_setzero_si256();
		for (int64_t i = 0; i < n; i += 8) {
			__m256i r = _mm256_cvtps_epi32(_mm256_mul_ps(first(x + k + i, n - i), up));
			UNROLL for (int p = planes - 1; p >= 0; p--) {
				const __m256i v = _mm256_srai_epi32(_mm256_slli_epi32(r, 24), 24);
				r = _mm256_srai_epi32(_mm256_sub_epi32(r, v), 8);
				sum[p] = _mm256_add_epi32(sum[p], v);
				__m128i bytes = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
				bytes = _mm_shuffle_epi8(_mm_packs_epi16(bytes, bytes), order);
				_mm_storel_epi64((__m128i *)(to + p * pitch + k + i), bytes);
			}
		}
		UNROLL for (int p = 0; p < planes; p++) b->start[p] = -8 * total_of(sum[p]);
	}
	return 1;
}

// Terms of a block are factor (4096 a + b).
WIDE static int split_halves(int64_t K, const float *x, int16_t *to, int64_t pitch, tl_plane_block *b) {
	for (int64_t k = 0; k < K; k += PLANES_BLOCK, b++) {
		const int64_t n = planes_least(PLANES_BLOCK, K - k);
		float scale;
		if (!planes_scale(greatest(n, x + k), &b->factor, &scale)) return 0;
		for (int64_t i = 0; i < n; i += 8) {
			const __m256i r = _mm256_cvtps_epi32(_mm256_mul_ps(first(x + k + i, n - i), _mm256_set1_ps(scale)));
			const __m256i low = _mm256_srai_epi32(_mm256_slli_epi32(r, 20), 20);
			const __m256i high = _mm256_srai_epi32(_mm256_sub_epi32(r, low), 12);
			const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(high, low), 0xd8);
			_mm_storeu_si128((__m128i *)(to + k + i), _mm256_castsi256_si128(both));
			_mm_storeu_si128((__m128i *)(to + pitch + k + i), _mm256_extracti128_si256(both, 1));
		}
	}
	return 1;
}

WIDE static int split(const tl_quantized *q, int64_t K, const float *x, int8_t *to, int64_t pitch, tl_plane_block *b) {
	if (q->bits == 8) return split_halves(K, x, (int16_t *)to, pitch, b);
	return q->dynamic ? split_into(1, q, K, x, to, pitch, b) : split_into(PLANES, q, K, x, to, pitch, b);
}

// Adds products of bytes and pairs of digits to sums of 16 bits. Of additions that it knows GCC makes a tree, whose
// leaves are more than there are registers.
WIDE INLINE __m256i dot(__m256i sums, __m256i words, __m256i x) {
	__m256i more;
	__asm__("vpaddw %2, %1, %0" : "=x"(more) : "x"(sums), "x"(_mm256_maddubs_epi16(words, x)));
	return more;
}

// Adds the products of rows of words, WORDS at most. Words that lie `ahead` words behind are fetched.
WIDE INLINE void words_of(const int planes, const int64_t rows, const int8_t *x, const int64_t pitch,
	const uint32_t *w, const int64_t ahead, __m256i t[PLANES][HALVES]) {
	const __m256i low = _mm256_set1_epi8(15), sign = _mm256_set1_epi8((char)0x88);
	__m256i s[PLANES][HALVES];
	UNROLL for (int i = 0; i < planes; i++)
		UNROLL for (int h = 0; h < HALVES; h++) s[i][h] = _mm256_setzero_si256();
	ROLLED for (int64_t r = 0; r < rows; r++, w += TLK_PANEL, x += 8) {
		__m256i even[HALVES], odd[HALVES];
		_mm_prefetch((const char *)(w + ahead), _MM_HINT_T0);
		UNROLL for (int h = 0; h < HALVES; h++) {
			const __m256i word = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(w + 8 * h)), sign);
			even[h] = _mm256_and_si256(word, low);
			odd[h] = _mm256_and_si256(_mm256_srli_epi16(word, 4), low);
		}
		UNROLL for (int i = 0; i < planes; i++) {
			const __m256i a = _mm256_set1_epi32(planes_four(x + i * pitch));
			const __m256i b = _mm256_set1_epi32(planes_four(x + i * pitch + 4));
			UNROLL for (int h = 0; h < HALVES; h++) {
				s[i][h] = dot(s[i][h], even[h], a);
				s[i][h] = dot(s[i][h], odd[h], b);
			}
		}
	}
	const __m256i ones = _mm256_set1_epi16(1);
	UNROLL for (int i = 0; i < planes; i++)
		UNROLL for (int h = 0; h < HALVES; h++) t[i][h] = _mm256_add_epi32(t[i][h], _mm256_madd_epi16(s[i][h], ones));
}

WIDE INLINE __m256 brains(const uint16_t *p) {
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

// One block of terms and a panel.
WIDE INLINE void dots(const int planes, int64_t rows, const int8_t *x, const int64_t pitch, const tl_plane_block *b,
	const uint32_t *w, const int64_t ahead, __m256 v[HALVES]) {
	__m256i t[PLANES][HALVES];
	UNROLL for (int i = 0; i < planes; i++)
		UNROLL for (int h = 0; h < HALVES; h++) t[i][h] = _mm256_set1_epi32(b->start[i]);
	for (; rows > 0; rows -= WORDS, w += WORDS * TLK_PANEL, x += WORDS * 8)
		words_of(planes, planes_least(rows, WORDS), x, pitch, w, ahead, t);
	const __m256 step = _mm256_set1_ps(256), factor = _mm256_set1_ps(b->factor);
	UNROLL for (int h = 0; h < HALVES; h++) {
		__m256 sum = _mm256_cvtepi32_ps(t[0][h]);
		UNROLL for (int i = 1; i < planes; i++) sum = _mm256_fmadd_ps(sum, step, _mm256_cvtepi32_ps(t[i][h]));
		v[h] = _mm256_mul_ps(sum, factor);
	}
}

WIDE INLINE void panels_of(const int planes, const tl_quantized *q, int count, int64_t K, const int8_t *x,
	int64_t pitch, const tl_plane_block *b, const float *sums, const uint32_t *w, const void *scale,
	const uint16_t *offset, float *c) {
	const int64_t groups = (K + q->group - 1) / q->group, gm = groups * TLK_PANEL, words = (K + 7) / 8;
	for (int64_t i = 0; i < count * TLK_PANEL; i += 8) _mm256_storeu_ps(c + i, _mm256_setzero_ps());
	for (int64_t g = 0, k = 0; k < K; g++, k += q->group, b++) {
		const int64_t rows = (planes_least(q->group, K - k) + 7) / 8, ahead = planes_ahead(k / 8, rows, words, count);
		for (int p = 0; p < count; p++) {
			__m256 v[HALVES];
			dots(planes, rows, x + k, pitch, b, w + (p * words + k / 8) * TLK_PANEL, ahead, v);
			UNROLL for (int h = 0; h < HALVES; h++) {
				const int64_t at = p * gm + g * TLK_PANEL + 8 * h;
				float *to = c + p * TLK_PANEL + 8 * h;
				__m256 sum = _mm256_fmadd_ps(v[h], brains((const uint16_t *)scale + at), _mm256_loadu_ps(to));
				if (offset) sum = _mm256_fmadd_ps(_mm256_set1_ps(sums[g]), brains(offset + at), sum);
				_mm256_storeu_ps(to, sum);
			}
		}
	}
}

// One block of terms and a panel of weights of eight bits: a sum is in two lanes.
WIDE INLINE void byte_dots(int64_t rows, const int16_t *x, const int64_t pitch, float factor, const uint32_t *w,
	const int64_t ahead, __m256 total[TLK_PANEL / 4]) {
	__m256i high[TLK_PANEL / 4], low[TLK_PANEL / 4];
	UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) high[v] = low[v] = _mm256_setzero_si256();
	ROLLED for (int64_t r = 0; r < rows; r++, w += TLK_PANEL, x += 4) {
		int64_t four[2];
		memcpy(four, x, 8);
		memcpy(four + 1, x + pitch, 8);
		const __m256i a = _mm256_set1_epi64x(four[0]), b = _mm256_set1_epi64x(four[1]);
		_mm_prefetch((const char *)(w + ahead), _MM_HINT_T0);
		UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) {
			const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 4 * v)));
			high[v] = _mm256_add_epi32(high[v], _mm256_madd_epi16(words, a));
			low[v] = _mm256_add_epi32(low[v], _mm256_madd_epi16(words, b));
		}
	}
	UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) {
		const __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(high[v]), _mm256_set1_ps(4096), _mm256_cvtepi32_ps(low[v]));
		total[v] = _mm256_fmadd_ps(sum, _mm256_set1_ps(factor), total[v]);
	}
}

WIDE static void byte_panels(int count, int64_t K, const int16_t *x, int64_t pitch, const tl_plane_block *b,
	const uint32_t *w, const float *scale, float *c) {
	const int64_t words = (K + TLK_TERMS - 1) / TLK_TERMS * TLK_TERMS / 4;
	__m256 total[PLANES_PANELS][TLK_PANEL / 4];
	for (int p = 0; p < count; p++)
		UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) total[p][v] = _mm256_setzero_ps();
	for (int64_t k = 0; k < K; k += PLANES_BLOCK, b++) {
		const int64_t rows = (planes_least(PLANES_BLOCK, K - k) + 3) / 4, ahead = planes_ahead(k / 4, rows, words, count);
		for (int p = 0; p < count; p++)
			byte_dots(rows, x + k, pitch, b->factor, w + (p * words + k / 4) * TLK_PANEL, ahead, total[p]);
	}
	for (int p = 0; p < count; p++)
		UNROLL for (int v = 0; v < TLK_PANEL / 4; v += 2) {
			const __m256d sums = _mm256_castps_pd(_mm256_hadd_ps(total[p][v], total[p][v + 1]));
			const __m256 in_order = _mm256_castpd_ps(_mm256_permute4x64_pd(sums, 0xd8));
			const int64_t at = p * TLK_PANEL + 4 * v;
			_mm256_storeu_ps(c + at, _mm256_mul_ps(in_order, _mm256_loadu_ps(scale + at)));
		}
}

WIDE static void panels(const tl_quantized *q, int count, int64_t K, const int8_t *x, int64_t pitch,
	const tl_plane_block *b, const float *sums, const uint32_t *w, const void *scale, const uint16_t *offset, float *c) {
	if (q->bits == 8) byte_panels(count, K, (const int16_t *)x, pitch, b, w, scale, c);
	else if (q->dynamic) panels_of(1, q, count, K, x, pitch, b, sums, w, scale, offset, c);
	else panels_of(PLANES, q, count, K, x, pitch, b, sums, w, scale, offset, c);
}

const tl_planes tl_planes_avx2 = {split, panels};
