// Runs block programs tile by tile: a kernel alone, a fusion group, or a map over pieces of its elements.
#include <string.h>
#include "vector/cpu.h"
#include "accumulator.h"

#if defined(__x86_64__)
#define TLK_FENCE() __builtin_ia32_sfence()
#else
#define TLK_FENCE() ((void)0)
#endif

static void link_seg(tl_seg *s, int isa, int *missing) {
	for (int32_t i = 0; i < s->n; i++) {
		s->at[i].fn = tl_lookup(isa, &s->at[i]);
		if (!s->at[i].fn) ++*missing;
	}
}

int tl_kern_link(tl_kern *k, int isa) {
	int missing = 0;
	link_seg(&k->uniform, isa, &missing);
	link_seg(&k->wpro, isa, &missing);
	for (int32_t i = 0; i < k->nstage; i++) {
		link_seg(&k->stage[i].outer, isa, &missing);
		link_seg(&k->stage[i].prologue, isa, &missing);
		link_seg(&k->stage[i].inner, isa, &missing);
	}
	return missing;
}

static inline void exec(tl_ctx *c, const tl_seg *s) {
	const tl_ins *q = s->at, *e = q + s->n;
	for (; q < e; q++) q->fn(c, q);
}

// Finds tile number t of a space: sets the positions pos of the dims up to the cut one, sets ulen to the length of the
// tile along the second cut dim, and returns its length along the cut dim.
static int64_t place(const tl_space *s, int64_t t, int64_t *pos, int64_t *ulen) {
	*ulen = 1;
	if (s->n == 0) return 1;
	if (s->t == 0) { // the usual case needs no division
		pos[0] = t * s->chunk;
		return s->size[0] - pos[0] < s->chunk ? s->size[0] - pos[0] : s->chunk;
	}
	int64_t piece = s->pieces > 1 ? t % s->pieces : 0, rest = s->pieces > 1 ? t / s->pieces : t;
	pos[s->t] = piece * s->chunk;
	for (int d = s->t - 1; d >= 0; d--) {
		if (d == 0 && s->u != 0) { // the outermost dim needs no division
			pos[0] = rest;
			break;
		}
		if (d == s->u) {
			pos[d] = rest % s->upieces * s->uchunk;
			rest /= s->upieces;
			*ulen = s->size[d] - pos[d] < s->uchunk ? s->size[d] - pos[d] : s->uchunk;
			continue;
		}
		pos[d] = rest % s->size[d];
		rest /= s->size[d];
	}
	int64_t left = s->size[s->t] - pos[s->t];
	return left < s->chunk ? left : s->chunk;
}

static void place_outer(tl_ctx *c, int64_t t) {
	c->chunk[1] = place(&c->k->outer, t, c->opos, &c->chunk[3]);
	c->n[TLK_LANE_OUTER] = c->k->outer.n ? c->chunk[1] * c->k->outer.trail * c->chunk[3] : 1;
}

static void place_inner(tl_ctx *c, int64_t t) {
	int64_t whole;
	c->chunk[2] = place(&c->k->inner, t, c->ipos, &whole);
	c->ilanes = c->k->inner.n ? c->chunk[2] * c->k->inner.trail : 1;
	c->n[TLK_LANE_TILE] = c->n[TLK_LANE_OUTER] * c->ilanes;
}

// The run of one kernel.
typedef struct {
	tl_pool *pool;
	const tl_kern *k;
	char **buf;
	const int64_t *par;
	char *uniform; // arena of worker 0, which holds the uniform registers
	tl_ctx *main;  // the caller's context; in a split stage it is at the current outer tile
	tl_accst *spare; // the caller's set of partial results
	const tl_stage *stage;
	char *partial; // of a split stage: a set for each chunk; in a Prefix stage then a set for what precedes each chunk
	int64_t chunks;
	int totals; // set in the first round of a split Prefix stage: it accumulates the chunks and stores no values
	volatile int64_t oom;
	int64_t first; // the outer tile to begin with
	int rerunnable;      // as in tl_step
	volatile int halted;
	struct { int failed; int64_t order, elem; char pad[40]; } fault[TLK_MAX_WORKERS];
} kern_run;

