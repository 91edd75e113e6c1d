// Attention in tiles: a task owns ROWS rows of one side and walks blocks of COLS rows of the other side, the stream.
// The own side is queries, or keys in the gradient of k and v. The stream is packed beforehand into panels for the GEMM
// micro-kernel. Scores exist for one tile at a time (Dao et al., FlashAttention, 2022).
//
// The passes, with S the scores and D the cotangents of the weights:
//	forward:  S = Q K',            O += online softmax step of S, times V
//	dq:       S = Q K', D = G V',  dQ += weight(S)*(D - delta) K
//	dk, dv:   S = K Q', D = V G',  dV += weight(S) G, dK += weight(S)*(D - delta) Q
//	joint:    dk, dv, and dQ += (weight(S)*(D - delta))' K: five products in place of seven; a task owns a whole head
//	dmask:    S = Q K', D = G V',  dmask += weight(S)*(D - delta)
//
// A forward pass of FEW rows reads keys and values where they lie: panels would take longer than the products.
//
// The scale is in Q. Dropout multiplies the weights and D by a tile of factors that each pass draws again. A task adds
// in a fixed order, so that results do not depend on the number of threads.
#include <math.h>
#include <string.h>
#include "vector/cpu.h"

enum { ROWS = 64, COLS = 128, WIDTH = 256, FEW = 4, KEEP = 32 << 20 };

// A worker's memory, in floats: two operands, two results, three tiles. It is not on the stack, since threads of
// embedding programs may have small stacks.
enum { ROOM_SIDE = ROWS * WIDTH, ROOM_TILE = ROWS * COLS, ROOM = 4 * ROOM_SIDE + 3 * ROOM_TILE };

// An operand with its strides, and the packed forms of one of its heads.
typedef struct {
	const char *p;
	int64_t batch, head, row, col, width;
	float scale;
	// Offsets, in floats, of the transposed and of the straight panels within a head's packed memory; -1: not packed.
	int64_t across, down;
} side;

typedef struct {
	const tl_isa_table *t;
	const tl_attention *a;
	char **buf;
	const int64_t *par;
	int64_t batch, heads, group, queries, keys;
	int64_t rows, cols, streams; // rows of the own side and of the streamed side; number of streamed heads
	side mine[2], theirs[2];     // q or k, then v or g
	float *packed;
	float *room;         // of all workers
	int64_t head_floats; // packed floats of one streamed head
	int64_t blocks;      // blocks of rows in a head
	int nr;
	int64_t width[2];    // columns of the accumulators, in whole panels
	float scale, rate;
	const float *stats;
	int joint;           // dk, dv, and dq too
	int few;             // keys and values are not packed
	float *dq;           // of all workers: dq of a task's heads, and panels of its k
	int64_t dq_floats;   // of one worker
} attention;

// Rows of an operand as floats; step is the number of elements from one row to the next.
typedef struct {
	const float *p;
	int64_t step;
} rows_at;

static float element(int type, const char *p, int64_t i) {
	switch (type) {
	case TLK_F16: return tl_widen_f16(((const uint16_t *)p)[i]);
	case TLK_BF16: return tl_widen_bf16(((const uint16_t *)p)[i]);
	}
	return ((const float *)p)[i];
}

static void narrow(int type, char *p, int64_t i, float v) {
	switch (type) {
	case TLK_F16: ((uint16_t *)p)[i] = tl_narrow_f16(v); return;
	case TLK_BF16: ((uint16_t *)p)[i] = tl_narrow_bf16(v); return;
	}
	((float *)p)[i] = v;
}

static const char *head_of(const attention *x, const side *s, int64_t b, int64_t h) {
	return s->p + (b * s->batch + h * s->head) * tl_type_size(x->a->type);
}

// Copies n rows of a head from row r0 on to dense rows, scaled.
static void copy_rows(const attention *x, const side *s, const char *head, int64_t r0, int64_t n, float *to) {
	int type = x->a->type;
	int64_t width = s->width, col = s->col;
	float scale = s->scale;
	for (int64_t r = 0; r < n; r++, to += width) {
		int64_t at = (r0 + r) * s->row;
		if (type == TLK_F32 && col == 1) {
			const float *restrict from = (const float *)head + at;
			float *restrict into = to;
			for (int64_t c = 0; c < width; c++) into[c] = from[c] * scale;
		} else {
			for (int64_t c = 0; c < width; c++) to[c] = element(type, head, at + c * col) * scale;
		}
	}
}

