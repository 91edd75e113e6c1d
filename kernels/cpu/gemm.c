// The GEMM driver: blocking, packing, epilogues, and how threads share a product. The micro-kernels are in kern_gemm.h.
// Blocking follows Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
#include <string.h>
#include "vector/cpu.h"
#include "gemm_blocks.h"

typedef struct {
	const tl_isa_table *t;
	int isa;
	const tl_gemm *g;
	tl_pool *pool;
	int64_t M, N, K;
	const char *a, *b, *bias;
	const char *pack; // B in panels of all its rows, or NULL
	const char *apack; // A' in panels of all its rows, or NULL
	char *c;
	// The epilogue, or NULL. maps are its buffers: C, then its operands. In each, the matrix begins at element first.
	const tl_kern *epilogue;
	char *maps[1 + TLK_EPILOGUE_OPERANDS];
	int64_t first, row0; // row0: the number of the first row among those of all matrices
	int64_t am, ak, bk, bn, biasn, cm, cn;
	int mr, nr;
	char *packed;   // of all workers: the packed block of B
	int64_t apanel; // elements from one of its panels to the next
	int64_t k0, kc, n0, nc, r0, r1; // r0, r1: the rows of A that are packed
	int64_t kb;             // rows of the block of B
	int64_t mb, nb, ntasks; // rows and columns of a task; tasks across the columns
	int packs;              // A is packed
	int own;                // each worker packs the block of B
	int64_t bytes;          // of its block, 0 for none
	int64_t turn, owned[OWN_THREADS]; // number of the block of B, and of the one that a worker has packed
	char *block;     // of the caller: the rows of A that it works on
	int caller;
	// Only if B has several dims (nn > 0): their sizes and strides; row, the element at which each row of B begins;
	// extent, the number of elements up to B's end. apart: the elements of a row of A have no single stride, but runs
	// of arun of them have.
	int nk, nn, apart;
	int64_t ks[4], akd[4], bkd[4], ns[4], bnd[4], *row, extent, arun;
	// If columns are in the order of memory, they lie within span elements, as nstart runs of one length that begin at
	// the elements start. span is 0 if B is packed instead.
	int64_t span, nstart, *start;
	int windows; // computed as sums over windows
	int direct;  // positions of a line are rows of tiles, and read in place
	tl_plane plane; // of windows over the border of pictures
	int64_t copy;   // elements of a picture between zeros
	int transposed;      // C' = B' A' is computed: M and N, the operands and their strides are exchanged
	char **buf;
	const int64_t *par;
	int add;   // C += A B, of plain products
	int watch; // requests to stop are polled
	volatile int64_t oom;
} gemm;

// Whether the product is to stop midway. Its result is then not used.
static inline int cut(const gemm *x) { return x->watch && tl_stop_asked(x->pool); }

// Returns how many of a matrix's tiles of rows a block takes, FEW_TILES to `most`, so that threads which take blocks in
// turns end soonest. The last block may be short.
static int64_t even_blocks(int64_t tiles, int64_t most, int64_t threads) {
	int64_t best = most, soonest = INT64_MAX;
	for (int64_t each = most; each >= FEW_TILES; each--) {
		int64_t blocks = (tiles + each - 1) / each, rounds = (blocks + threads - 1) / threads;
		int64_t end = rounds * each;
		if (blocks % threads == 1) end -= blocks * each - tiles; // the last block is alone in its round
		if (end < soonest) soonest = end, best = each;
	}
	return best;
}

// Returns the elements of a piece of n, about `grain` and a multiple of unit, by which threads have equal shares.
static int64_t even_grain(int64_t n, int64_t grain, int64_t unit, int64_t threads) {
	const int64_t fit = n / grain, pieces = fit < threads ? (n + grain - 1) / grain : fit - fit % threads;
	return pieces < 2 ? grain : ((n + pieces - 1) / pieces + unit - 1) / unit * unit;
}

// Returns into how many blocks n positions are cut, which all threads share: as many as threads where the busiest of
// them then computes fewer tiles than if each takes a part of the panels, else one.
static int64_t turned_blocks(int64_t panels, int64_t n, int64_t mr, int64_t threads) {
	const int64_t part = (n + threads - 1) / threads;
	const int64_t by_panels = (panels + threads - 1) / threads * ((n + mr - 1) / mr);
	return panels * ((part + mr - 1) / mr) < by_panels ? threads : 1;
}

