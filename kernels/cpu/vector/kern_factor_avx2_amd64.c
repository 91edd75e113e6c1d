// Factorisations with AVX2 and FMA.
#include <stdint.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx2,fma,f16c,tune=haswell")
#endif
#define TLK_FACTOR_TABLE tl_factor_avx2
#define TLK_VL 8
#include "kern_factor.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
