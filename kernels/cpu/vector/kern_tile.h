// Instructions that depend on the shape of a tile: loads, stores, expansion, accumulators, checks.

static inline int64_t dim_size(const tl_ctx *c, const tl_dim *d) { return d->dyn ? d->mul * c->chunk[d->dyn] : d->mul; }

static inline int64_t affine_base(const tl_ctx *c, const tl_affine *f) {
	int64_t e = f->base;
	if (f->offset >= 0) e += c->par[f->offset];
	for (int i = 0; i < c->k->outer.n; i++) e += c->opos[i] * f->ostride[i];
	for (int i = 0; i < c->k->inner.n; i++) e += c->ipos[i] * f->istride[i];
	return e;
}

// Runs RUN for each run of a walk: n lanes from lane `at` on, which are the elements from e on with stride s. What
// counts the runs of the last two dims stays in registers, since the runs of narrow rows are short.
#define TLK_WALK(f, RUN) \
	do { \
		const tl_walk *w_ = &(f)->walk[q->lanes]; \
		int last_ = w_->nd - 1; \
		int64_t e = affine_base(c, f), at = 0, n = 1, s = 0, rows_ = 1, step_ = 0; \
		if (last_ >= 0) n = dim_size(c, &w_->d[last_]), s = w_->d[last_].stride; \
		if (last_ > 0) rows_ = dim_size(c, &w_->d[last_ - 1]), step_ = w_->d[last_ - 1].stride; \
		int64_t size_[TLK_MAX_DIMS], ix_[TLK_MAX_DIMS]; \
		for (int i_ = 0; i_ < last_ - 1; i_++) size_[i_] = dim_size(c, &w_->d[i_]), ix_[i_] = 0; \
		for (;;) { \
			for (int64_t r_ = 0; r_ < rows_; r_++, at += n, e += step_) RUN; \
			e -= rows_ * step_; \
			int i_ = last_ - 2; \
			for (; i_ >= 0; i_--) { \
				e += w_->d[i_].stride; \
				if (++ix_[i_] < size_[i_]) break; \
				e -= size_[i_] * w_->d[i_].stride; \
				ix_[i_] = 0; \
			} \
			if (i_ < 0) break; \
		} \
	} while (0)

// Loads a tile of a transposed operand: d[r * n + l] = p[l * s + r], in an order that reads each line of p once.
#define TLK_TURNER(name, S, T, conv) \
	static void transpose_##name(T *d, const S *p, int64_t rows, int64_t n, int64_t s) { \
		for (int64_t l = 0; l < n; l++, p += s) \
			for (int64_t r = 0; r < rows; r++) d[r * n + l] = conv(p[r]); \
	}

#define TLK_LOADER(name, S, T, conv) \
	static inline void name##_run(T *d, const S *p, int64_t n, int64_t s) { \
		if (s == 1) { TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = conv(p[i]); } \
		else if (s == 0) { T v = conv(*p); TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = v; } \
		else if (s == 2) { TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = conv(p[i * 2]); } \
		else for (int64_t i = 0; i < n; i++) d[i] = conv(p[i * s]); \
	} \
	TLK_ARG load_##name TLK_P { const tl_affine *f = &c->k->affine[q->aux]; T *d = c->reg[q->d]; \
		const S *p = (const S *)c->buf[f->buf]; \
		const tl_dim *w = f->walk[q->lanes].d; \
		if (f->walk[q->lanes].nd == 2 && w[0].stride == 1 && w[1].stride != 1) { \
			transpose_##name(d, p + affine_base(c, f), dim_size(c, w), dim_size(c, w + 1), w[1].stride); \
			return; \
		} \
		TLK_WALK(f, name##_run(d + at, p + e, n, s)); } \
	TLK_ARG gather_##name TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; \
		const S *p = (const S *)c->buf[q->aux]; \
		const int64_t *ix = c->reg[q->a]; \
		for (int64_t i = 0; i < n; i++) d[i] = conv(p[ix[i]]); }

// Stores that bypass the caches. A result larger than the caches is then not read from memory before it is overwritten.
static void stream_out(char *p, const char *v, int64_t bytes) {
#if defined(__SSE2__)
	int64_t head = -(intptr_t)p & 15;
	if (bytes > head + 64) {
		memcpy(p, v, (size_t)head);
		for (p += head, v += head, bytes -= head; bytes >= 16; p += 16, v += 16, bytes -= 16) _mm_stream_si128((__m128i *)p,
			_mm_loadu_si128((const __m128i *)v));
	}
#endif
	memcpy(p, v, (size_t)bytes);
}

static inline int store_streams(const tl_ctx *c, const tl_ins *q, int32_t buf) { return q->imm &&
	!(buf < 64 && c->cached >> buf & 1); }