// Claims of each thread in a loop of many tiles. A worker that the system does not schedule delays the others by its
// current claim only.
enum { CLAIMS = 16 };

// Most tiles of a claim: a request to stop waits until the claim ends.
enum { CLAIM_TILES = 256 };

// Bytes of a worker's scratch: registers, a set of totals and one of partial results, then the tables.
static int64_t worker_bytes(const tl_kern *k) {
	return k->arena + 2 * k->state + align64(k->nreg * (int64_t)sizeof(void *)) +
		2 * align64(k->nacc * (int64_t)sizeof(tl_accst));
}

// Lays out a worker's tables in mem.
static void worker_init(tl_ctx *c, const tl_kern *k, char **buf, const int64_t *par, char *mem, tl_accst **partial) {
	c->k = k;
	c->buf = buf;
	c->par = par;
	c->arena = mem;
	c->failed = 0;
	c->cached = 0;
	c->totals = 0;
	c->watch = NULL;
	c->halted = 0;
	c->n[TLK_LANE_ONE] = 1;
	c->n[TLK_LANE_OUTER] = c->n[TLK_LANE_TILE] = 1;
	c->ilanes = 1;
	char *p = mem + k->arena;
	c->reg = (void **)(p + 2 * k->state);
	for (int i = 0; i < k->nreg; i++) c->reg[i] = mem + k->regoff[i];
	for (int i = 0; i < k->outer.n; i++) c->opos[i] = 0;
	c->ipos[0] = 0; // an instruction that counts inner indices reads it even where there is no inner dim
	for (int i = 0; i < k->inner.n; i++) c->ipos[i] = 0;
	if (k->nacc) {
		c->acc = (tl_accst *)(p + 2 * k->state + align64(k->nreg * (int64_t)sizeof(void *)));
		*partial = (tl_accst *)((char *)c->acc + align64(k->nacc * (int64_t)sizeof(tl_accst)));
		bind_set(k, c->acc, p);
		bind_set(k, *partial, p + k->state);
	}
}

static int enter(kern_run *r, int worker, tl_ctx *c, tl_accst **partial) {
	char *mem = tl_scratch(r->pool, worker, worker_bytes(r->k));
	if (!mem) {
		r->oom = worker_bytes(r->k);
		return 0;
	}
	worker_init(c, r->k, r->buf, r->par, mem, partial);
	if (r->rerunnable) c->watch = r->pool;
	return 1;
}

static void leave(kern_run *r, int worker, const tl_ctx *c) {
	TLK_FENCE(); // stores that bypass the caches are ordered by nothing else
	if (c->halted) r->halted = 1;
	if (!c->failed) return;
	if (r->fault[worker].failed && r->fault[worker].order <= c->fail_order) return;
	r->fault[worker].failed = 1;
	r->fault[worker].order = c->fail_order;
	r->fault[worker].elem = c->fail_elem;
}

static void inner_tiles(tl_ctx *c, const tl_stage *s, int64_t t0, int64_t t1) {
	int64_t base = c->order;
	tl_seg seg = s->inner;
	if (c->totals) seg.n = s->prefix;
	for (int64_t t = t0; t < t1; t++) {
		if (c->watch && tl_stop_asked(c->watch)) {
			c->halted = 1;
			break;
		}
		place_inner(c, t);
		c->order = base + t;
		exec(c, &seg);
	}
	c->order = base;
}

// Accumulates the inner tiles of chunk i.
static void chunk(tl_ctx *c, const tl_stage *s, int64_t i) {
	int64_t t1 = (i + 1) * c->k->chunk_tiles, tiles = c->k->inner.tiles;
	inner_tiles(c, s, i * c->k->chunk_tiles, t1 < tiles ? t1 : tiles);
}

