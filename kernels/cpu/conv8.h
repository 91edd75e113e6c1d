// Convolutions of 8-bit elements: launch.QuantizedConv.
#pragma once
#include "vector/cpu.h"

// The kind of a step is TLK_STEP_CONV8, plus 1 if elements of x have a sign, plus 2 if results are floats. par has the
// parameters of launch.QuantizedConv.
enum { TLK_STEP_CONV8 = 64 };
int64_t tl_run_conv8(int form, tl_pool *pool, int isa, char **buf, const int64_t *par);

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
// or two panels, which are wm words apart in w, TLK_PANEL in init, cm in c. alone: one panel, whose lane n reads byte n
// of each tap; a word of weights has four taps. finish: bytes y of rows of sums.
typedef struct {
	void (*tile)(const tl_conv8 *, int panels, const uint8_t *const *x, const uint32_t *w, int64_t wm,
		const int32_t *init, int32_t *c, int64_t cm);
	void (*alone)(const tl_conv8 *, const uint8_t *const *x, const uint32_t *w, const int32_t *init, int32_t *c);
	void (*finish)(const tl_conv8 *, int64_t rows, const int32_t *c, const float *scale, const float *bias, uint8_t *y);
} tl_conv8_kernel;

extern const tl_conv8_kernel tl_conv8_plain;
const tl_conv8_kernel *tl_conv8_vectors(int isa); // of x86-64