// Returns n rows of a head from r0 on: in place if they need neither conversion nor scaling, else copied to room.
static rows_at rows_of(const attention *x, const side *s, int64_t b, int64_t h, int64_t r0, int64_t n, float *room) {
	const char *head = head_of(x, s, b, h);
	if (x->a->type == TLK_F32 && s->col == 1 && s->scale == 1) return (rows_at){(const float *)head + r0 * s->row, s->row};
	copy_rows(x, s, head, r0, n, room);
	return (rows_at){room, s->width};
}

static int64_t whole(int64_t n, int64_t nr) { return (n + nr - 1) / nr * nr; }

// Packs COLS rows of each streamed head: transposed panels [panel of nr rows][column][nr], and straight panels [panel
// of nr columns][row][nr].
static void pack_job(void *arg, int worker, int64_t begin, int64_t end) {
	attention *x = arg;
	float *room = x->room + worker * ROOM; // COLS * WIDTH of it
	int64_t blocks = (x->cols + COLS - 1) / COLS, nr = x->nr;
	for (int64_t i = begin; i < end; i++) {
		int64_t h = i / blocks, r0 = i % blocks * COLS, n = x->cols - r0 < COLS ? x->cols - r0 : COLS;
		float *mem = x->packed + h * x->head_floats;
		for (int k = 0; k < 2; k++) {
			const side *s = &x->theirs[k];
			if (s->across < 0 && s->down < 0) continue;
			rows_at rows = rows_of(x, s, h / x->streams, h % x->streams, r0, n, room);
			for (int64_t r = 0; s->across >= 0 && r < n; r += nr)
				x->t->packb32(rows.p + r * rows.step, 1, rows.step, s->width, n - r < nr ? n - r : nr, mem + s->across +
					(r0 + r) * s->width);
			for (int64_t c = 0; s->down >= 0 && c < s->width; c += nr)
				x->t->packb32(rows.p + c, rows.step, 1, n, s->width - c < nr ? s->width - c : nr, mem + s->down + c * x->cols +
					r0 * nr);
		}
	}
}

// c += a b, or c = a b if first is set, for nr columns, in tiles of nearly equal heights.
static void product(const attention *x, int64_t rows, int64_t kc, const float *a, int64_t am, int64_t ak,
	const float *b, float *c, int64_t cm, int first) {
	int64_t most = ak == 1 && am != 1 ? x->t->along : x->t->mr32, tiles = (rows + most - 1) / most, n;
	for (int64_t m = 0; m < rows; m += n, tiles--) {
		n = (rows - m + tiles - 1) / tiles;
		x->t->gemm32((int)n, kc, a + m * am, am, ak, b, x->nr, c + m * cm, cm, first);
	}
}

// tile = products of the own rows with n rows of the stream from c0 on.
static void scores(const attention *x, int64_t rows, int64_t n, rows_at mine, const side *s, const float *mem,
	int64_t c0, float *tile) {
	for (int64_t j = 0; j < n; j += x->nr) product(x, rows, s->width, mine.p, mine.step, 1, mem + s->across +
		(c0 + j) * s->width, tile + j, COLS, 1);
}

// out += tile times n rows of the stream from c0 on.
static void gather(const attention *x, int64_t rows, int64_t n, const float *tile, const side *s, const float *mem,
	int64_t c0, float *out, int64_t w) {
	for (int64_t j = 0; j < w; j += x->nr) product(x, rows, n, tile, COLS, 1, mem + s->down + j * x->cols + c0 * x->nr,
		out + j, w, 0);
}

