// Vector functions of factorisations, for each instruction set; see linalg.c.
#ifndef TL_FACTOR_H
#define TL_FACTOR_H
#include <stdint.h>

// largest: the place of the element of largest magnitude, the first of equals; NaN counts only at place 0, and then as
// the largest. swap: exchanges two runs. turn: the transpose of m rows of n elements, to[j * tm + i] = a[i * am + j].
// reduce: of a symmetric a, rows [from, to) up to the diagonal: a -= x y' + y x', unless y is NULL; then out += these
// rows of a, and the columns that mirror them, times z. from and to are multiples of 4. Columns before `first`, a
// multiple of 16, stay out. Vectors and rows of a have room up to a multiple of 16, where vectors are 0; a changes
// above the diagonal. sweep: rows [from, to) of a, from column `first` to n: a -= x y' + g u', unless y is NULL; then
// out += z' a of these rows. Its vectors are as those of reduce.
#define TL_FACTOR_FUNCTIONS(s, T) \
	typedef struct { \
		int64_t (*largest)(const T *x, int64_t n); \
		void (*swap)(T *a, T *b, int64_t n); \
		void (*turn)(const T *a, int64_t am, int64_t m, int64_t n, T *to, int64_t tm); \
		void (*reduce)(int64_t from, int64_t to, int64_t first, T *a, int64_t ld, const T *x, const T *y, const T *z, \
			T *out); \
		void (*sweep)(int64_t from, int64_t to, int64_t first, int64_t n, T *a, int64_t ld, const T *x, const T *g, \
			const T *z, const T *y, const T *u, T *out); \
	} tl_factor_functions##s;
TL_FACTOR_FUNCTIONS(32, float)
TL_FACTOR_FUNCTIONS(64, double)

// poles: adds the sums of square[j] / (x[j] - at) and of square[j] / (x[j] - at)^2.
typedef struct {
	tl_factor_functions32 f32;
	tl_factor_functions64 f64;
	void (*poles)(const double *square, const double *x, double at, int64_t n, double *sum, double *slope);
} tl_factor_table;

extern const tl_factor_table tl_factor_base, tl_factor_avx2, tl_factor_avx512;

#endif
