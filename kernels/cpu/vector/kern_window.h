// Convolutions of one row: sums over few elements of a window, for neighbouring columns. Included by kern_table.h.

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
	} \
	/* Lines from r on, four at a time; the last four may overlap those before. Returns the lines that are done: a group \
	   whose vectors would pass bend is left. A vector that is longer than a line is stored where others follow. */ \
	TLK_INLINE int64_t windowfour##s##N(int64_t r, int64_t lines, const int64_t *start, int64_t n, int64_t kc, \
		const T *a, int64_t ak, const T *b, const T *bend, const int64_t *row, const int two, T *c) { \
		const T *cend = c + lines * n; \
		const int64_t reach = row[kc - 1] + ((n > N ? n : N) << two); \
		while (lines >= 4 && r < lines) { \
			const int64_t first = r <= lines - 4 ? r : lines - 4; \
			const int64_t *at = start + first; \
			if (bend - (b + at[3]) < reach) return first; \
			for (int64_t j = 0; j < n; j += N) { \
				if (j > n - N) j = n > N ? n - N : 0; \
				window_v##s##N x[4] = {{0}}; \
				const T *p = b + (j << two); \
				for (int64_t k = 0; k < kc; k++) \
					TLK_UNROLL for (int i = 0; i < 4; i++) x[i] += a[k * ak] * window_load##s##N(p + at[i] + row[k], two); \
				TLK_UNROLL for (int i = 0; i < 4; i++) { \
					T *to = c + (first + i) * n + j; \
					if (n >= N || cend - to >= N) *(window_v##s##N *)to = x[i]; \
					else for (int64_t l = 0; l < n; l++) to[l] = x[i][l]; \
				} \
			} \
			r = first + 4; \
		} \
		return r; \
	}

#define TLK_WINDOW_LINE(s, T, BY, FOUR) \
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
	static void window##s(int64_t lines, const int64_t *start, int64_t n, int64_t kc, const T *a, int64_t ak, const T *b, \
		const T *bend, const int64_t *row, int64_t step, T *c) { \
		for (int64_t r = step == 1 ? FOUR(s, 0) : FOUR(s, 1); r < lines; r++) { \
			const T *p = b + start[r]; \
			if (step == 1) { \
				windowline##s(n, n, kc, a, ak, p, row, 0, c + r * n); \
				continue; \
			} \
			const int64_t left = bend - p - row[kc - 1]; /* a vector of N columns reads 2 N elements */ \
			windowline##s(n, left / 2 < n ? left / 2 : n, kc, a, ak, p, row, 1, c + r * n); \
		} \
	}

#define TLK_WINDOW_BY(s, N) j = windows##s##N(j, n, safe, kc, a, ak, b, row, two, c);
#define TLK_WINDOW_FOUR(s, N, r, two) windowfour##s##N(r, lines, start, n, kc, a, ak, b, bend, row, two, c)
// By the shortest vector that holds a line, or the longest; then by shorter ones.
#define TLK_FOUR2(s, two) TLK_WINDOW_FOUR(s, 2, 0, two)
#define TLK_FOUR4(s, two) TLK_WINDOW_FOUR(s, 4, 0, two)
#define TLK_FOUR8(s, two) TLK_WINDOW_FOUR(s, 4, n > 4 ? TLK_WINDOW_FOUR(s, 8, 0, two) : 0, two)
#define TLK_FOUR16(s, two) \
	TLK_WINDOW_FOUR(s, 4, n > 4 ? TLK_WINDOW_FOUR(s, 8, n > 8 ? TLK_WINDOW_FOUR(s, 16, 0, two) : 0, two) : 0, two)
#if TLK_VL == 16
TLK_WINDOWS(32, float, 16)
TLK_WINDOWS(32, float, 8)
TLK_WINDOWS(32, float, 4)
TLK_WINDOWS(64, double, 8)
TLK_WINDOWS(64, double, 4)
TLK_WINDOW_LINE(32, float, TLK_WINDOW_BY(32, 16) TLK_WINDOW_BY(32, 8) TLK_WINDOW_BY(32, 4), TLK_FOUR16)
TLK_WINDOW_LINE(64, double, TLK_WINDOW_BY(64, 8) TLK_WINDOW_BY(64, 4), TLK_FOUR8)
#elif TLK_VL == 8
TLK_WINDOWS(32, float, 8)
TLK_WINDOWS(32, float, 4)
TLK_WINDOWS(64, double, 4)
TLK_WINDOW_LINE(32, float, TLK_WINDOW_BY(32, 8) TLK_WINDOW_BY(32, 4), TLK_FOUR8)
TLK_WINDOW_LINE(64, double, TLK_WINDOW_BY(64, 4), TLK_FOUR4)
#else
TLK_WINDOWS(32, float, 4)
TLK_WINDOWS(64, double, 2)
TLK_WINDOW_LINE(32, float, TLK_WINDOW_BY(32, 4), TLK_FOUR4)
TLK_WINDOW_LINE(64, double, TLK_WINDOW_BY(64, 2), TLK_FOUR2)
#endif
