// Products of planes and panels of quantized weights by AVX2. With weights of four bits planes are of int8, and a
// multiplication adds up pairs of products in 16 bits: 15 * 128 * 2 is 3,840, so those of four words of eight terms
// fit. With weights of eight bits they would not. There two planes of 12 bits, in 16, take the place of three, and sums
// have 32 bits. Panels are read one after the other, which is one stream of memory.
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

enum { HALVES = TLK_PANEL / 8, WORDS = PLANES_CHUNK / 8 }; // vectors of a row of words; rows of a chunk
enum { AHEAD = 64 * TLK_PANEL };                           // words from one to that which is fetched then: 4 KiB

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

// The sum of the numbers of each half of v.
WIDE INLINE void halves_of(__m256i v, int32_t sum[2]) {
	v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
	v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
	sum[0] = _mm256_cvtsi256_si32(v);
	sum[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(v, 1));
}

// Splits a chunk, n terms at most. A sum of 16 bits has the first or the last four terms of each word, so start has two
// of them. The result is the sum of the first plane.
WIDE INLINE int32_t split_chunk(const int planes, int64_t n, const float *x, float up, int8_t *to, int64_t pitch,
	tl_plane_block *b) {
	// Words have a column's even terms in the low halves of bytes, and the odd ones in the high halves.
	const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);
	__m256i sum[PLANES];
	int32_t halves[2] = {0};
	UNROLL for (int p = 0; p < planes; p++) sum[p] = _mm256_setzero_si256();
	for (int64_t i = 0; i < planes_least(n, PLANES_CHUNK); i += 8) {
		__m256i r = _mm256_cvtps_epi32(_mm256_mul_ps(first(x + i, n - i), _mm256_set1_ps(up)));
		UNROLL for (int p = planes - 1; p >= 0; p--) {
			const __m256i v = _mm256_srai_epi32(_mm256_slli_epi32(r, 24), 24);
			r = _mm256_srai_epi32(_mm256_sub_epi32(r, v), 8);
			sum[p] = _mm256_add_epi32(sum[p], v);
			__m128i bytes = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
			bytes = _mm_shuffle_epi8(_mm_packs_epi16(bytes, bytes), order);
			_mm_storel_epi64((__m128i *)(to + p * pitch + i), bytes);
		}
	}
	UNROLL for (int p = planes - 1; p >= 0; p--) {
		halves_of(sum[p], halves);
		b->start[p] = (int32_t)(((uint32_t)(-8 * halves[1]) << 16) | ((uint32_t)(-8 * halves[0]) & 0xffff));
	}
	return halves[0] + halves[1];
}

WIDE INLINE int split_into(const int planes, const tl_quantized *q, int64_t K, const float *x, int8_t *to,
	int64_t pitch, tl_plane_block *b, float *sums) {
	for (int64_t g = 0; g < K; g += q->group) {
		const int64_t end = g + planes_least(q->group, K - g);
		float factor, up;
		int32_t sum = 0;
		if (planes == 1) planes_step(greatest(end - g, x + g), &factor, &up);
		else if (!planes_scale(greatest(end - g, x + g), &factor, &up)) return 0;
		for (int64_t k = g; k < end; k += PLANES_CHUNK, b++) {
			b->factor = factor;
			sum += split_chunk(planes, end - k, x + k, up, to + k, pitch, b);
		}
		if (sums) *sums++ = (float)sum * factor;
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

WIDE static int split(const tl_quantized *q, int64_t K, const float *x, int8_t *to, int64_t pitch, tl_plane_block *b,
	float *sums) {
	if (q->bits == 8) return split_halves(K, x, (int16_t *)to, pitch, b);
	return q->dynamic ? split_into(1, q, K, x, to, pitch, b, sums) : split_into(PLANES, q, K, x, to, pitch, b, NULL);
}

// Sums that stay in their registers. Of additions that it knows GCC makes a tree, whose leaves are more than there are
// registers, or copies the sums at the end of a loop.
WIDE INLINE __m256i add16(__m256i sum, __m256i x) {
	__asm__("vpaddw %1, %0, %0" : "+x"(sum) : "x"(x));
	return sum;
}
WIDE INLINE __m256i add32(__m256i sum, __m256i x) {
	__asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(x));
	return sum;
}

// Adds the products of a row of words.
WIDE INLINE void row_of(const int planes, const int8_t *x, const int64_t pitch, const uint32_t *w,
	__m256i s[PLANES][HALVES]) {
	const __m256i low = _mm256_set1_epi8(15), sign = _mm256_set1_epi8((char)0x88);
	__m256i even[HALVES], odd[HALVES];
	_mm_prefetch((const char *)(w + AHEAD), _MM_HINT_T0);
	UNROLL for (int h = 0; h < HALVES; h++) {
		const __m256i word = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(w + 8 * h)), sign);
		even[h] = _mm256_and_si256(word, low);
		odd[h] = _mm256_and_si256(_mm256_srli_epi16(word, 4), low);
	}
	UNROLL for (int i = 0; i < planes; i++) {
		const __m256i a = _mm256_set1_epi32(planes_four(x + i * pitch));
		UNROLL for (int h = 0; h < HALVES; h++) s[i][h] = add16(s[i][h], _mm256_maddubs_epi16(even[h], a));
		const __m256i b = _mm256_set1_epi32(planes_four(x + i * pitch + 4));
		UNROLL for (int h = 0; h < HALVES; h++) s[i][h] = add16(s[i][h], _mm256_maddubs_epi16(odd[h], b));
	}
}

