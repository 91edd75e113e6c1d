// Convolutions with AVX-512.
#include <stdint.h>
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
	apply_to = function)
#else
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512,tune=skylake-avx512")
#endif
#define TL_CONV_TABLE tl_conv_avx512
#define TL_CONV_PANELS 4
#define TL_CONV_BEST {0, 12, 12, 8, 6}
#define TL_CONV_SHAPES(DO) SHAPES12(1, DO) SHAPES12(2, DO) SHAPES8(3, DO) SHAPES6(4, DO)
#define TLK_VL 16
#define TL_CONV_GREATER(a, b) (vec)_mm512_max_ps((__m512)(a), (__m512)(b))
#define TL_CONV_LESSER(a, b) (vec)_mm512_min_ps((__m512)(a), (__m512)(b))
#include "kern_conv.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
