// Tiles of convolutions of 8-bit elements without vector instructions of their own.
#include <string.h>
#include "conv8.h"
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("O3", "fp-contract=off")
#endif

static void tile(const tl_conv8 *q, int panels, int rows, const uint8_t *const *x, const uint32_t *w, int64_t wm,
	const int32_t *init, int32_t *c, int64_t cm) {
	for (int p = 0; p < panels; p++, w += wm, init += TLK_PANEL, c += cm)
		for (int i = 0; i < rows; i++) {
			const int8_t *f = (const int8_t *)w;
			int32_t *t = c + i * TLK_PANEL;
			memcpy(t, init, 4 * TLK_PANEL);
			for (int64_t tap = 0; tap < q->taps; tap++) {
				const uint8_t *y = x[i] + q->tap[tap];
				for (int64_t k = 0; k < q->words; k++, y += 4, f += 4 * TLK_PANEL)
					for (int n = 0; n < TLK_PANEL; n++)
						t[n] += y[0] * f[4 * n] + y[1] * f[4 * n + 1] + y[2] * f[4 * n + 2] + y[3] * f[4 * n + 3];
			}
		}
}

static void alone(const tl_conv8 *q, const uint8_t *const *x, const uint32_t *w, const int32_t *init, int32_t *c) {
	for (int i = 0; i < CONV8_ROWS; i++, c += TLK_PANEL) {
		const int8_t *f = (const int8_t *)w;
		memcpy(c, init, 4 * TLK_PANEL);
		for (int64_t tap = 0; tap < q->taps; tap += 4, f += 4 * TLK_PANEL)
			for (int n = 0; n < TLK_PANEL; n++)
				for (int j = 0; j < 4; j++) c[n] += x[i][q->tap[tap + j] + n] * f[4 * n + j];
	}
}

// Adding 1.5 * 2^23 to a number within limits rounds it half to even, and leaves the integer in the low bits.
static void finish(const tl_conv8 *q, int64_t rows, const int32_t *c, const float *scale, const float *bias,
	uint8_t *y) {
	const float magic = 12582912;
	for (int64_t i = 0; i < rows * TLK_PANEL; i++) {
		float v = (float)c[i] * scale[i % TLK_PANEL] + bias[i % TLK_PANEL];
		v = v > q->least ? v : q->least;
		v = (v < q->most ? v : q->most) + magic;
		int32_t whole;
		memcpy(&whole, &v, 4);
		y[i] = (uint8_t)(whole - 0x4b400000 + q->zero);
	}
}

const tl_conv8_kernel tl_conv8_plain = {0, tile, alone, finish};