static void split_job(void *arg, int worker, int64_t begin, int64_t end) {
	kern_run *r = arg;
	const tl_kern *k = r->k;
	const tl_ctx *m = r->main;
	tl_ctx c;
	tl_accst *spare, set[64], before[64];
	if (worker == 0) {
		c = *m;
	} else {
		if (!enter(r, worker, &c, &spare)) return;
		memcpy(c.reg, m->reg, (size_t)k->nshared * sizeof(void *));
		memcpy(c.opos, m->opos, sizeof c.opos);
		memcpy(c.chunk, m->chunk, sizeof c.chunk);
		c.n[TLK_LANE_OUTER] = m->n[TLK_LANE_OUTER];
		c.order = m->order;
		exec(&c, &k->wpro);
		place_inner(&c, 0);
		exec(&c, &r->stage->prologue);
	}
	for (int64_t i = begin; i < end; i++) {
		bind_set(k, set, r->partial + i * k->state);
		init_stage(&c, r->stage, set);
		c.acc = set;
		c.totals = r->totals;
		if (r->stage->prefix && !r->totals) {
			bind_set(k, before, r->partial + (r->chunks + i) * k->state);
			follow(r->stage, set, before);
		}
		chunk(&c, r->stage, i);
	}
	leave(r, worker, &c);
}

// Joins the chunks' accumulators of a Prefix stage into what came before each chunk.
static void carry(kern_run *r, tl_ctx *c, const tl_stage *s) {
	const tl_kern *k = c->k;
	tl_accst set[64], before[64];
	char *at = r->partial + r->chunks * k->state;
	bind_set(k, before, at);
	init_stage(c, s, before);
	for (int64_t i = 1; i < r->chunks; i++, at += k->state) {
		memcpy(at + k->state, at, (size_t)k->state);
		bind_set(k, before, at + k->state);
		bind_set(k, set, r->partial + (i - 1) * k->state);
		join_stage(c, s, before, set);
	}
}

// Runs the chunks of a split stage. If a request to stop leaves out some of them, the outer tile is not finished.
static void split_over(kern_run *r, tl_ctx *c, int64_t chunks) {
	if (!r->rerunnable) {
		tl_parallel_whole(r->pool, chunks, 1, split_job, r);
		return;
	}
	if (tl_parallel(r->pool, chunks, 1, split_job, r) < chunks || r->halted) c->halted = 1;
}

static void stage_inner(kern_run *r, tl_ctx *c, const tl_stage *s, tl_accst *partial, int split) {
	const tl_kern *k = c->k;
	int64_t tiles = k->inner.tiles, chunks = (tiles + k->chunk_tiles - 1) / k->chunk_tiles;
	init_stage(c, s, c->acc);
	place_inner(c, 0);
	exec(c, &s->prologue);
	if (tiles == 1) {
		exec(c, &s->inner);
		return;
	}
	if (s->whole || chunks <= 1) {
		inner_tiles(c, s, 0, tiles);
		return;
	}
	tl_accst *total = c->acc;
	char *mem = split ? tl_scratch(r->pool, -1, (s->prefix ? 2 : 1) * chunks * k->state) : NULL;
	if (mem) {
		r->main = c;
		r->stage = s;
		r->partial = mem;
		r->chunks = chunks;
		r->totals = s->prefix;
		if (s->prefix) {
			split_over(r, c, chunks - 1);
			carry(r, c, s);
			r->totals = 0;
		}
		split_over(r, c, chunks);
		tl_accst set[64];
		for (int64_t i = 0; i < chunks; i++) {
			// bind_set cleared the counts. A count other than 0 makes join_acc add parts that were not flushed.
			bind_set(k, set, mem + i * k->state);
			for (int a = 0; a < k->nacc; a++) set[a].count = 1;
			join_stage(c, s, total, set);
		}
		return;
	}
	for (int64_t i = 0; i < chunks; i++) {
		c->acc = partial;
		init_stage(c, s, partial);
		if (s->prefix) follow(s, partial, total);
		chunk(c, s, i);
		c->acc = total;
		join_stage(c, s, total, partial);
	}
}

// Moves an accumulator n lanes along its set.
static void move_acc(const tl_acc *m, tl_accst *a, int64_t n) {
	a->st = (char *)a->st + n * m->bytes;
	a->idx += n;
	a->part += n;
}