// The first START elements of a run are stored already.
#define TLK_STORER(name, S, T, conv, START) \
	static inline void name##_out(S *p, const T *v, int64_t n, int64_t s, int stream) { \
		if (s == 1 && stream && sizeof(S) == sizeof(T)) stream_out((char *)p, (const char *)v, n * (int64_t)sizeof(T)); \
		else if (s == 1) { TLK_VEC for (int64_t i = START; i < n; i++) p[i] = conv(v[i]); } \
		else for (int64_t i = 0; i < n; i++) p[i * s] = conv(v[i]); \
	} \
	TLK_ARG store_##name TLK_P { const tl_affine *f = &c->k->affine[q->aux]; const T *v = c->reg[q->a]; \
		S *p = (S *)c->buf[f->buf]; \
		int stream = store_streams(c, q, f->buf); \
		TLK_WALK(f, name##_out(p + e, v + at, n, s, stream)); }

// Replaces each element in turn by RESULT, an expression of its old value o and of the scattered value x.
#define TLK_EACH(T, conv, widen, RESULT) \
	for (int64_t i = 0; i < n; i++) { \
		if (g && !g[i]) continue; \
		T o = widen(p[ix[i]]), x = v[i]; \
		(void)o; \
		p[ix[i]] = conv((T)(RESULT)); \
	}
#define TLK_SCATTERER(name, S, T, conv, widen) \
	TLK_ARG scatter_##name TLK_P { int64_t n = c->n[q->lanes]; const T *v = c->reg[q->a]; S *p = (S *)c->buf[q->aux]; \
		const int64_t *ix = c->reg[q->b]; \
		const uint8_t *g = q->c >= 0 ? c->reg[q->c] : 0; \
		switch (q->imm) { \
		case 0: TLK_EACH(T, conv, widen, x) break; \
		case 1: TLK_EACH(T, conv, widen, o + x) break; \
		case 2: TLK_EACH(T, conv, widen, o *x) break; \
		case 3: TLK_EACH(T, conv, widen, o > x || o != o ? o : x) break; \
		default: TLK_EACH(T, conv, widen, o < x || o != o ? o : x) \
		} }

#define TLK_ASIS(x) (x)
#define TLK_TRUTH(x) ((x) != 0)
TLK_TURNER(b8, uint8_t, uint8_t, TLK_TRUTH) TLK_TURNER(w8, uint64_t, uint64_t, TLK_ASIS)
TLK_TURNER(f16, uint16_t, float, tl_half_to_float) TLK_TURNER(bf16, uint16_t, float, tl_brain_to_float)
TLK_LOADER(b8, uint8_t, uint8_t, TLK_TRUTH) TLK_LOADER(w4, uint32_t, uint32_t, TLK_ASIS)
TLK_LOADER(w8, uint64_t, uint64_t,
	TLK_ASIS)
TLK_LOADER(f16, uint16_t, float, tl_half_to_float) TLK_LOADER(bf16, uint16_t, float, tl_brain_to_float)
TLK_STORER(b8, uint8_t, uint8_t, TLK_ASIS, 0) TLK_STORER(w4, uint32_t, uint32_t, TLK_ASIS, 0) TLK_STORER(w8, uint64_t,
	uint64_t, TLK_ASIS, 0)
TLK_STORER(f16, uint16_t, float, tl_float_to_half, tl_fours_to_half(p, v, n)) TLK_STORER(bf16, uint16_t, float,
	tl_float_to_brain, 0)
TLK_SCATTERER(b8, uint8_t, uint8_t, TLK_ASIS, TLK_ASIS) TLK_SCATTERER(i32, int32_t, int32_t, TLK_ASIS, TLK_ASIS)
TLK_SCATTERER(u32, uint32_t, uint32_t, TLK_ASIS, TLK_ASIS) TLK_SCATTERER(u64, uint64_t, uint64_t, TLK_ASIS,
	TLK_ASIS)
TLK_SCATTERER(i64, int64_t, int64_t, TLK_ASIS,
	TLK_ASIS) TLK_SCATTERER(f32, float, float, TLK_ASIS, TLK_ASIS)
TLK_SCATTERER(f64, double, double, TLK_ASIS, TLK_ASIS) TLK_SCATTERER(f16, uint16_t, float, tl_float_to_half,
	tl_half_to_float)
TLK_SCATTERER(bf16, uint16_t, float, tl_float_to_brain, tl_brain_to_float)
#define TLK_NARROW(name, S) \
	TLK_TURNER(name, S, int32_t, TLK_ASIS) TLK_LOADER(name, S, int32_t, TLK_ASIS) TLK_STORER(name, S, int32_t, (S), \
		0) TLK_SCATTERER(name, S, int32_t, (S), TLK_ASIS)
