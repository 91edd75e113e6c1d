/* Conversions of float16 and bfloat16, rounded to nearest, ties to even: the one home for the CPU's kernels and for the
 * Python extension. They have no branches, so that a compiler makes vector code of a loop over them. The same functions
 * in Go are kernels/loopir/convert.go, which a test compares with these. */
#ifndef TORCHLETTE_HALF_H
#define TORCHLETTE_HALF_H

#include <stdint.h>

static inline float tl_asf(uint32_t u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
static inline uint32_t tl_asu(float f) { uint32_t u; __builtin_memcpy(&u, &f, 4); return u; }

#if defined(__aarch64__)
/* The conversions of the instruction set, which vectors have too; a NaN keeps the head of its payload. */
static inline float tl_half_to_float(uint16_t h) { __fp16 v; __builtin_memcpy(&v, &h, 2); return v; }
static inline uint16_t tl_float_to_half(float f) { __fp16 v = (__fp16)f; uint16_t h; __builtin_memcpy(&h, &v, 2);
	return h; }
#else
static inline float tl_half_to_float(uint16_t h) {
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = (uint32_t)(h & 0x7fff) << 13;
	/* Multiplying by 2^112 moves the exponent and normalises denormals. */
	float v = tl_asf(m) * 5.192296858534828e+33f;
	v = m >= 0x0f800000u ? tl_asf(m | 0x7f800000u) : v;
	return tl_asf(tl_asu(v) | sign);
}

static inline uint16_t tl_float_to_half(float f) {
	uint32_t b = tl_asu(f), sign = (b >> 16) & 0x8000, a = b & 0x7fffffffu;
	uint32_t normal = (a + 0xfff + ((a >> 13) & 1)) - 0x38000000u;
	/* Below 2^-14, adding 1/2 rounds to a multiple of 2^-24 in the low bits. */
	uint32_t tiny = tl_asu(tl_asf(a) + 0.5f) - 0x3f000000u;
	uint32_t h = a < 0x38800000u ? tiny : normal >> 13;
	h = a >= 0x477ff000u ? 0x7c00u : h;
	h = a > 0x7f800000u ? 0x7e00u : h;
	return (uint16_t)(h | sign);
}
#endif

static inline float tl_brain_to_float(uint16_t h) { return tl_asf((uint32_t)h << 16); }

static inline uint16_t tl_float_to_brain(float f) {
	uint32_t b = tl_asu(f);
	uint32_t r = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
	return (uint16_t)((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40 : r);
}

#endif
