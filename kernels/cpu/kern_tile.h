// Instructions that know the tile: loads, stores, expansion, accumulators, checks.

static inline int64_t dim_size(const tl_ctx *c, const tl_dim *d) { return d->dyn ? d->mul * c->chunk[d->dyn] : d->mul; }

static inline int64_t affine_base(const tl_ctx *c, const tl_affine *f) {
	int64_t e = f->base;
	if (f->offset >= 0) e += c->par[f->offset];
	for (int i = 0; i < c->k->outer.n; i++) e += c->opos[i] * f->ostride[i];
	for (int i = 0; i < c->k->inner.n; i++) e += c->ipos[i] * f->istride[i];
	return e;
}

// Visits the runs of a walk: RUN sees the lane number at, the element number e, the
// length n and the stride s of each run.
#define TL_WALK(f, RUN) \
	do { \
		const tl_walk *w_ = &(f)->walk[q->lanes]; \
		int64_t e = affine_base(c, f), at = 0; \
		if (w_->nd == 0) { \
			int64_t n = 1, s = 0; \
			RUN; \
			break; \
		} \
		int last_ = w_->nd - 1; \
		int64_t n = dim_size(c, &w_->d[last_]), s = w_->d[last_].stride; \
		if (last_ == 0) { \
			RUN; \
			break; \
		} \
		int64_t size_[TL_MAX_DIMS], ix_[TL_MAX_DIMS] = {0}; \
		for (int i_ = 0; i_ < last_; i_++) size_[i_] = dim_size(c, &w_->d[i_]); \
		for (;;) { \
			RUN; \
			at += n; \
			int i_ = last_ - 1; \
			for (; i_ >= 0; i_--) { \
				e += w_->d[i_].stride; \
				if (++ix_[i_] < size_[i_]) break; \
				e -= size_[i_] * w_->d[i_].stride; \
				ix_[i_] = 0; \
			} \
			if (i_ < 0) break; \
		} \
	} while (0)

#define TL_LOADER(name, S, T, conv) \
	static inline void name##_run(T *d, const S *p, int64_t n, int64_t s) { \
		if (s == 1) { TL_VEC for (int64_t i = 0; i < n; i++) d[i] = conv(p[i]); } \
		else if (s == 0) { T v = conv(*p); TL_VEC for (int64_t i = 0; i < n; i++) d[i] = v; } \
		else for (int64_t i = 0; i < n; i++) d[i] = conv(p[i * s]); \
	} \
	TL_ARG load_##name TL_P { const tl_affine *f = &c->k->affine[q->aux]; T *d = c->reg[q->d]; const S *p = (const S *)c->buf[f->buf]; \
		TL_WALK(f, name##_run(d + at, p + e, n, s)); } \
	TL_ARG gather_##name TL_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const S *p = (const S *)c->buf[q->aux]; const int64_t *ix = c->reg[q->a]; \
		for (int64_t i = 0; i < n; i++) d[i] = conv(p[ix[i]]); }

#define TL_STORER(name, S, T, conv) \
	static inline void name##_out(S *p, const T *v, int64_t n, int64_t s) { \
		if (s == 1) { TL_VEC for (int64_t i = 0; i < n; i++) p[i] = conv(v[i]); } \
		else for (int64_t i = 0; i < n; i++) p[i * s] = conv(v[i]); \
	} \
	TL_ARG store_##name TL_P { const tl_affine *f = &c->k->affine[q->aux]; const T *v = c->reg[q->a]; S *p = (S *)c->buf[f->buf]; \
		TL_WALK(f, name##_out(p + e, v + at, n, s)); }

#define TL_SCATTERER(name, S, T, conv, widen) \
	TL_ARG scatter_##name TL_P { int64_t n = c->n[q->lanes]; const T *v = c->reg[q->a]; S *p = (S *)c->buf[q->aux]; const int64_t *ix = c->reg[q->b]; \
		const uint8_t *g = q->c >= 0 ? c->reg[q->c] : 0; \
		for (int64_t i = 0; i < n; i++) { \
			if (g && !g[i]) continue; \
			p[ix[i]] = q->imm ? conv((T)(widen(p[ix[i]]) + v[i])) : conv(v[i]); \
		} }