TLK_NARROW(u8, uint8_t) TLK_NARROW(i8, int8_t) TLK_NARROW(i16, int16_t) TLK_NARROW(u16, uint16_t)

#define TLK_FETCH_MAX 16384

// imm 1: a program of several passes writes to the buffer through the register.
TLK_ARG direct TLK_P {
	const tl_affine *f = &c->k->affine[q->aux];
	char *p = c->buf[f->buf] + affine_base(c, f) * tl_type_size(f->type);
	c->reg[q->d] = p;
	// A program of several passes writes rows in bursts, which no hardware prefetcher follows, so the next row is
	// prefetched here.
	int64_t bytes = c->n[q->lanes] * tl_type_size(f->type);
	if (!q->imm || c->totals || bytes > TLK_FETCH_MAX) return;
	for (int64_t i = 0, ahead = c->k->rows * bytes; i < bytes; i += 64) __builtin_prefetch(p + ahead + i, 1);
}

static inline void iota_run(int64_t *d, int64_t e, int64_t n, int64_t s) {
	TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = e + i * s;
}
TLK_ARG iota TLK_P { const tl_affine *f = &c->k->affine[q->aux]; int64_t *d = c->reg[q->d];
	TLK_WALK(f, iota_run(d + at, e, n, s)); }

TLK_ARG code TLK_P { ((tl_code *)(intptr_t)q->imm)(c->reg, c->n[q->lanes]); }
TLK_ARG konst TLK_P { *(int64_t *)c->reg[q->d] = q->imm; }
TLK_ARG param TLK_P { *(int64_t *)c->reg[q->d] = c->par[q->aux]; }

// var 0: one lane is repeated imm times or, if imm is 0, for all lanes of the instruction. var 1: each outer lane is
// repeated along a row of ilanes. var 2: the outer lanes as a whole are repeated imm times or, if imm is 0, ilanes
// times.
#define TLK_EXPANDER(w, T) \
	TLK_ARG expand_##w##_0 TLK_P { int64_t n = q->imm ? q->imm : c->n[q->lanes]; T *d = c->reg[q->d]; \
		T v = *(const T *)c->reg[q->a]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = v; } \
	TLK_ARG expand_##w##_1 TLK_P { int64_t m = c->n[TLK_LANE_OUTER], n = c->ilanes; T *d = c->reg[q->d]; \
		const T *a = c->reg[q->a]; \
		for (int64_t r = 0; r < m; r++, d += n) { T v = a[r]; TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = v; } } \
	TLK_ARG expand_##w##_2 TLK_P { int64_t n = c->n[TLK_LANE_OUTER], times = q->imm ? q->imm : c->ilanes; \
		T *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		for (int64_t r = 0; r < times; r++, d += n) TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = a[i]; }
TLK_EXPANDER(1, uint8_t) TLK_EXPANDER(4, uint32_t) TLK_EXPANDER(8, uint64_t)

// Rows up to this length are folded side by side, one element of each at a time: the additions of a single short row
// would wait for each other.
#define TLK_SHORT 16

// Row sums: each block of TLK_FOLD elements is four vectors of eight partial sums, which join in the state's type. The
// error bound is that of blocked pairwise summation (Higham, The accuracy of floating point summation, 1993). Blocks
// follow each other in the state, so that a row has one sum however it is cut into tiles of whole blocks.
#define TLK_FOLD 1024
#define TLK_EIGHT(T) __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias))

// Folds of rows read TLK_FAR bytes ahead of what they add: the hardware's prefetcher stops at the end of a page, and
// keeps too few lines on their way for the bandwidth of a server.
#define TLK_FAR 2048
#define TLK_STREAM(p, bytes) \
	for (size_t o_ = 0; o_ < (bytes); o_ += 64) __builtin_prefetch((const char *)(p) + TLK_FAR + o_)

#define TLK_ROWSUM(name, T, A, OP) \
	typedef T name##_v TLK_EIGHT(T); \
	typedef A name##_w TLK_EIGHT(A); \
	static inline A name##_row(const T *v, int64_t n, A r) { \
		int64_t i = 0; \
		while (i + 32 <= n) { \
			int64_t e = n - i < TLK_FOLD ? i + (n - i) / 32 * 32 : i + TLK_FOLD; \
			const name##_v *p = (const name##_v *)(v + i); \
			name##_v w = p[0], x = p[1], y = p[2], z = p[3]; \
			for (i += 32; i < e; i += 32) { \
				p = (const name##_v *)(v + i); \
				TLK_STREAM(p, 4 * sizeof *p); \
				w = w OP p[0], x = x OP p[1], y = y OP p[2], z = z OP p[3]; \
			} \
			name##_w q = __builtin_convertvector((w OP y)OP(x OP z), name##_w); \
			r = r OP(((q[0] OP q[4])OP(q[2] OP q[6]))OP((q[1] OP q[5])OP(q[3] OP q[7]))); \
		} \
		for (; i < n; i++) r = (A)(r OP v[i]); \
		return r; \
	} \
	TLK_ARG name##_0 TLK_P { const T *v = c->reg[q->a]; A *s = c->acc[q->aux].st; int64_t m = c->n[TLK_LANE_OUTER], \
		n = c->ilanes; \
		if (n <= TLK_SHORT) { \
			for (int64_t j = 0; j < n; j++) for (int64_t r = 0; r < m; r++) s[r] = (A)(s[r] OP v[r * n + j]); \
			return; \
		} \
		for (int64_t r = 0; r < m; r++, v += n) s[r] = name##_row(v, n, s[r]); }
