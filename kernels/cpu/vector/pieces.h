// Parts of the operands of products. cpu.h includes this file.
#pragma once
#include <stdint.h>

// A run of n columns of a panel of B: they go to columns from `to` on, and come from elements from `from` on, step
// apart.
typedef struct { int64_t to, n, from; } tl_piece;

// For plane32 and plane64, which copy a picture between zeros, and sum over its windows.
// Windows over a picture of high x wide elements, rows of which are stride elements apart, in a copy between zeros: the
// picture begins at row top and column left of the copy, whose rows are pitch elements apart. Columns that are step
// apart are neighbours in a run of the row; a row has step runs. There are `lines` lines of n results, each a sum of
// `taps` terms; a result's terms lie at row[k] from its line, and lines down apart in the copy. Weights are ak apart.
typedef struct {
	int64_t high, wide, stride, top, left, pitch, run, step, lines, n, down, taps, ak;
	const int64_t *row;
} tl_plane;

// A tile of mr windows of a picture, step (1 or 2) elements apart, read in place: kern_spots.h.
typedef void tl_spots32(int mr, int64_t step, int64_t kc, const float *a, const int64_t *row, const float *w,
	float *sums, int first, const float *fetch, int64_t cm, int64_t fetched);
typedef void tl_spots64(int mr, int64_t step, int64_t kc, const double *a, const int64_t *row, const double *w,
	double *sums, int first, const double *fetch, int64_t cm, int64_t fetched);
