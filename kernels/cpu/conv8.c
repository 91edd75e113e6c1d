// Runs convolutions of 8-bit elements (launch.QuantizedConv): copies x so that channels of a position lie beside each
// other, between zero points, and shares blocks of positions and panels of outputs among the threads.
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include "conv8.h"

// Numbers of parameters.
enum { BATCH, GROUPS, CHANNELS, OUTPUTS, HIGH, WIDE, OUT_HIGH, OUT_WIDE, TAPS_HIGH, TAPS_WIDE, STEP_HIGH, STEP_WIDE,
	TOP, LEFT, GAP_HIGH, GAP_WIDE, ZERO_X, ZERO_Y, LEAST, MOST, STRIDE_X, STRIDE_Y = STRIDE_X + 4,
	AT_X = STRIDE_Y + 4, AT_W, AT_SCALE, AT_BIAS, AT_SUMS, AT_ZERO, AT_STEP, AT_SHIFTS };
enum { BLOCK = 64, LINE = 16, GRAIN = 1 << 16 }; // positions of a block; bytes of a vector; multiplications of a claim

// By Winograd's filtering: a convolution of fewer than FEWEST squares reads more bytes of factors than it saves. From
// NARROW channels and outputs on, vectors are whole. With more than DEEPEST channels the sums, four times as large, may
// have more than 32 bits. The factors and sums of a block have about NEAR bytes, which leave half of L2 to weights.
enum { FEWEST = 4, NARROW = 16, DEEPEST = 1800, NEAR = 1 << 18 };

typedef struct {
	tl_conv8 q;
	const tl_conv8_kernel *k;
	const int64_t *par;
	int sign, floats, alone;
	const uint8_t *x, *end; // as bytes without a sign
	int32_t zero;           // of these
	int64_t high, wide, each, across, down, image; // of the copy: sizes, elements of a group, position, row, image
	int64_t size;           // bytes of its elements
	uint8_t *copy;
	int64_t groups, panels, words, blocks; // groups of panels, panels of a group, words of a panel, blocks of an image
	const uint32_t *w;
	const float *scale, *bias;
	const int32_t *sums, *shifts; // NULL: no shifts
	float step;                   // of all scales
	uint8_t *y;
	const tl_conv8_squares *squares; // of Winograd's filtering, or NULL
	const int16_t *factors;
	int64_t lines, across_lines;            // squares of a picture's column and row
	int64_t down_blocks, across_blocks, parts; // blocks along these, and parts of the panels
	int64_t bytes;                            // of a thread
	tl_pool *pool;
	volatile int64_t oom;
} work;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t up(int64_t n, int64_t m) { return (n + m - 1) / m; }

#if defined(__SSE2__)
// Sixteen lines of sixteen bytes become `lines` lines: four rounds of interleaving the first half with the second.
static void turn16(uint8_t *to, int64_t tm, const uint8_t *from, int64_t fm, int64_t lines) {
	__m128i a[16], b[16];
	for (int i = 0; i < 16; i++) a[i] = _mm_loadu_si128((const __m128i *)(from + i * fm));
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 8; i++) {
			b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
			b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
		}
		memcpy(a, b, sizeof a);
	}
	for (int i = 0; i < lines; i++) _mm_storeu_si128((__m128i *)(to + i * tm), a[i]);
}
#endif

// to[j * tm + i] = from[i * fm + j * fn], i < rows, j < n. Bytes before end may be read.
static void turn(uint8_t *to, int64_t tm, const uint8_t *from, int64_t fm, int64_t fn, int64_t rows, int64_t n,
	const uint8_t *end) {
	int64_t i = 0;
	if (fm == 1) {
		for (int64_t j = 0; j < n; j++) memcpy(to + j * tm, from + j * fn, (size_t)rows);
		return;
	}
#if defined(__SSE2__)
	for (; fn == 1 && i + LINE <= rows && (n >= LINE || end - from >= (i + LINE - 1) * fm + LINE); i += LINE)
		for (int64_t j = 0; j < n; j += LINE) {
			if (j > n - LINE && n >= LINE) j = n - LINE; // the last columns again
			turn16(to + j * tm + i, tm, from + i * fm + j, fm, least(LINE, n));
		}
#endif
	for (; i < rows; i++) for (int64_t j = 0; j < n; j++) to[j * tm + i] = from[i * fm + j * fn];
}

