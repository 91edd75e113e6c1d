// Tiles of products whose rows are windows of a picture, read in place. Included by kern_table.h after kern_gemm.h.

// sums[i][j] (+)= sum over k of a[row[k] + i * step] w[k * 2 L + j], for i < mr neighbouring windows and a panel w of
// 2 L columns. Meanwhile fetched + 1 rows of C, cm apart, are prefetched. Processors that multiply by one element of a
// vector have none: they load packed windows by vectors.
#if TLK_BY_ELEMENT
#define TLK_SPOTS32 0
#define TLK_SPOTS64 0
#else
#define TLK_SPOTS32 spots32
#define TLK_SPOTS64 spots64
#if TLK_VL == 8
#define TLK_SPOT_STEPS(s, L) spotfours##s(mr, step, kc, a, row, w, fetch, cm, fetched, x)
#else
#define TLK_SPOT_FOURS(s, T, V, L)
#define TLK_SPOT_STEPS(s, L) 0
#endif
#define TLK_SPOTS(s, T, V, L) \
	TLK_SPOT_FOURS(s, T, V, L) \
	TLK_INLINE void spot##s(const int mr, const int step, int64_t kc, const T *a, const int64_t *row, const T *w, \
		T *sums, int first, const T *fetch, int64_t cm, int64_t fetched) { \
		V x[TLK_MR][2]; \
		TLK_UNROLL for (int i = 0; i < mr; i++) x[i][0] = x[i][1] = (V){0}; \
		int64_t k = TLK_SPOT_STEPS(s, L); \
		w += k * 2 * L; \
		for (; k < kc; k++, w += 2 * L) { \
			const T *p = a + row[k]; \
			const V b0 = *(const V *)w, b1 = *(const V *)(w + L); \
			__builtin_prefetch(w + TLK_PANEL_AHEAD * 2 * L); \
			__builtin_prefetch(w + TLK_PANEL_AHEAD * 2 * L + L); \
			__builtin_prefetch(fetch, 1); /* the results' place, a row at a time */ \
			fetch += k < fetched ? cm : 0; \
			TLK_UNROLL for (int i = 0; i < mr; i++) { \
				const T y = p[i * step]; \
				x[i][0] += y * b0; \
				x[i][1] += y * b1; \
			} \
		} \
		TLK_UNROLL for (int i = 0; i < mr; i++, sums += 2 * L) { \
			if (!first) { \
				x[i][0] += *(const V *)sums; \
				x[i][1] += *(const V *)(sums + L); \
			} \
			*(V *)sums = x[i][0]; \
			*(V *)(sums + L) = x[i][1]; \
		} \
	} \
	static void spots##s(int mr, int64_t step, int64_t kc, const T *a, const int64_t *row, const T *w, T *sums, \
		int first, const T *fetch, int64_t cm, int64_t fetched) { \
		switch (step == 1 ? mr : mr + TLK_MR) { \
			TLK_SPOT_CASES(s) \
		} \
	}
#define TLK_SPOT(s, m) \
	case m: spot##s(m, 1, kc, a, row, w, sums, first, fetch, cm, fetched); break; \
	case m + TLK_MR: spot##s(m, 2, kc, a, row, w, sums, first, fetch, cm, fetched); break;
#define TLK_SPOT_CASES6(s) TLK_SPOT(s, 1) TLK_SPOT(s, 2) TLK_SPOT(s, 3) TLK_SPOT(s, 4) TLK_SPOT(s, 5) TLK_SPOT(s, 6)
#if TLK_MR == 14
#define TLK_SPOT_CASES(s) TLK_SPOT_CASES6(s) TLK_SPOT(s, 7) TLK_SPOT(s, 8) TLK_SPOT(s, 9) TLK_SPOT(s, 10) \
	TLK_SPOT(s, 11) TLK_SPOT(s, 12) TLK_SPOT(s, 13) TLK_SPOT(s, 14)
#else
#define TLK_SPOT_CASES(s) TLK_SPOT_CASES6(s)
#endif
TLK_SPOTS(32, float, tl_v32, TLK_VL)
TLK_SPOTS(64, double, tl_v64, (TLK_VL / 2))
#endif
