// Runs programs: binds the parameters of each step, and runs the steps in order.
#include <string.h>
#include "cpu.h"

// Whether the offsets of this run are those that the group was planned for.
static int group_holds(const tl_step *s) {
	for (int i = 0; i < s->group; i++)
		for (int j = 0; j < s[i].nzero; j++)
			if (s[i].par[s[i].zero[j]] != 0) return 0;
	return 1;
}

// Binds a step's buffers and parameters.
static void bind_step(tl_step *s, const tl_prog *p, const int64_t *offsets, const uint64_t *scalars) {
	for (int32_t b = 0; b < s->nbuf; b++) s->buf[b] = s->slot[b] < p->nslot ? p->slots[s->slot[b]] : NULL;
	for (int32_t d = 0; d < s->ndyn; d++) {
		const tl_dynpar *y = &s->dyn[d];
		s->par[y->par] = y->bits + (y->scalar >= 0 ? (int64_t)scalars[y->scalar] : offsets[y->offset]);
	}
}

// Notes that a run stopped before that tile of step i; steps before begun may have written something.
static int64_t stopped(tl_place *at, int64_t i, int64_t tile, int64_t begun) {
	at->step = i;
	at->tile = tile;
	if (begun > at->begun) at->begun = begun;
	return TLK_STOPPED;
}

// Runs a step that is no kernel. After a stop midway it begins anew.
static int64_t run_step(tl_step *s, tl_pool *pool, int isa, tl_fault *fault) {
	switch (s->kind) {
	case TLK_STEP_GEMM: return tl_run_gemm(s->gemm, pool, isa, s->buf, s->par);
	case TLK_STEP_ATTENTION: if (s->attention->pass == TLK_ATTENTION_NONE) return 0;
		return tl_run_attention(s->attention, pool, isa, s->buf, s->par);
	case TLK_STEP_FACTOR: return tl_run_factor(s->factor, pool, isa, s->buf, s->par, fault);
	case TLK_STEP_SORT: return tl_run_sort(s->sort, pool, isa, s->buf, s->par);
	case TLK_STEP_COPY: memmove(s->buf[1] + s->par[1], s->buf[0] + s->par[0], (size_t)s->par[2]); return 0;
	case TLK_STEP_ZERO: memset(s->buf[0] + s->par[0], 0, (size_t)s->par[1]); return 0;
	}
	return 0;
}

static int64_t run_steps(tl_prog *p, tl_pool *pool, int isa, const int64_t *offsets, const uint64_t *scalars,
	tl_fault *fault, int64_t *times, tl_place *at) {
	int64_t tile = at->tile;
	for (int64_t i = at->step; i < p->nstep; i++, tile = 0) {
		if (times) times[i] = tl_nanoseconds();
		if (tl_stop_asked_between(pool)) return stopped(at, i, tile, i);
		tl_step *s = &p->step[i];
		bind_step(s, p, offsets, scalars);
		int64_t oom = 0;
		if (s->group) {
			for (int32_t m = 1; m < s->group; m++) bind_step(s + m, p, offsets, scalars);
			if (group_holds(s)) {
				const int64_t end = i + s->group;
				oom = tl_run_group(s, pool, times ? times + i : NULL, &tile);
				if (oom) return oom;
				if (tile >= 0) return stopped(at, i, tile, tile ? end : i);
				i = end - 1;
				continue;
			}
			if (s->tiles) return TLK_UNFUSED;
		}
		if (s->kind == TLK_STEP_KERNEL) {
			oom = tl_run_kern(s, pool, fault, &tile);
			if (oom) return oom;
			if (tile < s->kern->outer.tiles) return stopped(at, i, tile, i + 1);
			continue;
		}
		if (!s->rerunnable) tl_attend(pool, 0);
		oom = run_step(s, pool, isa, fault);
		if (oom) return oom;
		if (s->rerunnable && tl_cut(pool)) return stopped(at, i, 0, i + 1);
		if (!s->rerunnable) tl_attend(pool, 1);
	}
	if (times) times[p->nstep] = tl_nanoseconds();
	return 0;
}

int64_t tl_run(tl_prog *p, tl_pool *pool, int isa, const int64_t *offsets, const uint64_t *scalars, tl_fault *fault,
	int64_t *times, int32_t *stop, int64_t patience, tl_place *at) {
	tl_watch(pool, stop, patience);
	const int64_t rest = run_steps(p, pool, isa, offsets, scalars, fault, times, at);
	tl_attend(pool, 0);
	return rest;
}