// Whether a window has this row of the copy.
static int is_read(const int64_t *p, int64_t row) {
	for (int64_t t = 0; t < p[TAPS_HIGH]; t++) {
		const int64_t y = row - t * p[GAP_HIGH];
		if (y >= 0 && y % p[STEP_HIGH] == 0 && y / p[STEP_HIGH] < p[OUT_HIGH]) return 1;
	}
	return 0;
}

// Elements become 16 bits wide. from may be the second half of to.
static void widen(uint8_t *to, const uint8_t *from, int64_t n) {
	for (int64_t i = 0; i < n; i += LINE) {
		uint8_t bytes[LINE] = {0};
		uint16_t line[LINE];
		if (i + LINE <= n) memcpy(bytes, from + i, LINE);
		else memcpy(bytes, from + i, (size_t)(n - i));
		for (int j = 0; j < LINE; j++) line[j] = bytes[j];
		if (i + LINE <= n) memcpy(to + 2 * i, line, sizeof line);
		else memcpy(to + 2 * i, line, (size_t)(2 * (n - i)));
	}
}

// Rows of the copies of all images.
static void copy_rows(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *o = arg;
	const int64_t *p = o->par, *stride = p + STRIDE_X;
	const uint8_t zero = (uint8_t)(o->sign ? o->zero ^ 0x80 : o->zero);
	for (int64_t r = begin; r < end; r++) {
		const int64_t image = r / o->high, row = r % o->high, from = row - p[TOP];
		uint8_t *line = o->copy + (image * o->image + row * o->down) * o->size, *to = line + (o->size - 1) * o->down;
		if (!o->squares && !is_read(p, row)) continue;
		const int64_t first = p[LEFT] > 0 ? p[LEFT] : 0, last = least(o->wide, p[LEFT] + p[WIDE]);
		if (from < 0 || from >= p[HIGH] || first >= last) {
			memset(to, zero, (size_t)o->down);
		} else { // weights of channels between groups are zeros
			memset(to, zero, (size_t)(first * o->across));
			memset(to + last * o->across, zero, (size_t)((o->wide - last) * o->across));
			const uint8_t *x = o->x + image * stride[0] + from * stride[2] + (first - p[LEFT]) * stride[3];
			const int whole = o->alone || o->each == p[CHANNELS];
			const int64_t groups = whole ? 1 : p[GROUPS], channels = p[GROUPS] * p[CHANNELS] / groups;
			for (int64_t g = 0; g < groups; g++)
				turn(to + first * o->across + g * o->each, o->across, x + g * channels * stride[1], stride[1], stride[3],
					channels, last - first, o->end);
		}
		if (o->sign) for (int64_t i = 0; i < o->down; i++) to[i] ^= 0x80;
		if (o->size > 1) widen(line, to, o->down);
	}
}

// Finishes sums [positions][TLK_PANEL] of at most BLOCK positions of a panel, whose scales begin at number at, and
// stores n outputs.
static void store(const work *o, int64_t image, int64_t output, int64_t n, int64_t from, int64_t count,
	const int32_t *c, int64_t at) {
	const int64_t *s = o->par + STRIDE_Y, wide = o->par[OUT_WIDE];
	const int64_t base = image * s[0] + output * s[1];
	const float *scale = o->scale + at, *bias = o->bias + at;
	if (o->floats) {
		float factor[TLK_PANEL];
		for (int k = 0; k < TLK_PANEL; k++) factor[k] = scale[k] * o->step;
		for (int64_t i = 0; i < count; i++, c += TLK_PANEL) {
			float *y = (float *)o->y + base + (from + i) / wide * s[2] + (from + i) % wide * s[3];
			if (s[1] == 1 && n == TLK_PANEL) for (int k = 0; k < TLK_PANEL; k++) y[k] = (float)c[k] * factor[k] + bias[k];
			else for (int64_t k = 0; k < n; k++) y[k * s[1]] = (float)c[k] * factor[k] + bias[k];
		}
		return;
	}
	uint8_t line[BLOCK * TLK_PANEL], *bytes = line;
	o->k->finish(&o->q, count, c, scale, bias, bytes);
	const int flat = s[2] == wide * s[3] || wide == 1; // positions are s[3] apart, or s[2] where rows have one
	const int64_t step = wide == 1 ? s[2] : s[3];
	if (flat && step == 1) {
		turn(o->y + base + from, s[1], bytes, TLK_PANEL, 1, count, n, bytes + BLOCK * TLK_PANEL);
		return;
	}
	for (int64_t i = 0; i < count; i++, bytes += TLK_PANEL) {
		uint8_t *y = o->y + base + (from + i) / wide * s[2] + (from + i) % wide * s[3];
		if (s[1] == 1) memcpy(y, bytes, (size_t)n);
		else for (int64_t k = 0; k < n; k++) y[k * s[1]] = bytes[k];
	}
}

