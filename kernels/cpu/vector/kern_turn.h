// Transposes of elements of 4 bytes, in registers.

// Four by four.
typedef uint32_t tl_quad __attribute__((vector_size(16), aligned(4), may_alias));
static inline void transpose_quad(uint32_t *d, int64_t n, const uint32_t *p, const uint32_t *p1, const uint32_t *p2,
	const uint32_t *p3) {
	tl_quad a = *(const tl_quad *)p, b = *(const tl_quad *)p1, c = *(const tl_quad *)p2, e = *(const tl_quad *)p3;
	tl_quad t = __builtin_shufflevector(a, b, 0, 4, 1, 5), u = __builtin_shufflevector(a, b, 2, 6, 3, 7);
	tl_quad v = __builtin_shufflevector(c, e, 0, 4, 1, 5), w = __builtin_shufflevector(c, e, 2, 6, 3, 7);
	*(tl_quad *)d = __builtin_shufflevector(t, v, 0, 1, 4, 5);
	*(tl_quad *)(d + n) = __builtin_shufflevector(t, v, 2, 3, 6, 7);
	*(tl_quad *)(d + 2 * n) = __builtin_shufflevector(u, w, 0, 1, 4, 5);
	*(tl_quad *)(d + 3 * n) = __builtin_shufflevector(u, w, 2, 3, 6, 7);
}
static void transpose_fours(uint32_t *d, const uint32_t *p, int64_t rows, int64_t n, int64_t s) {
	int64_t l = 0;
	for (; n >= 4 && l < n; l += 4) {
		if (l > n - 4) l = n - 4; // the last four overlap those before
		const uint32_t *q = p + l * s;
		int64_t r = 0;
		for (; r + 4 <= rows; r += 4) {
			// Prefetches the next four: runs of a tile are too short for the hardware prefetcher.
			if (r % 16 == 0)
				for (int j = 4; j < 8; j++) __builtin_prefetch(q + j * s + r);
			transpose_quad(d + r * n + l, n, q + r, q + s + r, q + 2 * s + r, q + 3 * s + r);
		}
		for (; r < rows; r++)
			for (int j = 0; j < 4; j++) d[r * n + l + j] = q[j * s + r];
	}
	for (; l < n; l++)
		for (int64_t r = 0; r < rows; r++) d[r * n + l] = p[l * s + r];
}

#if TLK_VL == 16
// Sixteen by sixteen: four rows at a time within quarters of vectors, then the quarters.
#define TLK_LOW32 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define TLK_HIGH32 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define TLK_LOW64 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define TLK_HIGH64 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define TLK_EVEN128 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define TLK_ODD128 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#define TLK_SHUFFLE __builtin_shufflevector
typedef uint32_t tl_sixteen __attribute__((vector_size(64), aligned(4), may_alias));
static inline void transpose_sixteen(uint32_t *d, int64_t n, const uint32_t *const *p, int64_t r) {
	tl_sixteen q[4][4], x[4];
	TLK_UNROLL for (int g = 0; g < 4; g++) {
		TLK_UNROLL for (int i = 0; i < 4; i++) x[i] = *(const tl_sixteen *)(p[4 * g + i] + r);
		tl_sixteen a = TLK_SHUFFLE(x[0], x[1], TLK_LOW32), b = TLK_SHUFFLE(x[0], x[1], TLK_HIGH32);
		tl_sixteen c = TLK_SHUFFLE(x[2], x[3], TLK_LOW32), e = TLK_SHUFFLE(x[2], x[3], TLK_HIGH32);
		q[g][0] = TLK_SHUFFLE(a, c, TLK_LOW64), q[g][1] = TLK_SHUFFLE(a, c, TLK_HIGH64);
		q[g][2] = TLK_SHUFFLE(b, e, TLK_LOW64), q[g][3] = TLK_SHUFFLE(b, e, TLK_HIGH64);
	}
	tl_sixteen out[16];
	TLK_UNROLL for (int i = 0; i < 4; i++) {
		tl_sixteen a = TLK_SHUFFLE(q[0][i], q[1][i], TLK_EVEN128), b = TLK_SHUFFLE(q[0][i], q[1][i], TLK_ODD128);
		tl_sixteen c = TLK_SHUFFLE(q[2][i], q[3][i], TLK_EVEN128), e = TLK_SHUFFLE(q[2][i], q[3][i], TLK_ODD128);
		out[i] = TLK_SHUFFLE(a, c, TLK_EVEN128), out[i + 8] = TLK_SHUFFLE(a, c, TLK_ODD128);
		out[i + 4] = TLK_SHUFFLE(b, e, TLK_EVEN128), out[i + 12] = TLK_SHUFFLE(b, e, TLK_ODD128);
	}
	// In the order of memory: what a store writes behind a row of fewer than 16, the next one overwrites.
	TLK_UNROLL for (int i = 0; i < 16; i++) *(tl_sixteen *)(d + i * n) = out[i];
}
#endif

static void transpose_w4(uint32_t *d, const uint32_t *p, int64_t rows, int64_t n, int64_t s) {
	int64_t done = 0;
#if TLK_VL == 16
	// Of 13 to 15, the last row is left to fours: a vector would write behind its end.
	const int64_t whole = n > 12 ? (n < 16 ? rows - 1 : rows) / 16 * 16 : 0;
	for (int64_t l = 0; l < n && whole > 0; l += 16) {
		if (l > 0 && l > n - 16) l = n - 16; // the last sixteen overlap those before
		const uint32_t *q[16];
		for (int64_t i = 0; i < 16; i++) q[i] = p + (l + i < n ? l + i : n - 1) * s;
		for (int64_t r = 0; r < whole; r += 16) transpose_sixteen(d + r * n + l, n, q, r);
	}
	done = whole > 0 ? whole : 0;
#endif
	transpose_fours(d + done * n, p + done, rows - done, n, s);
}
