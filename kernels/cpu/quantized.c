// Runs products with quantized weights (launch.Quantized): shares panels of weights and blocks of rows among the
// threads. Rows that are quantized become int8 where a kernel multiplies int8, else floats with the same values.
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include "planes.h"

// Parameters: M, N, K, the stride of rows of x, then the offsets of x, weights, scales, offsets of groups and bias.
enum { AT_X = 4, AT_W, AT_SCALE, AT_OFFSET, AT_BIAS };
enum { ROWS = 2 * TLK_INT8_ROWS, GRAIN = 1 << 16, TILES = 4 }; // rows of a block; multiplications and tiles of a claim

typedef struct {
	const tl_quantized *q;
	const tl_isa_table *t;
	tl_int8_panel *int8;
	int64_t M, N, K, xm, groups, words, panels, pitch; // words: rows of words of a panel; pitch: bytes of a row of int8
	const float *x, *bias;
	float *rounded; // rows of floats that are quantized
	const uint32_t *w;
	const char *scale;
	const uint16_t *offset;
	float *sums, *c; // sums of groups [M, groups]
	float *rowscale; // of rows of int8 for weights of 8 bits, with the sums of these rows
	int32_t *rowsum;
	int8_t *rows;
	const tl_planes *planes; // of rows that do not fill a low tile, NULL: they are multiplied as floats
	tl_plane_block *blocks;  // of one row after the other, each in planes at rows, pitch bytes apart
	int64_t row_blocks;
	int *whole; // which rows are in planes
} work;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void sum_groups(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *p = arg;
	for (int64_t i = begin; i < end; i++)
		for (int64_t g = 0; g < p->groups; g++) {
			const int64_t n = least(p->q->group, p->K - g * p->q->group);
			const float *x = p->x + i * p->xm + g * p->q->group;
			float part[16] = {0}, sum = 0;
			int64_t k = 0;
			for (; k + 16 <= n; k += 16) for (int j = 0; j < 16; j++) part[j] += x[k + j];
			for (int j = 0; j < 16; j++) sum += part[j];
			for (; k < n; k++) sum += x[k];
			p->sums[i * p->groups + g] = sum;
		}
}

// Four products, each rounded to a float and then to an integer, halves to even. They are rounded twice everywhere, so
// that the integers do not depend on the instruction set.
static inline void round_four(const float *x, float factor, int32_t *to) {
#if defined(__SSE2__)
	_mm_storeu_si128((__m128i *)to, _mm_cvtps_epi32(_mm_mul_ps(_mm_loadu_ps(x), _mm_set1_ps(factor))));
#elif defined(__aarch64__)
	vst1q_s32(to, vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), factor)));
#else
#error "no rounding"
#endif
}

// The greatest magnitude, infinite or NaN where a number is. Magnitudes are ordered as their bits.
static float greatest(const float *x, int64_t n) {
	int32_t most = 0;
	for (int64_t k = 0; k < n; k++) {
		int32_t b;
		memcpy(&b, x + k, 4);
		b &= 0x7fffffff;
		most = b > most ? b : most;
	}
	float top;
	memcpy(&top, &most, 4);
	return top;
}

// The integers of up to four terms, with zeros behind them.
static void integers(const float *x, int64_t n, float factor, int32_t *to) {
	float four[4] = {0};
	if (n >= 4) memcpy(four, x, 16);
	else for (int64_t j = 0; j < n; j++) four[j] = x[j];
	round_four(four, factor, to);
}

static void quantize_rows(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *p = arg;
	for (int64_t i = begin; i < end; i++) {
		const float *x = p->x + i * p->xm;
		int8_t *to = p->rows + i * p->pitch;
		int32_t sum = 0, number[4];
		float factor;
		memset(to, 0, (size_t)p->pitch);
		p->rowsum[i] = 0;
		planes_step(greatest(x, p->K), p->rowscale + i, &factor);
		for (int64_t k = 0; factor && k < p->K; k += 4) {
			integers(x + k, p->K - k, factor, number);
			for (int j = 0; j < 4; j++) {
				to[k + j] = (int8_t)number[j];
				sum += number[j];
			}
		}
		p->rowsum[i] = sum;
	}
}

static void round_rows(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *p = arg;
	for (int64_t i = begin; i < end; i++)
		for (int64_t g = 0; g < p->K; g += p->q->group) {
			const float *x = p->x + i * p->xm + g;
			float *to = p->rounded + i * p->K + g, scale, factor;
			const int64_t n = least(p->q->group, p->K - g);
			planes_step(greatest(x, n), &scale, &factor);
			for (int64_t k = 0; k < n; k += 4) {
				int32_t number[4] = {0};
				if (factor) integers(x + k, n - k, factor, number);
				for (int64_t j = 0; j < least(4, n - k); j++) to[k + j] = (float)number[j] * scale;
			}
		}
}

