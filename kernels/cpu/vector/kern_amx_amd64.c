// Products of pairs of bfloat16 by AMX, two by two tiles of 16 rows of 16 sums; and of int8.
#include <stddef.h>
#include <stdint.h>
#include <immintrin.h>
#include "cpu.h"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16,amx-int8"))), apply_to = function)
#else
#pragma GCC optimize("O3")
#pragma GCC target("amx-tile,amx-bf16,amx-int8")
#endif

enum { MR = 32, NR = 32, STEP = 16, HALF = 16 };

// Tiles 0 to 3 hold the sums, 4 and 5 rows of A, 6 and 7 columns of B.
static void enter(int rows) {
	struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } c = {.palette = 1};
	const int low = rows > HALF ? rows - HALF : 0;
	for (int t = 0; t < 8; t++) {
		const int n = t >= 6 ? STEP : t == 2 || t == 3 || t == 5 ? low : rows - low;
		c.rows[t] = (uint8_t)n;
		c.bytes[t] = n ? 64 : 0;
	}
	_tile_loadconfig(&c);
}

static void one(int64_t units, const uint32_t *a, int64_t am, const uint32_t *b, float *sums, int first) {
	if (first) {
		_tile_zero(0);
		_tile_zero(1);
	} else {
		_tile_loadd(0, sums, NR * 4);
		_tile_loadd(1, sums + HALF, NR * 4);
	}
	for (int64_t u = 0; u < units; u += STEP, a += STEP, b += STEP * NR) {
		_tile_loadd(4, a, am * 4);
		_tile_loadd(6, b, NR * 4);
		_tile_dpbf16ps(0, 4, 6);
		_tile_loadd(7, b + HALF, NR * 4);
		_tile_dpbf16ps(1, 4, 7);
	}
	_tile_stored(0, sums, NR * 4);
	_tile_stored(1, sums + HALF, NR * 4);
}

static void two(int64_t units, const uint32_t *a, int64_t am, const uint32_t *b, float *sums, int first) {
	float *low = sums + HALF * NR;
	if (first) {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	} else {
		_tile_loadd(0, sums, NR * 4);
		_tile_loadd(1, sums + HALF, NR * 4);
		_tile_loadd(2, low, NR * 4);
		_tile_loadd(3, low + HALF, NR * 4);
	}
	for (int64_t u = 0; u < units; u += STEP, a += STEP, b += STEP * NR) {
		_tile_loadd(4, a, am * 4);
		_tile_loadd(6, b, NR * 4);
		_tile_dpbf16ps(0, 4, 6);
		_tile_loadd(7, b + HALF, NR * 4);
		_tile_dpbf16ps(1, 4, 7);
		_tile_loadd(5, a + HALF * am, am * 4);
		_tile_dpbf16ps(2, 5, 6);
		_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, sums, NR * 4);
	_tile_stored(1, sums + HALF, NR * 4);
	_tile_stored(2, low, NR * 4);
	_tile_stored(3, low + HALF, NR * 4);
}

static void tiles(int rows, int64_t units, const uint32_t *a, int64_t am, const uint32_t *b, float *sums, int first,
	int *shape) {
	if (*shape != rows) enter(*shape = rows);
	(rows > HALF ? two : one)(units, a, am, b, sums, first);
}

// Tiles that are in use make each switch of threads save 8 KiB.
static void leave(int shape) {
	if (shape) _tile_release();
}

// Tiles 0 and 1 hold the sums of even terms, 2 and 3 those of odd ones, in blocks of 64; 4 and 5 rows, 6 a panel.
void tl_int8_amx(int rows, int64_t words, const int8_t *x, int64_t xm, const int32_t *sums, const uint32_t *w,
	int32_t *c) {
	(void)sums;
	const int low = rows > HALF ? rows - HALF : 0, top = rows - low;
	int32_t odd[MR * TLK_PANEL];
	struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } s = {.palette = 1};
	for (int t = 0; t < 7; t++) {
		const int n = t == 6 ? STEP : t == 1 || t == 3 || t == 5 ? low : top;
		s.rows[t] = (uint8_t)n;
		s.bytes[t] = n ? 64 : 0;
	}
	_tile_loadconfig(&s);
	_tile_zero(0);
	_tile_zero(2);
	if (low) {
		_tile_zero(1);
		_tile_zero(3);
	}
	for (int64_t k = 0; k < words; k += 2 * STEP) {
		_tile_loadd(6, w + k * TLK_PANEL, 64);
		_tile_loadd(4, x + 4 * k, xm);
		_tile_dpbssd(0, 4, 6);
		if (low) {
			_tile_loadd(5, x + HALF * xm + 4 * k, xm);
			_tile_dpbssd(1, 5, 6);
		}
		if (k + STEP >= words) break;
		_tile_loadd(6, w + (k + STEP) * TLK_PANEL, 64);
		_tile_loadd(4, x + 4 * (k + STEP), xm);
		_tile_dpbssd(2, 4, 6);
		if (low) {
			_tile_loadd(5, x + HALF * xm + 4 * (k + STEP), xm);
			_tile_dpbssd(3, 5, 6);
		}
	}
	_tile_stored(0, c, 64);
	_tile_stored(2, odd, 64);
	if (low) {
		_tile_stored(1, c + HALF * TLK_PANEL, 64);
		_tile_stored(3, odd + HALF * TLK_PANEL, 64);
	}
	_tile_release();
	for (int i = 0; i < rows * TLK_PANEL; i++) c[i] += odd[i];
}

const tl_half_kernel tl_pairs_amx = {MR, NR, STEP, tiles, leave};
#if defined(__clang__)
#pragma clang attribute pop
#endif
