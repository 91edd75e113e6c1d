// GEMM micro-kernels over the compiler's vector types. TLK_VL is the number of f32 lanes, TLK_MR the number of rows of
// a tile. A tile is TLK_MR x 2 vectors.

#define TLK_INLINE static inline __attribute__((always_inline))

// The numbers of every second lane of two vectors.
#define TLK_EVEN2 0, 2
#define TLK_EVEN4 TLK_EVEN2, 4, 6
#define TLK_EVEN8 TLK_EVEN4, 8, 10, 12, 14
#define TLK_EVEN16 TLK_EVEN8, 16, 18, 20, 22, 24, 26, 28, 30

typedef float tl_v32 __attribute__((vector_size(TLK_VL * 4), aligned(4), may_alias));
typedef double tl_v64 __attribute__((vector_size(TLK_VL * 4), aligned(8), may_alias));

// How many rows ahead B is prefetched. Each row is on another page, so the hardware prefetcher does not fetch it.
#define TLK_AHEAD 12

// How many rows ahead a packed panel of B is prefetched, and from how many rows on: shorter ones stay in L1.
#define TLK_PANEL_AHEAD 8
#define TLK_LONG_PANEL 160

// While four rows of a matrix are summed, the next four are prefetched if the last of them is at most this many bytes
// away, since all eight then stay in L1.
#define TLK_FOUR_ROWS (1 << 14)

#define TLK_NR32 (2 * TLK_VL)
#define TLK_NR64 TLK_VL

#if TLK_BY_ELEMENT
#include "kern_element.h"
#define TLK_STEPS(s) elements##s(mr, kc, a, am, ak, b, bk, row, next, step, x)
#elif TLK_VL == 8
#include "kern_fours.h"
#define TLK_BY_ELEMENT 0
#define TLK_ALONG TLK_MR
#define TLK_ELEMENTS TLK_FOURS
#define TLK_STEPS(s) fours##s(mr, kc, a, am, ak, b, bk, row, keep, next, step, x)
#else
#define TLK_BY_ELEMENT 0
#define TLK_ALONG TLK_MR
#define TLK_ELEMENTS(s, T, V, L)
#define TLK_STEPS(s) 0
#endif

// What AVX2 has besides. keep packs a panel of B while the panel's first tile is computed from B in place: two stores
// beside 12 multiply-adds cost nothing, where packing alone waits for the cache that holds B. And a tile that reads
// columns of A in place has constant offsets of its 6 rows, not 6 addresses.
#if TLK_VL == 8
#define TLK_KEEP(s, T, L) \
	static void keep##s(int mr, int64_t kc, const T *a, int64_t am, int64_t ak, const T *b, int64_t bk, T *to, T *c, \
		int64_t cm, int first) { \
		if (ak == 1) rows##s(mr, kc, a, am, 1, b, bk, 0, to, c, cm, first); \
		else rows##s(mr, kc, a, am, ak, b, bk, 0, to, c, cm, first); \
	}
#define TLK_COLUMNS_IN_PLACE 1
#define TLK_KEPT(name) name
#else
#define TLK_KEEP(s, T, L)
#define TLK_COLUMNS_IN_PLACE 0
#define TLK_KEPT(name) 0
#endif

