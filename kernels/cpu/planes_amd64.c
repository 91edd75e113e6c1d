// Products of planes of int8 and panels of quantized weights by VNNI. Three dot products multiply four weights, and
// weights need not become floats.
#include <stdint.h>
#include <immintrin.h>
#include "planes.h"
#if defined(__clang__)
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("O3")
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,prefer-vector-width=512")))
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define INLINE static inline __attribute__((always_inline))

// Rows of words that are fetched before they are read: 512 bytes of each panel.
enum { AHEAD = 8 };

// ahead_of is how many words ahead of n rows of words, the first of which is row, words are fetched. Streams of
// panels are too short for the processor to find, so the last rows fetch the first ones of the next panels.
static inline int64_t ahead_of(int64_t row, int64_t n, int64_t words, int panels) {
	return AHEAD * TLK_PANEL + (row + n + AHEAD > words ? (panels - 1) * words * TLK_PANEL : 0);
}

static inline int64_t block_terms(const tl_quantized *q) { return q->bits == 8 ? PLANES_BLOCK : q->group; }
static inline __mmask16 first(int64_t n) { return n >= 16 ? 0xffff : (__mmask16)((1 << n) - 1); }

WIDE static float greatest(int64_t n, const float *x) {
	__m512 most = _mm512_setzero_ps();
	__mmask16 none = 0;
	for (int64_t i = 0; i < n; i += 16) {
		const __m512 v = _mm512_abs_ps(_mm512_maskz_loadu_ps(first(n - i), x + i));
		most = _mm512_max_ps(most, v);
		none |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
	}
	return none ? __builtin_inff() : _mm512_reduce_max_ps(most);
}

WIDE INLINE int split_into(const int planes, const tl_quantized *q, int64_t K, const float *x, int8_t *to,
	int64_t pitch, tl_plane_block *b, float *sums) {
	// Words of four bits have a lane's even terms in the low halves of bytes, and the odd ones in the high halves.
	const __m128i order = q->bits == 8 ? _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) :
		_mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
	const int64_t block = block_terms(q);
	for (int64_t k = 0; k < K; k += block, b++) {
		const int64_t n = planes_least(block, K - k);
		float scale;
		if (planes == 1) planes_step(greatest(n, x + k), &b->factor, &scale);
		else if (!planes_scale(greatest(n, x + k), &b->factor, &scale)) return 0;
		const __m512 up = _mm512_set1_ps(scale);
		__m512i sum[PLANES];
		UNROLL for (int p = 0; p < planes; p++) sum[p] = _mm512_setzero_si512();
		for (int64_t i = 0; i < n; i += 16) {
			__m512i r = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(first(n - i), x + k + i), up));
			UNROLL for (int p = planes - 1; p >= 0; p--) {
				const __m512i v = _mm512_srai_epi32(_mm512_slli_epi32(r, 24), 24);
				r = _mm512_srai_epi32(_mm512_sub_epi32(r, v), 8);
				sum[p] = _mm512_add_epi32(sum[p], v);
				_mm_storeu_si128((__m128i *)(to + p * pitch + k + i), _mm_shuffle_epi8(_mm512_cvtepi32_epi8(v), order));
			}
		}
		const int32_t first_sum = _mm512_reduce_add_epi32(sum[0]);
		b->start[0] = -(1 << (q->bits - 1)) * first_sum;
		UNROLL for (int p = 1; p < planes; p++) b->start[p] = -(1 << (q->bits - 1)) * _mm512_reduce_add_epi32(sum[p]);
		if (sums) *sums++ = (float)first_sum * b->factor;
	}
	return 1;
}

WIDE static int split(const tl_quantized *q, int64_t K, const float *x, int8_t *to, int64_t pitch, tl_plane_block *b,
	float *sums) {
	return q->dynamic ? split_into(1, q, K, x, to, pitch, b, sums) : split_into(PLANES, q, K, x, to, pitch, b, NULL);
}

// _mm512_dpbusd_epi32. For that one GCC copies all sums before and after a loop's body.
WIDE INLINE __m512i dot(__m512i sums, __m512i words, __m512i x) {
	__asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(words), "v"(x));
	return sums;
}

