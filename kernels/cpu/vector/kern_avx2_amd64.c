// AVX2, FMA and F16C. The system headers come first, so that they are not compiled for this target.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "no-thread-jumps")
#pragma GCC target("avx2,fma,f16c,tune=haswell")
#endif
#define TLK_TABLE tl_table_avx2
#define TLK_VL 8
#define TLK_MR 6
#include "kern_table.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
