// Sorting of keys of 32 and 64 bits for AVX2.
#include <stddef.h>
#include <stdint.h>
#include <immintrin.h>
#include "sort.h"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt"))), apply_to = function)
#define INLINE static inline
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx2,bmi,bmi2,popcnt,tune=haswell")
#define INLINE static inline __attribute__((always_inline))
#endif

typedef __m256i keys;

// For a mask m of lanes, the lanes outside m and after them those of m, a byte each.
#define COUNT(m) __builtin_popcount(m)
#define LANE(m, i) ((uint64_t)(i) << 8 * ((m) >> (i) & 1 ? COUNT(~(m) & 0xff) + COUNT((m) & ((1 << (i)) - 1)) \
	: COUNT(~(m) & ((1 << (i)) - 1))))
#define ORDER(m) LANE(m, 0) | LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7)
#define ORDERS4(m) ORDER(m), ORDER((m) + 1), ORDER((m) + 2), ORDER((m) + 3)
#define ORDERS16(m) ORDERS4(m), ORDERS4((m) + 4), ORDERS4((m) + 8), ORDERS4((m) + 12)
#define ORDERS64(m) ORDERS16(m), ORDERS16((m) + 16), ORDERS16((m) + 32), ORDERS16((m) + 48)
static const uint64_t order[256] = {ORDERS64(0), ORDERS64(64), ORDERS64(128), ORDERS64(192)};
// For a mask of lanes of 64 bits, the mask of their halves.
#define HALVES(m) (uint8_t)(((m) & 1) * 3 | ((m) & 2) * 6 | ((m) & 4) * 12 | ((m) & 8) * 24)
#define HALVES4(m) HALVES(m), HALVES((m) + 1), HALVES((m) + 2), HALVES((m) + 3)
static const uint8_t halves[16] = {HALVES4(0), HALVES4(4), HALVES4(8), HALVES4(12)};
static const int32_t window[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

INLINE keys ordered(keys x, unsigned m) {
	return _mm256_permutevar8x32_epi32(x, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(order + m))));
}
// The mask of the first n lanes of 32 bits.
INLINE keys front(int64_t n) {
	return _mm256_loadu_si256((const __m256i *)(window + 8 - (n < 0 ? 0 : n > 8 ? 8 : n)));
}
INLINE keys load(const void *e) { return _mm256_loadu_si256(e); }
INLINE void store(void *e, keys x) { _mm256_storeu_si256(e, x); }
INLINE keys load_words(const void *e, int64_t n) {
	if (n >= 8) return load(e);
	const keys m = front(n);
	return _mm256_or_si256(_mm256_maskload_epi32(e, m), _mm256_xor_si256(m, _mm256_set1_epi32(-1)));
}
INLINE void store_words(void *e, keys x, int64_t n) {
	if (n >= 8) store(e, x);
	else if (n > 0) _mm256_maskstore_epi32(e, front(n), x);
}

#define BITS 64
#define KEY uint64_t
#define LANES 4
#define FN(name) name##_64
INLINE keys FN(over)(keys x, keys y) { // all bits of the lanes in which x is above y
	const keys sign = _mm256_set1_epi64x(INT64_MIN);
	return _mm256_cmpgt_epi64(_mm256_xor_si256(x, sign), _mm256_xor_si256(y, sign));
}
INLINE keys FN(lesser)(keys x, keys y) { return _mm256_blendv_epi8(x, y, FN(over)(x, y)); }
INLINE keys FN(greater)(keys x, keys y) { return _mm256_blendv_epi8(y, x, FN(over)(x, y)); }
INLINE keys FN(join)(keys x, keys y, unsigned upper) {
	return upper == 0xa ? _mm256_blend_epi32(x, y, 0xcc) : _mm256_blend_epi32(x, y, 0xf0);
}
INLINE unsigned FN(above)(keys x, keys y) { return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(FN(over)(x, y))); }
INLINE keys FN(compress)(keys x, unsigned m) { return ordered(x, halves[m ^ 0xf]); }
INLINE keys FN(all)(KEY k) { return _mm256_set1_epi64x((long long)k); }
INLINE keys FN(load)(const KEY *e) { return load(e); }
INLINE keys FN(load_first)(const KEY *e, int64_t n) { return load_words(e, 2 * n); }
INLINE void FN(store_first)(KEY *e, keys x, int64_t n) { store_words(e, x, 2 * n); }
INLINE void FN(split)(KEY *low, KEY *high, keys x, unsigned m, int count) {
	const keys y = ordered(x, halves[m]);
	(void)count;
	store(low, y);
	store(high - LANES, y);
}

INLINE keys FN(exchange)(keys x, int flip) {
	switch (flip) {
	case 1: return _mm256_shuffle_epi32(x, 0x4e);
	case 2: return _mm256_permute4x64_epi64(x, 0x4e);
	}
	return _mm256_permute4x64_epi64(x, 0x1b);
}

