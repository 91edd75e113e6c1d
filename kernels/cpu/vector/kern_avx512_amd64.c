// AVX-512 F, BW, DQ and VL.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
	apply_to = function)
#else
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "no-thread-jumps")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512,tune=skylake-avx512")
#endif
#define TLK_TABLE tl_table_avx512
#define TLK_VL 16
#define TLK_MR 14
#include "kern_table.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
