// The k loop of a tile on processors with an instruction that multiplies a vector by one element of another (NEON's
// fmla by element). A is then loaded by vectors too.
//
// How 32 registers are used. If columns of A are contiguous: 24 for a tile of 12 x 2 vectors, 2 for B, and 3 for A (6
// for doubles, which are loaded as they are needed). If rows of A are read in place: 16 for a tile of 8 x 2 vectors,
// and 8 for one vector of each row of A.

// Points at the row of B of this step. If rows of B are not packed, prefetches the row of a later step.
#define TLK_B_AT(T, L, step) \
	const T *at = row ? b + row[step] : b + (step) * bk; \
	if (!row && !(__builtin_constant_p(bk) && bk == 2 * L)) __builtin_prefetch(at + TLK_AHEAD * bk)

// Each function returns the number of steps that it has done. along reads rows of A in place and prefetches the rows of
// the next tile. across reads columns of A, packed or in place.
#define TLK_ELEMENTS(s, T, V, L) \
	TLK_INLINE int64_t along##s(const int mr, int64_t kc, const T *a, const int64_t am, const T *b, const int64_t bk, \
		const int64_t *row, const T *next, int64_t step, V (*x)[2]) { \
		int64_t k = 0; \
		for (; k + L <= kc; k += L, a += L, next += L * step) { \
			V w[TLK_ALONG]; \
			TLK_UNROLL for (int i = 0; i < mr; i++) w[i] = *(const V *)(a + i * am); \
			TLK_UNROLL for (int o = 0; o < L * mr * (int)sizeof(T); o += 64) __builtin_prefetch((const char *)next + o, 0, 2); \
			TLK_UNROLL for (int l = 0; l < L; l++) { \
				TLK_B_AT(T, L, k + l); \
				V b0 = *(const V *)at, b1 = *(const V *)(at + L); \
				TLK_UNROLL for (int i = 0; i < mr; i++) { \
					x[i][0] += w[i][l] * b0; \
					x[i][1] += w[i][l] * b1; \
				} \
			} \
		} \
		return k; \
	} \
	TLK_INLINE int64_t across##s(const int mr, int64_t kc, const T *a, const int64_t ak, const T *b, const int64_t bk, \
		const int64_t *row, V (*x)[2]) { \
		for (int64_t k = 0; k < kc; k++, a += ak) { \
			TLK_B_AT(T, L, k); \
			V b0 = *(const V *)at, b1 = *(const V *)(at + L), w[TLK_MR / L]; \
			TLK_UNROLL for (int i = 0; i < mr / L; i++) w[i] = *(const V *)(a + i * L); \
			TLK_UNROLL for (int i = 0; i < mr; i++) { \
				T y = i < mr / L * L ? w[i / L][i % L] : a[i]; \
				x[i][0] += y * b0; \
				x[i][1] += y * b1; \
			} \
		} \
		return kc; \
	} \
	TLK_INLINE int64_t elements##s(const int mr, int64_t kc, const T *a, const int64_t am, const int64_t ak, const T *b, \
		const int64_t bk, const int64_t *row, \
		const T *next, int64_t step, V (*x)[2]) { \
		if (__builtin_constant_p(am) && am == 1) return across##s(mr, kc, a, ak, b, bk, row, x); \
		return __builtin_constant_p(ak) && ak == 1 && mr <= TLK_ALONG ? along##s(mr, kc, a, am, b, bk, row, next, step, x) : \
			0; \
	}
