// Runs convolutions of 3x3 taps whose channels come last by Winograd's minimal filtering F(2x2, 3x3): Lavin and Gray,
// Fast algorithms for convolutional neural networks, 2015. A square of 2x2 results takes 16 products of a channel and
// an output in place of 36. For each of the 16, the squares' factors are a matrix of squares and channels, which is
// multiplied with one of weights. Blocks of squares are shared among the threads.
#include "conv_parameters.h"

// A convolution of fewer than FEWEST squares reads more bytes of factors than it saves. From NARROW channels and
// outputs on, vectors are whole. The factors and sums of a block have about NEAR bytes, but at least SQUARES squares
// for one load of the weights.
enum { AREA = 16, NEAR = 1 << 19, SQUARES = 48, DEPTH = 512, FEWEST = 4, NARROW = 16 };

typedef struct {
	tl_conv_tile q; // of products
	tl_conv_tile r; // of results
	const tl_conv_table *k;
	const int64_t *par;
	const float *x, *w, *bias, *add;
	float *y;
	int64_t high, wide, all, each; // squares of a picture's column and row, of all pictures, of a block
	int64_t panels, bytes;
	tl_pool *pool;
	volatile int64_t oom;
} work;

// The factors of squares from..from + n - 1.
static void transform(const work *o, int64_t from, int64_t n, const float *zeros, float *v) {
	const int64_t *p = o->par, *stride = p + STRIDE_X, channels = p[CHANNELS];
	for (int64_t i = 0; i < n; i++, v += channels) {
		const int64_t at = from + i, image = at / (o->high * o->wide);
		const int64_t top = at / o->wide % o->high * 2 - p[TOP], left = at % o->wide * 2 - p[LEFT];
		const float *x[AREA];
		for (int64_t h = top, t = 0; h < top + 4; h++) {
			const float *line = o->x + image * stride[0] + h * stride[1] + left * stride[2];
			for (int64_t u = left; u < left + 4; u++, line += stride[2])
				x[t++] = h >= 0 && h < p[HIGH] && u >= 0 && u < p[WIDE] ? line : zeros;
		}
		o->k->factors(channels, x, v, n * channels);
	}
}

// The 16 matrices of sums, by n rows of v.
static void multiply(const work *o, int64_t n, const float *v, float *sums) {
	const int64_t channels = o->par[CHANNELS], outputs = o->q.outputs, panel = channels * TL_CONV_PANEL;
	for (int64_t e = 0; e < AREA; e++, v += n * channels, sums += n * outputs)
		for (int64_t c = 0; c < channels; c += DEPTH) {
			const int64_t end = least(c + DEPTH, channels);
			for (int64_t j = 0, panels; j < o->panels; j += panels) {
				panels = least(o->k->panels, o->panels - j);
				const int64_t tiles = up(n, o->k->rows[panels]);
				for (int64_t i = 0, t = 0, m; t < tiles; t++, i += m) {
					const float *x[TL_CONV_ROWS];
					m = (n - i + tiles - t - 1) / (tiles - t);
					for (int64_t r = 0; r < m; r++) x[r] = v + (i + r) * channels;
					o->k->tile(&o->q, (int)panels, (int)m, outputs - j * TL_CONV_PANEL, x, c, end,
						o->w + (e * o->panels + j) * panel, panel, NULL, NULL, sums + i * outputs + j * TL_CONV_PANEL,
						c == 0 ? TL_CONV_FIRST : 0);
				}
			}
		}
}

// The results of squares from..from + n - 1.
static void inverse(const work *o, int64_t from, int64_t n, const float *sums) {
	const int64_t *p = o->par, outputs = p[OUTPUTS], down = p[OUT_WIDE] * outputs;
	for (int64_t i = 0; i < n; i++, sums += o->q.outputs) {
		const int64_t at = from + i, image = at / (o->high * o->wide);
		const int64_t top = at / o->wide % o->high * 2, left = at % o->wide * 2;
		const int64_t first = (image * p[OUT_HIGH] + top) * down + left * outputs;
		const float *add[4];
		float *y[4];
		for (int64_t k = 0; k < 4; k++) {
			const int inside = top + k / 2 < p[OUT_HIGH] && left + k % 2 < p[OUT_WIDE];
			y[k] = inside ? o->y + first + k / 2 * down + k % 2 * outputs : NULL;
			add[k] = inside && o->add ? o->add + (y[k] - o->y) : NULL;
		}
		o->k->results(&o->r, outputs, sums, n * o->q.outputs, o->bias, o->add ? add : NULL, y);
	}
}