// Returns the terms of each part of K where windows are read in place: parts of about NEAR_K, nearly even.
static int64_t even_depth(int64_t k) {
	const int64_t parts = k < 2 * NEAR_K ? 1 : (k + NEAR_K / 2) / NEAR_K;
	return (k + parts - 1) / parts;
}

static void spread(const gemm *x, int64_t n, int64_t grain, tl_job job, gemm *arg) {
	if (x->watch) tl_parallel(x->pool, n, grain, job, arg);
	else tl_parallel_whole(x->pool, n, grain, job, arg);
}

// The element offset of index number i over dims.
static int64_t element(const int64_t *size, const int64_t *stride, int dims, int64_t i) {
	int64_t at = 0;
	for (int d = dims - 1; d >= 0; d--) {
		at += i % size[d] * stride[d];
		i /= size[d];
	}
	return at;
}

// The element offsets of the indices numbered from to from + n.
static void elements(const int64_t *size, const int64_t *stride, int dims, int64_t from, int64_t n, int64_t *to) {
	int64_t ix[4], at = element(size, stride, dims, from);
	for (int d = dims - 1; d >= 0; d--) {
		ix[d] = from % size[d];
		from /= size[d];
	}
	for (int64_t i = 0; i < n; i++) {
		to[i] = at;
		for (int d = dims - 1; d >= 0; d--) {
			at += stride[d];
			if (++ix[d] < size[d]) break;
			at -= size[d] * stride[d];
			ix[d] = 0;
		}
	}
}

