// Convolutions with AVX2 and FMA.
#include <stdint.h>
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx2,fma,f16c")
#endif
#define TL_CONV_TABLE tl_conv_avx2
#define TL_CONV_PANELS 1
#define TL_CONV_BEST {8, 6}
#define TL_CONV_SHAPES(DO) SHAPES8(0, DO) SHAPES6(1, DO)
#define TLK_VL 8
#define TL_CONV_GREATER(a, b) (vec)_mm256_max_ps((__m256)(a), (__m256)(b))
#define TL_CONV_LESSER(a, b) (vec)_mm256_min_ps((__m256)(a), (__m256)(b))
#include "kern_conv.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