// The sum of the differences from zero of what the taps at x have, for output n of those that stand alone.
static int32_t differences(const work *o, const uint8_t *x, int64_t n) {
	const int64_t bytes = o->alone ? 1 : o->par[CHANNELS];
	int32_t sum = 0;
	for (int64_t t = 0; t < o->q.taps; t++) {
		const uint8_t *y = x + o->q.tap[t] + n * o->size;
		int32_t part = 0;
		if (o->size > 1) for (int64_t i = 0; i < bytes; i++) part += ((const uint16_t *)y)[i];
		else for (int64_t i = 0; i < bytes; i++) part += y[i];
		sum += part - (int32_t)bytes * o->zero;
	}
	return sum;
}

// Shifts weights: an output's shift times the sum of differences leaves each sum of its panel.
static void shift(const work *o, const uint8_t *const *x, int64_t count, int panels, int64_t at, int32_t *c) {
	for (int64_t i = 0; i < count; i++) {
		int32_t sum = o->alone ? 0 : differences(o, x[i], 0);
		for (int p = 0; p < panels; p++)
			for (int n = 0; n < TLK_PANEL; n++) {
				if (o->alone) sum = differences(o, x[i], n);
				c[(p * BLOCK + i) * TLK_PANEL + n] -= o->shifts[at + p * TLK_PANEL + n] * sum;
			}
	}
}

// A block of positions, and one or two panels of a group.
static void block(const work *o, int64_t image, int64_t from, int64_t group, int64_t panel, int panels) {
	const int64_t *p = o->par, count = least(BLOCK, p[OUT_HIGH] * p[OUT_WIDE] - from);
	const int64_t at = (group * o->panels + panel) * TLK_PANEL;
	int32_t c[2][BLOCK * TLK_PANEL], init[2 * TLK_PANEL];
	const uint8_t *x[BLOCK];
	for (int i = 0; i < panels * TLK_PANEL; i++) init[i] = -o->zero * o->sums[at + i];
	const int64_t first = image * o->image + (o->alone ? panel * TLK_PANEL : group * o->each);
	const uint8_t *base = o->copy + first * o->size;
	int64_t row = from / p[OUT_WIDE], column = from % p[OUT_WIDE];
	for (int64_t i = 0; i < BLOCK; i++) { // beyond the last: the last again
		const int64_t place = (row * p[STEP_HIGH] * o->down + column * p[STEP_WIDE] * o->across) * o->size;
		x[i] = i < count ? base + place : x[count - 1];
		if (++column == p[OUT_WIDE]) {
			column = 0;
			row++;
		}
	}
	const uint32_t *w = o->w + at * o->words;
	for (int64_t i = 0; i < count; i += CONV8_ROWS) {
		if (o->alone) o->k->alone(&o->q, x + i, w, init, c[0] + i * TLK_PANEL);
		else o->k->tile(&o->q, panels, (int)least(count - i, CONV8_ROWS), x + i, w, o->words * TLK_PANEL, init,
			c[0] + i * TLK_PANEL, BLOCK * TLK_PANEL);
	}
	if (o->shifts) shift(o, x, count, panels, at, c[0]);
	const int64_t outputs = o->alone ? p[GROUPS] : p[OUTPUTS];
	for (int k = 0; k < panels; k++) {
		const int64_t j = (panel + k) * TLK_PANEL;
		store(o, image, group * outputs + j, least(TLK_PANEL, outputs - j), from, count, c[k], at + k * TLK_PANEL);
	}
}

static void job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *o = arg;
	const int64_t each = o->alone ? 1 : 2, pairs = up(o->panels, each);
	for (int64_t i = begin; i < end; i++) {
		const int64_t panel = i % pairs * each, rest = i / pairs, group = rest % o->groups, at = rest / o->groups;
		block(o, at / o->blocks, at % o->blocks * BLOCK, group, panel, (int)least(each, o->panels - panel));
	}
}