// Sets scores to -inf: the padding beyond column n, those of keys after the query if the pass is causal, and those that
// a bool mask excludes. A mask of numbers is added. swapped: rows are keys.
static void restrict_scores(const attention *x, int64_t b, int64_t h, int64_t r0, int64_t rows, int64_t c0, int64_t n,
	float *tile, int swapped) {
	const tl_attention *a = x->a;
	for (int64_t r = 0; a->mask && r < rows; r++) {
		const int64_t *p = x->par + a->m;
		int64_t rs = swapped ? p[3] : p[2], cs = swapped ? p[2] : p[3];
		int64_t at = b * p[0] + h * p[1] + (r0 + r) * rs + c0 * cs + p[4];
		float *s = tile + r * COLS;
		if (a->mask == TLK_BOOL) {
			const char *m = x->buf[a->bm] + at;
			for (int64_t c = 0; c < n; c++) s[c] = m[c * cs] ? s[c] : -INFINITY;
		} else {
			for (int64_t c = 0; c < n; c++) s[c] += element(a->mask, x->buf[a->bm], at + c * cs);
		}
	}
	int64_t padded = whole(n, x->nr);
	for (int64_t r = 0; r < rows; r++) {
		float *s = tile + r * COLS;
		int64_t from = 0, to = n, edge = r0 + r - c0; // edge: the column whose number is the row's
		if (a->causal && swapped) from = edge < 0 ? 0 : edge < n ? edge : n;
		if (a->causal && !swapped) to = edge < 0 ? 0 : edge + 1 < n ? edge + 1 : n;
		for (int64_t c = 0; c < from; c++) s[c] = -INFINITY;
		for (int64_t c = to; c < padded; c++) s[c] = -INFINITY;
	}
}

// Draws the factors of dropout of a tile: 0 or 1 / (1 - rate). launch.Attention.Dropout says which number of the stream
// each element takes. swapped: rows are keys.
static void draw(const attention *x, int64_t b, int64_t h, int64_t r0, int64_t rows, int64_t c0, int64_t n, float *keep,
	int swapped) {
	uint64_t seed = (uint64_t)x->par[x->a->seed], draw_offset = (uint64_t)x->par[x->a->draw_offset];
	int64_t queries = swapped ? n : rows, keys = swapped ? rows : n, q0 = swapped ? c0 : r0, k0 = swapped ? r0 : c0;
	int64_t rs = swapped ? 1 : COLS, cs = swapped ? COLS : 1, fours = (x->keys + 3) / 4;
	float scale = 1 / (1 - x->rate);
	for (int64_t i = 0; i < queries; i++) {
		int64_t row = (b * x->heads + h) * x->queries + q0 + i;
		uint64_t pairs[COLS / 2 + 2 * TLK_PHILOX];
		x->t->draws((uint64_t)(row * fours + k0 / 4), draw_offset, seed, (keys + 3) / 4, pairs); // k0 is a multiple of four
		for (int64_t j = 0; j < keys; j++) {
			uint32_t word = (uint32_t)(pairs[j / 2] >> j % 2 * 32);
			keep[i * rs + j * cs] = (float)(word >> 8) * 0x1p-24f < x->rate ? 0 : scale;
		}
	}
}

static void multiply(int64_t rows, int64_t n, float *tile, const float *keep) {
	for (int64_t r = 0; r < rows; r++, tile += COLS, keep += COLS) {
		for (int64_t c = 0; c < n; c++) tile[c] *= keep[c];
	}
}

// Writes n rows of length width to a dense result [batch, row, head, column].
static void store(const attention *x, int buf, const float *v, int64_t w, int64_t length, int64_t width, int64_t b,
	int64_t h, int64_t heads, int64_t r0, int64_t n, float scale, const float *divisor) {
	for (int64_t r = 0; r < n; r++, v += w) {
		int64_t at = ((b * length + r0 + r) * heads + h) * width;
		// A row without keys has sum 0 and becomes 0. NaN propagates.
		float f = divisor ? (divisor[r] == 0 ? 0 : 1 / divisor[r]) : scale;
		if (x->a->type == TLK_F32) {
			float *to = (float *)x->buf[buf] + at;
			for (int64_t c = 0; c < width; c++) to[c] = v[c] * f;
			continue;
		}
		for (int64_t c = 0; c < width; c++) narrow(x->a->type, x->buf[buf], at + c, v[c] * f);
	}
}