#define TL_ASIS(x) (x)
#define TL_TRUTH(x) ((x) != 0)
TL_LOADER(b8, uint8_t, uint8_t, TL_TRUTH) TL_LOADER(w4, uint32_t, uint32_t, TL_ASIS) TL_LOADER(w8, uint64_t, uint64_t, TL_ASIS)
TL_LOADER(f16, uint16_t, float, tl_half_to_float) TL_LOADER(bf16, uint16_t, float, tl_brain_to_float)
TL_STORER(b8, uint8_t, uint8_t, TL_ASIS) TL_STORER(w4, uint32_t, uint32_t, TL_ASIS) TL_STORER(w8, uint64_t, uint64_t, TL_ASIS)
TL_STORER(f16, uint16_t, float, tl_float_to_half) TL_STORER(bf16, uint16_t, float, tl_float_to_brain)
TL_SCATTERER(b8, uint8_t, uint8_t, TL_ASIS, TL_ASIS) TL_SCATTERER(w4, uint32_t, uint32_t, TL_ASIS, TL_ASIS)
TL_SCATTERER(w8, uint64_t, uint64_t, TL_ASIS, TL_ASIS) TL_SCATTERER(f32, float, float, TL_ASIS, TL_ASIS)
TL_SCATTERER(f64, double, double, TL_ASIS, TL_ASIS) TL_SCATTERER(f16, uint16_t, float, tl_float_to_half, tl_half_to_float)
TL_SCATTERER(bf16, uint16_t, float, tl_float_to_brain, tl_brain_to_float)

TL_ARG direct TL_P {
	static const uint8_t width[TL_TYPES] = {0, 1, 4, 8, 4, 2, 2, 4, 8};
	const tl_affine *f = &c->k->affine[q->aux];
	c->reg[q->d] = c->buf[f->buf] + affine_base(c, f) * width[f->type];
}

static inline void iota_run(int64_t *d, int64_t e, int64_t n, int64_t s) {
	TL_VEC for (int64_t i = 0; i < n; i++) d[i] = e + i * s;
}
TL_ARG iota TL_P { const tl_affine *f = &c->k->affine[q->aux]; int64_t *d = c->reg[q->d]; TL_WALK(f, iota_run(d + at, e, n, s)); }

TL_ARG konst TL_P { *(int64_t *)c->reg[q->d] = q->imm; }
TL_ARG param TL_P { *(int64_t *)c->reg[q->d] = c->par[q->aux]; }

// var 0: one lane to all (of capacity imm, or to the lanes of the kind when imm is 0);
// 1: outer lanes repeated as rows of ilanes; 2: the outer lanes repeated as a whole, imm (0: ilanes) times.
#define TL_EXPANDER(w, T) \
	TL_ARG expand_##w##_0 TL_P { int64_t n = q->imm ? q->imm : c->n[q->lanes]; T *d = c->reg[q->d]; T v = *(const T *)c->reg[q->a]; \
		TL_VEC for (int64_t i = 0; i < n; i++) d[i] = v; } \
	TL_ARG expand_##w##_1 TL_P { int64_t m = c->n[TL_LANE_OUTER], n = c->ilanes; T *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		for (int64_t r = 0; r < m; r++, d += n) { T v = a[r]; TL_VEC for (int64_t i = 0; i < n; i++) d[i] = v; } } \
	TL_ARG expand_##w##_2 TL_P { int64_t n = c->n[TL_LANE_OUTER], times = q->imm ? q->imm : c->ilanes; T *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		for (int64_t r = 0; r < times; r++, d += n) TL_VEC for (int64_t i = 0; i < n; i++) d[i] = a[i]; }
TL_EXPANDER(1, uint8_t) TL_EXPANDER(4, uint32_t) TL_EXPANDER(8, uint64_t)

// Up to this length rows are folded side by side, an element of each at a time: the
// additions of one short row would wait for each other.
#define TL_SHORT 16