TLK_ROWSUM(sum_f32, float, double, +) TLK_ROWSUM(sum_f64, double, double, +)

// Row sums of products, of squares of differences from one lane, and of products with such differences, in the order of
// plain sums. Where a difference is taken the next row is prefetched, as in exp_f32_1.
#define TLK_ROWDOT(name, T, V, W, STEP, FROM, AHEAD, VECTOR, SCALAR) \
	static inline double name##_row(const T *x, const T *y, const T from, int64_t n, int64_t ahead, double t) { \
		int64_t i = 0; \
		(void)from, (void)ahead; \
		while (i + 32 <= n) { \
			int64_t e = n - i < TLK_FOLD ? i + (n - i) / 32 * 32 : i + TLK_FOLD; \
			V s[4] = {{0}, {0}, {0}, {0}}; \
			for (; i < e; i += 32) { \
				const V *p = (const V *)(x + i), *r = (const V *)(y + i * STEP); \
				(void)r; \
				if (AHEAD) __builtin_prefetch(AHEAD + ahead + i), __builtin_prefetch(AHEAD + ahead + i + 16); \
				for (int j = 0; j < 4; j++) s[j] += VECTOR; \
			} \
			W q = __builtin_convertvector((s[0] + s[2]) + (s[1] + s[3]), W); \
			t += ((q[0] + q[4]) + (q[2] + q[6])) + ((q[1] + q[5]) + (q[3] + q[7])); \
		} \
		for (; i < n; i++) t += SCALAR; \
		return t; \
	} \
	TLK_ARG name TLK_P { const T *x = c->reg[q->a], *y = c->reg[q->b], from = *(const T *)c->reg[FROM]; \
		double *s = c->acc[q->aux].st; \
		int64_t m = c->n[TLK_LANE_OUTER], n = c->ilanes; \
		for (int64_t r = 0; r < m; r++, x += n, y += n * STEP) s[r] = name##_row(x, y, from, n, c->k->rows * n, s[r]); }
#define TLK_DOTS(s, T, V, W) \
	TLK_ROWDOT(dot_##s, T, V, W, 1, q->a, (const T *)0, p[j] * r[j], (double)x[i] * y[i]) \
	TLK_ROWDOT(squares_##s, T, V, W, 0, q->b, x, (p[j] - from) * (p[j] - from), (double)(x[i] - from) * (x[i] - from)) \
	TLK_ROWDOT(distances_##s, T, V, W, 1, q->c, y, p[j] * (r[j] - from), (double)x[i] * (y[i] - from))
TLK_DOTS(f32, float, sum_f32_v, sum_f32_w) TLK_DOTS(f64, double, sum_f64_v, sum_f64_w)

TLK_ROWSUM(sum_i32, uint32_t, uint64_t, +) TLK_ROWSUM(sum_i64, uint64_t, uint64_t, +)
TLK_ROWSUM(prod_f32, float, double, *) TLK_ROWSUM(prod_f64, double, double, *)
TLK_ROWSUM(prod_i32, uint32_t, uint64_t, *) TLK_ROWSUM(prod_i64, uint64_t, uint64_t, *)
TLK_ROWSUM(any_b8, uint8_t, uint8_t, |) TLK_ROWSUM(all_b8, uint8_t, uint8_t, &)

// Column sums and products, in the type of the state. The state goes through memory, so four rows are added at a time.
// imm is the distance of two rows in elements; 0: rows are contiguous. FOLD is y joined with x.
#define TLK_COLUMNS(T, A, FOLD) \
	const T *v = c->reg[q->a]; \
	A *s = c->acc[q->aux].st; \
	int64_t w = c->n[TLK_LANE_OUTER], step = q->imm ? q->imm : w, j = 0; \
	for (; j + 4 <= c->ilanes; j += 4, v += 4 * step) { \
		const T *v1 = v + step, *v2 = v1 + step, *v3 = v2 + step; \
		TLK_VEC for (int64_t i = 0; i < w; i++) { \
			A y = s[i]; \
			T x = v[i]; \
			y = FOLD; \
			x = v1[i]; \
			y = FOLD; \
			x = v2[i]; \
			y = FOLD; \
			x = v3[i]; \
			s[i] = FOLD; \
		} \
	} \
	for (; j < c->ilanes; j++, v += step) TLK_VEC for (int64_t i = 0; i < w; i++) { A y = s[i]; T x = v[i]; s[i] = FOLD; }
#define TLK_COLFOLD(name, T, A, OP) TLK_ARG name TLK_P { TLK_COLUMNS(T, A, y OP x) }
TLK_COLFOLD(sum_f64_1, double, double, +) TLK_COLFOLD(sum_i32_1, uint32_t, uint64_t, +) TLK_COLFOLD(sum_i64_1, uint64_t,
	uint64_t, +)
TLK_COLFOLD(sum_f32_2, float, double, +) TLK_COLFOLD(prod_f32_1, float, double, *)
TLK_COLFOLD(prod_f64_1, double, double,
	*)
TLK_COLFOLD(prod_i32_1, uint32_t, uint64_t, *) TLK_COLFOLD(prod_i64_1, uint64_t, uint64_t, *)
TLK_COLFOLD(any_b8_1, uint8_t, uint8_t, |) TLK_COLFOLD(all_b8_1, uint8_t, uint8_t, &)

// Column sums of f32 go into f32 parts, which are added to the double sums after 64 rows. Rows are added one after
// another, so that a column has one sum however its rows are cut into tiles whose lengths divide 64 or are multiples.
static void sum_flush(tl_accst *a, int64_t w) {
	double *s = a->st;
	float *p = a->part;
	for (int64_t i = 0; i < w; i++) s[i] += p[i];
	for (int64_t i = 0; i < w; i++) p[i] = 0;
	a->count = 0;
}
TLK_ARG sum_f32_1 TLK_P {
	const float *v = c->reg[q->a];
	tl_accst *a = &c->acc[q->aux];
	int64_t w = c->n[TLK_LANE_OUTER], step = q->imm ? q->imm : w, j = 0;
	float *p = a->part;
	for (; j + 4 <= c->ilanes; j += 4, v += 4 * step) {
		const float *v1 = v + step, *v2 = v1 + step, *v3 = v2 + step;
		TLK_VEC for (int64_t i = 0; i < w; i++) p[i] = p[i] + v[i] + v1[i] + v2[i] + v3[i];
		if ((a->count += 4) >= 64) sum_flush(a, w);
	}
	for (; j < c->ilanes; j++, v += step) {
		TLK_VEC for (int64_t i = 0; i < w; i++) p[i] += v[i];
		if (++a->count >= 64) sum_flush(a, w);
	}
}

// Column sums of products a * b, which are added as they are made.
#define TLK_COLUMN_PRODUCTS(T, STATE, ROW_DONE) \
	const T *x = c->reg[q->a], *y = c->reg[q->b]; \
	tl_accst *a = &c->acc[q->aux]; \
	int64_t w = c->n[TLK_LANE_OUTER]; \
	T *p = STATE; \
	for (int64_t j = 0; j < c->ilanes; j++, x += w, y += w) { \
		TLK_VEC for (int64_t i = 0; i < w; i++) p[i] += x[i] * y[i]; \
		ROW_DONE; \
	}
TLK_ARG colprod_f32 TLK_P { TLK_COLUMN_PRODUCTS(float, a->part, if (++a->count >= 64) sum_flush(a, w)) }
TLK_ARG colprod_f64 TLK_P { TLK_COLUMN_PRODUCTS(double, a->st, (void)0) }

// Columns of a one-row tile: adds a * (b - y) * z, y and z of one lane. The next row is prefetched, as in exp_f32_1.
#define TLK_COLDOT(name, T, A) \
	static void name##_row(A *p, const T *x, const T *v, T y, T z, int64_t w) { \
		int64_t i = 0; \
		for (; i + 64 <= w; i += 64) { \
			for (size_t b = 0; b < 64 * sizeof(T); b += 64) __builtin_prefetch((const char *)(v + w + i) + b); \
			TLK_VEC for (int64_t j = i; j < i + 64; j++) p[j] += x[j] * ((v[j] - y) * z); \
		} \
		for (; i < w; i++) p[i] += x[i] * ((v[i] - y) * z); \
	}
#define TLK_COLDOT_ROW(name, T, STATE) name##_row(STATE, c->reg[q->a], c->reg[q->b], *(const T *)c->reg[q->c], \
	*(const T *)c->reg[c->k->extra[q->imm]], c->n[TLK_LANE_OUTER])
TLK_COLDOT(coldot_f32, float, float) TLK_COLDOT(coldot_f64, double, double)
TLK_ARG coldot_f32 TLK_P {
	tl_accst *a = &c->acc[q->aux];
	TLK_COLDOT_ROW(coldot_f32, float, a->part);
	if (++a->count >= 64) sum_flush(a, c->n[TLK_LANE_OUTER]);
}
TLK_ARG coldot_f64 TLK_P { TLK_COLDOT_ROW(coldot_f64, double, c->acc[q->aux].st); }

// Extremes; NaN wins. name_wide joins the elements of a row to b, four vectors at a time. It returns the number of
// elements that it took, or -1 if one is NaN. A separate comparison finds NaN, so that the rest is a plain maximum.
//
// TLK_WIDE_VECTORS serves the types whose loop GCC leaves scalar: doubles, and floats on SSE2 and NEON. TLK_WIDE_LOOP
// serves the others, for which GCC uses the maximum instruction.
#define TLK_WIDE_VECTORS(name, T, better, nan) \
	typedef T name##_v __attribute__((vector_size(TLK_VL * 4), aligned(sizeof(T)), may_alias)); \
	typedef __typeof__((name##_v){0} < (name##_v){0}) name##_k; \
	static inline int64_t name##_wide(const T *v, int64_t n, T *b) { \
		enum { WIDE = 16 * TLK_VL / sizeof(T) }; \
		if (n < WIDE) return 0; \
		const name##_v *p = (const name##_v *)v, *end = p + n / WIDE * 4; \
		name##_v w[4]; \
		name##_k bad[4]; \
		for (int j = 0; j < 4; j++) w[j] = p[j], bad[j] = p[j] != p[j]; \
		while ((p += 4) < end) \
			for (int j = 0; j < 4; j++) { \
				name##_k k = p[j] better w[j]; \
				w[j] = (name##_v)(((name##_k)p[j] & k) | ((name##_k)w[j] & ~k)); \
				bad[j] |= p[j] != p[j]; \
			} \
		int any = 0; \
		for (int j = 0; j < WIDE; j++) { \
			T x = ((const T *)w)[j]; \
			*b = x better *b ? x : *b; \
		} \
		bad[0] = (bad[0] | bad[1]) | (bad[2] | bad[3]); \
		for (int j = 0; j < WIDE / 4; j++) any |= bad[0][j] != 0; \
		return any ? -1 : n / WIDE * WIDE; \
	}
#define TLK_WIDE_LOOP(name, T, better, nan) \
	static inline int64_t name##_wide(const T *v, int64_t n, T *b) { \
		enum { WIDE = 16 * TLK_VL / sizeof(T) }; \
		if (n < WIDE) return 0; \
		T w[WIDE]; \
		__typeof__((T)0 < (T)0) bad[WIDE]; \
		int64_t i = WIDE; \
		for (int j = 0; j < WIDE; j++) w[j] = v[j], bad[j] = nan(v[j]); \
		for (; i + WIDE <= n; i += WIDE) { \
			TLK_STREAM(v + i, WIDE * sizeof(T)); \
			for (int j = 0; j < WIDE; j++) { \
				T x = v[i + j]; \
				w[j] = x better w[j] ? x : w[j]; \
				bad[j] |= nan(x); \
			} \
		} \
		int any = 0; \
		for (int j = 0; j < WIDE; j++) *b = w[j] better *b ? w[j] : *b, any |= bad[j] != 0; \
		return any ? -1 : i; \
	}
#if TLK_VL == 4
#define TLK_WIDE_F32 TLK_WIDE_VECTORS
#else
#define TLK_WIDE_F32 TLK_WIDE_LOOP
#endif
#define TLK_EXTREME(name, T, better, nan, WIDE) \
	WIDE(name, T, better, nan) \
	static inline T name##_row(const T *v, int64_t n, T b) { \
		int64_t i = name##_wide(v, n, &b); \
		if (i < 0) { \
			for (i = 0; !nan(v[i]);) i++; \
			return v[i]; \
		} \
		for (; i < n; i++) b = (v[i] better b || nan(v[i])) ? v[i] : b; \
		return b; \
	} \
	TLK_ARG name##_0 TLK_P { const T *v = c->reg[q->a]; T *s = c->acc[q->aux].st; int64_t m = c->n[TLK_LANE_OUTER], \
		n = c->ilanes; \
		if (n <= TLK_SHORT) { \
			for (int64_t j = 0; j < n; j++) for (int64_t r = 0; r < m; r++) { T x = v[r * n + j], y = s[r]; \
				s[r] = (x better y || nan(x)) ? x : y; } \
			return; \
		} \
		for (int64_t r = 0; r < m; r++, v += n) s[r] = name##_row(v, n, s[r]); } \
	TLK_ARG name##_1 TLK_P { TLK_COLUMNS(T, T, (x better y || nan(x)) ? x : y) }
#define TLK_ISNAN_(x) ((x) != (x))
#define TLK_NEVER(x) 0
#define TLK_EXTREMES(s, T, nan, WIDE) TLK_EXTREME(max_##s##_r, T, >, nan, WIDE) \
	TLK_EXTREME(min_##s##_r, T, <, nan, WIDE)
TLK_EXTREMES(f32, float, TLK_ISNAN_, TLK_WIDE_F32) TLK_EXTREMES(f64, double, TLK_ISNAN_, TLK_WIDE_VECTORS)
TLK_EXTREMES(i32, int32_t, TLK_NEVER, TLK_WIDE_LOOP) TLK_EXTREMES(i64, int64_t, TLK_NEVER, TLK_WIDE_LOOP)
TLK_EXTREMES(u32,
	uint32_t, TLK_NEVER, TLK_WIDE_LOOP)
TLK_EXTREMES(u64, uint64_t, TLK_NEVER, TLK_WIDE_LOOP)

// The better value wins; of equal values, the one with the smaller index. NaN is better than every number. The index is
// widened to i64; if the instruction has no register of indices (b is -1), it is the number of the inner index.
#define TLK_ARGEXT(name, T, W, better, extreme) \
	static inline int name##_wins(T x, int64_t xi, T y, int64_t yi) { \
		if (x better y) return 1; \
		if (x == y) return xi < yi; \
		if (x != x) return y == y || xi < yi; \
		return 0; \
	} \
	static inline int64_t name##_index(const tl_ctx *c, const tl_ins *q, int64_t i, int64_t count) { \
		if (q->b < 0) return c->ipos[0] + count; \
		const void *p = c->reg[q->b]; \
		return q->imm == TLK_I64 ? ((const int64_t *)p)[i] : q->imm == TLK_I32 ? ((const int32_t *)p)[i] : \
			(int64_t)((const uint32_t *)p)[i]; \
	} \
	/* where x, which is there, or a NaN where x is one, stands first */ \
	static inline int64_t name##_first(const T *v, int64_t n, T x) { \
		int64_t i = 0; \
		for (; i + 64 <= n; i += 64) { \
			int any = 0; \
			for (int64_t j = i; j < i + 64; j++) any |= (v[j] == x) | ((v[j] != v[j]) & (x != x)); \
			if (any) break; \
		} \
		while (!(v[i] == x || (v[i] != v[i] && x != x))) i++; \
		return i; \
	} \
	TLK_ARG name##_0 TLK_P { const T *v = c->reg[q->a]; tl_accst *a = &c->acc[q->aux]; T *s = a->st; \
		int64_t m = c->n[TLK_LANE_OUTER], n = c->ilanes, at = 0; \
		for (int64_t r = 0; r < m; r++, v += n, at += n) { \
			T b = s[r]; \
			int64_t bi = a->idx[r]; \
			T x = extreme##_row(v, n, v[0]); \
			int wins = x better b || (x != x && b == b), ties = x == b || (x != x && b != b); \
			if (q->b >= 0 && (wins || ties)) { /* indices in any order */ \
				for (int64_t j = 0; j < n; j++) { int64_t xi = name##_index(c, q, at + j, j); \
					if (name##_wins(v[j], xi, b, bi)) b = v[j], bi = xi; } \
			} else if (wins || (ties && c->ipos[0] < bi)) { \
				int64_t j = name##_first(v, n, x) + c->ipos[0]; \
				if (wins || j < bi) b = x, bi = j; \
			} \
			s[r] = b, a->idx[r] = bi; \
		} } \
	/* Columns: without a register of indices, 256 at a time, the rows' numbers as wide as the values. */ \
	TLK_ARG name##_1 TLK_P { const T *v = c->reg[q->a]; tl_accst *a = &c->acc[q->aux]; T *s = a->st; \
		int64_t w = c->n[TLK_LANE_OUTER], *idx = a->idx; \
		if (q->b >= 0) { \
			for (int64_t j = 0, at = 0; j < c->ilanes; j++) for (int64_t i = 0; i < w; i++, at++) { \
				int64_t xi = name##_index(c, q, at, j); \
				if (name##_wins(v[at], xi, s[i], idx[i])) s[i] = v[at], idx[i] = xi; \
			} \
			return; \
		} \
		const int64_t step = q->imm ? q->imm : w; \
		for (int64_t n; w > 0; w -= n, v += n, s += n, idx += n) { \
			T best[256]; \
			W at[256]; \
			n = w < 256 ? w : 256; \
			for (int64_t i = 0; i < n; i++) { \
				const int none = idx[i] == INT64_MAX; \
				best[i] = none ? v[i] : s[i], at[i] = none ? 0 : -1; \
			} \
			for (int64_t j = 0; j < c->ilanes; j++) { \
				const T *p = v + j * step; \
				TLK_VEC for (int64_t i = 0; i < n; i++) { \
					T x = p[i], y = best[i]; \
					int wins = (x better y) | ((x != x) & (y == y)); \
					best[i] = wins ? x : y, at[i] = wins ? (W)j : at[i]; \
				} \
			} \
			for (int64_t i = 0; i < n; i++) if (at[i] >= 0) s[i] = best[i], idx[i] = c->ipos[0] + at[i]; \
		} }
#define TLK_ARGEXTS(s, T, W) TLK_ARGEXT(argmax_##s, T, W, >, max_##s##_r) TLK_ARGEXT(argmin_##s, T, W, <, min_##s##_r)
TLK_ARGEXTS(f32, float, int32_t) TLK_ARGEXTS(f64, double, int64_t) TLK_ARGEXTS(i32, int32_t, int32_t) TLK_ARGEXTS(i64,
	int64_t, int64_t)
TLK_ARGEXTS(u32, uint32_t, int32_t) TLK_ARGEXTS(u64, uint64_t, int64_t)

// Logarithms of sums of exponentials, in double.
#define TLK_LOGSUMS(s, T) \
	TLK_ARG logsum_##s##_0 TLK_P { const T *v = c->reg[q->a]; double *d = c->acc[q->aux].st; \
		int64_t m = c->n[TLK_LANE_OUTER], n = c->ilanes; \
		for (int64_t r = 0; r < m; r++, v += n) for (int64_t j = 0; j < n; j++) d[r] = tl_logadd_f64(d[r], v[j]); } \
	TLK_ARG logsum_##s##_1 TLK_P { const T *v = c->reg[q->a]; double *d = c->acc[q->aux].st; \
		int64_t w = c->n[TLK_LANE_OUTER], step = q->imm ? q->imm : w; \
		for (int64_t j = 0; j < c->ilanes; j++, v += step) for (int64_t i = 0; i < w; i++) d[i] = tl_logadd_f64(d[i], v[i]); }