// Finds the keys among n from c0 on that some of few rows see: those from `from` to below the result. Keys outside
// have weight 0, so nothing of them is read, as of the places of a cache that have no token yet.
static int64_t few_seen(const attention *x, int64_t b, int64_t h, int64_t r0, int64_t rows, int64_t c0, int64_t n,
	int64_t *from) {
	const tl_attention *a = x->a;
	*from = 0;
	if (a->mask != TLK_BOOL) return n;
	const int64_t *p = x->par + a->m;
	int64_t first = n, end = 0;
	for (int64_t r = 0; r < rows; r++) {
		const char *m = x->buf[a->bm] + b * p[0] + h * p[1] + (r0 + r) * p[2] + c0 * p[3] + p[4];
		int64_t c = 0, d = n;
		while (c < first && !m[c * p[3]]) c++;
		while (d > end && !m[(d - 1) * p[3]]) d--;
		first = c, end = d;
	}
	*from = first < end ? first : end;
	return end;
}

// The products of few rows with n keys from c0 on.
static void few_scores(const attention *x, int64_t b, int64_t h, int64_t rows, int64_t n, rows_at mine, int64_t c0,
	float *tile) {
	const side *k = &x->theirs[0];
	const float *keys = (const float *)head_of(x, k, b, h) + c0 * k->row;
	for (int64_t r = 0; r < rows; r++)
		x->t->dot32(n, k->width, mine.p + r * mine.step, 1, keys, k->row, tile + r * COLS, 1);
}

// out += few rows of weights times n values from c0 on.
static void few_gather(const attention *x, int64_t b, int64_t h, int64_t rows, int64_t n, const float *tile, int64_t c0,
	float *out, int64_t w) {
	const side *v = &x->theirs[1];
	const float *values = (const float *)head_of(x, v, b, h) + c0 * v->row;
	for (int64_t r = 0; r < rows; r++)
		x->t->addrows32(v->width, n, tile + r * COLS, 1, values, v->row, out + r * w);
}

static void forward_job(void *arg, int worker, int64_t begin, int64_t end) {
	attention *x = arg;
	float *q = x->room + worker * ROOM, *out = q + ROOM_SIDE, *tile = out + ROOM_SIDE, *keep = tile + ROOM_TILE, top[ROWS],
		sum[ROWS];
	for (int64_t i = begin; i < end; i++) {
		// The last rows of a causal head take longest, so they come first.
		int64_t head = i / x->blocks, b = head / x->heads, h = head % x->heads, r0 = (x->blocks - 1 - i % x->blocks) * ROWS;
		int64_t rows = x->rows - r0 < ROWS ? x->rows - r0 : ROWS, w = x->width[1];
		int64_t end_col = x->a->causal && r0 + rows < x->cols ? r0 + rows : x->cols;
		const float *mem = x->packed + (b * x->streams + h / x->group) * x->head_floats;
		rows_at mine = rows_of(x, &x->mine[0], b, h, r0, rows, q);
		memset(out, 0, (size_t)(rows * w) * sizeof(float));
		for (int64_t r = 0; r < rows; r++) top[r] = -INFINITY, sum[r] = 0;
		for (int64_t c0 = 0; c0 < end_col; c0 += COLS) {
			int64_t n = end_col - c0 < COLS ? end_col - c0 : COLS, from = 0, to = n;
			if (x->few) to = few_seen(x, b, h, r0, rows, c0, n, &from);
			if (from == to) continue;
			if (x->few) few_scores(x, b, h / x->group, rows, to - from, mine, c0 + from, tile + from);
			else scores(x, rows, n, mine, &x->theirs[0], mem, c0, tile);
			restrict_scores(x, b, h, r0, rows, c0, n, tile, 0);
			x->t->attention_softmax(rows, whole(n, x->nr), tile, COLS, top, sum, out, w);
			if (x->a->dropout) {
				draw(x, b, h, r0, rows, c0, n, keep, 0);
				multiply(rows, n, tile, keep);
			}
			if (x->few) few_gather(x, b, h / x->group, rows, to - from, tile + from, c0 + from, out, w);
			else gather(x, rows, n, tile, &x->theirs[1], mem, c0, out, w);
		}
		store(x, x->a->out0, out, w, x->rows, x->mine[1].width, b, h, x->heads, r0, rows, 0, sum);
		float *lse = (float *)x->buf[x->a->out1] + head * x->rows + r0;
		for (int64_t r = 0; r < rows; r++) lse[r] = sum[r] == 0 ? INFINITY : top[r] + logf(sum[r]);
	}
}