// A block of squares: lines top..bottom - 1, columns left..right - 1 of a picture.
typedef struct {
	int64_t image, top, bottom, left, right;
} area;

// The factors of squares, [CONV8_AREA] planes of [squares][channels], vm elements apart.
static void square_factors(const work *o, const area *a, int16_t *v, int64_t vm) {
	const uint8_t *picture = o->copy + a->image * o->image, *x[CONV8_AREA];
	for (int64_t h = a->top; h < a->bottom; h++)
		for (int64_t u = a->left; u < a->right; u++, v += o->each) {
			for (int t = 0; t < CONV8_AREA; t++)
				x[t] = picture + (2 * h + t / 4) * o->down + (2 * u + t % 4) * o->across;
			o->squares->factors(o->each, x, v, vm);
		}
}

// The sums c of the positions of a block, line by line, from planes of sums.
static void square_results(const work *o, const area *a, const int32_t *sums, int64_t sm, const int32_t *init,
	int32_t *c) {
	const int64_t *p = o->par, wide = least(2 * a->right, p[OUT_WIDE]) - 2 * a->left;
	for (int64_t h = a->top; h < a->bottom; h++)
		for (int64_t u = a->left; u < a->right; u++, sums += TLK_PANEL) {
			int32_t *to[4];
			for (int k = 0; k < 4; k++) {
				const int64_t row = 2 * h + k / 2, column = 2 * u + k % 2;
				const int64_t at = (row - 2 * a->top) * wide + column - 2 * a->left;
				to[k] = row < p[OUT_HIGH] && column < p[OUT_WIDE] ? c + at * TLK_PANEL : NULL;
			}
			o->squares->results(sums, sm, init, to);
		}
}

// Stores a block's positions of a panel. Lines of whole pictures are one run.
static void square_store(const work *o, const area *a, int64_t panel, const int32_t *c) {
	const int64_t *p = o->par, wide = least(2 * a->right, p[OUT_WIDE]) - 2 * a->left, output = panel * TLK_PANEL;
	const int64_t rows = least(2 * a->bottom, p[OUT_HIGH]) - 2 * a->top, whole = wide == p[OUT_WIDE];
	const int64_t runs = whole ? 1 : rows, length = whole ? rows * wide : wide;
	for (int64_t r = 0; r < runs; r++)
		for (int64_t i = 0, n; i < length; i += n, c += n * TLK_PANEL) {
			n = least(BLOCK, length - i);
			store(o, a->image, output, least(TLK_PANEL, p[OUTPUTS] - output),
				(2 * a->top + r) * p[OUT_WIDE] + 2 * a->left + i, n, c, output);
		}
}

// Planes lie some lines of the cache farther apart than they are long, so that they do not share a set.
enum { APART = 32 };

static void square_block(const work *o, const area *a, int64_t from, int64_t to, int16_t *v) {
	const int64_t n = (a->bottom - a->top) * (a->right - a->left), vm = n * o->each + APART, sm = n * TLK_PANEL + APART;
	int32_t *sums = (int32_t *)(v + CONV8_AREA * vm), *c = sums + CONV8_AREA * sm, init[TLK_PANEL];
	const int64_t tiles = up(n, CONV8_SQUARES), plane = o->each * TLK_PANEL;
	square_factors(o, a, v, vm);
	for (int64_t panel = from; panel < to; panel++) {
		for (int64_t e = 0; e < CONV8_AREA; e++)
			for (int64_t t = 0, i = 0, m; t < tiles; t++, i += m) {
				m = (n - i + tiles - t - 1) / (tiles - t);
				o->squares->multiply((int)m, o->each, v + e * vm + i * o->each,
					o->factors + (panel * CONV8_AREA + e) * plane, sums + e * sm + i * TLK_PANEL);
			}
		for (int i = 0; i < TLK_PANEL; i++) init[i] = -o->zero * o->sums[panel * TLK_PANEL + i];
		square_results(o, a, sums, sm, init, c);
		square_store(o, a, panel, c);
	}
}

