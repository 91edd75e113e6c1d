// Vector functions of factorisations, for each instruction set; see linalg.c.
#ifndef TL_FACTOR_H
#define TL_FACTOR_H
#include <stdint.h>

// largest: the place of the element of largest magnitude, the first of equals; NaN counts only at place 0, and then as
// the largest. swap: exchanges two runs. turn: the transpose of m rows of n elements, to[j * tm + i] = a[i * am + j].
// reduce: b[i * ld + j] += u[i] x[j] + v[i] y[j] for `rows` rows of n, and out[i] = sum over j of b[i * ld + j] z[j];
// without y there is no update.
#define TL_FACTOR_FUNCTIONS(s, T) \
	typedef struct { \
		int64_t (*largest)(const T *x, int64_t n); \
		void (*swap)(T *a, T *b, int64_t n); \
		void (*turn)(const T *a, int64_t am, int64_t m, int64_t n, T *to, int64_t tm); \
		void (*reduce)(int64_t rows, int64_t n, T *b, int64_t ld, const T *u, const T *x, const T *v, const T *y, \
			const T *z, T *out); \
	} tl_factor_functions##s;
TL_FACTOR_FUNCTIONS(32, float)
TL_FACTOR_FUNCTIONS(64, double)

typedef struct {
	tl_factor_functions32 f32;
	tl_factor_functions64 f64;
} tl_factor_table;

extern const tl_factor_table tl_factor_base, tl_factor_avx2, tl_factor_avx512;

#endif