// The sums of a chunk, of up to WORDS rows of words.
WIDE INLINE void chunk_of(const int planes, const int64_t rows, const int8_t *x, const int64_t pitch,
	const tl_plane_block *b, const uint32_t *w, __m256i t[PLANES][HALVES]) {
	__m256i s[PLANES][HALVES];
	UNROLL for (int i = 0; i < planes; i++)
		UNROLL for (int h = 0; h < HALVES; h++) s[i][h] = _mm256_set1_epi32(b->start[i]);
	if (rows >= WORDS) {
		UNROLL for (int r = 0; r < WORDS; r++) row_of(planes, x + 8 * r, pitch, w + r * TLK_PANEL, s);
	} else {
		ROLLED for (int64_t r = 0; r < rows; r++) row_of(planes, x + 8 * r, pitch, w + r * TLK_PANEL, s);
	}
	UNROLL for (int i = 0; i < planes; i++)
		UNROLL for (int h = 0; h < HALVES; h++) t[i][h] = _mm256_madd_epi16(s[i][h], _mm256_set1_epi16(1));
}

WIDE INLINE __m256 brains(const uint16_t *p) {
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

// The sums of a group, of so many rows of words.
WIDE INLINE void group_of(const int planes, int64_t rows, const int8_t *x, const int64_t pitch,
	const tl_plane_block *b, const uint32_t *w, __m256 v[HALVES]) {
	const __m256 step = _mm256_set1_ps(256), factor = _mm256_set1_ps(b->factor);
	__m256i t[PLANES][HALVES];
	chunk_of(planes, rows, x, pitch, b, w, t);
	while ((rows -= WORDS) > 0) {
		__m256i more[PLANES][HALVES];
		chunk_of(planes, rows, x += PLANES_CHUNK, pitch, ++b, w += WORDS * TLK_PANEL, more);
		UNROLL for (int i = 0; i < planes; i++)
			UNROLL for (int h = 0; h < HALVES; h++) t[i][h] = _mm256_add_epi32(t[i][h], more[i][h]);
	}
	UNROLL for (int h = 0; h < HALVES; h++) {
		__m256 sum = _mm256_cvtepi32_ps(t[0][h]);
		UNROLL for (int i = 1; i < planes; i++) sum = _mm256_fmadd_ps(sum, step, _mm256_cvtepi32_ps(t[i][h]));
		v[h] = _mm256_mul_ps(sum, factor);
	}
}

WIDE INLINE void nibble_panel(const int planes, const tl_quantized *q, int64_t K, const int8_t *x, int64_t pitch,
	const tl_plane_block *b, const float *sums, const uint32_t *w, const uint16_t *scale, const uint16_t *offset,
	float *c) {
	const int64_t chunks = (q->group + PLANES_CHUNK - 1) / PLANES_CHUNK;
	__m256 total[HALVES], v[HALVES];
	UNROLL for (int h = 0; h < HALVES; h++) total[h] = _mm256_setzero_ps();
	for (int64_t k = 0; k < K; k += q->group, b += chunks, scale += TLK_PANEL) {
		const int64_t rows = (planes_least(q->group, K - k) + 7) / 8;
		group_of(planes, rows, x + k, pitch, b, w, v);
		w += rows * TLK_PANEL;
		UNROLL for (int h = 0; h < HALVES; h++) total[h] = _mm256_fmadd_ps(v[h], brains(scale + 8 * h), total[h]);
		if (!offset) continue;
		const __m256 sum = _mm256_set1_ps(*sums++);
		UNROLL for (int h = 0; h < HALVES; h++) total[h] = _mm256_fmadd_ps(sum, brains(offset + 8 * h), total[h]);
		offset += TLK_PANEL;
	}
	UNROLL for (int h = 0; h < HALVES; h++) _mm256_storeu_ps(c + 8 * h, total[h]);
}

// A panel of weights of eight bits, a block of terms after the other. A sum is in two lanes.
WIDE static void byte_panel(int64_t K, const int16_t *x, int64_t pitch, const tl_plane_block *b, const uint32_t *w,
	const float *scale, float *c) {
	__m256 total[TLK_PANEL / 4];
	UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) total[v] = _mm256_setzero_ps();
	for (int64_t k = 0; k < K; k += PLANES_BLOCK, b++) {
		__m256i high[TLK_PANEL / 4], low[TLK_PANEL / 4];
		UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) high[v] = low[v] = _mm256_setzero_si256();
		ROLLED for (int64_t rows = (planes_least(PLANES_BLOCK, K - k) + 3) / 4; rows; rows--, w += TLK_PANEL, x += 4) {
			int64_t four[2];
			memcpy(four, x, 8);
			memcpy(four + 1, x + pitch, 8);
			const __m256i above = _mm256_set1_epi64x(four[0]), below = _mm256_set1_epi64x(four[1]);
			_mm_prefetch((const char *)(w + AHEAD), _MM_HINT_T0);
			UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) {
				const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 4 * v)));
				high[v] = add32(high[v], _mm256_madd_epi16(words, above));
				low[v] = add32(low[v], _mm256_madd_epi16(words, below));
			}
		}
		const __m256 step = _mm256_set1_ps(4096), factor = _mm256_set1_ps(b->factor);
		UNROLL for (int v = 0; v < TLK_PANEL / 4; v++) {
			const __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(high[v]), step, _mm256_cvtepi32_ps(low[v]));
			total[v] = _mm256_fmadd_ps(sum, factor, total[v]);
		}
	}
	UNROLL for (int v = 0; v < TLK_PANEL / 4; v += 2) {
		const __m256d sums = _mm256_castps_pd(_mm256_hadd_ps(total[v], total[v + 1]));
		const __m256 in_order = _mm256_castpd_ps(_mm256_permute4x64_pd(sums, 0xd8));
		_mm256_storeu_ps(c + 4 * v, _mm256_mul_ps(in_order, _mm256_loadu_ps(scale + 4 * v)));
	}
}

WIDE static void panels(const tl_quantized *q, int count, int64_t K, const int8_t *x, int64_t pitch,
	const tl_plane_block *b, const float *sums, const uint32_t *w, const void *scale, const uint16_t *offset, float *c) {
	const int64_t gm = (K + q->group - 1) / q->group * TLK_PANEL;
	const int64_t words = q->bits == 8 ? (K + TLK_TERMS - 1) / TLK_TERMS * TLK_TERMS / 4 : (K + 7) / 8;
	for (int p = 0; p < count; p++, w += words * TLK_PANEL, c += TLK_PANEL) {
		const uint16_t *brain = (const uint16_t *)scale + p * gm, *zero = offset ? offset + p * gm : NULL;
		if (q->bits == 8) byte_panel(K, (const int16_t *)x, pitch, b, w, (const float *)scale + p * gm, c);
		else if (q->dynamic) nibble_panel(1, q, K, x, pitch, b, sums, w, brain, zero, c);
		else nibble_panel(PLANES, q, K, x, pitch, b, sums, w, brain, zero, c);
	}
}

const tl_planes tl_planes_avx2 = {split, panels};
