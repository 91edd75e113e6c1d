// Products of one row and a packed matrix. Included by kern_table.h after kern_gemm.h.

// How many rows ahead a panel is fetched.
#define TLK_ROW_AHEAD 8

// c[j] = sum over k of a[k * ak] b[k][j], for n columns in panels of 2 L columns and kk rows, one after the other.
// depth terms are summed at a time, as for products of more rows, so that a row has the same bits there and here.
//
// Four panels at a time: eight sums hide the latency of a multiply-add, and memory is four streams. The last rows of
// four panels fetch the first rows of the next four.
#define TLK_ROW_PRODUCT(s, T, V, L) \
	/* x[p] = the sum over n terms of a times panel p. Fetches rows that lie fetch elements on. */ \
	TLK_INLINE void rowsum##s(int64_t n, const T *a, int64_t ak, const T *const *b, int64_t at, int64_t fetch, \
		V (*x)[2]) { \
		const T *p = b[0] + at, *q = b[1] + at, *r = b[2] + at, *u = b[3] + at; \
		for (int64_t k = 0; k < n; k++, a += ak, p += 2 * L, q += 2 * L, r += 2 * L, u += 2 * L) { \
			const T *const from[4] = {p, q, r, u}; \
			const V y = *a - (V){0}; \
			TLK_UNROLL for (int i = 0; i < 4; i++) { \
				__builtin_prefetch(from[i] + fetch); \
				if (sizeof(V) > 32) __builtin_prefetch(from[i] + fetch + L); \
				x[i][0] += y * *(const V *)from[i]; \
				x[i][1] += y * *(const V *)(from[i] + L); \
			} \
		} \
	} \
	static void row##s(int64_t n, int64_t kk, int64_t depth, const T *a, int64_t ak, const T *b, T *c) { \
		const int64_t panel = 2 * L * kk, ahead = TLK_ROW_AHEAD * 2 * L, near = kk - TLK_ROW_AHEAD; \
		for (int64_t j = 0; j < n; j += 8 * L, b += 4 * panel, c += 8 * L) { \
			const T *from[4]; \
			for (int i = 0; i < 4; i++) from[i] = b + (j + 2 * L * i < n ? i * panel : 0); \
			const int64_t next = j + 8 * L < n ? ahead + 3 * panel : 0; \
			V sums[4][2] __attribute__((aligned(64))), x[4][2]; \
			for (int64_t k = 0, to; k < kk; k = to) { \
				to = k + depth < kk ? k + depth : kk; \
				TLK_UNROLL for (int i = 0; i < 4; i++) x[i][0] = x[i][1] = (V){0}; \
				const int64_t part = to > near ? (near > k ? near - k : 0) : to - k; \
				rowsum##s(part, a + k * ak, ak, from, k * 2 * L, ahead, x); \
				rowsum##s(to - k - part, a + (k + part) * ak, ak, from, (k + part) * 2 * L, next, x); \
				TLK_UNROLL for (int i = 0; i < 4; i++) { \
					if (k) x[i][0] = sums[i][0] + x[i][0], x[i][1] = sums[i][1] + x[i][1]; \
					sums[i][0] = x[i][0], sums[i][1] = x[i][1]; \
				} \
			} \
			__builtin_memcpy(c, sums, (n - j < 8 * L ? n - j : 8 * L) * sizeof(T)); \
		} \
	}

#if TLK_VL == 16
TLK_ROW_PRODUCT(32, float, tl_v32, 16)
TLK_ROW_PRODUCT(64, double, tl_v64, 8)
#elif TLK_VL == 8
TLK_ROW_PRODUCT(32, float, tl_v32, 8)
TLK_ROW_PRODUCT(64, double, tl_v64, 4)
#else
TLK_ROW_PRODUCT(32, float, tl_v32, 4)
TLK_ROW_PRODUCT(64, double, tl_v64, 2)
#endif
