// Sorting of keys of 32 and 64 bits for AVX-512.
#include <stddef.h>
#include <stdint.h>
#include <immintrin.h>
#include "sort.h"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt"))), apply_to = function)
#define INLINE static inline
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,prefer-vector-width=512,tune=skylake-avx512")
#define INLINE static inline __attribute__((always_inline))
#endif

typedef __m512i keys;

// The lanes of 16 bytes of four vectors turned: vector i of d gets lane i of each.
INLINE void turn4(keys a, keys b, keys c, keys e, keys *d, const int step) {
	keys ab0 = _mm512_shuffle_i64x2(a, b, 0x88), ab1 = _mm512_shuffle_i64x2(a, b, 0xdd);
	keys ce0 = _mm512_shuffle_i64x2(c, e, 0x88), ce1 = _mm512_shuffle_i64x2(c, e, 0xdd);
	d[0] = _mm512_shuffle_i64x2(ab0, ce0, 0x88);
	d[2 * step] = _mm512_shuffle_i64x2(ab0, ce0, 0xdd);
	d[step] = _mm512_shuffle_i64x2(ab1, ce1, 0x88);
	d[3 * step] = _mm512_shuffle_i64x2(ab1, ce1, 0xdd);
}

#define BITS 64
#define KEY uint64_t
#define LANES 8
#define FN(name) name##_64
INLINE __mmask8 FN(first)(int64_t n) { return n >= 8 ? 0xff : n <= 0 ? 0 : (__mmask8)((1 << n) - 1); }
INLINE keys FN(lesser)(keys x, keys y) { return _mm512_min_epu64(x, y); }
INLINE keys FN(greater)(keys x, keys y) { return _mm512_max_epu64(x, y); }
INLINE keys FN(join)(keys x, keys y, unsigned upper) { return _mm512_mask_mov_epi64(x, (__mmask8)upper, y); }
INLINE unsigned FN(above)(keys x, keys y) { return _mm512_cmpgt_epu64_mask(x, y); }
INLINE keys FN(compress)(keys x, unsigned m) { return _mm512_maskz_compress_epi64((__mmask8)m, x); }
INLINE keys FN(all)(KEY k) { return _mm512_set1_epi64((long long)k); }
INLINE keys FN(load)(const KEY *e) { return _mm512_loadu_si512(e); }
INLINE keys FN(load_first)(const KEY *e, int64_t n) {
	return _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), FN(first)(n), e);
}
INLINE void FN(store_first)(KEY *e, keys x, int64_t n) { _mm512_mask_storeu_epi64(e, FN(first)(n), x); }
INLINE void FN(split)(KEY *low, KEY *high, keys x, unsigned m, int count) {
	_mm512_storeu_si512(low, FN(compress)(x, ~m));
	_mm512_mask_storeu_epi64(high - count, (__mmask8)((1u << count) - 1), FN(compress)(x, m));
}

INLINE keys FN(exchange)(keys x, int flip) {
	switch (flip) {
	case 1: return _mm512_permutex_epi64(x, 0xb1);
	case 2: return _mm512_permutex_epi64(x, 0x4e);
	case 3: return _mm512_permutex_epi64(x, 0x1b);
	case 4: return _mm512_shuffle_i64x2(x, x, 0x4e);
	}
	return _mm512_shuffle_i64x2(_mm512_permutex_epi64(x, 0x1b), _mm512_permutex_epi64(x, 0x1b), 0x4e);
}