// A task of the gradients of k and v: its block of keys (r0, rows), the batch b and query head h that read them, and
// the task's memory.
typedef struct {
	int64_t b, h, r0, rows;
	rows_at k, v;
	float *dk, *dv, *tile, *panels; // tile: the first of three; panels: of k, for dq
} own;

// Splits the statistics of n rows into lse and delta.
static void split_stats(const float *stats, int64_t n, float *lse, float *delta) {
	for (int64_t i = 0; i < n; i++) lse[i] = stats[2 * i], delta[i] = stats[2 * i + 1];
}

// Computes in dp the cotangents of the scores of a tile, for rows of queries from r0 on and n keys from c0 on; mem
// holds the packed keys and values.
static void cotangents(const attention *x, int64_t b, int64_t h, int64_t r0, int64_t rows, int64_t c0, int64_t n,
	rows_at q, rows_at g, const float *mem, float *tile, float *dp, float *keep, const float *lse, const float *delta) {
	scores(x, rows, n, q, &x->theirs[0], mem, c0, tile);
	scores(x, rows, n, g, &x->theirs[1], mem, c0, dp);
	restrict_scores(x, b, h, r0, rows, c0, n, tile, 0);
	if (x->a->dropout) {
		draw(x, b, h, r0, rows, c0, n, keep, 0);
		multiply(rows, n, dp, keep);
	}
	x->t->attention_weights(rows, n, tile, dp, COLS, lse, delta, 0);
}

static void gradq_job(void *arg, int worker, int64_t begin, int64_t end) {
	attention *x = arg;
	float *q = x->room + worker * ROOM, *g = q + ROOM_SIDE, *dq = g + ROOM_SIDE, *tile = dq + ROOM_SIDE,
		*dp = tile + ROOM_TILE, *keep = dp + ROOM_TILE, lse[ROWS], delta[ROWS];
	for (int64_t i = begin; i < end; i++) {
		int64_t head = i / x->blocks, b = head / x->heads, h = head % x->heads, r0 = (x->blocks - 1 - i % x->blocks) * ROWS;
		int64_t rows = x->rows - r0 < ROWS ? x->rows - r0 : ROWS, w = x->width[0];
		int64_t end_col = x->a->causal && r0 + rows < x->cols ? r0 + rows : x->cols;
		const float *mem = x->packed + (b * x->streams + h / x->group) * x->head_floats;
		rows_at mineq = rows_of(x, &x->mine[0], b, h, r0, rows, q), mineg = rows_of(x, &x->mine[1], b, h, r0, rows, g);
		split_stats(x->stats + 2 * (head * x->rows + r0), rows, lse, delta);
		memset(dq, 0, (size_t)(rows * w) * sizeof(float));
		for (int64_t c0 = 0; c0 < end_col; c0 += COLS) {
			int64_t n = end_col - c0 < COLS ? end_col - c0 : COLS;
			cotangents(x, b, h, r0, rows, c0, n, mineq, mineg, mem, tile, dp, keep, lse, delta);
			gather(x, rows, n, dp, &x->theirs[0], mem, c0, dq, w);
		}
		store(x, x->a->out0, dq, w, x->rows, x->mine[0].width, b, h, x->heads, r0, rows, x->scale, NULL);
	}
}

