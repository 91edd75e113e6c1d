// Runs loops whose values stay in registers. Machine code runs many iterations of a block of lanes in one call; between
// calls the carries are in memory, so that a loop can stop.
#include <string.h>
#include "vector/cpu.h"

// A loop looks for requests to stop about every RESIDENT_WAIT nanoseconds; the first look comes after RESIDENT_FIRST
// operations. Threads share blocks of lanes where a call has RESIDENT_PARALLEL operations.
enum { RESIDENT_WAIT = 200000, RESIDENT_FIRST = 1 << 18, RESIDENT_PARALLEL = 1 << 19 };

void TLK_CODE_CALL tl_call_lanes(const tl_lanes *f, char *area) {
	void *reg[3] = {area, area + f->step, area + 2 * f->step};
	tl_ctx c;
	c.reg = reg;
	c.n[f->ins.lanes] = f->n;
	f->ins.fn(&c, &f->ins);
}

typedef struct {
	const tl_step *s;
	const tl_resident *r;
	int64_t place, n; // first place, and number of iterations
	int64_t left;
} share;

static void run_blocks(void *arg, int worker, int64_t begin, int64_t end) {
	share *h = arg;
	const tl_resident *r = h->r;
	const tl_step *s = h->s;
	(void)worker;
	void *table[TLK_MOST_ENTRIES];
	for (int64_t b = begin; b < end; b++) {
		int64_t lane = b * r->block;
		if (lane > r->lanes - r->block) lane = r->lanes - r->block; // the last block overlaps the one before
		for (int32_t i = 0; i < r->nentry; i++) {
			const tl_entry *e = &r->entry[i];
			char *p = NULL;
			switch (e->role) {
			case TLK_ENTRY_CALL: table[i] = e->call; continue;
			case TLK_ENTRY_CARRY_IN: p = r->carry[e->carry].now; break;
			case TLK_ENTRY_CARRY_OUT: p = r->carry[e->carry].next; break;
			default:
				p = s->buf[e->buf] + h->place * e->place;
				if (e->operand >= 0) p += s->par[e->operand] * e->width;
			}
			table[i] = p + lane * e->lane;
		}
		const int64_t left = r->code(table, h->n);
		if (b == 0) h->left = left;
	}
}

static int64_t place_of(const tl_loop *l, int64_t t) { return l->reverse ? l->length - 1 - t : t; }

// Decides where the carries are before iteration t, and where they go before iteration to. Both differ, because blocks
// read what others write.
static void place_carries(const tl_loop *l, const tl_step *s, tl_resident_carry *c, int64_t t, int64_t to) {
	char *out = s->buf[c->out];
	if (t == 0) {
		c->now = s->buf[c->buf];
		if (c->operand >= 0) c->now += s->par[c->operand] * c->width;
	} else if (c->kept >= 0) {
		c->now = s->buf[c->kept] + place_of(l, t) * c->bytes;
	}
	if (to < l->length && c->kept >= 0) out = s->buf[c->kept] + place_of(l, to) * c->bytes;
	else if (c->kept < 0 && (c->now == out || (to < l->length && c->now != s->buf[c->spare]))) out = s->buf[c->spare];
	c->next = out;
}

// Moves the carries to another buffer: the results at the end, the spare buffers where the loop stops.
static void settle(const tl_step *s, tl_resident_carry *c, int end) {
	char *to = end ? s->buf[c->out] : c->kept >= 0 ? c->now : s->buf[c->spare];
	if (to != c->now) memcpy(to, c->now, (size_t)c->bytes);
	c->now = to;
}

void tl_run_resident(tl_step *s, tl_pool *pool, int64_t *at) {
	const tl_loop *l = s->loop;
	tl_resident *r = l->resident;
	const int64_t blocks = (r->lanes + r->block - 1) / r->block, each = r->cost * blocks;
	const int attended = tl_attends(pool);
	int64_t t = *at, n = RESIDENT_FIRST / each + 1;
	if (!attended) n = l->length;
	for (int32_t i = 0; i < r->ncarry && t > 0; i++)
		if (r->carry[i].kept < 0) r->carry[i].now = s->buf[r->carry[i].spare];
	while (t < l->length) {
		if (n > l->length - t) n = l->length - t;
		for (int32_t i = 0; i < r->ncarry; i++) place_carries(l, s, &r->carry[i], t, t + n);
		const int64_t began = attended ? tl_nanoseconds() : 0;
		share h = {s, r, place_of(l, t), n, 0};
		if (blocks > 1 && n >= RESIDENT_PARALLEL / each) tl_parallel_whole(pool, blocks, 1, run_blocks, &h);
		else run_blocks(&h, 0, 0, blocks);
		t = h.left ? l->length : t + n;
		for (int32_t i = 0; i < r->ncarry; i++) r->carry[i].now = r->carry[i].next;
		if (t == l->length || !attended) continue;
		const int64_t took = tl_nanoseconds() - began + 1;
		if (tl_stop_asked(pool)) break;
		n = took < RESIDENT_WAIT / 64 ? n * 64 : (int64_t)((double)n * RESIDENT_WAIT / (double)took) + 1;
	}
	for (int32_t i = 0; i < r->ncarry; i++) settle(s, &r->carry[i], t == l->length);
	*at = t;
}