WIDE INLINE __m512 brains(const uint16_t *p) {
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

// One block of terms. Words that lie `ahead` words behind the block's are fetched.
WIDE INLINE void dots(const int planes, const int bits, const int panels, int64_t words, const int8_t *x,
	const int64_t pitch, const tl_plane_block *b, const uint32_t *w, const int64_t wm, const int64_t ahead,
	__m512 v[PLANES_PANELS]) {
	const __m512i low = _mm512_set1_epi8(15), sign = _mm512_set1_epi8(bits == 8 ? -128 : 8);
	__m512i t[PLANES_PANELS][PLANES];
	UNROLL for (int p = 0; p < panels; p++)
		UNROLL for (int i = 0; i < planes; i++) t[p][i] = _mm512_set1_epi32(b->start[i]);
	for (; words > 0; words--, w += TLK_PANEL, x += 32 / bits)
		UNROLL for (int p = 0; p < panels; p++) {
			const __m512i word = _mm512_loadu_si512(w + p * wm);
			_mm_prefetch((const char *)(w + p * wm + ahead), _MM_HINT_T0);
			if (bits == 8) {
				const __m512i f = _mm512_xor_si512(word, sign);
				UNROLL for (int i = 0; i < planes; i++)
					t[p][i] = dot(t[p][i], f, _mm512_set1_epi32(planes_four(x + i * pitch)));
				continue;
			}
			const __m512i even = _mm512_ternarylogic_epi32(word, sign, low, 0x28); // (word ^ sign) & low
			const __m512i odd = _mm512_ternarylogic_epi32(_mm512_srli_epi32(word, 4), sign, low, 0x28);
			UNROLL for (int i = 0; i < planes; i++) {
				t[p][i] = dot(t[p][i], even, _mm512_set1_epi32(planes_four(x + i * pitch)));
				t[p][i] = dot(t[p][i], odd, _mm512_set1_epi32(planes_four(x + i * pitch + 4)));
			}
		}
	const __m512 step = _mm512_set1_ps(256), factor = _mm512_set1_ps(b->factor);
	UNROLL for (int p = 0; p < panels; p++) {
		__m512 sum = _mm512_cvtepi32_ps(t[p][0]);
		UNROLL for (int i = 1; i < planes; i++) sum = _mm512_fmadd_ps(sum, step, _mm512_cvtepi32_ps(t[p][i]));
		v[p] = _mm512_mul_ps(sum, factor);
	}
}

WIDE INLINE void tile(const int planes, const int bits, const int panels, const tl_quantized *q, int64_t K,
	const int8_t *x, const int64_t pitch, const tl_plane_block *b, const float *sums, const uint32_t *w,
	const void *scale, const uint16_t *offset, float *c) {
	const int each = 32 / bits;
	const int64_t block = block_terms(q), groups = (K + q->group - 1) / q->group, gm = groups * TLK_PANEL;
	const int64_t words = bits == 8 ? (K + TLK_TERMS - 1) / TLK_TERMS * TLK_TERMS / 4 : (K + 7) / 8;
	__m512 total[PLANES_PANELS], v[PLANES_PANELS];
	UNROLL for (int p = 0; p < panels; p++) total[p] = _mm512_setzero_ps();
	for (int64_t g = 0, k = 0; k < K; g++, k += block, b++) {
		const int64_t n = (planes_least(block, K - k) + each - 1) / each, row = k / each, wm = words * TLK_PANEL;
		const int64_t ahead = ahead_of(row, n, words, panels);
		dots(planes, bits, panels, n, x + k, pitch, b, w + row * TLK_PANEL, wm, ahead, v);
		UNROLL for (int p = 0; p < panels; p++) {
			if (bits == 8) {
				total[p] = _mm512_add_ps(total[p], v[p]);
				continue;
			}
			const int64_t at = p * gm + g * TLK_PANEL;
			_mm_prefetch((const char *)((const uint16_t *)scale + at + panels * gm), _MM_HINT_T0);
			if (offset) _mm_prefetch((const char *)(offset + at + panels * gm), _MM_HINT_T0);
			total[p] = _mm512_fmadd_ps(v[p], brains((const uint16_t *)scale + at), total[p]);
			if (offset) total[p] = _mm512_fmadd_ps(_mm512_set1_ps(sums[g]), brains(offset + at), total[p]);
		}
	}
	UNROLL for (int p = 0; p < panels; p++) {
		if (bits == 8) total[p] = _mm512_mul_ps(total[p], _mm512_loadu_ps((const float *)scale + p * gm));
		_mm512_storeu_ps(c + p * TLK_PANEL, total[p]);
	}
}

WIDE static void panels(const tl_quantized *q, int count, int64_t K, const int8_t *x, int64_t pitch,
	const tl_plane_block *b, const float *sums, const uint32_t *w, const void *scale, const uint16_t *offset, float *c) {
#define TILE(planes, bits, panels) tile(planes, bits, panels, q, K, x, pitch, b, sums, w, scale, offset, c)
	if (q->bits == 8 && count == 1) TILE(PLANES, 8, 1);
	else if (q->bits == 8) TILE(PLANES, 8, PLANES_PANELS);
	else if (q->dynamic && count == 1) TILE(1, 4, 1);
	else if (q->dynamic) TILE(1, 4, PLANES_PANELS);
	else if (count == 1) TILE(PLANES, 4, 1);
	else TILE(PLANES, 4, PLANES_PANELS);
}

const tl_planes *tl_planes_of(int isa) {
	static const tl_planes vnni = {split, panels};
	if (isa >= TLK_ISA_AVX512_VNNI) return &vnni;
	return isa >= TLK_ISA_AVX2 ? &tl_planes_avx2 : NULL;
}
