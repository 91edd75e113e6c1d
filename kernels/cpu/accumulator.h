// The accumulators of a kernel's stages: included by runner.c.
#ifndef TLK_ACCUMULATOR_H
#define TLK_ACCUMULATOR_H

#include <math.h>
#include <string.h>
#include "vector/cpu.h"

static inline int64_t align64(int64_t n) { return (n + 63) & ~(int64_t)63; }

// A set holds the states of all accumulators, ocap lanes each.

static void bind_set(const tl_kern *k, tl_accst *a, char *mem) {
	for (int i = 0; i < k->nacc; i++) {
		a[i].st = mem;
		a[i].before = NULL;
		mem += align64(k->ocap * k->acc[i].bytes);
		a[i].idx = (int64_t *)mem;
		if (k->acc[i].itype) mem += align64(k->ocap * 8);
		a[i].part = (float *)mem;
		if (k->acc[i].op == TLK_SUM && k->acc[i].type == TLK_F32) mem += align64(k->ocap * 4);
		a[i].count = 0;
	}
}

static int64_t index_identity(uint8_t t) { return t == TLK_I64 ? INT64_MAX : t == TLK_I32 ? INT32_MAX :
	(int64_t)UINT32_MAX; }

#define FILL(T, v) do { T *p_ = a->st; T v_ = (T)(v); for (int64_t i = 0; i < n; i++) p_[i] = v_; } while (0)

static void init_acc(const tl_acc *m, tl_accst *a, int64_t n) {
	int high = m->op == TLK_AMIN || m->op == TLK_ARGMIN;
	a->count = 0;
	if (m->itype) for (int64_t i = 0; i < n; i++) a->idx[i] = index_identity(m->itype);
	switch (m->op) {
	case TLK_SUM:
		memset(a->st, 0, (size_t)(n * m->bytes));
		if (m->type == TLK_F32) memset(a->part, 0, (size_t)n * 4);
		return;
	case TLK_ANY: FILL(uint8_t, 0); return;
	case TLK_ALL: FILL(uint8_t, 1); return;
	case TLK_PROD:
		if (m->type == TLK_F32 || m->type == TLK_F64) FILL(double, 1); else FILL(uint64_t, 1);
		return;
	case TLK_LOGSUM: FILL(double, -(double)INFINITY); return;
	}
	switch (m->type) {
	case TLK_F32: FILL(float, high ? INFINITY : -INFINITY); return;
	case TLK_F64: FILL(double, high ? (double)INFINITY : -(double)INFINITY); return;
	case TLK_I32: FILL(int32_t, high ? INT32_MAX : INT32_MIN); return;
	case TLK_I64: FILL(int64_t, high ? INT64_MAX : INT64_MIN); return;
	case TLK_U32: FILL(uint32_t, high ? UINT32_MAX : 0); return;
	case TLK_U64: FILL(uint64_t, high ? UINT64_MAX : 0); return;
	}
}

#define JOIN(T, expr) do { T *p_ = a->st; const T *q_ = b->st; for (int64_t i = 0; i < n; \
	i++) { T x = p_[i], y = q_[i]; p_[i] = (T)(expr); } } while (0)
#define JOIN_ARG(T, better) do { \
		T *p_ = a->st; const T *q_ = b->st; \
		for (int64_t i = 0; i < n; i++) { \
			T x = p_[i], y = q_[i]; \
			int wins = y better x ? 1 : y == x ? b->idx[i] < a->idx[i] : y != y ? (x == x || b->idx[i] < a->idx[i]) : 0; \
			if (wins) p_[i] = y, a->idx[i] = b->idx[i]; \
		} } while (0)
#define JOIN_TYPES(better) \
	switch (m->type) { \
	case TLK_F32: JOIN_WITH(float, better); return; \
	case TLK_F64: JOIN_WITH(double, better); return; \
	case TLK_I32: JOIN_WITH(int32_t, better); return; \
	case TLK_I64: JOIN_WITH(int64_t, better); return; \
	case TLK_U32: JOIN_WITH(uint32_t, better); return; \
	case TLK_U64: JOIN_WITH(uint64_t, better); return; \
	}

// Joins the partial result b, of later elements, into a.
static void join_acc(const tl_acc *m, tl_accst *a, tl_accst *b, int64_t n) {
	int real = m->type == TLK_F32 || m->type == TLK_F64;
	switch (m->op) {
	case TLK_SUM:
		if (!real) { JOIN(uint64_t, x + y); return; }
		if (m->type == TLK_F32 && b->count) for (int64_t i = 0; i < n; i++) ((double *)b->st)[i] += b->part[i];
		JOIN(double, x + y);
		return;
	case TLK_PROD:
		if (real) JOIN(double, x * y); else JOIN(uint64_t, x * y);
		return;
	case TLK_LOGSUM: JOIN(double, x == y ? x + M_LN2 : x != x || y != y ? x + y : fmax(x, y) + log1p(exp(-fabs(x - y))));
	return;
	case TLK_ANY: JOIN(uint8_t, x | y); return;
	case TLK_ALL: JOIN(uint8_t, x & y); return;
#define JOIN_WITH(T, better) JOIN(T, (y better x || y != y) ? y : x)
	case TLK_AMAX: JOIN_TYPES(>) return;
	case TLK_AMIN: JOIN_TYPES(<) return;
#undef JOIN_WITH
#define JOIN_WITH(T, better) JOIN_ARG(T, better)
	case TLK_ARGMAX: JOIN_TYPES(>) return;
	case TLK_ARGMIN: JOIN_TYPES(<) return;
#undef JOIN_WITH
	}
}

static void init_stage(tl_ctx *c, const tl_stage *s, tl_accst *set) {
	for (int i = s->acc0; i < s->acc0 + s->nacc; i++) init_acc(&c->k->acc[i], &set[i], c->n[TLK_LANE_OUTER]);
	for (int i = s->hidden0; i < s->hidden0 + s->nhidden; i++) init_acc(&c->k->acc[i], &set[i], c->n[TLK_LANE_OUTER]);
}

static void join_stage(tl_ctx *c, const tl_stage *s, tl_accst *to, tl_accst *from) {
	for (int i = s->acc0; i < s->acc0 + s->nacc; i++) join_acc(&c->k->acc[i], &to[i], &from[i], c->n[TLK_LANE_OUTER]);
	for (int i = s->hidden0; i < s->hidden0 + s->nhidden; i++) join_acc(&c->k->acc[i], &to[i], &from[i],
		c->n[TLK_LANE_OUTER]);
}

// Gives a chunk's set of a Prefix stage the states of the chunks before it.
static void follow(const tl_stage *s, tl_accst *set, const tl_accst *before) {
	for (int i = s->acc0; i < s->acc0 + s->nacc; i++) set[i].before = before[i].st;
	for (int i = s->hidden0; i < s->hidden0 + s->nhidden; i++) set[i].before = before[i].st;
}

#endif