// Adds to dk and dv what a block of queries from c0 on contributes. If dq is not NULL, also adds to it the transposed
// tile of score cotangents times the own panels of k.
static void gradkv_block(const attention *x, const own *o, int64_t c0, float *dq) {
	int64_t n = x->cols - c0 < COLS ? x->cols - c0 : COLS, stream = o->b * x->heads + o->h;
	const float *mem = x->packed + stream * x->head_floats;
	float lse[COLS], delta[COLS], *tile = o->tile, *dp = tile + ROOM_TILE, *keep = dp + ROOM_TILE;
	scores(x, o->rows, n, o->k, &x->theirs[0], mem, c0, tile);
	scores(x, o->rows, n, o->v, &x->theirs[1], mem, c0, dp);
	restrict_scores(x, o->b, o->h, o->r0, o->rows, c0, n, tile, 1);
	split_stats(x->stats + 2 * (stream * x->cols + c0), n, lse, delta);
	if (x->a->dropout) {
		draw(x, o->b, o->h, o->r0, o->rows, c0, n, keep, 1);
		multiply(o->rows, n, dp, keep);
	}
	x->t->attention_weights(o->rows, n, tile, dp, COLS, lse, delta, 1);
	if (x->a->dropout) multiply(o->rows, n, tile, keep);
	gather(x, o->rows, n, tile, &x->theirs[1], mem, c0, o->dv, x->width[1]);
	gather(x, o->rows, n, dp, &x->theirs[0], mem, c0, o->dk, x->width[0]);
	for (int64_t j = 0; dq && j < x->width[0]; j += x->nr)
		product(x, n, o->rows, dp, 1, COLS, o->panels + j * ROWS, dq + c0 * x->width[0] + j, x->width[0], 0);
}

// A task is a block of keys of a head, or in a joint pass a whole head.
static void gradkv_job(void *arg, int worker, int64_t begin, int64_t end) {
	attention *x = arg;
	float *k = x->room + worker * ROOM, *v = k + ROOM_SIDE, *dq = x->joint ? x->dq + worker * x->dq_floats : NULL;
	int64_t shared = x->heads / x->group, w = x->width[0], wv = x->width[1], each = x->cols * w;
	own o = {.dk = v + ROOM_SIDE, .dv = v + 2 * ROOM_SIDE, .tile = v + 3 * ROOM_SIDE, .panels = x->joint ? dq +
		x->group * each : NULL};
	for (int64_t i = begin; i < end; i++) {
		int64_t head = x->joint ? i : i / x->blocks, hk = head % shared;
		int64_t block = x->joint ? 0 : i % x->blocks, last = x->joint ? x->blocks : block + 1;
		o.b = head / shared;
		if (x->joint) memset(dq, 0, (size_t)(x->group * each) * sizeof(float));
		for (; block < last; block++) {
			o.r0 = block * ROWS;
			o.rows = x->rows - o.r0 < ROWS ? x->rows - o.r0 : ROWS;
			o.k = rows_of(x, &x->mine[0], o.b, hk, o.r0, o.rows, k);
			o.v = rows_of(x, &x->mine[1], o.b, hk, o.r0, o.rows, v);
			for (int64_t c = 0, width = x->mine[0].width; x->joint && c < width; c += x->nr)
				x->t->packb32(o.k.p + c, o.k.step, 1, o.rows, width - c < x->nr ? width - c : x->nr, o.panels + c * ROWS);
			memset(o.dk, 0, (size_t)(o.rows * w) * sizeof(float));
			memset(o.dv, 0, (size_t)(o.rows * wv) * sizeof(float));
			for (int64_t g = 0; g < x->group; g++) {
				o.h = hk * x->group + g;
				for (int64_t c0 = x->a->causal ? o.r0 / COLS * COLS : 0; c0 < x->cols; c0 += COLS)
					gradkv_block(x, &o, c0, x->joint ? dq + g * each : NULL);
			}
			// The packed q holds the scale already.
			store(x, x->a->out0, o.dk, w, x->rows, x->mine[0].width, o.b, hk, shared, o.r0, o.rows, 1, NULL);
			store(x, x->a->out1, o.dv, wv, x->rows, x->mine[1].width, o.b, hk, shared, o.r0, o.rows, 1, NULL);
		}
		for (int64_t g = 0; x->joint && g < x->group; g++)
			store(x, x->a->dq, dq + g * each, w, x->cols, x->mine[0].width, o.b, hk * x->group + g, x->heads, 0, x->cols,
				x->scale, NULL);
	}
}