// Runs a stage of a bundle row by row: inner's instructions see each row as an outer tile of one row.
static void stage_bundle(tl_ctx *c, const tl_stage *s) {
	const tl_kern *k = c->k;
	const int t = k->outer.t;
	const int64_t rows = c->n[TLK_LANE_OUTER];
	init_stage(c, s, c->acc);
	place_inner(c, 0);
	exec(c, &s->prologue);
	c->n[TLK_LANE_OUTER] = 1;
	c->n[TLK_LANE_TILE] = c->ilanes;
	for (int64_t r = 0; r < rows; r++) {
		exec(c, &s->inner);
		c->opos[t]++;
		for (int i = 0; i < s->nstride; i++) c->reg[s->stride[i].reg] = (char *)c->reg[s->stride[i].reg] + s->stride[i].bytes;
		for (int i = s->acc0; i < s->acc0 + s->nacc; i++) move_acc(&k->acc[i], &c->acc[i], 1);
	}
	c->opos[t] -= rows;
	for (int i = 0; i < s->nstride;
	i++) c->reg[s->stride[i].reg] = (char *)c->reg[s->stride[i].reg] - rows * s->stride[i].bytes;
	for (int i = s->acc0; i < s->acc0 + s->nacc; i++) move_acc(&k->acc[i], &c->acc[i], -rows);
	c->n[TLK_LANE_OUTER] = rows;
}

static void outer_tile(kern_run *r, tl_ctx *c, int64_t t, tl_accst *partial, int split) {
	const tl_kern *k = c->k;
	place_outer(c, t);
	c->order = t * (k->inner.tiles + 1);
	for (int i = 0; i < k->nstage; i++) {
		const tl_stage *s = &k->stage[i];
		if (c->halted) return;
		exec(c, &s->outer);
		if (s->over_inner && k->rows > 1) stage_bundle(c, s);
		else if (s->over_inner) stage_inner(r, c, s, partial, split);
	}
}

static void outer_job(void *arg, int worker, int64_t begin, int64_t end) {
	kern_run *r = arg;
	tl_ctx c;
	tl_accst *partial = r->spare;
	if (worker == 0) {
		// Worker 0 does not enter again. That would reset its table of registers, in which the other workers find the
		// uniform registers that point into buffers.
		c = *r->main;
	} else {
		if (!enter(r, worker, &c, &partial)) return;
		memcpy(c.reg, r->main->reg, (size_t)r->k->nuniform * sizeof(void *));
	}
	exec(&c, &r->k->wpro);
	for (int64_t t = begin; t < end && !c.halted; t++) outer_tile(r, &c, r->first + t, partial, 0);
	leave(r, worker, &c);
}

// Runs the outer tiles from r->first on, on this thread or on all. Returns the first tile that is not finished.
static int64_t outer_tiles(kern_run *r, tl_ctx *c, tl_accst *partial) {
	const tl_kern *k = r->k;
	const int64_t threads = tl_pool_threads(r->pool), all = k->outer.tiles, from = r->first;
	if (threads > 1 && k->parallel_outer) {
		// Large claims keep a worker's tiles together: what it prefetches beyond a claim's last tile, another worker
		// uses.
		int64_t grain = all / (CLAIMS * threads);
		if (grain > CLAIM_TILES) grain = CLAIM_TILES;
		if (grain < k->grain) grain = k->grain;
		int64_t done = r->rerunnable ? tl_parallel(r->pool, all - from, grain, outer_job, r) :
			tl_parallel_in_order(r->pool, all - from, grain, outer_job, r);
		return r->halted ? from : from + done; // only a rerunnable kernel halts inside a tile: it may repeat tiles
	}
	exec(c, &k->wpro);
	const int split = threads > 1 && k->parallel_inner;
	int64_t t = from;
	for (; t < all; t++) {
		if (t > from && tl_stop_asked(r->pool)) break;
		outer_tile(r, c, t, partial, split);
		if (c->halted) break;
	}
	leave(r, 0, c);
	return t;
}

