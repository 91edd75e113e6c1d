// Runs convolutions whose channels come last (launch.ConvLast). Windows are read where x lies; taps in the padding read
// zeros. Blocks of positions and panels of outputs, or lines of results, are shared among the threads.
#include <string.h>
#include "conv_parameters.h"

enum { BLOCK = 240, DEPTH = 512, MAX_TAPS = 64, BESIDE = 4, GRAIN = 1 << 16 };

// If there are fewer blocks than threads, blocks are cut, down to LOW positions, so that each thread computes what it
// reads in the next convolution. All threads then read all weights, which pays for up to HEAVY weights to a value.
enum { LOW = 24, HEAVY = 2 };

typedef struct {
	tl_conv_tile q;
	const tl_conv_table *k;
	const int64_t *par;
	int64_t high, wide, top, left, taps_wide, gap_wide; // of the picture that is read
	int64_t image, down, across;                         // steps in it
	int64_t tap[MAX_TAPS];                               // from the first tap of a window
	int runs, flat; // a tap is a run of a copy's line; positions lie beside each other and windows have one element
	const float *x, *zeros, *w, *bias, *add;
	float *copy, *y;
	int64_t panels, groups; // groups of panels
	int64_t blocks, each;   // blocks of an image, and their positions
	int64_t depth;          // channels at a time
} work;

// The taps of the window at this position, `apart` places from each other.
static inline void window(const work *o, const float *image, int64_t row, int64_t column, const float **at,
	int64_t apart) {
	const int64_t *p = o->par, high = row * p[STEP_HIGH] - o->top, wide = column * p[STEP_WIDE] - o->left;
	if (high >= 0 && high + (p[TAPS_HIGH] - 1) * p[GAP_HIGH] < o->high && wide >= 0 &&
		wide + (o->taps_wide - 1) * o->gap_wide < o->wide) {
		const float *first = image + high * o->down + wide * o->across;
		for (int64_t t = 0; t < o->q.taps; t++) at[t * apart] = first + o->tap[t];
		return;
	}
	for (int64_t h = high, t = 0; t < p[TAPS_HIGH]; t++, h += p[GAP_HIGH]) {
		const float *line = image + h * o->down;
		const int inside = h >= 0 && h < o->high;
		for (int64_t v = wide, u = 0; u < o->taps_wide; u++, v += o->gap_wide, at += apart)
			*at = inside && v >= 0 && v < o->wide ? line + v * o->across : o->zeros;
	}
}

// The taps of windows at m neighbouring positions of an image.
static inline void windows(const work *o, const float *image, int64_t from, int m, const float **x) {
	const int64_t *p = o->par, wide = p[OUT_WIDE], taps = o->q.taps;
	if (o->flat) {
		for (int j = 0; j < m; j++) x[j] = image + (from + j) * o->across;
		return;
	}
	for (int64_t j = 0, row = from / wide, column = from % wide; j < m; j++, x += taps) {
		window(o, image, row, column, x, 1);
		if (++column == wide) {
			column = 0;
			row++;
		}
	}
}

// A block of positions of an image, and a group of panels.
static void block(const work *o, int64_t image, int64_t from, int64_t group) {
	const int64_t *p = o->par, positions = p[OUT_HIGH] * p[OUT_WIDE], outputs = p[OUTPUTS];
	const int64_t to = least(from + o->each, positions), first = o->panels * group / o->groups;
	const int panels = (int)(o->panels * (group + 1) / o->groups - first);
	const int64_t panel = o->q.taps * o->q.channels * TL_CONV_PANEL, begin = first * TL_CONV_PANEL;
	const int half = panels == 1 && o->k->rows[0] > 0 && outputs - begin <= TL_CONV_PANEL / 2;
	const int64_t tiles = up(to - from, o->k->rows[half ? 0 : panels]);
	const float *picture = o->x + image * o->image, *x[TL_CONV_ROWS * MAX_TAPS];
	for (int64_t c = 0; c < o->q.channels; c += o->depth) {
		const int64_t end = least(c + o->depth, o->q.channels);
		const int parts = (c == 0 ? TL_CONV_FIRST : 0) | (end == o->q.channels ? TL_CONV_LAST : 0);
		for (int64_t t = 0, i = from; t < tiles; t++) {
			const int m = (int)((to - i + tiles - t - 1) / (tiles - t));
			const int64_t y = (image * positions + i) * outputs + begin;
			windows(o, picture, i, m, x);
			o->k->tile(&o->q, panels, m, outputs - begin, x, c, end, o->w + first * panel, panel, o->bias + begin,
				o->add ? o->add + y : NULL, o->y + y, parts);
			i += m;
		}
	}
}