TLK_LOGSUMS(f32, float) TLK_LOGSUMS(f64, double)

// Final values, converted from the state's type to the register's.
#define TLK_FIN(name, A, T) \
	TLK_ARG name TLK_P { const A *s = c->acc[q->aux].st; int64_t n = c->n[TLK_LANE_OUTER]; T *d = c->reg[q->d]; \
		for (int64_t i = 0; i < n; i++) d[i] = (T)s[i]; }
TLK_FIN(fin_d_f32, double, float) TLK_FIN(fin_w8, uint64_t, uint64_t)
TLK_FIN(fin_l_i32, uint64_t, uint32_t) TLK_FIN(fin_w4,
	uint32_t, uint32_t)
TLK_FIN(fin_b8, uint8_t, uint8_t)
TLK_ARG fin_sum_f32 TLK_P {
	if (c->acc[q->aux].count) sum_flush(&c->acc[q->aux], c->n[TLK_LANE_OUTER]);
	fin_d_f32(c, q);
}
TLK_ARG finidx_i64 TLK_P { const int64_t *s = c->acc[q->aux].idx; int64_t n = c->n[TLK_LANE_OUTER], *d = c->reg[q->d];
	for (int64_t i = 0; i < n; i++) d[i] = s[i]; }
TLK_ARG finidx_i32 TLK_P { const int64_t *s = c->acc[q->aux].idx; int64_t n = c->n[TLK_LANE_OUTER];
	uint32_t *d = c->reg[q->d]; for (int64_t i = 0; i < n; i++) d[i] = (uint32_t)s[i]; }

// Keeps the failure of the first tile in order, so that the report does not depend on which worker finds one first.
TLK_ARG check TLK_P {
	const uint8_t *ok = c->reg[q->a];
	int64_t n = c->n[q->lanes];
	uint8_t all = 1;
	for (int64_t i = 0; i < n; i++) all &= ok[i];
	if (all || (c->failed && c->fail_order <= c->order)) return;
	for (int64_t i = 0; i < n; i++) {
		if (ok[i]) continue;
		const void *p = c->reg[q->b];
		c->fail_elem = q->type == TLK_I64 ? ((const int64_t *)p)[i] : q->type == TLK_I32 ? ((const int32_t *)p)[i] :
			(int64_t)((const uint32_t *)p)[i];
		c->failed = 1;
		c->fail_order = c->order;
		return;
	}
}

TLK_ARG nop TLK_P { (void)c; (void)q; }
