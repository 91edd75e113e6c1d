// Products of a row of floats and panels of quantized weights, by dot products of bytes.
#pragma once
#include <string.h>
#include "vector/cpu.h"

// A row of floats is split into planes of int8: terms of a block are factor (256^2 a + 256 b + c), to half of factor, a
// power of two. The greatest term of a block has at least 22 bits, so a term has an error of at most 2^-23 of the
// greatest. A row that is quantized (dynamic) has one plane: its terms are factor a, where factor is the greatest
// magnitude over 127. start has what makes weights of dot products, which have no sign, numbers with one.
//
// With weights of 8 bits a block has PLANES_BLOCK terms. With those of 4 bits it has a group's, or PLANES_CHUNK of them
// where sums have 16 bits (AVX2).
enum { PLANES = 3, PLANES_BYTES = 4, PLANES_BLOCK = 64, PLANES_PANELS = 4 }; // bytes of a term: the most
enum { PLANES_CHUNK = 32 };
typedef struct { float factor; int32_t start[PLANES]; } tl_plane_block;

// split: false where planes cannot hold a block of floats: a term is not finite, or all are too small. Planes lie pitch
// elements apart, 16 more than there are terms. sums, if not NULL, get the sum of each group of a quantized row.
// panels: one or PLANES_PANELS panels; c is that of tl_isa_table.panel.
typedef struct {
	int (*split)(const tl_quantized *, int64_t K, const float *x, int8_t *to, int64_t pitch, tl_plane_block *,
		float *sums);
	void (*panels)(const tl_quantized *, int panels, int64_t K, const int8_t *x, int64_t pitch, const tl_plane_block *,
		const float *sums, const uint32_t *w, const void *scale, const uint16_t *offset, float *c);
} tl_planes;
const tl_planes *tl_planes_of(int isa); // NULL: there are none
extern const tl_planes tl_planes_avx2;

// What all splits and products share.

// The mantissa of 2^-22 (256^2 + 256 + 1) 127, the greatest number that three digits of -128 to 127 have, less 1.
enum { PLANES_MOST_MANTISSA = 0x7efefe };

static inline int64_t planes_least(int64_t a, int64_t b) { return a < b ? a : b; }

// planes_scale finds the factor of a block whose greatest magnitude is most, and what its terms are multiplied by.
// False where planes cannot hold them.
static inline int planes_scale(float most, float *factor, float *up) {
	int32_t e, mantissa, bits;
	memcpy(&e, &most, 4);
	mantissa = e & 0x7fffff;
	e = (e >> 23) + (mantissa > PLANES_MOST_MANTISSA);
	*factor = *up = 0;
	if (most == 0) return 1;
	if (e < 23 || e > 254) return 0;
	bits = (e - 22) << 23;
	memcpy(factor, &bits, 4);
	bits = (276 - e) << 23;
	memcpy(up, &bits, 4);
	return 1;
}

// planes_step finds the factor of a quantized block whose greatest magnitude is most, infinite where a term is not
// finite, and what its terms are multiplied by. A block that is not finite has the factor NaN, one that is too small 0.
static inline void planes_step(float most, float *factor, float *up) {
	*up = 127 / most;
	*factor = most / 127;
	if (!(most < __builtin_inff())) {
		*factor = __builtin_nanf("");
		*up = 0;
	} else if (!(*up < __builtin_inff())) {
		*factor = *up = 0;
	}
}

static inline int32_t planes_four(const int8_t *x) {
	int32_t y;
	memcpy(&y, x, 4);
	return y;
}
