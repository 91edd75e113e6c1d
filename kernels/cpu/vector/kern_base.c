// The baseline of the build: SSE2 on x86-64, NEON on arm64.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__GNUC__) && !defined(__clang__)
#if defined(__x86_64__)
// Few processors lack AVX2, so that size counts more: O3 would add 100 KB to the wheel.
#pragma GCC optimize("O2")
#else
#pragma GCC optimize("O3")
#endif
#pragma GCC optimize("no-math-errno", "no-trapping-math", "no-thread-jumps", "no-schedule-insns")
#endif
#define TLK_TABLE tl_table_base
#define TLK_VL 4
#if defined(__aarch64__)
#define TLK_MR 12
#define TLK_BY_ELEMENT 1
#define TLK_ALONG 8
#else
#define TLK_MR 6
#endif
#include "kern_table.h"

float tl_widen_f16(uint16_t h) { return tl_half_to_float(h); }
float tl_widen_bf16(uint16_t h) { return tl_brain_to_float(h); }
uint16_t tl_narrow_f16(float f) { return tl_float_to_half(f); }
uint16_t tl_narrow_bf16(float f) { return tl_float_to_brain(f); }
