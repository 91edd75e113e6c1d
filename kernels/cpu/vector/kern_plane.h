// Sums over windows of padded pictures, one picture at a time (tl_plane). Included by kern_table.h after kern_window.h,
// whose vectors it uses.

// TLK_PLANE_COPY: rows of at least N elements, or of 2 N that are parted into even and odd ones. The last vectors may
// overlap those before. TLK_PLANE: lines of results, four at a time, and the last four may overlap those before; reads
// may pass the last line, whose sums are then dropped. Every result adds its terms in order.
#define TLK_PLANE(s, T, N) \
	TLK_INLINE void planerow##s##N(const T *from, int64_t n, T *to) { \
		for (int64_t i = 0; i < n - N; i += N) *(window_v##s##N *)(to + i) = *(const window_v##s##N *)(from + i); \
		*(window_v##s##N *)(to + n - N) = *(const window_v##s##N *)(from + n - N); \
	} \
	TLK_INLINE void planeparts##s##N(const T *from, int64_t n, T *even, T *odd) { \
		for (int64_t i = 0; i < n; i += N) { \
			if (i > n - N) i = n - N; \
			const window_v##s##N x = *(const window_v##s##N *)(from + 2 * i), y = *(const window_v##s##N *)(from + 2 * i + N); \
			*(window_v##s##N *)(even + i) = __builtin_shufflevector(x, y, TLK_EVEN##N); \
			*(window_v##s##N *)(odd + i) = __builtin_shufflevector(x, y, TLK_ODD##N); \
		} \
	} \
	TLK_INLINE void planesums##s##N(const tl_plane *p, const int64_t taps, const T *a, const T *b, T *c) { \
		typedef window_v##s##N V; \
		const int64_t n = p->n, lines = p->lines, down = p->down; \
		const T *cend = c + lines * n; \
		V w[9]; \
		int64_t row[9]; \
		if (taps == 9) TLK_UNROLL for (int k = 0; k < 9; k++) w[k] = a[k * p->ak] - (V){0}, row[k] = p->row[k]; \
		for (int64_t r = 0; r < lines; r += 4) { \
			if (r > lines - 4) r = lines > 4 ? lines - 4 : 0; \
			for (int64_t j = 0; j < n; j += N) { \
				if (j > n - N) j = n > N ? n - N : 0; \
				const T *q = b + r * down + j; \
				V x[4] = {{0}}; \
				if (taps == 9) { \
					TLK_UNROLL for (int k = 0; k < 9; k++) \
						TLK_UNROLL for (int i = 0; i < 4; i++) x[i] += w[k] * *(const V *)(q + row[k] + i * down); \
				} else { \
					for (int64_t k = 0; k < taps; k++) \
						TLK_UNROLL for (int i = 0; i < 4; i++) x[i] += a[k * p->ak] * *(const V *)(q + p->row[k] + i * down); \
				} \
				TLK_UNROLL for (int i = 0; i < 4; i++) { \
					T *to = c + (r + i) * n + j; \
					if (r + i >= lines) break; \
					if (n >= N || cend - to >= N) *(V *)to = x[i]; \
					else for (int64_t l = 0; l < n; l++) to[l] = x[i][l]; \
				} \
			} \
		} \
	}

#define TLK_PLANE_ROW(s, N) if (wide >= N) { planerow##s##N(from, wide, to + left); continue; }
#define TLK_PLANE_PARTS(s, N) \
	if (wide >= 2 * N) { \
		planeparts##s##N(from, wide / 2, even, odd); \
		if (wide % 2) even[wide / 2] = from[wide - 1]; \
		continue; \
	}
#define TLK_PLANE_SUMS(s, N) { \
		if (p->taps == 9) planesums##s##N(p, 9, a, copy, c); \
		else planesums##s##N(p, p->taps, a, copy, c); \
		return; \
	}
#define TLK_PLANES(s, T, ROW, PARTS, SUMS) \
	static void plane##s(const tl_plane *p, const T *a, const T *from, T *copy, T *c) { \
		const int64_t wide = p->wide, run = p->run, step = p->step, left = p->left, n = p->n; \
		T *to = copy + p->top * p->pitch; \
		for (int64_t y = 0; y < p->high; y++, to += p->pitch, from += p->stride) { \
			if (step == 1) { \
				ROW \
			} \
			if (step == 2) { \
				T *even = to + left % 2 * run + left / 2, *odd = to + (left + 1) % 2 * run + (left + 1) / 2; \
				PARTS \
			} \
			for (int64_t i = 0; i < wide; i++) to[(left + i) % step * run + (left + i) / step] = from[i]; \
		} \
		SUMS \
	}

#define TLK_ODD2 1, 3
#define TLK_ODD4 TLK_ODD2, 5, 7
#define TLK_ODD8 TLK_ODD4, 9, 11, 13, 15
#define TLK_ODD16 TLK_ODD8, 17, 19, 21, 23, 25, 27, 29, 31
#if TLK_VL == 16
TLK_PLANE(32, float, 16)
TLK_PLANE(32, float, 8)
TLK_PLANE(32, float, 4)
TLK_PLANE(64, double, 8)
TLK_PLANE(64, double, 4)
TLK_PLANES(32, float, TLK_PLANE_ROW(32, 16) TLK_PLANE_ROW(32, 8) TLK_PLANE_ROW(32, 4), TLK_PLANE_PARTS(32, 16)
	TLK_PLANE_PARTS(32, 8) TLK_PLANE_PARTS(32, 4), if (n > 8) TLK_PLANE_SUMS(32, 16) if (n > 4) TLK_PLANE_SUMS(32, 8)
	TLK_PLANE_SUMS(32, 4))
TLK_PLANES(64, double, TLK_PLANE_ROW(64, 8) TLK_PLANE_ROW(64, 4), TLK_PLANE_PARTS(64, 8) TLK_PLANE_PARTS(64, 4),
	if (n > 4) TLK_PLANE_SUMS(64, 8) TLK_PLANE_SUMS(64, 4))
#elif TLK_VL == 8
TLK_PLANE(32, float, 8)
TLK_PLANE(32, float, 4)
TLK_PLANE(64, double, 4)
TLK_PLANES(32, float, TLK_PLANE_ROW(32, 8) TLK_PLANE_ROW(32, 4), TLK_PLANE_PARTS(32, 8) TLK_PLANE_PARTS(32, 4),
	if (n > 4) TLK_PLANE_SUMS(32, 8) TLK_PLANE_SUMS(32, 4))
TLK_PLANES(64, double, TLK_PLANE_ROW(64, 4), TLK_PLANE_PARTS(64, 4), (void)n; TLK_PLANE_SUMS(64, 4))
#else
TLK_PLANE(32, float, 4)
TLK_PLANE(64, double, 2)
TLK_PLANES(32, float, TLK_PLANE_ROW(32, 4), TLK_PLANE_PARTS(32, 4), (void)n; TLK_PLANE_SUMS(32, 4))
TLK_PLANES(64, double, TLK_PLANE_ROW(64, 2), TLK_PLANE_PARTS(64, 2), (void)n; TLK_PLANE_SUMS(64, 2))
#endif