static void block_job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *o = arg;
	for (int64_t i = begin; i < end; i++) {
		const int64_t at = i / o->groups;
		block(o, at / o->blocks, at % o->blocks * o->each, i % o->groups);
	}
}

// A line of results of channels that stay alone. The last positions may be those before again.
static void line(const work *o, int64_t image, int64_t row) {
	const int64_t *p = o->par, wide = p[OUT_WIDE], channels = p[CHANNELS];
	const float *picture = o->x + image * o->image, *x[BESIDE * MAX_TAPS];
	float *y = o->y + (image * p[OUT_HIGH] + row) * wide * channels;
	tl_conv_tile q = o->q;
	const int few = wide < BESIDE; // then one position at a time, as often as there are places
	if (few) q.outputs = 0;
	const int64_t step = BESIDE * p[STEP_WIDE] * o->across, taps = BESIDE * q.taps;
	const int64_t reach = (BESIDE - 1) * p[STEP_WIDE] + (o->taps_wide - 1) * o->gap_wide;
	int64_t moves[BESIDE * MAX_TAPS];
	int inside = 0; // all taps of the positions before were within the picture's columns
	for (int64_t i = 0; i < wide; i += few ? 1 : BESIDE) {
		const int next = !few && i <= wide - BESIDE;
		if (!few) i = least(i, wide - BESIDE);
		const int64_t first = i * p[STEP_WIDE] - o->left;
		const int now = next && first >= 0 && first + reach < o->wide;
		if (now && inside) {
			for (int64_t t = 0; t < taps; t++) x[t] += moves[t];
		} else {
			for (int64_t j = 0; j < BESIDE; j++) window(o, picture, row, few ? i : i + j, x + j, BESIDE);
			if (now) for (int64_t t = 0; t < taps; t++) moves[t] = x[t] == o->zeros ? 0 : step;
		}
		inside = now;
		o->k->alone(&q, channels, x, o->w, o->bias, y + i * channels);
	}
}

static void line_job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *o = arg;
	for (int64_t i = begin; i < end; i++) line(o, i / o->par[OUT_HIGH], i % o->par[OUT_HIGH]);
}

// Lines of the copies of all images, with the padding around them.
static void copy_job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *o = arg;
	const int64_t *p = o->par, *stride = p + STRIDE_X, channels = p[CHANNELS];
	const int64_t first = p[LEFT] > 0 ? p[LEFT] : 0, last = least(o->wide, p[LEFT] + p[WIDE]);
	for (int64_t r = begin; r < end; r++) {
		const int64_t row = r % o->high - p[TOP];
		float *to = o->copy + r * o->down;
		if (row < 0 || row >= p[HIGH] || first >= last) {
			memset(to, 0, (size_t)o->down * sizeof *to);
			continue;
		}
		memset(to, 0, (size_t)(first * channels) * sizeof *to);
		memset(to + last * channels, 0, (size_t)((o->wide - last) * channels) * sizeof *to);
		const float *x = o->x + r / o->high * stride[0] + row * stride[1] + (first - p[LEFT]) * stride[2];
		for (int64_t c = 0; c < channels; c++, x += stride[3]) {
			float *at = to + first * channels + c;
			for (int64_t i = 0; i < last - first; i++) at[i * channels] = x[i * stride[2]];
		}
	}
}

