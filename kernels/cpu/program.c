// Runs programs: binds the parameters of each step, and runs the steps in order.
#include <string.h>
#include "conv8.h"
#include "conv_last.h"

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
	case TLK_STEP_FFT: return tl_run_fft(s->fft, pool, isa, s->buf, s->par);
	case TLK_STEP_QUANTIZED: return tl_run_quantized(s->quantized, pool, isa, s->buf, s->par);
	case TLK_STEP_SORT: return tl_run_sort(s->sort, pool, isa, s->buf, s->par);
	case TLK_STEP_COPY: memmove(s->buf[1] + s->par[1], s->buf[0] + s->par[0], (size_t)s->par[2]); return 0;
	case TLK_STEP_ZERO: memset(s->buf[0] + s->par[0], 0, (size_t)s->par[1]); return 0;
	}
	if (s->kind >= TLK_STEP_CONV_LAST) return tl_run_conv_last(s->kind - TLK_STEP_CONV_LAST, pool, isa, s->buf, s->par,
		s->winograd);
	return s->kind < TLK_STEP_CONV8 ? 0 : tl_run_conv8(s->kind - TLK_STEP_CONV8, pool, isa, s->buf, s->par,
		s->winograd);
}

// A loop looks for requests to stop about every LOOP_WAIT nanoseconds.
enum { LOOP_WAIT = 200000 };

static int64_t run_loop(tl_step *s, tl_pool *pool, int isa, tl_fault *fault, int64_t *at);

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
		if (s->kind == TLK_STEP_LOOP) {
			if (s->loop->resident) tl_run_resident(s, pool, &tile);
			else oom = run_loop(s, pool, isa, fault, &tile);
			if (oom) return oom;
			if (tile < s->loop->length) return stopped(at, i, tile, i + 1);
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

// The memory of a slot in iteration t, which works at this place.
static char *wired(const tl_loop *l, const tl_wire *w, const tl_step *s, int64_t t, int64_t place) {
	char *p = s->buf[w->buf];
	const int64_t next = l->reverse ? place - 1 : place + 1;
	if (w->operand >= 0) p += s->par[w->operand] * w->width;
	switch (w->route) {
	case TLK_WIRE_ADVANCES: return p + place * w->bytes;
	case TLK_WIRE_CARRY_IN:
		if (t > 0) return l->carry[w->carry];
		if (w->kept >= 0) memcpy(s->buf[w->kept] + place * w->bytes, p, (size_t)w->bytes);
		return p;
	case TLK_WIRE_CARRY_OUT:
		if (t == l->length - 1) return p;
		if (w->kept >= 0) return s->buf[w->kept] + next * w->bytes;
		return (l->length - t) % 2 == 0 ? s->buf[w->spare] : p;
	}
	return p;
}

static int64_t iteration(const tl_loop *l, tl_step *s, tl_pool *pool, int isa, tl_fault *fault, int64_t t) {
	const int64_t place = l->reverse ? l->length - 1 - t : t;
	const int known = fault->set;
	tl_place begin = {0};
	for (int32_t i = l->stay; i < l->nwire; i++) l->prog->slots[l->wire[i].slot] = wired(l, &l->wire[i], s, t, place);
	for (int32_t d = 0; d < l->ndraw; d++) {
		const int32_t n = l->draw[d];
		l->scalars[n - 1] = (uint64_t)s->par[l->operands];
		l->scalars[n] = (uint64_t)(s->par[l->operands + 1] + place * l->drawn) + l->constants[n];
	}
	const int64_t rest = run_steps(l->prog, pool, isa, l->offsets, l->scalars, fault, NULL, &begin);
	for (int32_t i = l->stay; i < l->nwire; i++) {
		const tl_wire *w = &l->wire[i];
		if (w->route == TLK_WIRE_CARRY_OUT) l->carry[w->carry] = l->prog->slots[w->slot];
	}
	if (fault->set && !known) {
		const int64_t within = fault->elem >> TLK_EVENT_BITS; // of a loop in the body; as ir.LoopFault
		fault->elem = (fault->elem & ((INT64_C(1) << TLK_EVENT_BITS) - 1)) +
			((fault->event + (within > 0 ? within : 0)) << TLK_EVENT_BITS);
		fault->event = s->event;
	}
	return rest;
}

// Copies the carries to where the loop's results are, after t iterations. Where a condition ends the loop, the
// last iteration may have written elsewhere.
static void finish(const tl_loop *l, tl_step *s, int64_t t) {
	for (int32_t i = l->stay; i < l->nwire; i++) {
		const tl_wire *w = &l->wire[i];
		if (w->route != TLK_WIRE_CARRY_IN) continue;
		char *to = s->buf[w->last], *from = wired(l, w, s, t, 0);
		if (to != from) memcpy(to, from, (size_t)w->bytes);
	}
}

// Runs the iterations from *at on; *at becomes the number of finished ones. Requests to stop wait for the end of an
// iteration. Where the carries lie follows from the number of the iteration.
static int64_t run_loop(tl_step *s, tl_pool *pool, int isa, tl_fault *fault, int64_t *at) {
	const tl_loop *l = s->loop;
	for (int32_t i = 0; i < l->stay; i++) l->prog->slots[l->wire[i].slot] = wired(l, &l->wire[i], s, 0, 0);
	for (int32_t i = l->stay; i < l->nwire && *at > 0; i++) {
		const tl_wire *w = &l->wire[i];
		const int64_t t = *at - 1;
		if (w->route == TLK_WIRE_CARRY_OUT) l->carry[w->carry] = wired(l, w, s, t, l->reverse ? l->length - 1 - t : t);
	}
	const int attended = tl_attends(pool);
	int64_t rest = 0, t = *at, looked = tl_nanoseconds(), from = t, next = t + 1;
	tl_attend(pool, 0);
	while (t < l->length && !rest) {
		if (l->condition >= 0 && !*wired(l, &l->wire[l->condition], s, t, t)) {
			finish(l, s, t);
			t = l->length;
			break;
		}
		rest = iteration(l, s, pool, isa, fault, t++);
		if (t == l->length && l->condition >= 0) finish(l, s, t);
		if (!attended || t < next) continue;
		const int64_t now = tl_nanoseconds(), each = (now - looked) / (t - from) + 1;
		tl_attend(pool, 1);
		if (tl_stop_asked(pool)) break;
		tl_attend(pool, 0);
		looked = now;
		from = t;
		next = t + 1 + LOOP_WAIT / each;
	}
	tl_attend(pool, attended);
	*at = t;
	return rest;
}

int64_t tl_run(tl_prog *p, tl_pool *pool, int isa, const int64_t *offsets, const uint64_t *scalars, tl_fault *fault,
	int64_t *times, int32_t *stop, int64_t patience, tl_place *at) {
	tl_watch(pool, stop, patience);
	const uint64_t mode = tl_flush_begin(pool);
	const int64_t rest = run_steps(p, pool, isa, offsets, scalars, fault, times, at);
	tl_flush_end(mode);
	tl_attend(pool, 0);
	return rest;
}