#define TLK_GEMM(s, T, V, L, TURN, EVEN) \
	TLK_ELEMENTS(s, T, V, L) \
	TLK_INLINE void tile##s(const int mr, int64_t kc, const T *a, const int64_t am, const int64_t ak, const T *b, \
		const int64_t bk, const int64_t *row, T *keep, T *c, int64_t cm, int first) { \
		V x[TLK_MR][2]; \
		/* The tile of C is fetched while it is computed. */ \
		TLK_UNROLL for (int i = 0; i < mr; i++) { \
			x[i][0] = x[i][1] = (V){0}; \
			__builtin_prefetch(c + i * cm, 1); \
			__builtin_prefetch(c + i * cm + 2 * L - 1, 1); \
		} \
		/* The rows of the next tile, where they follow in memory: no hardware prefetcher follows so many. */ \
		const T *next = am == kc ? a + mr * am : a; \
		const int64_t step = am == kc ? mr : 0; \
		const int64_t ahead = kc >= TLK_LONG_PANEL ? TLK_PANEL_AHEAD * bk : 0; \
		int64_t k = TLK_STEPS(s); \
		a += k * ak, b += k * bk, next += k * step; \
		if (keep) keep += k * 2 * L; \
		for (; k < kc; k++) { \
			const T *at = row ? b + row[k] : b; \
			V b0 = *(const V *)at, b1 = *(const V *)(at + L); \
			if (keep) { /* B's rows as a panel */ \
				*(V *)keep = b0; \
				*(V *)(keep + L) = b1; \
				keep += 2 * L; \
			} \
			if (!row && bk != 2 * L) __builtin_prefetch(b + TLK_AHEAD * bk); \
			if (TLK_VL == 16 && !row && bk == 2 * L) { /* a panel and a tile's rows of A do not fit an L1 cache of 32 KiB */ \
				__builtin_prefetch(b + ahead); \
				__builtin_prefetch(b + ahead + L); \
			} \
			if (row) { /* the next panel of B */ \
				__builtin_prefetch(at + 2 * L); \
				__builtin_prefetch(at + 4 * L - 1); \
			} \
			if (ak == 1 && am != 1) { \
				__builtin_prefetch(next, 0, 2); \
				next += step; \
			} \
			TLK_UNROLL for (int i = 0; i < mr; i++) { \
				T y = a[i * am]; \
				x[i][0] += y * b0; \
				x[i][1] += y * b1; \
			} \
			a += ak; \
			b += bk; \
		} \
		if (!first) { \
			TLK_UNROLL for (int i = 0; i < mr; i++) { \
				x[i][0] += *(const V *)(c + i * cm); \
				x[i][1] += *(const V *)(c + i * cm + L); \
			} \
		} \
		TLK_UNROLL for (int i = 0; i < mr; i++) { \
			*(V *)(c + i * cm) = x[i][0]; \
			*(V *)(c + i * cm + L) = x[i][1]; \
		} \
	} \
	TLK_INLINE void rows##s(int mr, int64_t kc, const T *a, const int64_t am, const int64_t ak, const T *b, \
		const int64_t bk, const int64_t *row, T *keep, T *c, int64_t cm, int first) { \
		switch (mr) { \
			TLK_ROWS(s) \
		} \
	} \
	static void gemm##s(int mr, int64_t kc, const T *a, int64_t am, int64_t ak, const T *b, int64_t bk, T *c, int64_t cm, \
		int first) { \
		if (am == 1 && (TLK_BY_ELEMENT || ak == TLK_MR) && bk == 2 * L) \
			rows##s(mr, kc, a, 1, TLK_BY_ELEMENT ? ak : TLK_MR, b, \
			2 * L, 0, 0, c, cm, first); \
		else if (TLK_COLUMNS_IN_PLACE && am == 1 && bk == 2 * L) rows##s(mr, kc, a, 1, ak, b, 2 * L, 0, 0, c, cm, first); \
		else if (ak == 1 && bk == 2 * L) rows##s(mr, kc, a, am, 1, b, 2 * L, 0, 0, c, cm, first); \
		else rows##s(mr, kc, a, am, ak, b, bk, 0, 0, c, cm, first); \
	} \
	TLK_KEEP(s, T, L) \
	static void gemmrows##s(int mr, int64_t kc, const T *a, int64_t am, int64_t ak, const T *b, const int64_t *row, T *c, \
		int64_t cm) { \
		if (!row) __builtin_unreachable(); \
		if (am == 1 && ak == TLK_MR) rows##s(mr, kc, a, 1, TLK_MR, b, 0, row, 0, c, cm, 1); \
		else if (TLK_BY_ELEMENT && ak == 1) rows##s(mr, kc, a, am, 1, b, 0, row, 0, c, cm, 1); \
		else rows##s(mr, kc, a, am, ak, b, 0, row, 0, c, cm, 1); \
	} \
	/* Each run by whole vectors, of which the last may overlap the one before. */ \
	static void putruns##s(const T *tile, int64_t rows, const tl_piece *run, int64_t runs, T *c, int64_t cm) { \
		typedef T four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias)); \
		for (int64_t i = 0; i < rows; i++, tile += 2 * L, c += cm) \
			for (int64_t r = 0; r < runs; r++) { \
				const T *p = tile + run[r].from; \
				T *to = c + run[r].to; \
				int64_t n = run[r].n, j = 0; \
				for (; j + 4 <= n; j += 4) *(four *)(to + j) = *(const four *)(p + j); \
				if (j < n && n >= 4) *(four *)(to + n - 4) = *(const four *)(p + n - 4); \
				else for (; j < n; j++) to[j] = p[j]; \
			} \
	} \
	static void packb##s(const T *b, int64_t bk, int64_t bn, int64_t kc, int64_t n, T *d) { \
		if (n == 2 * L && bn == 1) { \
			for (int64_t k = 0; k < kc; k++, b += bk, d += 2 * L) { \
				__builtin_prefetch(b + TLK_AHEAD * bk); \
				*(V *)d = *(const V *)b; \
				*(V *)(d + L) = *(const V *)(b + L); \
			} \
			return; \
		} \
		if (n == 2 * L && bk == 1) { \
			TURN(d, b, kc, n, bn); \
			return; \
		} \
		for (int64_t k = 0; k < kc; k++, b += bk, d += 2 * L) { \
			for (int64_t j = 0; j < n; j++) d[j] = b[j * bn]; \
			for (int64_t j = n; j < 2 * L; j++) d[j] = 0; \
		} \
	} \
	/* The elements of even numbers among 2 L. */ \
	TLK_INLINE V even##s(const T *p) { return __builtin_shufflevector(*(const V *)p, *(const V *)(p + L), EVEN); } \
	/* A run that may is copied by whole vectors: what it leaves behind its end, the next one overwrites. */ \
	static void packruns##s(const T *b, const T *bend, const int64_t *row, int64_t kc, const tl_piece *run, int64_t nrun, \
		int64_t step, T *d, const T *dend) { \
		for (int64_t k = 0; k < kc; k++, d += 2 * L) \
			for (int64_t r = 0; r < nrun; r++) { \
				const T *p = b + row[k] + run[r].from; \
				T *to = d + run[r].to; \
				if (step == 1 && bend - p >= 2 * L && dend - to >= 2 * L) { \
					*(V *)to = *(const V *)p; \
					*(V *)(to + L) = *(const V *)(p + L); \
				} else if (step == 2 && bend - p >= 4 * L && dend - to >= 2 * L) { \
					*(V *)to = even##s(p); \
					*(V *)(to + L) = even##s(p + 2 * L); \
				} else { \
					for (int64_t i = 0; i < run[r].n; i++) to[i] = p[i * step]; \
				} \
			} \
	} \
	/* Packs rows of a tile whose elements are those of windows, as packruns packs columns. */ \
	static void packwindows##s(const T *b, const T *bend, const int64_t *row, int64_t kc, const tl_piece *run, \
		int64_t nrun, int64_t step, T *d, const T *dend) { \
		enum { READS = (TLK_MR + L - 1) / L * L }; \
		for (int64_t k = 0; k < kc; k++, d += TLK_MR) \
			for (int64_t r = 0; r < nrun; r++) { \
				const T *p = b + row[k] + run[r].from; \
				T *to = d + run[r].to; \
				if (step == 1 && bend - p >= READS && dend - to >= READS) { \
					TLK_UNROLL for (int i = 0; i < READS; i += L) *(V *)(to + i) = *(const V *)(p + i); \
				} else if (step == 2 && bend - p >= 2 * READS && dend - to >= READS) { \
					TLK_UNROLL for (int i = 0; i < READS; i += L) *(V *)(to + i) = even##s(p + 2 * i); \
				} else { \
					for (int64_t i = 0; i < run[r].n; i++) to[i] = p[i * step]; \
				} \
			} \
	} \
	/* c[j * cm + i] = t[i * 2 L + j], i < n, j < rows */ \
	static void turnout##s(const T *t, int64_t n, int64_t rows, T *c, int64_t cm) { \
		int64_t j = 0; \
		for (; sizeof(T) == 4 && n >= 4 && j + 4 <= rows; j += 4) \
			for (int64_t i = 0; i < n; i += 4) { \
				if (i > n - 4) i = n - 4; /* the last four overlap those before */ \
				const uint32_t *q = (const uint32_t *)t + i * 2 * L + j; \
				transpose_quad((uint32_t *)c + j * cm + i, cm, q, q + 2 * L, q + 4 * L, q + 6 * L); \
			} \
		for (; j < rows; j++) \
			for (int64_t i = 0; i < n; i++) c[j * cm + i] = t[i * 2 * L + j]; \
	} \
	/* d[k * TLK_MR + i] = a[i * am + k * ak] */ \
	static void packa##s(const T *a, int64_t am, int64_t ak, int64_t kc, int64_t rows, T *d) { \
		if (rows == TLK_MR && am == 1) { \
			/* Whole vectors: what they write behind a step the next one overwrites, and what they read there are its rows. */ \
			for (; ak >= L && kc > 1; kc--, a += ak, d += TLK_MR) { \
				if (TLK_VL != 8) __builtin_prefetch(a + TLK_AHEAD * ak); /* with AVX2 slower, where rows share sets of L1 */ \
				TLK_UNROLL for (int i = 0; i < TLK_MR; i += L) *(V *)(d + i) = *(const V *)(a + i); \
			} \
			for (; kc > 0; kc--, a += ak, d += TLK_MR) \
				TLK_UNROLL for (int i = 0; i < TLK_MR; i++) d[i] = a[i]; \
			return; \
		} \
		if (rows == TLK_MR && ak == 1) { \
			TURN(d, a, kc, TLK_MR, am); \
			return; \
		} \
		for (int64_t k = 0; k < kc; k++, a += ak, d += TLK_MR) \
			for (int64_t i = 0; i < rows; i++) d[i] = a[i * am]; \
	} \
	/* The sum of the lanes, by halves. */ \
	TLK_INLINE T lanes##s(V v) { \
		typedef T half __attribute__((vector_size(32), may_alias)); \
		typedef T quarter __attribute__((vector_size(16), may_alias)); \
		half h; \
		const half *w = (const half *)&v; \
		const quarter *u = (const quarter *)&v; \
		if (sizeof(V) == 64) { \
			h = w[0] + w[1]; \
			u = (const quarter *)&h; \
		} \
		quarter q = u[0]; \
		if (sizeof(V) > 16) q += u[1]; \
		return sizeof(T) == 8 ? q[0] + q[1] : (q[0] + q[1]) + (q[sizeof(q) / sizeof(T) - 2] + q[sizeof(q) / sizeof(T) - 1]); \
	} \
	/* c[j] = sum over k of a[k] b[j * bn + k] */ \
	static void dot##s(int64_t n, int64_t kk, const T *a, int64_t ak, const T *b, int64_t bn, T *c, int64_t cn) { \
		(void)ak; \
		const int64_t next = 4 * bn * (int64_t)sizeof(T) <= TLK_FOUR_ROWS ? 4 * bn : 0; \
		for (int64_t j = 0; j < n; j += 4) { \
			int64_t m = n - j < 4 ? n - j : 4; \
			const T *p[4]; \
			for (int i = 0; i < 4; i++) p[i] = b + (j + (i < m ? i : 0)) * bn; \
			V t[4][2]; \
			TLK_UNROLL for (int i = 0; i < 4; i++) t[i][0] = t[i][1] = (V){0}; \
			int64_t k = 0; \
			for (; k + 2 * L <= kk; k += 2 * L) { \
				V x = *(const V *)(a + k), y = *(const V *)(a + k + L); \
				TLK_UNROLL for (int i = 0; i < 4; i++) { \
					if (next) TLK_UNROLL for (int o = 0; o < 2 * L; o += 64 / (int)sizeof(T)) \
						__builtin_prefetch(p[i] + k + o + next); \
					t[i][0] += x * *(const V *)(p[i] + k); \
					t[i][1] += y * *(const V *)(p[i] + k + L); \
				} \
			} \
			for (int i = 0; i < m; i++) { \
				T r = lanes##s(t[i][0] + t[i][1]); \
				for (int64_t q = k; q < kk; q++) r += a[q] * p[i][q]; \
				c[(j + i) * cn] = r; \
			} \
		} \
	} \
	/* c[j] (+)= sum over k of a[k * ak] b[k * bk + j] */ \
	static void addrows##s(int64_t n, int64_t kk, const T *a, int64_t ak, const T *b, int64_t bk, T *c) { \
		int64_t k = 0; \
		for (; k + 4 <= kk; k += 4, b += 4 * bk, a += 4 * ak) { \
			T w = a[0], x = a[ak], y = a[2 * ak], z = a[3 * ak]; \
			const T *p = b, *q = b + bk, *r = b + 2 * bk, *u = b + 3 * bk; \
			TLK_VEC for (int64_t j = 0; j < n; j++) c[j] += (w * p[j] + x * q[j]) + (y * r[j] + z * u[j]); \
		} \
		for (; k < kk; k++, b += bk, a += ak) { \
			T w = *a; \
			TLK_VEC for (int64_t j = 0; j < n; j++) c[j] += w * b[j]; \
		} \
	} \
	static void rotate##s(int64_t n, T *x, T *y, T c, T d) { \
		TLK_VEC for (int64_t j = 0; j < n; j++) { \
			T p = x[j], q = y[j]; \
			x[j] = c * p + d * q; \
			y[j] = c * q - d * p; \
		} \
	} \
	static void axpy##s(int64_t n, int64_t kk, const T *a, int64_t ak, const T *b, int64_t bk, T *c) { \
		for (int64_t j = 0; j < n; j++) c[j] = 0; \
		addrows##s(n, kk, a, ak, b, bk, c); \
	}

