// The functions of factor.h in the compiler's vector types. The including file sets the compiler's target and defines
// TLK_FACTOR_TABLE and TLK_VL, the number of f32 lanes.
#include "factor.h"

#define INLINE static inline __attribute__((always_inline))

typedef float tl_v32 __attribute__((vector_size(TLK_VL * 4), aligned(4), may_alias));
typedef double tl_v64 __attribute__((vector_size(TLK_VL * 4), aligned(8), may_alias));
typedef int32_t tl_places32 __attribute__((vector_size(TLK_VL * 4), aligned(4), may_alias));
typedef int64_t tl_places64 __attribute__((vector_size(TLK_VL * 4), aligned(8), may_alias));
typedef float tl_four32 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double tl_four64 __attribute__((vector_size(32), aligned(8), may_alias));

#define TL_FACTOR(s, T, V, I, MAGNITUDE, FOUR, L) \
	static int64_t largest##s(const T *x, int64_t n) { \
		V most[2]; \
		I at[2], now[2]; \
		if (n <= 0 || x[0] != x[0]) return 0; \
		for (int l = 0; l < L; l++) { \
			most[0][l] = most[1][l] = -1; \
			at[0][l] = now[0][l] = l; \
			at[1][l] = now[1][l] = L + l; \
		} \
		int64_t i = 0; \
		for (; i + 2 * L <= n; i += 2 * L) \
			for (int h = 0; h < 2; h++) { \
				V v = *(const V *)(x + i + h * L); \
				v = (V)((I)v & MAGNITUDE); \
				const I more = v > most[h]; \
				most[h] = (V)(((I)v & more) | ((I)most[h] & ~more)); \
				at[h] = (now[h] & more) | (at[h] & ~more); \
				now[h] += 2 * L; \
			} \
		T best = -1; \
		int64_t place = 0; \
		for (int h = 0; h < 2; h++) \
			for (int l = 0; l < L; l++) \
				if (most[h][l] > best || (most[h][l] == best && at[h][l] < place)) best = most[h][l], place = at[h][l]; \
		for (; i < n; i++) { \
			const T v = x[i] < 0 ? -x[i] : x[i]; \
			if (v > best) best = v, place = i; \
		} \
		return place; \
	} \
	static void swap##s(T *a, T *b, int64_t n) { \
		int64_t i = 0; \
		for (; i + L <= n; i += L) { \
			const V t = *(const V *)(a + i); \
			*(V *)(a + i) = *(const V *)(b + i); \
			*(V *)(b + i) = t; \
		} \
		for (; i < n; i++) { \
			const T t = a[i]; \
			a[i] = b[i]; \
			b[i] = t; \
		} \
	} \
	INLINE void turn_four##s(const T *a, int64_t am, T *to, int64_t tm) { \
		const FOUR p = *(const FOUR *)a, q = *(const FOUR *)(a + am); \
		const FOUR r = *(const FOUR *)(a + 2 * am), u = *(const FOUR *)(a + 3 * am); \
		const FOUR pq = __builtin_shufflevector(p, q, 0, 4, 2, 6), qp = __builtin_shufflevector(p, q, 1, 5, 3, 7); \
		const FOUR ru = __builtin_shufflevector(r, u, 0, 4, 2, 6), ur = __builtin_shufflevector(r, u, 1, 5, 3, 7); \
		*(FOUR *)to = __builtin_shufflevector(pq, ru, 0, 1, 4, 5); \
		*(FOUR *)(to + tm) = __builtin_shufflevector(qp, ur, 0, 1, 4, 5); \
		*(FOUR *)(to + 2 * tm) = __builtin_shufflevector(pq, ru, 2, 3, 6, 7); \
		*(FOUR *)(to + 3 * tm) = __builtin_shufflevector(qp, ur, 2, 3, 6, 7); \
	} \
	/* The longer side is the outer loop: lines of the short side stay in L1 until they are used up. */ \
	static void turn##s(const T *a, int64_t am, int64_t m, int64_t n, T *to, int64_t tm) { \
		const int64_t m4 = m & ~(int64_t)3, n4 = n & ~(int64_t)3; \
		if (m >= n) \
			for (int64_t i = 0; i < m4; i += 4) \
				for (int64_t j = 0; j < n4; j += 4) turn_four##s(a + i * am + j, am, to + j * tm + i, tm); \
		else \
			for (int64_t j = 0; j < n4; j += 4) \
				for (int64_t i = 0; i < m4; i += 4) turn_four##s(a + i * am + j, am, to + j * tm + i, tm); \
		for (int64_t j = 0; j < n; j++) \
			for (int64_t i = j < n4 ? m4 : 0; i < m; i++) to[j * tm + i] = a[i * am + j]; \
	} \
	INLINE T lanes##s(V v) { \
		T sum[L]; \
		*(V *)sum = v; \
		for (int w = L / 2; w > 0; w /= 2) \
			for (int l = 0; l < w; l++) sum[l] += sum[l + w]; \
		return sum[0]; \
	} \
	/* A vector of row r, from which x_r y' + y_r x' is subtracted in place where update is set. */ \
	INLINE V updated##s(const int update, T *at, const T *x, const T *y, int64_t r, V xc, V yc) { \
		V q = *(const V *)at; \
		if (update) { \
			q -= x[r] * yc; \
			q -= y[r] * xc; \
			*(V *)at = q; \
		} \
		return q; \
	} \
	/* Four rows, up to the diagonal. Vectors that meet it take part by their lanes on its left. */ \
	INLINE void reduce_four##s(const int update, int64_t i0, int64_t first, T *a, int64_t ld, const T *x, const T *y, \
		const T *z, T *out) { \
		T *b = a + i0 * ld; \
		V dot[4]; \
		I place = {0}; \
		_Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) dot[i] = (V){0}; \
		int64_t c = first; \
		for (; c + L <= i0; c += L) { \
			const V zc = *(const V *)(z + c), xc = update ? *(const V *)(x + c) : zc, yc = update ? *(const V *)(y + c) : zc; \
			V sum = *(const V *)(out + c); \
			_Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) { \
				const V q = updated##s(update, b + i * ld + c, x, y, i0 + i, xc, yc); \
				dot[i] += q * zc; \
				sum += q * z[i0 + i]; \
			} \
			*(V *)(out + c) = sum; \
		} \
		for (; c < i0 + 4; c += L) { \
			const V zc = *(const V *)(z + c), xc = update ? *(const V *)(x + c) : zc, yc = update ? *(const V *)(y + c) : zc; \
			V sum = *(const V *)(out + c); \
			for (int l = 0; l < L; l++) place[l] = c + l - i0; \
			_Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) { \
				const V q = updated##s(update, b + i * ld + c, x, y, i0 + i, xc, yc); \
				dot[i] += (V)((I)q & (place <= i)) * zc; \
				sum += (V)((I)q & (place < i)) * z[i0 + i]; \
			} \
			*(V *)(out + c) = sum; \
		} \
		_Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) out[i0 + i] += lanes##s(dot[i]); \
	} \
	static void reduce##s(int64_t from, int64_t to, int64_t first, T *a, int64_t ld, const T *x, const T *y, const T *z, \
		T *out) { \
		for (int64_t i = from; i < to; i += 4) \
			if (y) reduce_four##s(1, i, first, a, ld, x, y, z, out); \
			else reduce_four##s(0, i, first, a, ld, x, y, z, out); \
	} \
	INLINE void sweep_four##s(const int update, int64_t first, int64_t n, T *a, int64_t ld, const T *x, const T *g, \
		const T *z, const T *y, const T *u, T *out) { \
		V xs[4], gs[4], zs[4]; \
		_Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) \
			xs[i] = (V){0} + x[i], gs[i] = (V){0} + g[i], zs[i] = (V){0} + z[i]; \
		for (int64_t c = first; c < n; c += L) { \
			const V yc = update ? *(const V *)(y + c) : xs[0], uc = update ? *(const V *)(u + c) : xs[0]; \
			V sum = *(const V *)(out + c); \
			_Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) { \
				V q = *(const V *)(a + i * ld + c); \
				if (update) { \
					q -= xs[i] * yc; \
					q -= gs[i] * uc; \
					*(V *)(a + i * ld + c) = q; \
				} \
				sum += q * zs[i]; \
			} \
			*(V *)(out + c) = sum; \
		} \
	} \
	static void sweep##s(int64_t from, int64_t to, int64_t first, int64_t n, T *a, int64_t ld, const T *x, const T *g, \
		const T *z, const T *y, const T *u, T *out) { \
		for (int64_t i = from; i < to; i += 4) \
			if (y) sweep_four##s(1, first, n, a + i * ld, ld, x + i, g + i, z + i, y, u, out); \
			else sweep_four##s(0, first, n, a + i * ld, ld, x + i, g + i, z + i, y, u, out); \
	}