// Stores the columns of rows that exist.
static void store(const work *p, int64_t panel, int64_t row, int rows, const float *c) {
	const int64_t j = panel * TLK_PANEL, n = least(TLK_PANEL, p->N - j);
	for (int i = 0; i < rows; i++, c += TLK_PANEL) {
		float *to = p->c + (row + i) * p->N + j;
		if (p->bias) for (int64_t k = 0; k < n; k++) to[k] = c[k] + p->bias[j + k];
		else memcpy(to, c, (size_t)n * 4);
	}
}

static void int8_block(const work *p, int64_t panel, int64_t from, int64_t to) {
	float out[TLK_INT8_ROWS * TLK_PANEL];
	int32_t c[TLK_INT8_ROWS * TLK_PANEL];
	float scale[TLK_PANEL];
	memcpy(scale, p->scale + panel * TLK_PANEL * 4, sizeof scale);
	for (int64_t i = from; i < to; i += TLK_INT8_ROWS) {
		const int rows = (int)least(TLK_INT8_ROWS, to - i);
		p->int8(rows, p->words, p->rows + i * p->pitch, p->pitch, p->rowsum + i, p->w + panel * p->words * TLK_PANEL, c);
		for (int r = 0; r < rows; r++)
			for (int n = 0; n < TLK_PANEL; n++)
				out[r * TLK_PANEL + n] = (float)c[r * TLK_PANEL + n] * (p->rowscale[i + r] * scale[n]);
		store(p, panel, i, rows, out);
	}
}

// Panels from `panel` on, for rows from row on: one panel and up to panel_rows rows, or row_panels panels and one row.
static void tile(const work *p, int64_t panel, int panels, int64_t row, int rows, float *c) {
	const int64_t table = panel * p->groups * TLK_PANEL;
	p->t->panel(p->q, rows, panels, p->K, p->x + row * p->xm, p->xm, p->sums ? p->sums + row * p->groups : p->x,
		p->groups, p->w + panel * p->words * TLK_PANEL, p->scale + table * (p->q->bits == 8 ? 4 : 2),
		p->offset ? p->offset + table : NULL, c);
}

static void block(const work *p, int64_t panel, int64_t from, int64_t to) {
	float c[16 * TLK_PANEL];
	for (int64_t i = from; i < to;) {
		int rows = (int)least(p->t->panel_rows, to - i);
		if (rows < p->t->panel_rows && rows > TLK_TILE_ROWS) rows = TLK_TILE_ROWS;
		tile(p, panel, 1, i, rows, c);
		store(p, panel, i, rows, c);
		i += rows;
	}
}

// tile of a row that is in planes.
static void plane_tile(const work *p, int64_t panel, int panels, int64_t row, float *c) {
	const int64_t table = panel * p->groups * TLK_PANEL;
	p->planes->panels(p->q, panels, p->K, p->rows + row * PLANES_BYTES * p->pitch, p->pitch,
		p->blocks + row * p->row_blocks, p->sums ? p->sums + row * p->groups : NULL, p->w + panel * p->words * TLK_PANEL,
		p->scale + table * (p->q->bits == 8 ? 4 : 2), p->offset ? p->offset + table : NULL, c);
}

static void split_rows(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *p = arg;
	for (int64_t i = begin; i < end; i++) {
		float *sums = p->q->dynamic && p->sums ? p->sums + i * p->groups : NULL;
		p->whole[i] = p->planes->split(p->q, p->K, p->x + i * p->xm, p->rows + i * PLANES_BYTES * p->pitch, p->pitch,
			p->blocks + i * p->row_blocks, sums);
	}
}

// Whether rows are int8, for weights of 8 bits.
static int of_int8(const work *p) { return p->q->dynamic && p->q->bits == 8; }

// Whether each row is multiplied alone.
static int alone(const work *p) { return !of_int8(p) && p->M < least(p->t->panel_rows, TLK_TILE_ROWS); }

// Panels of rows that do not fill a low tile.
static void few(const work *p, int64_t begin, int64_t end) {
	float c[16 * TLK_PANEL];
	for (int64_t i = begin; i < end;) {
		const int panels = end - i < p->t->row_panels ? 1 : p->t->row_panels;
		for (int64_t row = 0; row < p->M; row++) {
			if (p->planes && p->whole[row]) plane_tile(p, i, panels, row, c);
			else tile(p, i, panels, row, 1, c);
			for (int k = 0; k < panels; k++) store(p, i + k, row, 1, c + k * TLK_PANEL);
		}
		i += panels;
	}
}

static void job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	const work *p = arg;
	if (alone(p)) {
		few(p, begin, end);
		return;
	}
	for (int64_t i = begin; i < end; i++) {
		const int64_t from = i / p->panels * ROWS, to = least(from + ROWS, p->M);
		(of_int8(p) ? int8_block : block)(p, i % p->panels, from, to);
	}
}