#define TLK_ROW(s, m) case m: tile##s(m, kc, a, am, ak, b, bk, row, keep, c, cm, first); break;
#define TLK_ROWS6(s) TLK_ROW(s, 1) TLK_ROW(s, 2) TLK_ROW(s, 3) TLK_ROW(s, 4) TLK_ROW(s, 5) TLK_ROW(s, 6)
#define TLK_ROWS12(s) TLK_ROWS6(s) TLK_ROW(s, 7) TLK_ROW(s, 8) TLK_ROW(s, 9) TLK_ROW(s, 10) \
	TLK_ROW(s, 11) TLK_ROW(s, 12)
#define TLK_ROWS14(s) TLK_ROWS12(s) TLK_ROW(s, 13) TLK_ROW(s, 14)
#if TLK_MR == 14
#define TLK_ROWS(s) TLK_ROWS14(s)
#elif TLK_MR == 12
#define TLK_ROWS(s) TLK_ROWS12(s)
#else
#define TLK_ROWS(s) TLK_ROWS6(s)
#endif

#define TLK_TRANSPOSE32(d, p, rows, n, s) transpose_w4((uint32_t *)(d), (const uint32_t *)(p), rows, n, s)
#define TLK_TRANSPOSE64(d, p, rows, n, s) transpose_w8((uint64_t *)(d), (const uint64_t *)(p), rows, n, s)
#if TLK_VL == 16
TLK_GEMM(32, float, tl_v32, 16, TLK_TRANSPOSE32, TLK_EVEN16)
TLK_GEMM(64, double, tl_v64, 8, TLK_TRANSPOSE64, TLK_EVEN8)
#elif TLK_VL == 8
TLK_GEMM(32, float, tl_v32, 8, TLK_TRANSPOSE32, TLK_EVEN8)
TLK_GEMM(64, double, tl_v64, 4, TLK_TRANSPOSE64, TLK_EVEN4)
#else
TLK_GEMM(32, float, tl_v32, 4, TLK_TRANSPOSE32, TLK_EVEN4)
TLK_GEMM(64, double, tl_v64, 2, TLK_TRANSPOSE64, TLK_EVEN2)
#endif