static void square_job(void *arg, int worker, int64_t begin, int64_t end) {
	work *o = arg;
	int16_t *v = tl_scratch(o->pool, worker, o->bytes);
	if (!v) {
		o->oom = o->bytes;
		return;
	}
	for (int64_t i = begin; i < end; i++) {
		const int64_t part = i % o->parts, at = i / o->parts, across = at % o->across_blocks;
		const int64_t down = at / o->across_blocks % o->down_blocks;
		const area a = {at / o->across_blocks / o->down_blocks, o->lines * down / o->down_blocks,
			o->lines * (down + 1) / o->down_blocks, o->across_lines * across / o->across_blocks,
			o->across_lines * (across + 1) / o->across_blocks};
		square_block(o, &a, o->panels * part / o->parts, o->panels * (part + 1) / o->parts, v);
	}
}

// Cuts pictures into blocks of squares, lines first, and the panels if there are fewer blocks than threads.
static int64_t run_squares(work *o, int64_t threads) {
	const int64_t *p = o->par, each = CONV8_AREA * (o->each * 2 + TLK_PANEL * 4); // bytes of a square
	const int64_t near = NEAR / each > CONV8_SQUARES ? NEAR / each : CONV8_SQUARES;
	o->across_blocks = up(o->across_lines, 2 * near);
	o->down_blocks = least(o->lines, up(o->lines * up(o->across_lines, o->across_blocks), near));
	const int64_t blocks = p[BATCH] * o->across_blocks;
	if (blocks * o->down_blocks >= threads && blocks < threads) // as many for each thread
		o->down_blocks = least(o->lines, up(o->down_blocks, threads) * threads);
	o->parts = least(o->panels, up(threads, blocks * o->down_blocks));
	const int64_t most = up(o->lines, o->down_blocks) * up(o->across_lines, o->across_blocks);
	o->bytes = most * (each + 4 * TLK_PANEL * 4) + CONV8_AREA * APART * (2 + 4);
	tl_parallel(o->pool, blocks * o->down_blocks * o->parts, 1, square_job, o);
	return o->oom;
}

int64_t tl_conv8_pack(int isa, const int64_t *p, const char *weights, char *to) {
	const int64_t squares = p[BATCH] * up(p[OUT_HIGH], 2) * up(p[OUT_WIDE], 2), panels = up(p[OUTPUTS], TLK_PANEL);
	if (!tl_conv8_squares_of(isa) || p[GROUPS] != 1 || p[TAPS_HIGH] != 3 || p[TAPS_WIDE] != 3 || p[STEP_HIGH] != 1 ||
		p[STEP_WIDE] != 1 || p[GAP_HIGH] != 1 || p[GAP_WIDE] != 1 || p[CHANNELS] < NARROW || p[CHANNELS] > DEEPEST ||
		p[OUTPUTS] < NARROW || squares < FEWEST)
		return 0;
	if (to) tl_conv8_factors(panels, p[CHANNELS], (const int8_t *)(weights + 4 * p[AT_W]), (int16_t *)to);
	return panels * CONV8_AREA * tl_conv8_whole(p[CHANNELS]) * TLK_PANEL * (int64_t)sizeof(int16_t);
}

// Sizes of the copy of x. x itself serves where channels of positions lie beside each other already.
static int lay(work *o) {
	const int64_t *p = o->par, *s = p + STRIDE_X;
	o->high = (p[OUT_HIGH] - 1) * p[STEP_HIGH] + (p[TAPS_HIGH] - 1) * p[GAP_HIGH] + 1;
	o->wide = (p[OUT_WIDE] - 1) * p[STEP_WIDE] + (p[TAPS_WIDE] - 1) * p[GAP_WIDE] + 1;
	const int inside = p[TOP] == 0 && p[LEFT] == 0 && o->high <= p[HIGH] && o->wide <= p[WIDE];
	if (o->squares) { // of squares over the edge too
		o->lines = up(p[OUT_HIGH], 2);
		o->across_lines = up(p[OUT_WIDE], 2);
		o->high = 2 * o->lines + 2;
		o->wide = 2 * o->across_lines + 2;
	}
	o->size = o->k->wide && !o->alone && !o->squares ? 2 : 1;
	if (inside && !o->sign && !o->alone && o->size == 1 && !o->squares && s[1] == 1 && p[CHANNELS] % 4 == 0) {
		o->each = p[CHANNELS];
		o->across = s[3];
		o->down = s[2];
		o->image = s[0];
		o->copy = (uint8_t *)o->x;
		return 0;
	}
	o->each = o->alone ? 1 : o->squares ? tl_conv8_whole(p[CHANNELS]) : up(p[CHANNELS], 4) * 4;
	o->across = o->alone ? up(p[GROUPS], TLK_PANEL) * TLK_PANEL : p[GROUPS] * o->each;
	o->down = o->wide * o->across;
	o->image = o->high * o->down;
	return 1;
}

