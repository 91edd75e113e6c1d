// The k loop of a tile with AVX2, four terms at a time. Included by kern_gemm.h.
//
// A term of a tile of 6 x 2 vectors has 12 multiply-adds, which take 6 cycles, and 8 loads. A processor whose core is
// shared by two threads issues about 3 instructions of each in a cycle, so what a loop adds to these 20 costs time:
// counters, addresses, copies of registers. With 27 instructions a term took 1.3 times as long there, with 22 as here.

// x += y z, in the register of x. Compilers write the sum elsewhere where they can, and copy it back.
#define TLK_FMA(x, y, z) \
	do { \
		if (sizeof((x)[0]) == 4) __asm__("vfmadd231ps %2, %1, %0" : "+x"(x) : "x"(y), "x"(z)); \
		else __asm__("vfmadd231pd %2, %1, %0" : "+x"(x) : "x"(y), "x"(z)); \
	} while (0)

// The least rows of a tile whose terms are taken by fours.
#define TLK_FOURS_ROWS 4

// fours and spotfours return the number of terms that they have done. For rows in place two registers hold the
// addresses of rows 0 and 3, and one the distance between rows: an instruction adds that distance once or twice.
#define TLK_FOURS(s, T, V, L) \
	TLK_INLINE int64_t fours##s(const int mr, int64_t kc, const T *a, const int64_t am, const int64_t ak, const T *b, \
		const int64_t bk, const int64_t *row, T *keep, const T *next, int64_t step, V (*x)[2]) { \
		if (mr < TLK_FOURS_ROWS) return 0; \
		const int packed = __builtin_constant_p(am) && am == 1, panel = __builtin_constant_p(bk) && bk == 2 * L; \
		const char *p = (const char *)a, *q = (const char *)(a + 3 * am); \
		const int64_t advance = ak * (int64_t)sizeof(T); \
		int64_t w = am * (int64_t)sizeof(T), k = 0; \
		for (; k + 4 <= kc; k += 4) { \
			if (__builtin_constant_p(ak) && ak == 1 && !packed) { /* 4 mr elements */ \
				TLK_UNROLL for (int o = 0; o < 4 * mr * (int)sizeof(T); o += 64) \
					__builtin_prefetch((const char *)next + o, 0, 2); \
				next += 4 * step; \
			} \
			TLK_UNROLL for (int l = 0; l < 4; l++, p += advance, q += advance) { \
				const T *at = row ? b + row[k + l] : b; \
				const V b0 = *(const V *)at, b1 = *(const V *)(at + L); \
				if (keep) { \
					*(V *)(keep + l * 2 * L) = b0; \
					*(V *)(keep + l * 2 * L + L) = b1; \
				} \
				if (row) { \
					__builtin_prefetch(at + 2 * L); \
					__builtin_prefetch(at + 4 * L - 1); \
				} else { \
					if (!panel) __builtin_prefetch(b + TLK_AHEAD * bk); \
					b += bk; \
				} \
				if (!packed) __asm__("" : "+r"(w)); /* else the addresses of all rows and terms are kept on the stack */ \
				TLK_UNROLL for (int i = 0; i < mr; i++) { \
					const char *e = packed ? p + i * sizeof(T) : (i < 3 ? p : q) + i % 3 * w; \
					const V y = *(const T *)e - (V){0}; \
					TLK_FMA(x[i][0], y, b0); \
					TLK_FMA(x[i][1], y, b1); \
				} \
			} \
			if (keep) keep += 8 * L; \
		} \
		return k; \
	}

// The same for tiles of windows: see kern_spots.h. The rows of C are fetched first.
#define TLK_SPOT_FOURS(s, T, V, L) \
	TLK_INLINE int64_t spotfours##s(const int mr, const int step, int64_t kc, const T *a, const int64_t *row, const T *w, \
		const T *fetch, int64_t cm, int64_t fetched, V (*x)[2]) { \
		if (mr < TLK_FOURS_ROWS) return 0; \
		int64_t k = 0; \
		for (int64_t f = 0; f < fetched; f++, fetch += cm) __builtin_prefetch(fetch, 1); \
		for (; k + 4 <= kc; k += 4, w += 8 * L) { \
			TLK_UNROLL for (int l = 0; l < 4; l++) { \
				const T *p = a + row[k + l], *at = w + l * 2 * L; \
				const V b0 = *(const V *)at, b1 = *(const V *)(at + L); \
				__builtin_prefetch(at + TLK_PANEL_AHEAD * 2 * L); \
				TLK_UNROLL for (int i = 0; i < mr; i++) { \
					const V y = p[i * step] - (V){0}; \
					TLK_FMA(x[i][0], y, b0); \
					TLK_FMA(x[i][1], y, b1); \
				} \
			} \
		} \
		return k; \
	}