static void winograd_job(void *arg, int worker, int64_t begin, int64_t end) {
	work *o = arg;
	const int64_t channels = o->par[CHANNELS];
	float *zeros = tl_scratch(o->pool, worker, o->bytes), *v = zeros + up(channels, 16) * 16;
	float *sums = v + up(AREA * o->each * channels, 16) * 16;
	if (!zeros) {
		o->oom = o->bytes;
		return;
	}
	memset(zeros, 0, (size_t)channels * sizeof *zeros);
	for (int64_t b = begin; b < end; b++) {
		const int64_t from = b * o->each, n = least(o->each, o->all - from);
		transform(o, from, n, zeros, v);
		multiply(o, n, v, sums);
		inverse(o, from, n, sums);
	}
}

int64_t tl_run_winograd(int adds, tl_pool *pool, int isa, char **buf, const int64_t *p, const char *factors) {
	work o = {.par = p, .k = table(isa), .pool = pool, .x = (const float *)buf[0] + p[AT_X],
		.w = (const float *)factors, .bias = (const float *)buf[2] + p[AT_BIAS],
		.add = adds ? (const float *)buf[3] + p[AT_ADD] : NULL, .y = (float *)buf[3 + adds]};
	const int64_t channels = p[CHANNELS], threads = tl_pool_threads(pool);
	o.panels = up(p[OUTPUTS], TL_CONV_PANEL);
	o.q = (tl_conv_tile){.taps = 1, .channels = channels, .outputs = o.panels * TL_CONV_PANEL};
	o.r = (tl_conv_tile){.outputs = p[OUTPUTS], .least = number(p[LEAST]), .most = number(p[MOST])};
	o.high = up(p[OUT_HIGH], 2);
	o.wide = up(p[OUT_WIDE], 2);
	o.all = p[BATCH] * o.high * o.wide;
	const int64_t near = NEAR / (AREA * (channels + o.q.outputs) * (int64_t)sizeof(float));
	int64_t blocks = up(o.all, near > SQUARES ? near : SQUARES);
	if (blocks < 4 * threads) blocks = up(blocks, threads) * threads;
	o.each = up(o.all, blocks);
	o.bytes = (up(channels, 16) * 16 + up(AREA * o.each * channels, 16) * 16 + AREA * o.each * o.q.outputs) *
		(int64_t)sizeof(float);
	tl_parallel(pool, up(o.all, o.each), 1, winograd_job, &o);
	return o.oom;
}

// The factors G g G' of the weights g of a channel and an output, TL_CONV_PANEL elements apart by tap.
static void weight_factors(const float *g, int64_t tap, float *to, int64_t apart) {
	double d[4][3];
	for (int u = 0; u < 3; u++) {
		const double a = g[u * tap], b = g[(3 + u) * tap], c = g[(6 + u) * tap];
		d[0][u] = a;
		d[1][u] = (a + b + c) / 2;
		d[2][u] = (a - b + c) / 2;
		d[3][u] = c;
	}
	for (int i = 0; i < 4; i++, to += 4 * apart) {
		to[0] = (float)d[i][0];
		to[apart] = (float)((d[i][0] + d[i][1] + d[i][2]) / 2);
		to[2 * apart] = (float)((d[i][0] - d[i][1] + d[i][2]) / 2);
		to[3 * apart] = (float)d[i][2];
	}
}

int64_t tl_winograd_pack(int32_t form, const int64_t *p, const char *weights, char *to) {
	const int64_t channels = p[CHANNELS], panels = up(p[OUTPUTS], TL_CONV_PANEL), panel = channels * TL_CONV_PANEL;
	const int64_t squares = p[BATCH] * up(p[OUT_HIGH], 2) * up(p[OUT_WIDE], 2);
	if (form & 1 || p[TAPS_HIGH] != 3 || p[TAPS_WIDE] != 3 || p[STEP_HIGH] != 1 || p[STEP_WIDE] != 1 ||
		p[GAP_HIGH] != 1 || p[GAP_WIDE] != 1 || p[STRIDE_X + 3] != 1 || channels < NARROW || p[OUTPUTS] < NARROW ||
		squares < FEWEST)
		return 0;
	const float *g = to ? (const float *)weights + p[AT_W] : NULL;
	for (int64_t j = 0; j < panels && to; j++, g += 9 * panel)
		for (int64_t i = 0; i < panel; i++)
			weight_factors(g + i, panel, (float *)to + j * panel + i, panels * panel);
	return AREA * panels * panel * (int64_t)sizeof(float);
}