// Row sums: 32 (16) partial sums a block, then a tree; the block's sum is added to a
// double. The relative error is that of blocked pairwise summation.
#define TL_ROWSUM(name, T, A, L, OP, ONE) \
	static inline A name##_row(const T *v, int64_t n) { \
		if (n < L) { A r = ONE; for (int64_t i = 0; i < n; i++) r = (A)(r OP v[i]); return r; } \
		T p[L]; \
		for (int j = 0; j < L; j++) p[j] = v[j]; \
		int64_t i = L; \
		for (; i + L <= n; i += L) for (int j = 0; j < L; j++) p[j] = p[j] OP v[i + j]; \
		for (int h = L / 2; h > 0; h /= 2) for (int j = 0; j < h; j++) p[j] = p[j] OP p[j + h]; \
		A r = p[0]; \
		for (; i < n; i++) r = (A)(r OP v[i]); \
		return r; \
	} \
	TL_ARG name##_0 TL_P { const T *v = c->reg[q->a]; A *s = c->acc[q->aux].st; int64_t m = c->n[TL_LANE_OUTER], n = c->ilanes; \
		if (n <= TL_SHORT) { \
			for (int64_t j = 0; j < n; j++) for (int64_t r = 0; r < m; r++) s[r] = (A)(s[r] OP v[r * n + j]); \
			return; \
		} \
		for (int64_t r = 0; r < m; r++, v += n) s[r] = s[r] OP name##_row(v, n); }
TL_ROWSUM(sum_f32, float, double, 32, +, 0) TL_ROWSUM(sum_f64, double, double, 16, +, 0)
TL_ROWSUM(sum_i32, uint32_t, uint64_t, 16, +, 0) TL_ROWSUM(sum_i64, uint64_t, uint64_t, 16, +, 0)
TL_ROWSUM(prod_f32, float, double, 32, *, 1) TL_ROWSUM(prod_f64, double, double, 16, *, 1)
TL_ROWSUM(prod_i32, uint32_t, uint64_t, 16, *, 1) TL_ROWSUM(prod_i64, uint64_t, uint64_t, 16, *, 1)
TL_ROWSUM(any_b8, uint8_t, uint8_t, 32, |, 0) TL_ROWSUM(all_b8, uint8_t, uint8_t, 32, &, 1)

// Columns, in the type of the state.
#define TL_COLFOLD(name, T, A, OP) \
	TL_ARG name TL_P { const T *v = c->reg[q->a]; A *s = c->acc[q->aux].st; int64_t w = c->n[TL_LANE_OUTER]; \
		for (int64_t j = 0; j < c->ilanes; j++, v += w) TL_VEC for (int64_t i = 0; i < w; i++) s[i] = s[i] OP v[i]; }
TL_COLFOLD(sum_f64_1, double, double, +) TL_COLFOLD(sum_i32_1, uint32_t, uint64_t, +) TL_COLFOLD(sum_i64_1, uint64_t, uint64_t, +)
TL_COLFOLD(sum_f32_2, float, double, +) TL_COLFOLD(prod_f32_1, float, double, *) TL_COLFOLD(prod_f64_1, double, double, *)
TL_COLFOLD(prod_i32_1, uint32_t, uint64_t, *) TL_COLFOLD(prod_i64_1, uint64_t, uint64_t, *)
TL_COLFOLD(any_b8_1, uint8_t, uint8_t, |) TL_COLFOLD(all_b8_1, uint8_t, uint8_t, &)

// Column sums of f32 go into f32 parts, which join the double sums after 64 rows.
static void sum_flush(tl_accst *a, int64_t w) {
	double *s = a->st;
	float *p = a->part;
	for (int64_t i = 0; i < w; i++) s[i] += p[i];
	for (int64_t i = 0; i < w; i++) p[i] = 0;
	a->count = 0;
}
TL_ARG sum_f32_1 TL_P {
	const float *v = c->reg[q->a];
	tl_accst *a = &c->acc[q->aux];
	int64_t w = c->n[TL_LANE_OUTER];
	float *p = a->part;
	for (int64_t j = 0; j < c->ilanes; j++, v += w) {
		TL_VEC for (int64_t i = 0; i < w; i++) p[i] += v[i];
		if (++a->count == 64) sum_flush(a, w);
	}
}