int64_t tl_run_conv8(int form, tl_pool *pool, int isa, char **buf, const int64_t *p, const char *winograd) {
	work o = {.par = p, .sign = form & 1, .floats = form >> 1 & 1, .alone = p[CHANNELS] == 1 && p[OUTPUTS] == 1,
		.x = (const uint8_t *)buf[0] + p[AT_X], .w = (const uint32_t *)buf[1] + p[AT_W],
		.scale = (const float *)buf[2] + p[AT_SCALE], .bias = (const float *)buf[3] + p[AT_BIAS],
		.sums = (const int32_t *)buf[4] + p[AT_SUMS], .step = 1, .pool = pool,
		.squares = winograd ? tl_conv8_squares_of(isa) : NULL, .factors = (const int16_t *)winograd};
	if (p[BATCH] == 0 || p[OUT_HIGH] == 0 || p[OUT_WIDE] == 0) return 0;
	int64_t zero = p[ZERO_X], b = 5;
	if (form & 4) {
		zero = o.sign ? ((const int8_t *)buf[b])[p[AT_ZERO]] : ((const uint8_t *)buf[b])[p[AT_ZERO]];
		o.step = ((const float *)buf[b + 1])[p[AT_STEP]];
		b += 2;
	}
	if (form & 8) o.shifts = (const int32_t *)buf[b++] + p[AT_SHIFTS];
	o.y = (uint8_t *)buf[b];
#if defined(__x86_64__)
	o.k = tl_conv8_vectors(isa, form >> 4 & 1);
#else
	(void)isa;
	o.k = &tl_conv8_plain;
#endif
	const int64_t *s = p + STRIDE_X;
	o.end = o.x + (p[BATCH] - 1) * s[0] + (p[GROUPS] * p[CHANNELS] - 1) * s[1] + (p[HIGH] - 1) * s[2] +
		(p[WIDE] - 1) * s[3] + 1;
	o.zero = (int32_t)(zero + (o.sign ? 128 : 0));
	const int copied = lay(&o);
	const int64_t taps = p[TAPS_HIGH] * p[TAPS_WIDE], head = up((taps + 4) * 8, 64) * 64;
	const int64_t bytes = head + (copied ? p[BATCH] * o.image * o.size : 0);
	char *mem = tl_scratch(pool, -1, bytes);
	if (!mem) return bytes;
	int64_t *tap = (int64_t *)mem;
	for (int64_t t = 0; t < taps; t++)
		tap[t] = (t / p[TAPS_WIDE] * p[GAP_HIGH] * o.down + t % p[TAPS_WIDE] * p[GAP_WIDE] * o.across) * o.size;
	for (int t = 0; t < 4; t++) tap[taps + t] = 0; // of weights that are zeros
	o.q = (tl_conv8){.taps = taps, .words = o.each / 4, .tap = tap, .zero = (int32_t)p[ZERO_Y],
		.least = (float)(p[LEAST] - p[ZERO_Y]), .most = (float)(p[MOST] - p[ZERO_Y])};
	if (copied) {
		o.copy = (uint8_t *)mem + head;
		tl_parallel_whole(pool, p[BATCH] * o.high, GRAIN / (4 * o.down + 1) + 1, copy_rows, &o);
	}
	o.groups = o.alone ? 1 : p[GROUPS];
	o.panels = up(o.alone ? p[GROUPS] : p[OUTPUTS], TLK_PANEL);
	if (o.squares) return run_squares(&o, tl_pool_threads(pool));
	o.words = o.alone ? up(taps, 4) : taps * o.q.words;
	o.blocks = up(p[OUT_HIGH] * p[OUT_WIDE], BLOCK);
	const int64_t jobs = p[BATCH] * o.blocks * o.groups * up(o.panels, o.alone ? 1 : 2);
	tl_parallel(pool, jobs, GRAIN / (BLOCK * 2 * TLK_PANEL * (o.words * 4 + 1)) + 1, job, &o);
	return 0;
}