static int64_t tiles(int64_t n, int64_t size) { return (n + size - 1) / size; }

// Writes a tile of the mask's gradient. Rows or columns that share an element of the mask are summed first.
static void store_mask(const attention *x, int64_t b, int64_t h, int64_t r0, int64_t rows, int64_t c0, int64_t n,
	float *total) {
	const int32_t *sum = x->a->sum;
	for (int64_t r = 1; sum[2] && r < rows; r++) {
		for (int64_t c = 0; c < n; c++) total[c] += total[r * COLS + c];
	}
	if (sum[2]) rows = 1;
	for (int64_t r = 0; sum[3] && r < rows; r++) {
		for (int64_t c = 1; c < n; c++) total[r * COLS] += total[r * COLS + c];
	}
	if (sum[3]) n = 1;
	int64_t heads = sum[1] ? 1 : x->heads, queries = sum[2] ? 1 : x->rows, keys = sum[3] ? 1 : x->cols;
	for (int64_t r = 0; r < rows; r++) {
		int64_t at = ((b * heads + h) * queries + r0 + r) * keys + c0;
		for (int64_t c = 0; c < n; c++) narrow(x->a->mask, x->buf[x->a->out0], at + c, total[r * COLS + c]);
	}
}

// A task owns a tile of the mask and adds up all tiles of score cotangents that share it.
static void gradmask_job(void *arg, int worker, int64_t begin, int64_t end) {
	attention *x = arg;
	float *q = x->room + worker * ROOM, *g = q + ROOM_SIDE, *total = g + ROOM_SIDE, *tile = total + 2 * ROOM_SIDE,
		*dp = tile + ROOM_TILE, *keep = dp + ROOM_TILE, lse[ROWS], delta[ROWS];
	const int32_t *sum = x->a->sum;
	int64_t size[4] = {x->batch, x->heads, x->rows, x->cols}, step[4] = {1, 1, ROWS, COLS};
	for (int64_t i = begin; i < end; i++) {
		int64_t from[4] = {0}, to[4], rest = i;
		for (int d = 3; d >= 0; d--) {
			to[d] = size[d];
			if (sum[d]) continue;
			int64_t n = tiles(size[d], step[d]);
			from[d] = rest % n * step[d];
			to[d] = from[d] + step[d] < size[d] ? from[d] + step[d] : size[d];
			rest /= n;
		}
		memset(total, 0, ROOM_TILE * sizeof(float));
		for (int64_t b = from[0]; b < to[0]; b++) {
			for (int64_t h = from[1]; h < to[1]; h++) {
				const float *mem = x->packed + (b * x->streams + h / x->group) * x->head_floats;
				for (int64_t r0 = from[2]; r0 < to[2]; r0 += ROWS) {
					int64_t rows = to[2] - r0 < ROWS ? to[2] - r0 : ROWS;
					rows_at mineq = rows_of(x, &x->mine[0], b, h, r0, rows, q), mineg = rows_of(x, &x->mine[1], b, h, r0, rows, g);
					split_stats(x->stats + 2 * ((b * x->heads + h) * x->rows + r0), rows, lse, delta);
					for (int64_t c0 = from[3]; c0 < to[3]; c0 += COLS) {
						int64_t n = to[3] - c0 < COLS ? to[3] - c0 : COLS;
						cotangents(x, b, h, r0, rows, c0, n, mineq, mineg, mem, tile, dp, keep, lse, delta);
						for (int64_t r = 0; r < rows; r++) {
							for (int64_t c = 0; c < n; c++) total[r * COLS + c] += dp[r * COLS + c];
						}
					}
				}
			}
		}
		int64_t rows = to[2] - from[2] < ROWS ? to[2] - from[2] : ROWS, n = to[3] - from[3] < COLS ? to[3] - from[3] : COLS;
		store_mask(x, from[0], from[1], from[2], rows, from[3], n, total);
	}
}

static side operand(const attention *x, int buf, int at, int64_t width, float scale) {
	const int64_t *p = x->par + at;
	return (side){x->buf[buf] + p[4] * tl_type_size(x->a->type), p[0], p[1], p[2], p[3], width, scale, -1, -1};
}

