// Products of a row of floats and panels of quantized weights, by dot products of bytes.
#pragma once
#include "vector/cpu.h"

// A row is split into planes of int8: terms of a block are factor (256^2 a + 256 b + c), to half of factor, a power of
// two. The greatest term of a block has at least 22 bits, so a term has an error of at most 2^-23 of the greatest.
// start has what makes weights of dot products, which have no sign, numbers with one. A block has a group's terms, or
// PLANES_BLOCK.
enum { PLANES = 3, PLANES_BLOCK = 64, PLANES_PANELS = 4 };
typedef struct { float factor; int32_t start[PLANES]; } tl_plane_block;

// split: false where a term is not finite or a block's terms are too small. Planes lie pitch bytes apart, which has
// room for 16 more bytes than there are terms. panels: one or PLANES_PANELS panels; c is that of tl_isa_table.panel.
typedef struct {
	int (*split)(const tl_quantized *, int64_t K, const float *x, int8_t *to, int64_t pitch, tl_plane_block *);
	void (*panels)(const tl_quantized *, int panels, int64_t K, const int8_t *x, int64_t pitch, const tl_plane_block *,
		const float *sums, const uint32_t *w, const void *scale, const uint16_t *offset, float *c);
} tl_planes;
const tl_planes *tl_planes_of(int isa); // NULL: there are none
