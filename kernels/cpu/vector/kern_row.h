// Products of one row and a packed matrix. Included by kern_table.h after kern_gemm.h.

// How many panels are read at a time: their sums hide the latency of a multiply-add, and memory is as many streams.
// And how many rows ahead they are fetched. Where vectors have 16 lanes, four streams whose distance is a power of two
// are slower than two.
#if TLK_VL == 16
enum { TLK_ROW_STREAMS = 2, TLK_ROW_AHEAD = 16 };
#else
enum { TLK_ROW_STREAMS = 4, TLK_ROW_AHEAD = 8 };
#endif

// c[j] = sum over k of a[k * ak] b[k][j], for n columns in panels of 2 L columns and kk rows, one after the other.
// depth terms are summed at a time, as for products of more rows, so that a row has the same bits there and here. The
// last rows of some panels fetch the first rows of the next ones.
#define TLK_ROW_PRODUCT(s, T, V, L) \
	/* x[i] = the sum over n terms of a times panel i from b[i][at] on. Fetches what lies fetch elements on. */ \
	TLK_INLINE void rowsum##s(int64_t n, const T *a, int64_t ak, const T *const *b, int64_t at, int64_t fetch, \
		V (*x)[2]) { \
		const T *p[TLK_ROW_STREAMS]; \
		TLK_UNROLL for (int i = 0; i < TLK_ROW_STREAMS; i++) p[i] = b[i] + at; \
		for (int64_t k = 0; k < n; k++, a += ak) { \
			const V y = *a - (V){0}; \
			TLK_UNROLL for (int i = 0; i < TLK_ROW_STREAMS; i++, p[i - 1] += 2 * L) { \
				__builtin_prefetch(p[i] + fetch); \
				if (sizeof(V) > 32) __builtin_prefetch(p[i] + fetch + L); \
				x[i][0] += y * *(const V *)p[i]; \
				x[i][1] += y * *(const V *)(p[i] + L); \
			} \
		} \
	} \
	static void row##s(int64_t n, int64_t kk, int64_t depth, const T *a, int64_t ak, const T *b, T *c) { \
		enum { WIDE = TLK_ROW_STREAMS * 2 * L }; \
		const int64_t panel = 2 * L * kk, ahead = TLK_ROW_AHEAD * 2 * L, near = kk - TLK_ROW_AHEAD; \
		for (int64_t j = 0; j < n; j += WIDE, b += TLK_ROW_STREAMS * panel, c += WIDE) { \
			const T *from[TLK_ROW_STREAMS]; \
			for (int i = 0; i < TLK_ROW_STREAMS; i++) from[i] = b + (j + 2 * L * i < n ? i * panel : 0); \
			const int64_t next = j + WIDE < n ? ahead + (TLK_ROW_STREAMS - 1) * panel : 0; \
			V sums[TLK_ROW_STREAMS][2] __attribute__((aligned(64))), x[TLK_ROW_STREAMS][2]; \
			for (int64_t k = 0, to; k < kk; k = to) { \
				to = k + depth < kk ? k + depth : kk; \
				TLK_UNROLL for (int i = 0; i < TLK_ROW_STREAMS; i++) x[i][0] = x[i][1] = (V){0}; \
				const int64_t part = to > near ? (near > k ? near - k : 0) : to - k; \
				rowsum##s(part, a + k * ak, ak, from, k * 2 * L, ahead, x); \
				rowsum##s(to - k - part, a + (k + part) * ak, ak, from, (k + part) * 2 * L, next, x); \
				TLK_UNROLL for (int i = 0; i < TLK_ROW_STREAMS; i++) { \
					if (k) x[i][0] = sums[i][0] + x[i][0], x[i][1] = sums[i][1] + x[i][1]; \
					sums[i][0] = x[i][0], sums[i][1] = x[i][1]; \
				} \
			} \
			__builtin_memcpy(c, sums, (n - j < WIDE ? n - j : WIDE) * sizeof(T)); \
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
