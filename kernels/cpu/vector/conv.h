// Tiles of convolutions whose channels come last, for each instruction set; see conv_last.c.
#ifndef TL_CONV_H
#define TL_CONV_H
#include <stdint.h>

enum { TL_CONV_PANEL = 16, TL_CONV_ROWS = 12 }; // outputs of a panel; positions of a tile at most

// What tiles share. A window has taps, each of which reads neighbouring channels. A result is its sum, plus bias, plus
// an element of add unless that is NULL, within least and most; NaN stays.
typedef struct {
	int64_t taps, channels;
	int64_t outputs; // elements from a position to the next in y and in add
	float least, most;
} tl_conv_tile;

// Sums begin with those in y unless first; they get bias, add and limits if last.
enum { TL_CONV_FIRST = 1, TL_CONV_LAST = 2 };

// rows: the best number of positions, by number of panels; at 0 for a panel with outputs in its first half only, 0 if
// there is no such tile.
// tile: computes m positions of `panels` panels, at most as many as the table's, and stores n outputs of each. Panel k
// of the weights begins at w + k * wm. x[i * taps + t] is tap t of position i. The sums run over channels from..to-1.
// factors, results: see kern_conv.h.
// alone: channels are outputs; weights are [taps][n], and whole vectors of bias, weights and x may be read.
typedef struct {
	int panels, rows[5];
	void (*tile)(const tl_conv_tile *q, int panels, int m, int64_t n, const float *const *x, int64_t from, int64_t to,
		const float *w, int64_t wm, const float *bias, const float *add, float *y, int parts);
	void (*alone)(const tl_conv_tile *q, int64_t n, const float *const *x, const float *w, const float *bias, float *y);
	void (*factors)(int64_t n, const float *const *x, float *v, int64_t vm);
	void (*results)(const tl_conv_tile *q, int64_t n, const float *sums, int64_t sm, const float *bias,
		const float *const *add, float *const *y);
} tl_conv_table;

extern const tl_conv_table tl_conv_base, tl_conv_avx2, tl_conv_avx512;

#endif
