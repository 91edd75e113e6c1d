// Sorting of distinct 64-bit items for AVX-512: quicksort whose partitions compress vectors, down to networks of
// comparisons (Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512, 2017).
#include <stddef.h>
#include <stdint.h>
#include <immintrin.h>
#include "cpu.h"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt"))), apply_to = function)
#define INLINE static inline
#else
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,prefer-vector-width=512,tune=skylake-avx512")
#define INLINE static inline __attribute__((always_inline))
#endif

typedef __m512i items;

enum {
	LEAF = 128,  // items that a network of comparisons sorts
	AT_ONCE = 4, // vectors of a partition: loads go ahead of stores
};

INLINE void order2(items *a, items *b) {
	items low = _mm512_min_epu64(*a, *b);
	*b = _mm512_max_epu64(*a, *b);
	*a = low;
}
#define C(a, b) order2(v + a, v + b);
#define S4(a, b, c, d) C(a, b) C(c, d) C(a, c) C(b, d) C(b, c)

// Batcher's odd-even merge sort of each lane of 8 vectors.
INLINE void columns8(items *v) {
	S4(0, 1, 2, 3) S4(4, 5, 6, 7)
	C(0, 4) C(1, 5) C(2, 6) C(3, 7) C(2, 4) C(3, 5) C(1, 2) C(3, 4) C(5, 6)
}

INLINE void columns16(items *v) {
	columns8(v);
	columns8(v + 8);
	C(0, 8) C(1, 9) C(2, 10) C(3, 11) C(4, 12) C(5, 13) C(6, 14) C(7, 15) C(4, 8) C(5, 9) C(6, 10) C(7, 11)
	C(2, 4) C(3, 5) C(6, 8) C(7, 9) C(10, 12) C(11, 13) C(1, 2) C(3, 4) C(5, 6) C(7, 8) C(9, 10) C(11, 12) C(13, 14)
}

// The lanes of x in the order lane ^ flip.
INLINE items lanes(items x, int flip) {
	switch (flip) {
	case 1: return _mm512_permutex_epi64(x, 0xb1);
	case 2: return _mm512_permutex_epi64(x, 0x4e);
	case 3: return _mm512_permutex_epi64(x, 0x1b);
	case 4: return _mm512_shuffle_i64x2(x, x, 0x4e);
	}
	return _mm512_shuffle_i64x2(_mm512_permutex_epi64(x, 0x1b), _mm512_permutex_epi64(x, 0x1b), 0x4e);
}

// Sorts K vectors column by column: lane l then holds items l*K to l*K+K-1. Columns are merged by twos, fours and
// eights (Batcher's bitonic merge).
INLINE void network(items *v, const int K) {
	if (K == 8) columns8(v); else columns16(v);
	_Pragma("GCC unroll 3")
	for (int w = 2; w <= 8; w *= 2) {
		const __mmask8 high = w == 2 ? 0xaa : w == 4 ? 0xcc : 0xf0;
		_Pragma("GCC unroll 8")
		for (int i = 0; i < K / 2; i++) {
			items a = v[i], b = v[K - 1 - i], ar = lanes(a, w - 1), br = lanes(b, w - 1);
			v[i] = _mm512_mask_max_epu64(_mm512_min_epu64(a, br), high, a, br);
			v[K - 1 - i] = _mm512_mask_max_epu64(_mm512_min_epu64(b, ar), high, b, ar);
		}
		_Pragma("GCC unroll 2")
		for (int d = w / 4; d > 0; d /= 2) {
			const __mmask8 upper = d == 1 ? 0xaa : 0xcc;
			_Pragma("GCC unroll 16")
			for (int i = 0; i < K; i++) {
				items r = lanes(v[i], d);
				v[i] = _mm512_mask_max_epu64(_mm512_min_epu64(v[i], r), upper, v[i], r);
			}
		}
		_Pragma("GCC unroll 4")
		for (int d = K / 2; d > 0; d /= 2)
			_Pragma("GCC unroll 16")
			for (int i = 0; i < K; i++)
				if (!(i & d)) order2(v + i, v + i + d);
	}
}

INLINE __mmask8 first(int64_t n) {
	return n >= 8 ? 0xff : n <= 0 ? 0 : (__mmask8)((1 << n) - 1);
}

// Writes the columns of 8 vectors to d, d+step, ...; n items of d are to be written.
INLINE void put(const items *v, uint64_t *d, int64_t step, int64_t n) {
	items t[8], u[8];
	_Pragma("GCC unroll 4")
	for (int i = 0; i < 8; i += 2) {
		t[i] = _mm512_unpacklo_epi64(v[i], v[i + 1]);
		t[i + 1] = _mm512_unpackhi_epi64(v[i], v[i + 1]);
	}
	_Pragma("GCC unroll 2")
	for (int h = 0; h < 2; h++) { // even columns, odd columns
		items a = t[h], b = t[2 + h], c = t[4 + h], e = t[6 + h];
		items ab0 = _mm512_shuffle_i64x2(a, b, 0x88), ab1 = _mm512_shuffle_i64x2(a, b, 0xdd);
		items ce0 = _mm512_shuffle_i64x2(c, e, 0x88), ce1 = _mm512_shuffle_i64x2(c, e, 0xdd);
		u[h] = _mm512_shuffle_i64x2(ab0, ce0, 0x88);
		u[4 + h] = _mm512_shuffle_i64x2(ab0, ce0, 0xdd);
		u[2 + h] = _mm512_shuffle_i64x2(ab1, ce1, 0x88);
		u[6 + h] = _mm512_shuffle_i64x2(ab1, ce1, 0xdd);
	}
	_Pragma("GCC unroll 8")
	for (int i = 0; i < 8; i++) _mm512_mask_storeu_epi64(d + i * step, first(n - i * step), u[i]);
}