// Extremes; NaN wins.
#define TL_EXTREME(name, T, better, nan) \
	TL_ARG name##_0 TL_P { const T *v = c->reg[q->a]; T *s = c->acc[q->aux].st; int64_t m = c->n[TL_LANE_OUTER], n = c->ilanes; \
		if (n <= TL_SHORT) { \
			for (int64_t j = 0; j < n; j++) for (int64_t r = 0; r < m; r++) { T x = v[r * n + j], y = s[r]; s[r] = (x better y || nan(x)) ? x : y; } \
			return; \
		} \
		for (int64_t r = 0; r < m; r++, v += n) { \
			T b = s[r]; \
			int64_t i = 0; \
			if (n >= 64) { \
				T p[32]; \
				for (int j = 0; j < 32; j++) p[j] = v[j]; \
				for (i = 32; i + 32 <= n; i += 32) for (int j = 0; j < 32; j++) { T x = v[i + j], y = p[j]; p[j] = (x better y || nan(x)) ? x : y; } \
				for (int j = 0; j < 32; j++) b = (p[j] better b || nan(p[j])) ? p[j] : b; \
			} \
			for (; i < n; i++) b = (v[i] better b || nan(v[i])) ? v[i] : b; \
			s[r] = b; \
		} } \
	TL_ARG name##_1 TL_P { const T *v = c->reg[q->a]; T *s = c->acc[q->aux].st; int64_t w = c->n[TL_LANE_OUTER]; \
		for (int64_t j = 0; j < c->ilanes; j++, v += w) TL_VEC for (int64_t i = 0; i < w; i++) { T x = v[i], y = s[i]; s[i] = (x better y || nan(x)) ? x : y; } }
#define TL_ISNAN_(x) ((x) != (x))
#define TL_NEVER(x) 0
#define TL_EXTREMES(s, T, nan) TL_EXTREME(max_##s##_r, T, >, nan) TL_EXTREME(min_##s##_r, T, <, nan)
TL_EXTREMES(f32, float, TL_ISNAN_) TL_EXTREMES(f64, double, TL_ISNAN_)
TL_EXTREMES(i32, int32_t, TL_NEVER) TL_EXTREMES(i64, int64_t, TL_NEVER) TL_EXTREMES(u32, uint32_t, TL_NEVER)

// The better value, then the smaller index; NaN is better than every number. The index is widened to i64.
#define TL_ARGEXT(name, T, better) \
	static inline int name##_wins(T x, int64_t xi, T y, int64_t yi) { \
		if (x better y) return 1; \
		if (x == y) return xi < yi; \
		if (x != x) return y == y || xi < yi; \
		return 0; \
	} \
	static inline int64_t name##_index(const tl_ctx *c, const tl_ins *q, int64_t i) { \
		const void *p = c->reg[q->b]; \
		return q->imm == TL_I64 ? ((const int64_t *)p)[i] : q->imm == TL_I32 ? ((const int32_t *)p)[i] : (int64_t)((const uint32_t *)p)[i]; \
	} \
	TL_ARG name##_0 TL_P { const T *v = c->reg[q->a]; tl_accst *a = &c->acc[q->aux]; T *s = a->st; int64_t m = c->n[TL_LANE_OUTER], n = c->ilanes, at = 0; \
		for (int64_t r = 0; r < m; r++, v += n, at += n) { \
			T b = s[r]; \
			int64_t bi = a->idx[r]; \
			for (int64_t i = 0; i < n; ) { \
				int64_t e = i + 64 < n ? i + 64 : n; \
				int any = 0; \
				for (int64_t j = i; j < e; j++) any |= !(b better v[j]); \
				if (any) for (int64_t j = i; j < e; j++) if (!(b better v[j])) { int64_t xi = name##_index(c, q, at + j); if (name##_wins(v[j], xi, b, bi)) b = v[j], bi = xi; } \
				i = e; \
			} \
			s[r] = b, a->idx[r] = bi; \
		} } \
	TL_ARG name##_1 TL_P { const T *v = c->reg[q->a]; tl_accst *a = &c->acc[q->aux]; T *s = a->st; int64_t w = c->n[TL_LANE_OUTER], at = 0; \
		for (int64_t j = 0; j < c->ilanes; j++, v += w, at += w) for (int64_t i = 0; i < w; i++) { \
			int64_t xi = name##_index(c, q, at + i); \
			if (name##_wins(v[i], xi, s[i], a->idx[i])) s[i] = v[i], a->idx[i] = xi; \
		} }