int64_t tl_run_kern(tl_step *st, tl_pool *pool, tl_fault *fault, int64_t *tile) {
	const tl_kern *k = st->kern;
	if (k->outer.tiles == 0) return 0;
	kern_run r;
	r.pool = pool;
	r.k = k;
	r.buf = st->buf;
	r.par = st->par;
	r.oom = 0;
	r.first = *tile;
	r.rerunnable = st->rerunnable;
	r.halted = 0;
	int threads = tl_pool_threads(pool);
	for (int i = 0; i < threads; i++) r.fault[i].failed = 0;
	tl_ctx c;
	tl_accst *partial = NULL;
	if (!enter(&r, 0, &c, &partial)) return r.oom;
	exec(&c, &k->uniform);
	r.main = &c;
	r.spare = partial;
	*tile = outer_tiles(&r, &c, partial);
	int64_t best = -1;
	for (int i = 0; i < threads; i++) {
		if (!r.fault[i].failed || fault->set || (best >= 0 && r.fault[i].order >= best)) continue;
		best = r.fault[i].order;
		fault->elem = r.fault[i].elem;
	}
	if (best >= 0) {
		fault->set = 1;
		fault->event = st->event;
	}
	return r.oom;
}

int64_t tl_map_bytes(const tl_kern *k) { return worker_bytes(k); }

void tl_map_enter(tl_ctx *c, const tl_kern *k, char **buf, const int64_t *par, char *mem) {
	worker_init(c, k, buf, par, mem, NULL);
	exec(c, &k->uniform);
	exec(c, &k->wpro);
	c->chunk[3] = 1;
}

void tl_map_run(tl_ctx *c, int64_t at, int64_t n) {
	const int64_t chunk = c->k->outer.chunk, most = chunk < TLK_MAP_LANES ? chunk : TLK_MAP_LANES;
	for (; n > 0; at += most, n -= most) {
		c->opos[0] = at;
		c->chunk[1] = c->n[TLK_LANE_OUTER] = c->n[TLK_LANE_TILE] = n < most ? n : most;
		for (int i = 0; i < c->k->nstage; i++) exec(c, &c->k->stage[i].outer);
	}
}

int tl_map_direct(const tl_kern *k) {
	const tl_seg *s = &k->stage[0].outer;
	if (k->nstage != 1 || k->outer.n != 1 || s->n == 0) return 0;
	for (int32_t i = 0; i < s->n - 1; i++) {
		const tl_affine *f = &k->affine[s->at[i].aux];
		if (s->at[i].op != TLK_DIRECT || f->base != 0 || f->offset >= 0 || f->ostride[0] != 1) return 0;
	}
	return s->at[s->n - 1].op == TLK_CODE;
}

void tl_map_at(tl_ctx *c, char *const *at, int64_t n) {
	const tl_kern *k = c->k;
	const tl_ins *q = k->stage[0].outer.at;
	for (; q->op == TLK_DIRECT; q++) c->reg[q->d] = at[k->affine[q->aux].buf];
	((tl_code *)(intptr_t)q->imm)(c->reg, n);
}

// A fusion group: maps over one index space, in which a tile depends only on the same tile of the maps before it. All
// maps run over a tile while it is in the cache. The group's tiles are those of the map with the largest tiles.
typedef struct {
	tl_pool *pool;
	tl_step *step;
	int n;
	int64_t first;        // the tile to begin with
	int64_t chunk, tiles; // of the map with the largest tiles
	int64_t each[TLK_GROUP_MAX]; // how many tiles of each map make one tile of the group
	int64_t *spent;       // NULL, or nanoseconds of all workers, by map
	volatile int64_t oom;
	char ready[TLK_MAX_WORKERS]; // whether the worker's scratch is laid out
} group_run;

// Bytes of a worker's scratch for one map: its kernel's, and a table of buffers where some of them are tiles.
static int64_t member_bytes(const tl_step *s) { return worker_bytes(s->kern) +
	(s->ntile ? align64(s->nbuf * (int64_t)sizeof(char *)) : 0); }