// Panels of a claim of few rows. A row multiplies row_panels panels at a time, which share its terms and hide the
// latency of their sums. Up to TILES such tiles that follow each other are claimed, so that a thread reads on at the
// rate of memory: as many as leave the busiest thread the fewest panels.
static int64_t few_claim(const work *p, int64_t claim, int threads) {
	const int64_t one = p->t->row_panels;
	int64_t most = INT64_MAX, best = claim;
	for (int64_t c = one; c <= TILES * one; c += one) {
		const int64_t busiest = ((p->panels + c - 1) / c + threads - 1) / threads * c;
		if (c < claim || busiest > most) continue;
		most = busiest;
		best = c;
	}
	return best < one ? one : best;
}

// room gives the place of an array behind size bytes, and adds its bytes.
static int64_t room(int64_t *size, int64_t bytes) {
	const int64_t at = *size;
	*size += (bytes + 63) & ~63;
	return at;
}

// Makes what a run needs of the rows: planes, integers or rounded floats, and the sums of groups. The result is 0, or
// the bytes that there is no memory for.
static int64_t prepare(work *p, tl_pool *pool) {
	const tl_quantized *q = p->q;
	const int64_t grain = GRAIN / (p->K + 1) + 1;
	const int int8 = of_int8(p), rounded = q->dynamic && !int8 && !p->planes;
	int64_t size = 0;
	if (p->planes) {
		p->pitch += TLK_TERMS; // split stores whole vectors
		p->row_blocks = q->bits == 8 ? (p->K + PLANES_BLOCK - 1) / PLANES_BLOCK :
			p->groups * ((least(q->group, p->K) + PLANES_CHUNK - 1) / PLANES_CHUNK);
	}
	const int64_t sums = room(&size, q->offset ? p->M * p->groups * 4 : 0);
	const int64_t scales = room(&size, int8 ? p->M * 8 : 0);
	const int64_t blocks = room(&size, p->planes ? p->M * p->row_blocks * (int64_t)sizeof(tl_plane_block) : 0);
	const int64_t whole = room(&size, p->planes ? p->M * 4 : 0);
	const int64_t rows = room(&size, p->planes ? p->M * PLANES_BYTES * p->pitch : int8 ? p->M * p->pitch : 0);
	const int64_t floats = room(&size, rounded ? p->M * p->K * 4 : 0);
	char *mem = size ? tl_scratch(pool, -1, size) : NULL;
	if (size && !mem) return size;
	p->rowscale = (float *)(mem + scales);
	p->rowsum = (int32_t *)(mem + scales) + p->M;
	p->rows = (int8_t *)(mem + rows);
	p->blocks = (tl_plane_block *)(mem + blocks);
	p->whole = (int *)(mem + whole);
	p->rounded = (float *)(mem + floats);
	if (q->offset) p->sums = (float *)(mem + sums);
	if (int8) tl_parallel_whole(pool, p->M, grain, quantize_rows, p);
	if (rounded) {
		tl_parallel_whole(pool, p->M, grain, round_rows, p);
		p->x = p->rounded;
		p->xm = p->K;
	}
	if (q->offset && !(q->dynamic && p->planes)) tl_parallel_whole(pool, p->M, grain, sum_groups, p);
	if (p->planes) tl_parallel_whole(pool, p->M, grain, split_rows, p);
	return 0;
}

int64_t tl_run_quantized(const tl_quantized *q, tl_pool *pool, int isa, char **buf, const int64_t *par) {
	work p = {.q = q, .t = tl_isa_tables(isa), .int8 = tl_int8_kernel(isa), .M = par[0], .N = par[1], .K = par[2],
		.xm = par[3], .x = (const float *)buf[0] + par[AT_X], .w = (const uint32_t *)buf[1] + par[AT_W]};
	const int64_t width = q->bits == 8 ? 4 : 2;
	p.scale = buf[2] + par[AT_SCALE] * width;
	int b = 3;
	if (q->offset) p.offset = (const uint16_t *)buf[b++] + par[AT_OFFSET];
	if (q->bias) p.bias = (const float *)buf[b++] + par[AT_BIAS];
	p.c = (float *)buf[b];
	p.groups = (p.K + q->group - 1) / q->group;
	p.panels = (p.N + TLK_PANEL - 1) / TLK_PANEL;
	p.pitch = (p.K + TLK_TERMS - 1) / TLK_TERMS * TLK_TERMS;
	p.words = q->bits == 8 ? p.pitch / 4 : (p.K + 7) / 8;
#if defined(__x86_64__)
	if (alone(&p) && p.t->row_panels == PLANES_PANELS) p.planes = tl_planes_of(isa);
#endif
	const int64_t missing = prepare(&p, pool);
	if (missing) return missing;
	int64_t claim = GRAIN / (TLK_PANEL * least(p.M, ROWS) * (p.K + 1)) + 1;
	if (claim > p.t->row_panels) claim -= claim % p.t->row_panels;
	const int64_t n = (p.M + ROWS - 1) / ROWS * p.panels;
	if (alone(&p)) tl_parallel_guided(pool, n, few_claim(&p, claim, tl_pool_threads(pool)), job, &p);
	else tl_parallel(pool, n, claim, job, &p);
	return 0;
}