#define TL_ARGEXTS(s, T) TL_ARGEXT(argmax_##s, T, >) TL_ARGEXT(argmin_##s, T, <)
TL_ARGEXTS(f32, float) TL_ARGEXTS(f64, double) TL_ARGEXTS(i32, int32_t) TL_ARGEXTS(i64, int64_t) TL_ARGEXTS(u32, uint32_t)

// Final and running values, from the state's type to the register's.
#define TL_FIN(name, A, T) \
	TL_ARG name TL_P { const A *s = c->acc[q->aux].st; int64_t n = c->n[TL_LANE_OUTER]; T *d = c->reg[q->d]; for (int64_t i = 0; i < n; i++) d[i] = (T)s[i]; }
TL_FIN(fin_d_f32, double, float) TL_FIN(fin_w8, uint64_t, uint64_t) TL_FIN(fin_l_i32, uint64_t, uint32_t) TL_FIN(fin_w4, uint32_t, uint32_t)
TL_FIN(fin_b8, uint8_t, uint8_t)
TL_ARG fin_sum_f32 TL_P {
	if (c->acc[q->aux].count) sum_flush(&c->acc[q->aux], c->n[TL_LANE_OUTER]);
	fin_d_f32(c, q);
}
TL_ARG finidx_i64 TL_P { const int64_t *s = c->acc[q->aux].idx; int64_t n = c->n[TL_LANE_OUTER], *d = c->reg[q->d]; for (int64_t i = 0; i < n; i++) d[i] = s[i]; }
TL_ARG finidx_i32 TL_P { const int64_t *s = c->acc[q->aux].idx; int64_t n = c->n[TL_LANE_OUTER]; uint32_t *d = c->reg[q->d]; for (int64_t i = 0; i < n; i++) d[i] = (uint32_t)s[i]; }

// Running values along the rows of a tile.
#define TL_SCANNER(name, T, A, step) \
	TL_ARG name TL_P { const T *v = c->reg[q->a]; T *d = c->reg[q->d]; A *s = c->acc[q->aux].st; int64_t m = c->n[TL_LANE_OUTER], n = c->ilanes; \
		for (int64_t r = 0; r < m; r++, v += n, d += n) { A y = s[r]; for (int64_t i = 0; i < n; i++) { T x = v[i]; y = (A)(step); d[i] = (T)y; } s[r] = y; } }
#define TL_SCANS(s, T, A, nan) \
	TL_SCANNER(scan_sum_##s, T, A, y + x) TL_SCANNER(scan_prod_##s, T, A, y * x) \
	TL_SCANNER(scan_max_##s, T, T, (x > y || nan(x)) ? x : y) TL_SCANNER(scan_min_##s, T, T, (x < y || nan(x)) ? x : y)
TL_SCANS(f32, float, double, TL_ISNAN_) TL_SCANS(f64, double, double, TL_ISNAN_) TL_SCANS(i32, int32_t, uint64_t, TL_NEVER)
TL_SCANS(i64, int64_t, uint64_t, TL_NEVER) TL_SCANS(u32, uint32_t, uint64_t, TL_NEVER)
TL_SCANNER(scan_any, uint8_t, uint8_t, y | x) TL_SCANNER(scan_all, uint8_t, uint8_t, y &x)

// The first failure in the order of tiles counts, whichever worker meets it.
TL_ARG check TL_P {
	const uint8_t *ok = c->reg[q->a];
	int64_t n = c->n[q->lanes];
	uint8_t all = 1;
	for (int64_t i = 0; i < n; i++) all &= ok[i];
	if (all || (c->failed && c->fail_order <= c->order)) return;
	for (int64_t i = 0; i < n; i++) {
		if (ok[i]) continue;
		const void *p = c->reg[q->b];
		c->fail_elem = q->type == TL_I64 ? ((const int64_t *)p)[i] : q->type == TL_I32 ? ((const int32_t *)p)[i] : (int64_t)((const uint32_t *)p)[i];
		c->failed = 1;
		c->fail_order = c->order;
		return;
	}
}

TL_ARG nop TL_P { (void)c; (void)q; }
