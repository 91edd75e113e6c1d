// Factorisations with AVX-512.
#include <stdint.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
	apply_to = function)
#else
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512,tune=skylake-avx512")
#endif
#define TLK_FACTOR_TABLE tl_factor_avx512
#define TLK_VL 16
#include "kern_factor.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
