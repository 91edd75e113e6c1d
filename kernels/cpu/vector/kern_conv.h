// The functions of conv.h in the compiler's vector types. The including file sets the compiler's target and defines
// TL_CONV_TABLE, TLK_VL, the number of lanes, and TL_CONV_SHAPES, the greatest tiles.
#include <string.h>
#include "conv.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define EACH (TL_CONV_PANEL / TLK_VL) // vectors of a panel

typedef float vec __attribute__((vector_size(TLK_VL * 4), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(TLK_VL * 4), aligned(4), may_alias));

// Limits leave NaN: processors of x86-64 return the second operand then.
INLINE vec limited(vec least, vec most, vec v) {
#if defined(TL_CONV_GREATER)
	return TL_CONV_LESSER(most, TL_CONV_GREATER(least, v));
#else
	mask m = v < least;
	v = (vec)(((mask)least & m) | ((mask)v & ~m));
	m = v > most;
	return (vec)(((mask)most & m) | ((mask)v & ~m));
#endif
}

// A position has up to four vectors, which are variables of their own: arrays of them would not stay in registers.
INLINE void tile(const tl_conv_tile *q, const int vectors, const int m, const float *const *x, int64_t from,
	int64_t to, const float *w, int64_t wm, const float *bias, const float *add, float *y, int parts) {
	const int64_t taps = q->taps, channels = q->channels;
	vec s0[TL_CONV_ROWS], s1[TL_CONV_ROWS], s2[TL_CONV_ROWS], s3[TL_CONV_ROWS];
	UNROLL for (int i = 0; i < m; i++) s0[i] = s1[i] = s2[i] = s3[i] = (vec){0};
	for (int64_t tap = 0; tap < taps; tap++) {
		const float *row[TL_CONV_ROWS], *f = w + (tap * channels + from) * TL_CONV_PANEL;
		UNROLL for (int i = 0; i < m; i++) row[i] = x[i * taps + tap] + from;
		for (int64_t k = 0; k < to - from; k++, f += TL_CONV_PANEL) {
#define WEIGHTS(e) *(const vec *)(f + (e) / EACH * wm + (e) % EACH * TLK_VL)
			const vec g0 = WEIGHTS(0), g1 = vectors > 1 ? WEIGHTS(1) : g0, g2 = vectors > 2 ? WEIGHTS(2) : g0,
				g3 = vectors > 3 ? WEIGHTS(3) : g0;
#undef WEIGHTS
			UNROLL for (int i = 0; i < m; i++) {
				const float a = row[i][k];
				s0[i] += a * g0;
				if (vectors > 1) s1[i] += a * g1;
				if (vectors > 2) s2[i] += a * g2;
				if (vectors > 3) s3[i] += a * g3;
			}
		}
	}
	const int64_t outputs = q->outputs;
	const vec least = q->least - (vec){0}, most = q->most - (vec){0};
#define EVERY(EXPR) UNROLL for (int i = 0; i < m; i++) { \
		EXPR(0, s0[i]); \
		if (vectors > 1) EXPR(1, s1[i]); \
		if (vectors > 2) EXPR(2, s2[i]); \
		if (vectors > 3) EXPR(3, s3[i]); \
	}
#define MORE(e, v) v += *(const vec *)(y + i * outputs + (e) * TLK_VL)
#define ADD(e, v) v += *(const vec *)(add + i * outputs + (e) * TLK_VL)
#define BIAS(e, v) v += *(const vec *)(bias + (e) * TLK_VL)
#define LIMIT(e, v) v = limited(least, most, v)
#define STORE(e, v) *(vec *)(y + i * outputs + (e) * TLK_VL) = v
	if (!(parts & TL_CONV_FIRST)) EVERY(MORE)
	if (parts & TL_CONV_LAST) {
		EVERY(BIAS)
		if (add) EVERY(ADD)
		EVERY(LIMIT)
	}
	EVERY(STORE)
#undef EVERY
#undef MORE
#undef ADD
#undef BIAS
#undef LIMIT
#undef STORE
}

