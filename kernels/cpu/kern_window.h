// Convolutions of one row: sums over few elements of a window, for neighbouring columns. Included by kern_table.h.

#define TLK_EVEN2 0, 2
#define TLK_EVEN4 TLK_EVEN2, 4, 6
#define TLK_EVEN8 TLK_EVEN4, 8, 10, 12, 14
#define TLK_EVEN16 TLK_EVEN8, 16, 18, 20, 22, 24, 26, 28, 30

// Columns by N lanes, from column j on while vectors fit; returns the first column that is left. The last vector may
// overlap the one before. safe is the number of columns that vectors may read. Every column adds its terms in order.
#define TLK_WINDOWS(s, T, N) \
	typedef T window_v##s##N __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias)); \
	TLK_INLINE window_v##s##N window_load##s##N(const T *p, const int two) { \
		const window_v##s##N x = *(const window_v##s##N *)p; \
		if (!two) return x; \
		return (window_v##s##N)__builtin_shufflevector(x, *(const window_v##s##N *)(p + N), TLK_EVEN##N); \
	} \
	TLK_INLINE int64_t windows##s##N(int64_t j, int64_t n, int64_t safe, int64_t kc, const T *a, int64_t ak, const T *b, \
		const int64_t *row, const int two, T *c) { \
		while (j < n && n >= N) { \
			window_v##s##N x[4] = {{0}}; \
			if (j + 4 * N <= safe) { \
				for (int64_t k = 0; k < kc; k++) \
					TLK_UNROLL for (int i = 0; i < 4; i++) \
						x[i] += a[k * ak] * window_load##s##N(b + row[k] + ((j + i * N) << two), two); \
				TLK_UNROLL for (int i = 0; i < 4; i++) *(window_v##s##N *)(c + j + i * N) = x[i]; \
				j += 4 * N; \
				continue; \
			} \
			const int64_t at = j + N <= n ? j : n - N; \
			if (at + N > safe) break; \
			for (int64_t k = 0; k < kc; k++) x[0] += a[k * ak] * window_load##s##N(b + row[k] + (at << two), two); \
			*(window_v##s##N *)(c + at) = x[0]; \
			j = at + N; \
		} \
		return j; \
	}

#define TLK_WINDOW_LINE(s, T, BY) \
	TLK_INLINE void windowline##s(int64_t n, int64_t safe, int64_t kc, const T *a, int64_t ak, const T *b, \
		const int64_t *row, const int two, T *c) { \
		int64_t j = 0; \
		BY \
		for (; j < n; j++) { \
			T x = 0; \
			for (int64_t k = 0; k < kc; k++) x += a[k * ak] * b[row[k] + (j << two)]; \
			c[j] = x; \
		} \
	} \
	static void window##s(int64_t n, int64_t kc, const T *a, int64_t ak, const T *b, const T *bend, const int64_t *row, \
		int64_t step, T *c) { \
		if (step == 1) { \
			windowline##s(n, n, kc, a, ak, b, row, 0, c); \
			return; \
		} \
		const int64_t left = bend - b - row[kc - 1]; /* a vector of N columns reads 2 N elements */ \
		windowline##s(n, left / 2 < n ? left / 2 : n, kc, a, ak, b, row, 1, c); \
	}

#define TLK_WINDOW_BY(s, N) j = windows##s##N(j, n, safe, kc, a, ak, b, row, two, c);
#if TLK_VL == 16
TLK_WINDOWS(32, float, 16)
TLK_WINDOWS(32, float, 8)
TLK_WINDOWS(32, float, 4)
TLK_WINDOWS(64, double, 8)
TLK_WINDOWS(64, double, 4)
TLK_WINDOW_LINE(32, float, TLK_WINDOW_BY(32, 16) TLK_WINDOW_BY(32, 8) TLK_WINDOW_BY(32, 4))
TLK_WINDOW_LINE(64, double, TLK_WINDOW_BY(64, 8) TLK_WINDOW_BY(64, 4))
#elif TLK_VL == 8
TLK_WINDOWS(32, float, 8)
TLK_WINDOWS(32, float, 4)
TLK_WINDOWS(64, double, 4)
TLK_WINDOW_LINE(32, float, TLK_WINDOW_BY(32, 8) TLK_WINDOW_BY(32, 4))
TLK_WINDOW_LINE(64, double, TLK_WINDOW_BY(64, 4))
#else
TLK_WINDOWS(32, float, 4)
TLK_WINDOWS(64, double, 2)
TLK_WINDOW_LINE(32, float, TLK_WINDOW_BY(32, 4))
TLK_WINDOW_LINE(64, double, TLK_WINDOW_BY(64, 2))
#endif