// Lists the runs of columns among the n elements from element at on, and returns their number. A run counts its first
// element from at.
static int64_t runs_at(const gemm *x, int64_t at, int64_t n, tl_piece *run) {
	int64_t length = x->ns[x->nn - 1], low = 0, high = x->nstart, runs = 0;
	while (low < high) { // the first run that ends after at
		int64_t middle = (low + high) / 2;
		if (x->start[middle] + length > at) high = middle;
		else low = middle + 1;
	}
	for (; low < x->nstart && x->start[low] < at + n; low++) {
		int64_t skip = x->start[low] < at ? at - x->start[low] : 0, from = x->start[low] + skip - at;
		run[runs++] = (tl_piece){low * length + skip, length - skip < n - from ? length - skip : n - from, from};
	}
	return runs;
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// The epilogue runs over each row of at least MAP_ROW elements by itself. Shorter rows are gathered into tiles of
// TLK_MAP_LANES elements.
enum { MAP_ROW = 256 };

// Fills n bytes with one element of width w, by whole vectors: up to SPILL bytes behind them are written too.
enum { SPILL = 64 };
static char *splat(char *tile, const char *element, int64_t n, int64_t w) {
#define SPLAT(w, T) \
	case w: { \
		typedef T lanes __attribute__((vector_size(16), aligned(1), may_alias)); \
		const lanes v = (lanes){0} + *(const T *)element; \
		for (int64_t i = 0; i < n; i += 16) *(lanes *)(tile + i) = v; \
		break; \
	}
	switch (w) { SPLAT(1, uint8_t) SPLAT(2, uint16_t) SPLAT(4, uint32_t) SPLAT(8, uint64_t) }
#undef SPLAT
	return tile;
}

// Where the operands with views have their elements of one row, from row to row.
typedef struct { int64_t ix[3], at[TLK_EPILOGUE_OPERANDS]; } map_rows;

static map_rows rows_from(const gemm *x, int64_t m) {
	const tl_gemm *g = x->g;
	const int64_t *p = x->par;
	map_rows r = {{0}, {0}};
	int64_t row = x->row0 + m;
	for (int d = g->rowdims - 1; d > 0; d--) {
		r.ix[d] = row % p[g->rowsize[d]];
		row /= p[g->rowsize[d]];
	}
	r.ix[0] = row;
	for (int o = 0; o < g->noperand - g->nresult; o++) {
		if (!g->view[o].set) continue;
		r.at[o] = p[g->view[o].offset];
		for (int d = 0; d < g->rowdims; d++) r.at[o] += r.ix[d] * p[g->view[o].row[d]];
	}
	return r;
}

static inline void next_row(const gemm *x, map_rows *r) {
	const tl_gemm *g = x->g;
	const int64_t *p = x->par;
	for (int d = g->rowdims - 1; d >= 0; d--) {
		const int wraps = d > 0 && ++r->ix[d] == p[g->rowsize[d]];
		for (int o = 0; o < g->noperand - g->nresult; o++) {
			if (!g->view[o].set) continue;
			const int64_t step = p[g->view[o].row[d]];
			r->at[o] += wraps ? step - step * p[g->rowsize[d]] : step;
		}
		if (!wraps) return;
		r->ix[d] = 0;
	}
}

// The n elements that operand o of the epilogue has for row r, from column j on: in place where they are neighbours and
// tile is NULL, else copied to tile.
static char *map_view(const gemm *x, int o, const map_rows *r, int64_t j, int64_t n, char *tile) {
	const tl_gemm *g = x->g;
	const int64_t w = g->width[1 + o], step = x->par[g->view[o].n];
	char *from = x->maps[1 + o] + (r->at[o] + j * step) * w;
	if (step == 1 && !tile) return from;
	if (step == 1) return memcpy(tile, from, (size_t)(n * w));
	if (step == 0) return splat(tile, from, n * w, w);
#define FILL(w, T) case w: for (int64_t i = 0; i < n; i++) ((T *)tile)[i] = ((T *)from)[i * step]; break;
	switch (w) { FILL(1, uint8_t) FILL(2, uint16_t) FILL(4, uint32_t) FILL(8, uint64_t) }
#undef FILL
	return tile;
}

// Rows [m0, m0 + rows) of n elements of C, the first at element at, each cm elements after the one before, from column
// j on.
typedef struct { int64_t at, m0, rows, j, n, cm; } map_part;

// Applies the epilogue to a part. Copies several rows at a time into a dense tile, runs the epilogue over it, and
// copies the results back.
static __attribute__((noinline)) void map_gathered(const gemm *x, tl_ctx *c, const map_part *y) {
	char tile[1 + TLK_EPILOGUE_OPERANDS][TLK_MAP_LANES * sizeof(double) + SPILL] __attribute__((aligned(64)));
	char *buf[1 + TLK_EPILOGUE_OPERANDS];
	const tl_gemm *g = x->g;
	const int64_t n = y->n, each = TLK_MAP_LANES / n;
	const int32_t *w = g->width, first = g->noperand + 1 - g->nresult;
	map_rows v = rows_from(x, y->m0);
	for (int b = 0; b <= g->noperand; b++) buf[b] = tile[b];
	c->buf = buf;
	for (int64_t m = 0; m < y->rows; m += each) {
		const int64_t r = least(each, y->rows - m), at = y->at + m * y->cm;
		for (int64_t i = 0; i < r; i++, next_row(x, &v))
			for (int b = 0; b < first; b++) {
				if (b && g->view[b - 1].set) map_view(x, b - 1, &v, y->j, n, tile[b] + i * n * w[b]);
				else memcpy(tile[b] + i * n * w[b], x->maps[b] + (at + i * y->cm) * w[b], (size_t)(n * w[b]));
			}
		tl_map_run(c, 0, r * n);
		for (int b = 0; b <= g->noperand; b = b ? b + 1 : first)
			for (int64_t i = 0; i < r; i++)
				memcpy(x->maps[b] + (at + i * y->cm) * w[b], tile[b] + i * n * w[b], (size_t)(n * w[b]));
	}
	c->buf = (char **)x->maps;
}

// Applies an epilogue to a part row by row; direct says that tl_map_at does.
static void map_by_rows(const gemm *x, tl_ctx *c, const map_part *y, int direct) {
	char tile[TLK_EPILOGUE_OPERANDS][TLK_MAP_LANES * sizeof(double) + SPILL] __attribute__((aligned(64)));
	char *buf[1 + TLK_EPILOGUE_OPERANDS];
	const tl_gemm *g = x->g;
	map_rows v = rows_from(x, y->m0);
	memcpy(buf, x->maps, sizeof buf);
	c->buf = buf;
	for (int64_t m = 0, at = y->at; m < y->rows; m++, at += y->cm, next_row(x, &v))
		for (int64_t i = 0, k; i < y->n; i += k) {
			k = g->nview > 0 ? least(TLK_MAP_LANES, y->n - i) : y->n;
			for (int b = 0; direct && b <= g->noperand; b++) buf[b] = x->maps[b] + (at + i) * g->width[b];
			for (int o = 0; g->nview > 0 && o < g->noperand - g->nresult; o++) {
				if (!g->view[o].set) continue;
				const int64_t step = x->par[g->view[o].n];
				if (direct && g->view[o].once) { // machine code reads one element for all lanes
					buf[1 + o] = x->maps[1 + o] + v.at[o] * g->width[1 + o];
					continue;
				}
				char *view = tile[o]; // with step 0 all parts of the row have the elements of the first
				if (i == 0 || step != 0) view = map_view(x, o, &v, y->j + i, k, step == 1 ? NULL : tile[o]);
				// tl_map_run addresses it from at + i
				buf[1 + o] = direct ? view : (char *)((uintptr_t)view - (uintptr_t)((at + i) * g->width[1 + o]));
			}
			if (direct) tl_map_at(c, buf, k);
			else tl_map_run(c, at + i, k);
		}
	c->buf = (char **)x->maps;
}

// Applies the epilogue to rows [m0, m1) and columns [j0, j1) of a finished C with strides cm and cn.
static __attribute__((noinline)) void map_block(const gemm *x, int64_t m0, int64_t m1, int64_t j0, int64_t j1,
	int64_t cm, int64_t cn) {
	char room[tl_map_bytes(x->epilogue) + 63];
	tl_ctx c;
	map_part y = {x->first + m0 * cm + j0 * cn, m0, m1 - m0, j0, j1 - j0, cm};
	const int direct = tl_map_direct(x->epilogue);
	int64_t par[1 + x->g->nscalar];
	for (int i = 0; i < x->g->nscalar; i++) par[1 + i] = x->par[x->g->scalar[i]];
	tl_map_enter(&c, x->epilogue, (char **)x->maps, par, (char *)(((uintptr_t)room + 63) & ~(uintptr_t)63));
	if (cn == 1 && cm == y.n && x->g->nview == 0) {
		y.n *= y.rows;
		y.rows = 1;
	}
	if (cn == 1 && !direct && y.n < MAP_ROW && y.rows > 1 && !x->g->numbered) {
		map_gathered(x, &c, &y);
	} else if (cn == 1) {
		map_by_rows(x, &c, &y, direct);
	} else {
		for (int64_t j = 0; j < j1 - j0; j++) {
			map_part column = {y.at + j * cn, m0, m1 - m0, j0 + j, 1, cm};
			map_by_rows(x, &c, &column, direct);
		}
	}
}

// Sets the operands of matrix number i of the batch.
static void batch(gemm *x, int64_t i) {
	const tl_gemm *g = x->g;
	const int64_t *p = x->par;
	int64_t a = p[g->ao], b = p[g->bo], c = 0, w = tl_type_size(g->type);
	int strided = g->co >= 0;
	x->row0 = i * x->M;
	c = strided ? p[g->co] : i * x->M * x->N;
	for (int d = g->nbatch - 1; d >= 0; d--) {
		const int64_t size = p[g->batch[d]], ix = d && size > 1 ? i % size : d ? 0 : i;
		if (size > 1) i /= size;
		a += ix * p[g->ab[d]];
		b += ix * p[g->bb[d]];
		if (strided) c += ix * p[g->cb[d]];
	}
	x->a = x->buf[0] + a * w;
	x->b = x->buf[1] + b * w;
	const int reads = g->noperand - g->nresult, at = 2 + g->bias;
	x->maps[0] = x->buf[at + reads];
	for (int o = 0; o < g->noperand; o++) x->maps[1 + o] = x->buf[at + o + (o >= reads)];
	x->first = c;
	x->c = x->maps[0] + c * w;
}

#define REAL float
#define SUF(x) x##32
#include "gemm_driver.h"
#include "gemm_planes.h"
#undef REAL
#undef SUF
#define REAL double
#define SUF(x) x##64
#include "gemm_driver.h"
#include "gemm_planes.h"
#undef REAL
#undef SUF

#include "gemm_half.h"

// Integers wrap; one row at a time.
#define INT_GEMM(name, T, U) \
	static void name(void *arg, int worker, int64_t begin, int64_t end) { \
		gemm *x = arg; \
		(void)worker; \
		const T *a = (const T *)x->a, *b = (const T *)x->b, *bias = (const T *)x->bias; \
		for (int64_t m = begin; m < end && !cut(x); m++) { \
			T *c = (T *)x->c + m * x->cm; \
			for (int64_t n = 0; n < x->N; n++) c[n * x->cn] = bias ? bias[n * x->biasn] : 0; \
			for (int64_t k = 0; k < x->K; k++) { \
				U v = (U)a[m * x->am + k * x->ak]; \
				const T *row = b + k * x->bk; \
				for (int64_t n = 0; n < x->N; n++) c[n * x->cn] = (T)((U)c[n * x->cn] + v * (U)row[n * x->bn]); \
			} \
		} \
		if (x->epilogue) map_block(x, begin, end, 0, x->N, x->cm, x->cn); \
	}
INT_GEMM(gemm_i32, int32_t, uint32_t)
INT_GEMM(gemm_i64, int64_t, uint64_t)
INT_GEMM(gemm_u32, uint32_t, uint32_t)

static void one(gemm *x, int worker, int parallel) {
	switch (x->g->type) {
	case TLK_F32: run32(x, worker, parallel); return;
	case TLK_F64: run64(x, worker, parallel); return;
	case TLK_F16: case TLK_BF16: run_half(x, worker, parallel); return;
	}
	tl_job job = x->g->type == TLK_I64 || x->g->type == TLK_U64 ? gemm_i64 : x->g->type == TLK_I32 ? gemm_i32 : gemm_u32;
	if (!parallel) {
		job(x, worker, 0, x->M);
		return;
	}
	int64_t per = x->N * x->K + 1;
	spread(x, x->M, 32768 / per + 1, job, x);
}

static void batch_job(void *arg, int worker, int64_t begin, int64_t end) {
	gemm x = *(gemm *)arg;
	for (int64_t i = begin; i < end && !cut(&x); i++) {
		batch(&x, i);
		one(&x, worker, 0);
	}
	if (x.oom) ((gemm *)arg)->oom = x.oom;
}

int64_t tl_gemm_dense(tl_pool *pool, int isa, int worker, int parallel, const tl_dense *d) {
	tl_gemm plain = {.type = d->type};
	gemm x = {.t = tl_isa_tables(isa), .isa = isa, .g = &plain, .pool = pool, .add = d->add, .M = d->M, .N = d->N,
		.K = d->K, .a = d->a, .b = d->b, .c = d->c, .am = d->am, .ak = d->ak, .bk = d->bk, .bn = d->bn, .cm = d->cm, .cn = 1};
	one(&x, worker, parallel);
	return x.oom;
}

// Whether tiles of neighbouring windows may be read in place: they are at most WINDOW_STEP elements apart, and three
// quarters of the tiles' rows are used.
static int direct(const gemm *x) {
	const int doubles = x->g->type == TLK_F64;
	if (doubles ? !x->t->spots64 : !x->t->spots32) return 0;
	const int64_t n = x->ns[x->nn - 1], mr = doubles ? x->t->mr64 : x->t->mr32, step = x->bnd[x->nn - 1];
	return step >= 1 && step <= WINDOW_STEP && 4 * n >= 3 * mr * ((n + mr - 1) / mr);
}

// Fills in the dims of K and N, of a plain product one each. Returns 0 if memory for the offsets of rows could not be
// allocated.
static int take_dims(gemm *x) {
	const tl_gemm *g = x->g;
	const int64_t *p = x->par;
	x->nk = g->nn ? g->nk : 1;
	x->nn = g->nn ? g->nn : 1;
	x->extent = 1;
	for (int d = 0; d < x->nk; d++) {
		if (g->nn) x->ks[d] = p[g->ks[d]], x->akd[d] = p[g->akd[d]], x->bkd[d] = p[g->bkd[d]];
		else x->ks[d] = x->K, x->akd[d] = p[g->ak], x->bkd[d] = p[g->bk];
		if (x->bkd[d] > 0) x->extent += (x->ks[d] - 1) * x->bkd[d];
	}
	for (int d = 0; d < x->nn; d++) {
		if (g->nn) x->ns[d] = p[g->ns[d]], x->bnd[d] = p[g->bnd[d]];
		else x->ns[d] = x->N, x->bnd[d] = p[g->bn];
		if (x->bnd[d] > 0) x->extent += (x->ns[d] - 1) * x->bnd[d];
	}
	int d = x->nk - 1;
	x->ak = x->akd[d];
	x->arun = x->ks[d];
	for (; d > 0 && x->akd[d - 1] == x->akd[d] * x->ks[d]; d--) x->arun *= x->ks[d - 1];
	x->apart = d > 0;
	d = x->nn - 1;
	x->nstart = x->N / x->ns[d];
	x->row = tl_alloc((x->K + x->nstart) * (int64_t)sizeof(int64_t));
	if (!x->row) return 0;
	x->start = x->row + x->K;
	elements(x->ks, x->bkd, x->nk, 0, x->K, x->row);
	elements(x->ns, x->bnd, d, 0, x->nstart, x->start);
	int ordered = x->bnd[d] == 1 && !x->apart && x->cn == 1 && !x->bias && x->K <= RAW_K;
	for (; d > 0; d--) ordered = ordered && x->bnd[d - 1] >= x->bnd[d] * x->ns[d];
	int64_t span = x->start[x->nstart - 1] + x->ns[x->nn - 1];
	int forward = !x->apart && x->cn == 1 && !x->bias && x->K <= RAW_K;
	for (int i = 0; i < x->nk; i++) forward = forward && x->bkd[i] >= 0;
	for (int i = 0; i < x->nn; i++) forward = forward && x->bnd[i] >= 0;
	const int64_t step = x->bnd[x->nn - 1];
	x->windows = forward && x->M == 1 && x->K > 0 && step >= 1 && step <= WINDOW_STEP;
	if (ordered && span - x->N <= x->N / RAW_WASTE) x->span = span;
	x->direct = direct(x);
	return 1;
}

int tl_gemm_turns(const tl_gemm *g, int isa, const int64_t *par) {
	gemm x = {.t = tl_isa_tables(isa), .g = g, .par = par, .M = par[g->M], .N = par[g->N], .K = par[g->K],
		.cn = g->co >= 0 ? par[g->cn] : 1};
	if (g->bias || x.cn != 1 || x.M < TURN_ROWS || x.K < TURN_K || !take_dims(&x)) return 0;
	int turns = !x.apart && (x.span == 0 || x.N <= TURN_N || x.direct) && (g->nn || x.bnd[0] == 1);
	for (int i = 0; i < x.nk; i++) turns = turns && x.bkd[i] >= 0;
	for (int i = 0; i < x.nn; i++) turns = turns && x.bnd[i] >= 0;
	tl_cpu_free(x.row);
	return turns;
}

int tl_gemm_row(const tl_gemm *g, int isa, const int64_t *par) {
	const tl_isa_table *t = tl_isa_tables(isa);
	const int64_t nr = g->type == TLK_F32 ? t->nr32 : t->nr64;
	return (g->co < 0 || par[g->cn] == 1) && par[g->N] >= ROW_PANELS * nr;
}

int64_t tl_gemm_pack(int isa, int type, int64_t K, int64_t N, int64_t bk, int64_t bn, const char *b, char *to) {
	const tl_isa_table *t = tl_isa_tables(isa);
	const int64_t w = tl_type_size(type), nr = type == TLK_F32 ? t->nr32 : t->nr64;
	for (int64_t j = 0; j < N && to; j += nr, to += nr * K * w) {
		const int64_t n = least(nr, N - j);
		if (type == TLK_F32) t->packb32((const float *)b + j * bn, bk, bn, K, n, (float *)to);
		else t->packb64((const double *)b + j * bn, bk, bn, K, n, (double *)to);
	}
	return (N + nr - 1) / nr * nr * K * w;
}

// Fills in what windows over the border of pictures need. Returns 0 if memory could not be allocated.
static int take_pads(gemm *x) {
	const tl_gemm *g = x->g;
	const int64_t *p = x->par;
	tl_plane *y = &x->plane;
	int64_t need[2], gap[2], front[2], here[2]; // by dim; need: of the copy; here: elements of the picture in it
	for (int d = 0; d < 2; d++) {
		gap[d] = p[g->pad[d].gap], front[d] = p[g->pad[d].front];
		need[d] = (p[g->ns[d]] - 1) * p[g->pad[d].step] + (p[g->ks[d]] - 1) * gap[d] + 1;
		here[d] = most(0, least(p[g->pad[d].size], need[d] - front[d]));
	}
	const int64_t step = p[g->pad[1].step], run = (need[1] + step - 1) / step, pitch = run * step, wide = p[g->ks[1]];
	// A line of results reads lines of the copy that begin at one of every `down` elements.
	*y = (tl_plane){.high = here[0], .wide = here[1], .stride = p[g->bkd[0]] / gap[0], .top = front[0], .left = front[1],
		.pitch = pitch, .run = run, .step = step, .lines = p[g->ns[0]], .n = p[g->ns[1]], .down = p[g->pad[0].step] * pitch,
		.taps = x->K, .ak = p[g->akd[1]]};
	x->copy = need[0] * pitch;
	y->row = x->row = tl_alloc(x->K * (int64_t)sizeof(int64_t));
	for (int64_t k = 0; x->row && k < x->K; k++) {
		const int64_t across = k % wide * gap[1];
		x->row[k] = k / wide * gap[0] * pitch + across % step * run + across / step;
	}
	return x->row != NULL;
}

static void run_batches(gemm *x, int64_t n) {
	if (x->g->padded) {
		spread(x, n, PLANES / (x->N * x->K) + 1, x->g->type == TLK_F32 ? planes32 : planes64, x);
		return;
	}
	int64_t work = x->M * x->N * (x->K + 1);
	if (n > 1 && (work < 1 << 22 || n >= 4 * tl_pool_threads(x->pool))) {
		// A claim has about 2^18 multiplications.
		spread(x, n, (1 << 18) / work + 1, batch_job, x);
		return;
	}
	const int64_t elements = (x->M + x->N) * x->K + x->M * x->N;
	for (int64_t i = 0; i < n && !x->oom && !cut(x); i++) {
		batch(x, i);
		one(x, 0, work >= ALONE || (work >= SHARED && elements > NEAR));
	}
}

int64_t tl_run_gemm(const tl_gemm *g, tl_pool *pool, int isa, char **buf, const int64_t *par) {
	gemm x = {0};
	x.t = tl_isa_tables(isa);
	x.isa = isa;
	x.g = g;
	x.pool = pool;
	x.buf = buf;
	x.par = par;
	x.M = par[g->M];
	x.N = par[g->N];
	x.K = par[g->K];
	x.am = par[g->am];
	x.ak = par[g->ak];
	x.bk = par[g->bk];
	x.bn = par[g->bn];
	x.cm = g->co >= 0 ? par[g->cm] : x.N;
	x.cn = g->co >= 0 ? par[g->cn] : 1;
	x.epilogue = g->epilogue;
	x.pack = g->pack;
	x.apack = g->apack;
	x.watch = 1;
	if (g->bias) {
		x.biasn = par[g->biasn];
		x.bias = buf[2] + par[g->biaso] * tl_type_size(g->type);
	}
	int64_t n = 1;
	for (int d = 0; d < g->nbatch; d++) n *= par[g->batch[d]];
	if (n == 0 || x.M == 0 || x.N == 0) return 0;
	if ((g->nn || g->apack) && !(g->padded ? take_pads(&x) : take_dims(&x))) return x.K * (int64_t)sizeof(int64_t);
	run_batches(&x, n);
	tl_cpu_free(x.row);
	return x.oom;
}
