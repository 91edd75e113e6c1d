// Factorisations with the baseline of the build: SSE2 on x86-64, NEON on arm64.
#include <stdint.h>
#define TLK_FACTOR_TABLE tl_factor_base
#define TLK_VL 4
#include "kern_factor.h"
