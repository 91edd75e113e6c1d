// Convolutions of 8-bit elements: launch.QuantizedConv.
#pragma once
#include "vector/cpu.h"

// The kind of a step is TLK_STEP_CONV8, plus 1 if elements of x have a sign, plus 2 if results are floats, plus 4 if x
// has a zero and a step as operands, plus 8 if weights have shifts, plus 16 if weights are narrow. par has the
// parameters of launch.QuantizedConv.
enum { TLK_STEP_CONV8 = 64 };
// winograd: weights of tl_conv8_pack, or NULL.
int64_t tl_run_conv8(int form, tl_pool *pool, int isa, char **buf, const int64_t *par, const char *winograd);

// Makes factors of the weights of convolutions with 3x3 taps whose results are computed as squares of 2x2. Returns
// their bytes, 0 for convolutions that are better computed otherwise. Writes nothing to NULL.
int64_t tl_conv8_pack(int isa, const int64_t *par, const char *weights, char *to);

enum { CONV8_ROWS = 8 }; // positions of a tile

// What tiles of a convolution share. A position's taps lie at tap[i] bytes from it; a tap has words words of four
// channels. tap has four more elements than there are taps. Results are integers zero + round(scale t + bias), of which
// least and most limit those without zero. No two roundings are one, so that integers do not depend on the
// instructions.
typedef struct {
	int64_t taps, words;
	const int64_t *tap;
	int32_t zero;
	float least, most;
} tl_conv8;

// tile: c[CONV8_ROWS][TLK_PANEL] = init[TLK_PANEL] + sums of products of unsigned bytes at x and int8 weights, for one
// or two panels, which are wm words apart in w, TLK_PANEL in init, cm in c. It need not compute more than rows of them.
// alone: one panel, whose lane n reads byte n of each tap; a word of weights has four taps. finish: bytes y of rows of
// sums. wide: tile reads bytes as elements of 16 bits, and taps lie twice as far.
typedef struct {
	int wide;
	void (*tile)(const tl_conv8 *, int panels, int rows, const uint8_t *const *x, const uint32_t *w, int64_t wm,
		const int32_t *init, int32_t *c, int64_t cm);
	void (*alone)(const tl_conv8 *, const uint8_t *const *x, const uint32_t *w, const int32_t *init, int32_t *c);
	void (*finish)(const tl_conv8 *, int64_t rows, const int32_t *c, const float *scale, const float *bias, uint8_t *y);
} tl_conv8_kernel;

extern const tl_conv8_kernel tl_conv8_plain;
const tl_conv8_kernel *tl_conv8_vectors(int isa, int narrow); // of x86-64, for weights that are narrow or not

// Winograd's minimal filtering F(2x2, 3x3): conv8_winograd.c. A square is 4x4 elements of 8 bits, which become
// CONV8_AREA factors of each channel. There are whole vectors of CONV8_LANES channels.
enum { CONV8_AREA = 16, CONV8_LANES = 16, CONV8_SQUARES = 6 };
static inline int64_t tl_conv8_whole(int64_t channels) {
	return (channels + CONV8_LANES - 1) / CONV8_LANES * CONV8_LANES;
}

// factors: of the elements at x, vm apart in v. multiply: sums[rows][TLK_PANEL] of up to CONV8_SQUARES rows v of
// factors and a panel w [channels / 2, TLK_PANEL, 2]. results: c[i] = init + a quarter of the result at place i of the
// square, whose CONV8_AREA sums are sm apart; NULL for a place outside.
typedef struct {
	void (*factors)(int64_t channels, const uint8_t *const *x, int16_t *v, int64_t vm);
	void (*multiply)(int rows, int64_t channels, const int16_t *v, const int16_t *w, int32_t *sums);
	void (*results)(const int32_t *sums, int64_t sm, const int32_t *init, int32_t *const *c);
} tl_conv8_squares;

const tl_conv8_squares *tl_conv8_squares_of(int isa); // NULL: none, or other tiles are as fast

// Factors [panels, CONV8_AREA, channels / 2, TLK_PANEL, 2] of weights [panels, 9, words, TLK_PANEL, 4].
void tl_conv8_factors(int64_t panels, int64_t channels, const int8_t *weights, int16_t *to);