// Writes the columns of 8 vectors to d, d+step, ...; n keys of d are to be written.
INLINE void FN(put)(const keys *v, KEY *d, int64_t step, int64_t n) {
	keys t[8], u[8];
	_Pragma("GCC unroll 4")
	for (int i = 0; i < 8; i += 2) {
		t[i] = _mm512_unpacklo_epi64(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi64(v[i], v[i + 1]);
	}
	turn4(t[0], t[2], t[4], t[6], u, 2); // even columns
	turn4(t[1], t[3], t[5], t[7], u + 1, 2);
	_Pragma("GCC unroll 8")
	for (int i = 0; i < 8; i++) FN(store_first)(d + i * step, u[i], n - i * step);
}

INLINE void FN(turn8)(const keys *v, KEY *d, int64_t n) { FN(put)(v, d, 8, n); }

INLINE void FN(turn16)(const keys *v, KEY *d, int64_t n) {
	FN(put)(v, d, 16, n);
	FN(put)(v + 8, d + 8, 16, n - 8);
}

#include "kern_sort.h"
#undef BITS
#undef KEY
#undef LANES
#undef FN

#define BITS 32
#define KEY uint32_t
#define LANES 16
#define FN(name) name##_32
INLINE __mmask16 FN(first)(int64_t n) { return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1 << n) - 1); }
INLINE keys FN(lesser)(keys x, keys y) { return _mm512_min_epu32(x, y); }
INLINE keys FN(greater)(keys x, keys y) { return _mm512_max_epu32(x, y); }
INLINE keys FN(join)(keys x, keys y, unsigned upper) { return _mm512_mask_mov_epi32(x, (__mmask16)upper, y); }
INLINE unsigned FN(above)(keys x, keys y) { return _mm512_cmpgt_epu32_mask(x, y); }
INLINE keys FN(compress)(keys x, unsigned m) { return _mm512_maskz_compress_epi32((__mmask16)m, x); }
INLINE keys FN(all)(KEY k) { return _mm512_set1_epi32((int)k); }
INLINE keys FN(load)(const KEY *e) { return _mm512_loadu_si512(e); }
INLINE keys FN(load_first)(const KEY *e, int64_t n) {
	return _mm512_mask_loadu_epi32(_mm512_set1_epi32(-1), FN(first)(n), e);
}
INLINE void FN(store_first)(KEY *e, keys x, int64_t n) { _mm512_mask_storeu_epi32(e, FN(first)(n), x); }
INLINE void FN(split)(KEY *low, KEY *high, keys x, unsigned m, int count) {
	_mm512_storeu_si512(low, FN(compress)(x, ~m));
	_mm512_mask_storeu_epi32(high - count, (__mmask16)((1u << count) - 1), FN(compress)(x, m));
}

INLINE keys FN(exchange)(keys x, int flip) {
	switch (flip) {
	case 1: return _mm512_shuffle_epi32(x, 0xb1);
	case 2: return _mm512_shuffle_epi32(x, 0x4e);
	case 3: return _mm512_shuffle_epi32(x, 0x1b);
	case 4: return _mm512_shuffle_i32x4(x, x, 0xb1);
	case 7: return _mm512_shuffle_epi32(_mm512_shuffle_i32x4(x, x, 0xb1), 0x1b);
	case 8: return _mm512_shuffle_i32x4(x, x, 0x4e);
	}
	return _mm512_shuffle_epi32(_mm512_shuffle_i32x4(x, x, 0x1b), 0x1b);
}

// Turns squares of 4 by 4 keys of 4 vectors: of each vector of t, a lane of 16 bytes is a piece of a column.
INLINE void FN(squares)(const keys *v, keys *t) {
	keys a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
	keys c = _mm512_unpacklo_epi32(v[2], v[3]), e = _mm512_unpackhi_epi32(v[2], v[3]);
	t[0] = _mm512_unpacklo_epi64(a, c), t[1] = _mm512_unpackhi_epi64(a, c);
	t[2] = _mm512_unpacklo_epi64(b, e), t[3] = _mm512_unpackhi_epi64(b, e);
}

INLINE void FN(turn8)(const keys *v, KEY *d, int64_t n) {
	keys t[8], u[8];
	FN(squares)(v, t);
	FN(squares)(v + 4, t + 4);
	turn4(t[0], t[4], t[1], t[5], u, 2); // vector m: columns 2m and 2m+1
	turn4(t[2], t[6], t[3], t[7], u + 1, 2);
	_Pragma("GCC unroll 8")
	for (int i = 0; i < 8; i++) FN(store_first)(d + 16 * i, u[i], n - 16 * i);
}

INLINE void FN(turn16)(const keys *v, KEY *d, int64_t n) {
	keys t[16], u[16];
	_Pragma("GCC unroll 4")
	for (int i = 0; i < 16; i += 4) FN(squares)(v + i, t + i);
	_Pragma("GCC unroll 4")
	for (int j = 0; j < 4; j++) turn4(t[j], t[4 + j], t[8 + j], t[12 + j], u + j, 4);
	_Pragma("GCC unroll 16")
	for (int i = 0; i < 16; i++) FN(store_first)(d + 16 * i, u[i], n - 16 * i);
}

#include "kern_sort.h"

const tl_key_sorter tl_keys_avx512[2] = {
	{sort_32, count_32, move_32, keys_of_32, values_of_32},
	{sort_64, count_64, move_64, keys_of_64, values_of_64},
};
#if defined(__clang__)
#pragma clang attribute pop
#endif