// Each in a function of its own: in one for all, compilers keep sums in memory. With 0 panels it is half a panel.
#define TILE(p, m) \
	static __attribute__((noinline)) void tile##p##_##m(const tl_conv_tile *q, const float *const *x, int64_t from, \
		int64_t to, const float *w, int64_t wm, const float *bias, const float *add, float *y, int parts) { \
		tile(q, p ? p * EACH : EACH / 2, m, x, from, to, w, wm, bias, add, y, parts); \
	}
#define CASE(p, m) case p * 16 + m: tile##p##_##m(q, x, from, to, w, wm, bias, add, y, parts); break;
#define SHAPES4(p, DO) DO(p, 1) DO(p, 2) DO(p, 3) DO(p, 4)
#define SHAPES6(p, DO) SHAPES4(p, DO) DO(p, 5) DO(p, 6)
#define SHAPES8(p, DO) SHAPES6(p, DO) DO(p, 7) DO(p, 8)
#define SHAPES12(p, DO) SHAPES8(p, DO) DO(p, 9) DO(p, 10) DO(p, 11) DO(p, 12)
TL_CONV_SHAPES(TILE)

static void whole_tile(const tl_conv_tile *q, int panels, int m, const float *const *x, int64_t from, int64_t to,
	const float *w, int64_t wm, const float *bias, const float *add, float *y, int parts) {
	switch (panels * 16 + m) { TL_CONV_SHAPES(CASE) }
}

// Rows of n elements.
INLINE void rows(float *to, int64_t tm, const float *from, int64_t fm, int64_t m, int64_t n) {
	for (int64_t i = 0; i < m; i++, to += tm, from += fm) {
		int64_t k = 0;
		for (; k + TLK_VL <= n; k += TLK_VL) *(vec *)(to + k) = *(const vec *)(from + k);
		for (; k < n; k++) to[k] = from[k];
	}
}

enum { HALF = TL_CONV_PANEL / 2 };
static const int best[] = TL_CONV_BEST;

// Where a panel has fewer outputs, results and what is added have whole panels beside.
static void any_tile(const tl_conv_tile *q, int panels, int m, int64_t n, const float *const *x, int64_t from,
	int64_t to, const float *w, int64_t wm, const float *bias, const float *add, float *y, int parts) {
	const int half = best[0] > 0 && panels == 1 && n <= HALF;
	const int64_t wide = half ? HALF : panels * TL_CONV_PANEL;
	if (half) panels = 0;
	if (n >= wide) {
		whole_tile(q, panels, m, x, from, to, w, wm, bias, add, y, parts);
		return;
	}
	float result[TL_CONV_ROWS * 4 * TL_CONV_PANEL], more[TL_CONV_ROWS * 4 * TL_CONV_PANEL];
	tl_conv_tile inner = *q;
	inner.outputs = wide;
	if (!(parts & TL_CONV_FIRST)) {
		memset(result, 0, (size_t)(m * wide) * sizeof *result);
		rows(result, wide, y, q->outputs, m, n);
	}
	if (add) {
		memset(more, 0, (size_t)(m * wide) * sizeof *more);
		rows(more, wide, add, q->outputs, m, n);
	}
	whole_tile(&inner, panels, m, x, from, to, w, wm, bias, add ? more : NULL, result, parts);
	rows(y, q->outputs, result, wide, m, n);
}

enum { BESIDE = 4 }; // positions of a tile of channels that stay alone

