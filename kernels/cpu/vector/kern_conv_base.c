// Convolutions with the baseline of the build: SSE2 on x86-64, NEON on arm64.
#include <stdint.h>
#define TL_CONV_TABLE tl_conv_base
#define TL_CONV_PANELS 1
#if defined(__aarch64__)
#define TL_CONV_BEST {0, 6}
#else
#define TL_CONV_BEST {0, 2}
#endif
#define TL_CONV_SHAPES(DO) SHAPES6(1, DO)
#define TLK_VL 4
#include "kern_conv.h"