// Packs four columns by four rows at a time. If kc is no multiple of four, the last four rows overlap those before.
static void packtrans32(const float *b, const int64_t *col, int64_t kc, int64_t n, float *d) {
	int64_t j = 0;
	for (; kc >= 4 && j + 4 <= n; j += 4) {
		const uint32_t *p[4];
		for (int i = 0; i < 4; i++) p[i] = (const uint32_t *)(b + col[j + i]);
		for (int64_t k = 0; k < kc; k += 4) {
			if (k > kc - 4) k = kc - 4;
			transpose_quad((uint32_t *)d + k * TLK_NR32 + j, TLK_NR32, p[0] + k, p[1] + k, p[2] + k, p[3] + k);
		}
	}
	for (; j < n; j++)
		for (int64_t k = 0; k < kc; k++) d[k * TLK_NR32 + j] = b[col[j] + k];
}
static void packtrans64(const double *b, const int64_t *col, int64_t kc, int64_t n, double *d) {
	for (int64_t j = 0; j < n; j++)
		for (int64_t k = 0; k < kc; k++) d[k * TLK_NR64 + j] = b[col[j] + k];
}

#define TLK_BIAS(s, T) \
	static void bias##s(T *c, const T *bias, int64_t bn, int64_t n) { \
		if (bn == 1) { TLK_VEC for (int64_t i = 0; i < n; i++) c[i] += bias[i]; } \
		else for (int64_t i = 0; i < n; i++) c[i] += bias[i * bn]; \
	}
TLK_BIAS(32, float)
TLK_BIAS(64, double)