// n is at least one vector: the last vector may overlap the one before.
INLINE void alone_taps(const tl_conv_tile *q, const int64_t taps, int64_t n, const float *const *x, const float *w,
	const float *bias, float *y) {
	const vec least = q->least - (vec){0}, most = q->most - (vec){0};
	for (int64_t c = 0; c < n; c += TLK_VL) {
		if (c > n - TLK_VL) c = n - TLK_VL;
		vec sum[BESIDE];
		UNROLL for (int i = 0; i < BESIDE; i++) sum[i] = (vec){0};
		const float *f = w + c;
		const float *const *at = x;
#define TAP { \
			const vec g = *(const vec *)f; \
			UNROLL for (int i = 0; i < BESIDE; i++) sum[i] += g * *(const vec *)(at[i] + c); \
			f += n; \
			at += BESIDE; \
		}
		if (taps == 9) {
			UNROLL for (int t = 0; t < 9; t++) TAP
		} else for (int64_t t = 0; t < taps; t++) TAP
#undef TAP
		UNROLL for (int i = 0; i < BESIDE; i++)
			*(vec *)(y + i * q->outputs + c) = limited(least, most, sum[i] + *(const vec *)(bias + c));
	}
}

static void alone(const tl_conv_tile *q, int64_t n, const float *const *x, const float *w, const float *bias,
	float *y) {
	if (q->taps == 9) alone_taps(q, 9, n, x, w, bias, y);
	else alone_taps(q, q->taps, n, x, w, bias, y);
}

// Winograd's minimal filtering F(2x2, 3x3): 16 products in place of 36. Of each channel, the 4x4 elements that x lists
// become the 16 factors that lie vm elements apart in v. There is at least a vector of channels, and the last may
// overlap the one before.
static void factors(int64_t n, const float *const *x, float *v, int64_t vm) {
	for (int64_t c = 0; c < n; c += TLK_VL) {
		if (c > n - TLK_VL) c = n - TLK_VL;
		vec d[4][4];
#define AT(i) *(const vec *)(x[i] + c)
		UNROLL for (int j = 0; j < 4; j++) {
			const vec second = AT(4 + j), third = AT(8 + j);
			d[0][j] = AT(j) - third;
			d[1][j] = second + third;
			d[2][j] = third - second;
			d[3][j] = second - AT(12 + j);
		}
#undef AT
		float *to = v + c;
		UNROLL for (int i = 0; i < 4; i++, to += 4 * vm) {
			*(vec *)to = d[i][0] - d[i][2];
			*(vec *)(to + vm) = d[i][1] + d[i][2];
			*(vec *)(to + 2 * vm) = d[i][2] - d[i][1];
			*(vec *)(to + 3 * vm) = d[i][1] - d[i][3];
		}
	}
}

// The four results of the sums of such products, which lie sm elements apart: y lists where they go, NULL for nowhere,
// and add what is added. Sums and biases have whole vectors.
static void results(const tl_conv_tile *q, int64_t n, const float *sums, int64_t sm, const float *bias,
	const float *const *add, float *const *y) {
	const vec least = q->least - (vec){0}, most = q->most - (vec){0};
	for (int64_t c = 0; c < n; c += TLK_VL) {
		const int64_t here = n - c < TLK_VL ? n - c : TLK_VL;
		vec r[2][4], z[4];
		const float *s = sums + c;
		UNROLL for (int j = 0; j < 4; j++, s += sm) {
			const vec second = *(const vec *)(s + 4 * sm), third = *(const vec *)(s + 8 * sm);
			r[0][j] = *(const vec *)s + second + third;
			r[1][j] = second - third - *(const vec *)(s + 12 * sm);
		}
		UNROLL for (int i = 0; i < 2; i++) {
			z[2 * i] = r[i][0] + r[i][1] + r[i][2];
			z[2 * i + 1] = r[i][1] - r[i][2] - r[i][3];
		}
		const vec b = *(const vec *)(bias + c);
		UNROLL for (int k = 0; k < 4; k++) {
			if (!y[k]) continue;
			vec more = {0};
			if (add && here == TLK_VL) more = *(const vec *)(add[k] + c);
			else if (add) memcpy(&more, add[k] + c, (size_t)here * sizeof(float));
			const vec v = limited(least, most, z[k] + b + more);
			if (here == TLK_VL) *(vec *)(y[k] + c) = v;
			else memcpy(y[k] + c, &v, (size_t)here * sizeof(float));
		}
	}
}

const tl_conv_table TL_CONV_TABLE = {TL_CONV_PANELS, TL_CONV_BEST, any_tile, alone, factors, results};