// Writes the columns of 4 vectors to d, d+step, ...; n keys of d are to be written.
INLINE void FN(put)(const keys *v, KEY *d, int64_t step, int64_t n) {
	keys a = _mm256_unpacklo_epi64(v[0], v[1]), b = _mm256_unpackhi_epi64(v[0], v[1]);
	keys c = _mm256_unpacklo_epi64(v[2], v[3]), e = _mm256_unpackhi_epi64(v[2], v[3]);
	FN(store_first)(d, _mm256_permute2x128_si256(a, c, 0x20), n);
	FN(store_first)(d + step, _mm256_permute2x128_si256(b, e, 0x20), n - step);
	FN(store_first)(d + 2 * step, _mm256_permute2x128_si256(a, c, 0x31), n - 2 * step);
	FN(store_first)(d + 3 * step, _mm256_permute2x128_si256(b, e, 0x31), n - 3 * step);
}

INLINE void FN(turn8)(const keys *v, KEY *d, int64_t n) {
	FN(put)(v, d, 8, n);
	FN(put)(v + 4, d + 4, 8, n - 4);
}

INLINE void FN(turn16)(const keys *v, KEY *d, int64_t n) {
	_Pragma("GCC unroll 4")
	for (int i = 0; i < 16; i += 4) FN(put)(v + i, d + i, 16, n - i);
}

#include "kern_sort.h"
#undef BITS
#undef KEY
#undef LANES
#undef FN

#define BITS 32
#define KEY uint32_t
#define LANES 8
#define FN(name) name##_32
INLINE keys FN(lesser)(keys x, keys y) { return _mm256_min_epu32(x, y); }
INLINE keys FN(greater)(keys x, keys y) { return _mm256_max_epu32(x, y); }
INLINE keys FN(join)(keys x, keys y, unsigned upper) {
	switch (upper) {
	case 0xaa: return _mm256_blend_epi32(x, y, 0xaa);
	case 0xcc: return _mm256_blend_epi32(x, y, 0xcc);
	}
	return _mm256_blend_epi32(x, y, 0xf0);
}
INLINE unsigned FN(above)(keys x, keys y) {
	const keys below = _mm256_cmpeq_epi32(_mm256_max_epu32(x, y), y);
	return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(below)) ^ 0xff;
}
INLINE keys FN(compress)(keys x, unsigned m) { return ordered(x, m ^ 0xff); }
INLINE keys FN(all)(KEY k) { return _mm256_set1_epi32((int)k); }
INLINE keys FN(load)(const KEY *e) { return load(e); }
INLINE keys FN(load_first)(const KEY *e, int64_t n) { return load_words(e, n); }
INLINE void FN(store_first)(KEY *e, keys x, int64_t n) { store_words(e, x, n); }
INLINE void FN(split)(KEY *low, KEY *high, keys x, unsigned m, int count) {
	const keys y = ordered(x, m);
	(void)count;
	store(low, y);
	store(high - LANES, y);
}

INLINE keys FN(exchange)(keys x, int flip) {
	switch (flip) {
	case 1: return _mm256_shuffle_epi32(x, 0xb1);
	case 2: return _mm256_shuffle_epi32(x, 0x4e);
	case 3: return _mm256_shuffle_epi32(x, 0x1b);
	case 4: return _mm256_permute4x64_epi64(x, 0x4e);
	}
	return _mm256_shuffle_epi32(_mm256_permute4x64_epi64(x, 0x4e), 0x1b);
}

// Turns squares of 4 by 4 keys of 4 vectors: of each vector of t, a lane of 16 bytes is a piece of a column.
INLINE void FN(squares)(const keys *v, keys *t) {
	keys a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
	keys c = _mm256_unpacklo_epi32(v[2], v[3]), e = _mm256_unpackhi_epi32(v[2], v[3]);
	t[0] = _mm256_unpacklo_epi64(a, c), t[1] = _mm256_unpackhi_epi64(a, c);
	t[2] = _mm256_unpacklo_epi64(b, e), t[3] = _mm256_unpackhi_epi64(b, e);
}

// Writes the columns of 8 vectors to d, d+step, ...; n keys of d are to be written.
INLINE void FN(put)(const keys *v, KEY *d, int64_t step, int64_t n) {
	keys t[8];
	FN(squares)(v, t);
	FN(squares)(v + 4, t + 4);
	_Pragma("GCC unroll 4")
	for (int j = 0; j < 4; j++) {
		FN(store_first)(d + j * step, _mm256_permute2x128_si256(t[j], t[4 + j], 0x20), n - j * step);
		FN(store_first)(d + (4 + j) * step, _mm256_permute2x128_si256(t[j], t[4 + j], 0x31), n - (4 + j) * step);
	}
}

INLINE void FN(turn8)(const keys *v, KEY *d, int64_t n) { FN(put)(v, d, 8, n); }

INLINE void FN(turn16)(const keys *v, KEY *d, int64_t n) {
	FN(put)(v, d, 16, n);
	FN(put)(v + 8, d + 8, 16, n - 8);
}

#include "kern_sort.h"

const tl_key_sorter tl_keys_avx2[2] = {
	{sort_32, count_32, move_32, keys_of_32, values_of_32},
	{sort_64, count_64, move_64, keys_of_64, values_of_64},
};
#if defined(__clang__)
#pragma clang attribute pop
#endif