// Runs map i over tile t of the group.
static void member_tile(const group_run *r, tl_ctx *c, int i, char *tiles, int64_t t) {
	const tl_step *s = &r->step[i];
	const int64_t each = r->each[i], all = s->kern->outer.tiles;
	for (int b = 0; b < s->ntile; b++) // the address at which a whole buffer would begin, of which this is tile t
		c->buf[s->tile[b].buf] = (char *)((uintptr_t)(tiles + s->tile[b].at) - (uintptr_t)(t * r->chunk * s->tile[b].width));
	for (int64_t u = t * each; u < (t + 1) * each && u < all; u++) outer_tile(NULL, c, u, NULL, 0);
}

// Lays out the contexts of all maps in a worker's scratch, before the tiles; NULL where memory is out.
static tl_ctx *group_enter(group_run *r, int worker) {
	const int64_t head = align64(r->n * (int64_t)sizeof(tl_ctx));
	int64_t bytes = head + r->step->tiles;
	for (int i = 0; i < r->n; i++) bytes += member_bytes(&r->step[i]);
	char *mem = tl_scratch(r->pool, worker, bytes);
	tl_ctx *c = (tl_ctx *)mem;
	if (!mem) r->oom = bytes;
	if (!mem || r->ready[worker]) return c;
	r->ready[worker] = 1;
	mem += head + r->step->tiles;
	for (int i = 0; i < r->n; i++) {
		const tl_step *s = &r->step[i];
		worker_init(&c[i], s->kern, s->buf, s->par, mem, NULL);
		if (s->ntile) c[i].buf = memcpy(mem + worker_bytes(s->kern), s->buf, (size_t)s->nbuf * sizeof(char *));
		c[i].cached = s->cached;
		exec(&c[i], &s->kern->uniform);
		exec(&c[i], &s->kern->wpro);
		mem += member_bytes(s);
	}
	return c;
}

static void group_job(void *arg, int worker, int64_t begin, int64_t end) {
	group_run *r = arg;
	tl_ctx *c = group_enter(r, worker);
	if (!c) return;
	char *tiles = (char *)c + align64(r->n * (int64_t)sizeof(tl_ctx));
	int64_t spent[TLK_GROUP_MAX] = {0};
	for (int64_t t = r->first + begin; t < r->first + end; t++)
		for (int i = 0; i < r->n; i++) {
			const int64_t from = r->spent ? tl_nanoseconds() : 0;
			member_tile(r, &c[i], i, tiles, t);
			if (r->spent) spent[i] += tl_nanoseconds() - from;
		}
	TLK_FENCE();
	if (r->spent)
		for (int i = 0; i < r->n; i++) __atomic_fetch_add(&r->spent[i], spent[i], __ATOMIC_RELAXED);
}

int64_t tl_run_group(tl_step *s, tl_pool *pool, int64_t *times, int64_t *tile) {
	int64_t spent[TLK_GROUP_MAX] = {0}, sum = 0;
	group_run r = {.pool = pool, .step = s, .n = s->group, .first = *tile, .spent = times ? spent : NULL};
	for (int i = 0; i < r.n; i++) {
		const tl_space *o = &s[i].kern->outer;
		if (o->chunk > r.chunk) r.chunk = o->chunk, r.tiles = o->tiles;
	}
	double claims = 0; // of one tile
	for (int i = 0; i < r.n; i++) {
		r.each[i] = r.chunk / s[i].kern->outer.chunk;
		claims += (double)r.each[i] / (double)s[i].kern->grain;
	}
	int64_t grain = (int64_t)(1 / claims) + 1;
	grain = r.tiles > 2 * grain ? grain : r.tiles;
	*tile += tl_parallel_in_order(pool, r.tiles - r.first, grain, group_job, &r);
	if (*tile == r.tiles) *tile = -1;
	if (!times) return r.oom;
	const double took = (double)(tl_nanoseconds() - times[0]);
	for (int i = 0; i < r.n; i++) sum += spent[i];
	for (int i = 1; i < r.n; i++) times[i] = times[i - 1] + (int64_t)(took * (double)spent[i - 1] / (double)(sum ? sum :
		1));
	return r.oom;
}