// Decides which packed forms the pass reads. Returns the number of packed floats of all heads.
static int64_t plan_pack(attention *x) {
	int pass = x->a->pass;
	int forms[2][2] = {{1, pass == 1 || pass == 2}, {pass != 0, pass == 0 || pass == 2}}; // transposed, straight
	int64_t at = 0;
	for (int k = 0; k < 2; k++) {
		side *s = &x->theirs[k];
		if (forms[k][0]) {
			s->across = at;
			at += whole(x->cols, x->nr) * s->width;
		}
		if (forms[k][1]) {
			s->down = at;
			at += whole(s->width, x->nr) * x->cols;
		}
	}
	x->head_floats = (at + 15) & ~(int64_t)15;
	return x->head_floats * x->batch * x->streams;
}

int64_t tl_run_attention(const tl_attention *a, tl_pool *pool, int isa, char **buf, const int64_t *par) {
	attention x = {.t = tl_isa_tables(isa), .a = a, .buf = buf, .par = par, .batch = par[a->batch], .heads = par[a->heads],
		.group = par[a->heads] / par[a->keyheads], .queries = par[a->queries], .keys = par[a->keys]};
	int32_t scale = (int32_t)par[a->scale];
	memcpy(&x.scale, &scale, sizeof scale);
	if (a->dropout) {
		int32_t rate = (int32_t)par[a->rate];
		memcpy(&x.rate, &rate, sizeof rate);
	}
	x.nr = x.t->nr32;
	int64_t e = par[a->width], ev = par[a->widthv], shared = par[a->keyheads];
	side q = operand(&x, a->bq, a->q, e, x.scale), k = operand(&x, a->bk, a->k, e, 1), v = operand(&x, a->bv, a->v, ev, 1);
	side g = {.width = ev};
	if (a->pass) {
		g = operand(&x, a->bg, a->g, ev, 1);
		x.stats = (const float *)buf[a->bstats];
	}
	int swapped = a->pass == 2;
	side qg[2] = {q, g}, kv[2] = {k, v};
	memcpy(x.mine, swapped ? kv : qg, sizeof qg);
	memcpy(x.theirs, swapped ? qg : kv, sizeof qg);
	x.rows = swapped ? x.keys : x.queries;
	x.cols = swapped ? x.queries : x.keys;
	x.streams = swapped ? x.heads : shared;
	x.width[0] = whole(e, x.nr);
	x.width[1] = whole(ev, x.nr);
	x.blocks = (x.rows + ROWS - 1) / ROWS;
	x.joint = swapped && a->dq >= 0;
	if (x.joint) x.dq_floats = (x.group * x.cols + ROWS) * x.width[0];
	x.few = !a->pass && x.rows <= FEW && a->type == TLK_F32 && k.col == 1 && v.col == 1;
	int64_t packed = x.few ? 0 : plan_pack(&x), threads = tl_pool_threads(pool),
		bytes = (packed + (ROOM + x.dq_floats) * threads) * (int64_t)sizeof(float);
	x.room = bytes <= KEEP ? tl_scratch(pool, 0, bytes) : tl_alloc(bytes);
	if (!x.room) return bytes;
	x.packed = x.room + ROOM * threads;
	x.dq = x.packed + packed;
	if (!x.few) tl_parallel(pool, x.batch * x.streams * ((x.cols + COLS - 1) / COLS), 1, pack_job, &x);
	int64_t tasks = x.batch * (swapped ? shared : x.heads) * (x.joint ? 1 : x.blocks);
	if (a->pass == 3) tasks = (a->sum[0] ? 1 : x.batch) * (a->sum[1] ? 1 : x.heads) * (a->sum[2] ? 1 :
		x.blocks) * (a->sum[3] ? 1 : tiles(x.cols, COLS));
	void (*jobs[])(void *, int, int64_t, int64_t) = {forward_job, gradq_job, gradkv_job, gradmask_job};
	tl_parallel(pool, tasks, 1, jobs[a->pass], &x);
	if (bytes > KEEP) tl_cpu_free(x.room);
	return 0;
}