static void leaf8(const uint64_t *e, uint64_t *d, int64_t n) {
	items v[8];
	_Pragma("GCC unroll 8")
	for (int i = 0; i < 8; i++) v[i] = _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), first(n - 8 * i), e + 8 * i);
	network(v, 8);
	put(v, d, 8, n);
}

static void leaf16(const uint64_t *e, uint64_t *d, int64_t n) {
	items v[16];
	_Pragma("GCC unroll 16")
	for (int i = 0; i < 16; i++) v[i] = _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), first(n - 8 * i), e + 8 * i);
	network(v, 16);
	put(v, d, 16, n);
	put(v + 8, d + 8, 16, n - 8);
}

static inline __m128i median(__m128i a, __m128i b, __m128i c) {
	return _mm_max_epu64(_mm_min_epu64(a, b), _mm_min_epu64(_mm_max_epu64(a, b), c));
}

// Sorts n distinct items of e; the result is in e, or in other if across is set. Both lose what they hold. Lower items
// gather at the front of e, higher ones at the end of other.
static void sort_items(uint64_t *e, uint64_t *other, int64_t n, int across) {
	while (n > LEAF) {
		__m128i s[9]; // at random places
		uint64_t random = (uint64_t)n;
		for (int j = 0; j < 9; j++) {
			random += 0x9e3779b97f4a7c15u;
			s[j] = _mm_loadl_epi64((const __m128i *)(e + ((random * 0xbf58476d1ce4e5b9u >> 32) * (uint64_t)n >> 32)));
		}
		const items pivot = _mm512_broadcastq_epi64(median(median(s[0], s[1], s[2]), median(s[3], s[4], s[5]),
			median(s[6], s[7], s[8])));
		int64_t low = 0, high = n, i = 0;
		for (; i + 8 * AT_ONCE <= n; i += 8 * AT_ONCE) {
			items x[AT_ONCE];
			__mmask8 above[AT_ONCE];
			_Pragma("GCC unroll 4")
			for (int q = 0; q < AT_ONCE; q++) {
				x[q] = _mm512_loadu_si512(e + i + 8 * q);
				above[q] = _mm512_cmpgt_epu64_mask(x[q], pivot);
			}
			_Pragma("GCC unroll 4")
			for (int q = 0; q < AT_ONCE; q++) {
				int count = __builtin_popcount(above[q]);
				_mm512_storeu_si512(e + low, _mm512_maskz_compress_epi64((__mmask8)~above[q], x[q]));
				low += 8 - count;
				high -= count;
				_mm512_mask_storeu_epi64(other + high, (__mmask8)((1 << count) - 1), _mm512_maskz_compress_epi64(above[q], x[q]));
			}
		}
		for (; i < n; i += 8) {
			__mmask8 here = first(n - i);
			items x = _mm512_maskz_loadu_epi64(here, e + i);
			__mmask8 above = _mm512_mask_cmpgt_epu64_mask(here, x, pivot), below = (__mmask8)(here & ~above);
			int count = __builtin_popcount(above);
			_mm512_mask_storeu_epi64(e + low, first(__builtin_popcount(below)), _mm512_maskz_compress_epi64(below, x));
			low += __builtin_popcount(below);
			high -= count;
			_mm512_mask_storeu_epi64(other + high, first(count), _mm512_maskz_compress_epi64(above, x));
		}
		sort_items(other + low, e + low, n - low, !across);
		n = low;
	}
	if (n <= 64) leaf8(e, across ? other : e, n);
	else leaf16(e, across ? other : e, n);
}

static void count_parts(const uint64_t *e, int64_t n, const uint64_t *splitter, int parts, int64_t *count) {
	count[0] = n;
	for (int p = 1; p < parts; p++) {
		const items bound = _mm512_set1_epi64((long long)splitter[p - 1]);
		int64_t above = 0;
		for (int64_t i = 0; i < n; i += 8)
			above += __builtin_popcount(_mm512_mask_cmpgt_epu64_mask(first(n - i),
				_mm512_maskz_loadu_epi64(first(n - i), e + i), bound));
		count[p] = above;
		count[p - 1] -= above;
	}
}

static void move_parts(const uint64_t *e, int64_t n, const uint64_t *splitter, int parts, int64_t *at, uint64_t *to) {
	for (int64_t i = 0; i < n; i += 8) {
		__mmask8 left = first(n - i);
		const items x = _mm512_maskz_loadu_epi64(left, e + i);
		for (int p = 0; p < parts; p++) {
			const __mmask8 above = p == parts - 1 ? 0
				: _mm512_mask_cmpgt_epu64_mask(left, x, _mm512_set1_epi64((long long)splitter[p]));
			const __mmask8 in = (__mmask8)(left & ~above);
			const int count = __builtin_popcount(in);
			_mm512_mask_storeu_epi64(to + at[p], (__mmask8)((1 << count) - 1), _mm512_maskz_compress_epi64(in, x));
			at[p] += count;
			left = above;
		}
	}
}

const tl_item_sorter tl_items_avx512 = {sort_items, count_parts, move_parts};
#if defined(__clang__)
#pragma clang attribute pop
#endif