TL_FACTOR(32, float, tl_v32, tl_places32, INT32_MAX, tl_four32, TLK_VL)
TL_FACTOR(64, double, tl_v64, tl_places64, INT64_MAX, tl_four64, (TLK_VL / 2))

static void poles(const double *square, const double *x, double at, int64_t n, double *sum, double *slope) {
	enum { L = TLK_VL / 2, ROWS = 16 / TLK_VL };
	tl_v64 a[ROWS], b[ROWS];
	int64_t j = 0;
	for (int r = 0; r < ROWS; r++) a[r] = b[r] = (tl_v64){0};
	for (; j + L * ROWS <= n; j += L * ROWS)
		for (int r = 0; r < ROWS; r++) {
			const tl_v64 q = 1 / (*(const tl_v64 *)(x + j + r * L) - at), t = *(const tl_v64 *)(square + j + r * L) * q;
			a[r] += t;
			b[r] += t * q;
		}
	for (int r = 1; r < ROWS; r++) a[0] += a[r], b[0] += b[r];
	double s = lanes64(a[0]), d = lanes64(b[0]);
	for (; j < n; j++) {
		const double q = 1 / (x[j] - at), t = square[j] * q;
		s += t;
		d += t * q;
	}
	*sum += s;
	*slope += d;
}

const tl_factor_table TLK_FACTOR_TABLE = {
	.f32 = {largest32, swap32, turn32, reduce32, sweep32},
	.f64 = {largest64, swap64, turn64, reduce64, sweep64},
	.poles = poles,
};