// A copy has channels beside each other and the padding, so that neighbouring taps of a line are one run of channels.
static int64_t lay(work *o, int alone) {
	const int64_t *p = o->par, *stride = p + STRIDE_X;
	o->taps_wide = p[TAPS_WIDE];
	o->gap_wide = p[GAP_WIDE];
	o->q.channels = alone ? 1 : p[CHANNELS];
	if (stride[3] == 1 || p[CHANNELS] == 1) {
		o->high = p[HIGH];
		o->wide = p[WIDE];
		o->top = p[TOP];
		o->left = p[LEFT];
		o->image = stride[0];
		o->down = stride[1];
		o->across = stride[2];
		o->flat = p[TAPS_HIGH] * p[TAPS_WIDE] == 1 && p[STEP_HIGH] == 1 && p[STEP_WIDE] == 1 && p[TOP] == 0 &&
			p[LEFT] == 0 && p[OUT_HIGH] <= p[HIGH] && p[OUT_WIDE] == p[WIDE] && stride[1] == p[WIDE] * stride[2];
		return 0;
	}
	o->high = (p[OUT_HIGH] - 1) * p[STEP_HIGH] + (p[TAPS_HIGH] - 1) * p[GAP_HIGH] + 1;
	o->wide = (p[OUT_WIDE] - 1) * p[STEP_WIDE] + (p[TAPS_WIDE] - 1) * p[GAP_WIDE] + 1;
	o->across = p[CHANNELS];
	o->down = o->wide * o->across;
	o->image = o->high * o->down;
	if (!alone && p[GAP_WIDE] == 1) {
		o->q.channels = p[CHANNELS] * p[TAPS_WIDE];
		o->taps_wide = 1;
		o->runs = 1;
	}
	return p[BATCH] * o->image * (int64_t)sizeof(float);
}

// Chooses the blocks of an image.
static void cut_blocks(work *o, int64_t threads) {
	const int64_t *p = o->par, positions = p[OUT_HIGH] * p[OUT_WIDE], values = positions * (p[CHANNELS] + p[OUTPUTS]);
	o->blocks = up(positions, BLOCK);
	if (p[BATCH] * o->blocks < 2 * threads && o->q.taps * o->q.channels * p[OUTPUTS] <= HEAVY * values) {
		const int64_t parts = up(threads, p[BATCH]), most = positions > LOW ? positions / LOW : 1;
		o->blocks = least(up(o->blocks, parts) * parts, most > o->blocks ? most : o->blocks);
	}
	o->each = up(positions, o->blocks);
	o->blocks = up(positions, o->each);
}

int64_t tl_run_conv_last(int form, tl_pool *pool, int isa, char **buf, const int64_t *p,
	const char *winograd) {
	const int alone = form & 1, adds = form >> 1 & 1;
	if (p[BATCH] == 0 || p[OUT_HIGH] == 0 || p[OUT_WIDE] == 0 || p[OUTPUTS] == 0) return 0;
	if (winograd) return tl_run_winograd(adds, pool, isa, buf, p, winograd);
	work o = {.par = p, .k = table(isa), .x = (const float *)buf[0] + p[AT_X], .w = (const float *)buf[1] + p[AT_W],
		.bias = (const float *)buf[2] + p[AT_BIAS], .add = adds ? (const float *)buf[3] + p[AT_ADD] : NULL,
		.y = (float *)buf[3 + adds]};
	const int64_t bytes = lay(&o, alone), head = up(p[CHANNELS] * (int64_t)sizeof(float), 64) * 64;
	char *mem = tl_scratch(pool, -1, head + bytes);
	if (!mem) return head + bytes;
	memset(mem, 0, (size_t)head);
	o.zeros = (float *)mem;
	o.q.taps = p[TAPS_HIGH] * o.taps_wide;
	for (int64_t t = 0; t < o.q.taps; t++)
		o.tap[t] = t / o.taps_wide * p[GAP_HIGH] * o.down + t % o.taps_wide * o.gap_wide * o.across;
	o.q.outputs = p[OUTPUTS];
	o.q.least = number(p[LEAST]);
	o.q.most = number(p[MOST]);
	if (bytes) {
		o.copy = (float *)(mem + head);
		tl_parallel_whole(pool, p[BATCH] * o.high, GRAIN / (4 * o.down + 1) + 1, copy_job, &o);
		o.x = o.copy;
	}
	if (alone) {
		tl_parallel(pool, p[BATCH] * p[OUT_HIGH], GRAIN / (p[OUT_WIDE] * p[CHANNELS] * o.q.taps + 1) + 1, line_job, &o);
		return 0;
	}
	o.panels = up(p[OUTPUTS], TL_CONV_PANEL);
	o.groups = up(o.panels, o.k->panels);
	cut_blocks(&o, tl_pool_threads(pool));
	const int64_t parts = up(o.q.channels * o.q.taps, DEPTH);
	o.depth = up(o.q.channels, parts);
	const int64_t each = o.each * o.k->panels * TL_CONV_PANEL;
	tl_parallel(pool, p[BATCH] * o.blocks * o.groups, GRAIN / (each * o.q.channels * o.q.taps + 1) + 1, block_job, &o);
	return 0;
}
