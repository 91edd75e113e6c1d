// Running values along the rows of a tile. A state covers the current chunk only. What came before the chunk is in
// before, if that is set, and joins each value as it is stored. So a chunk's state depends neither on the worker nor on
// whether values are stored.

// Eight elements are joined among themselves first, then with the running value, so that only one operation in eight
// waits for the one before it. careful joins x to y for all values; step is faster and serves rows in which nan(x)
// finds no NaN.
#define TLK_RUNNING_EACH(name, T, A, careful) \
	static __attribute__((noinline)) A name##_each(const T *v, T *d, int64_t n, const A *before, A run) { \
		for (int64_t i = 0; i < n; i++) { \
			A y = run; \
			{ T x = v[i]; run = y = (A)(careful); } \
			if (before) { A x = y; y = *before; y = (A)(careful); } \
			d[i] = (T)y; \
		} \
		return run; \
	}
#define TLK_RUNNING(name, T, A, step, careful, nan) \
	TLK_RUNNING_EACH(name, T, A, careful) \
	static inline A name##_row(const T *v, T *d, int64_t n, const A *before, A run) { \
		int64_t i = 0; \
		int bad = 0; \
		for (int64_t j = 0; j < n; j++) bad |= nan(v[j]); \
		for (; i + 8 <= n && !bad; i += 8) { \
			A p[8], from = run; \
			if (before) { A y = *before, x = run; from = (A)(careful); } \
			p[0] = (A)v[i]; \
			for (int j = 1; j < 8; j++) { A y = p[j - 1]; T x = v[i + j]; p[j] = (A)(step); } \
			for (int j = 0; j < 8; j++) { A y = from, x = p[j]; d[i + j] = (T)(step); } \
			A y = run, x = p[7]; \
			run = (A)(step); \
		} \
		return name##_each(v + i, d + i, n - i, before, run); \
	}
#define TLK_SCANNER(name, T, A, row) \
	TLK_ARG name TLK_P { const T *v = c->reg[q->a]; T *d = c->reg[c->totals && q->b >= 0 ? q->b : q->d]; \
		A *s = c->acc[q->aux].st; const A *before = c->acc[q->aux].before; \
		int64_t m = c->n[TLK_LANE_OUTER], n = c->ilanes; \
		for (int64_t r = 0; r < m; r++, v += n, d += n) s[r] = row; }
#define TLK_SCAN_OF(name, T, A, step, careful, nan) \
	TLK_RUNNING(name, T, A, step, careful, nan) \
	TLK_SCANNER(name, T, A, name##_row(v, d, n, before ? before + r : 0, s[r]))

// Sums and products of floats, in vectors of doubles. The conversions are loops over elements, since GCC splits a
// conversion of whole vectors into halves.
typedef double tl_four __attribute__((vector_size(32), aligned(8), may_alias));
#define TLK_FOUR(s, T) \
	static inline void get_four_##s(tl_four *v, const T *p) { \
		double w[4]; \
		for (int j = 0; j < 4; j++) w[j] = (double)p[j]; \
		memcpy(v, w, sizeof w); \
	} \
	static inline void put_four_##s(T *p, const tl_four *v) { \
		double w[4]; \
		memcpy(w, v, sizeof w); \
		for (int j = 0; j < 4; j++) p[j] = (T)w[j]; \
	}
TLK_FOUR(f32, float) TLK_FOUR(f64, double)

// Sixteen elements at a time, with a scan by doubling in each group of four. If totals is set, no values are stored,
// and elements are joined in the same order, so that states have the same bits.
#define TLK_BLOCKS(name, F, T, OP, ONE) \
	TLK_RUNNING(name, T, double, y OP x, y OP x, TLK_NEVER) \
	static inline double name##_total(const T *v) { \
		tl_four a, b, e, f; \
		get_four_##F(&a, v), get_four_##F(&b, v + 4), get_four_##F(&e, v + 8), get_four_##F(&f, v + 12); \
		a = __builtin_shufflevector(a, b, 0, 4, 2, 6) OP __builtin_shufflevector(a, b, 1, 5, 3, 7); \
		e = __builtin_shufflevector(e, f, 0, 4, 2, 6) OP __builtin_shufflevector(e, f, 1, 5, 3, 7); \
		tl_four t = __builtin_shufflevector(a, e, 0, 1, 4, 5) OP __builtin_shufflevector(a, e, 2, 3, 6, 7); \
		return ((t[0] OP t[1])OP t[2])OP t[3]; \
	} \
	static inline double name##_blocks(const T *v, T *d, int64_t n, const double *before, double run, int totals) { \
		const tl_four one = {ONE, ONE, ONE, ONE}; \
		const double base = before ? *before : ONE; \
		int64_t i = 0; \
		for (; totals && i + 16 <= n; i += 16) run = run OP name##_total(v + i); \
		for (; i + 16 <= n; i += 16) { \
			tl_four p[4]; \
			for (int j = 0; j < 4; j++) { \
				tl_four x; \
				get_four_##F(&x, v + i + 4 * j); \
				x = x OP __builtin_shufflevector(one, x, 0, 4, 2, 6); \
				tl_four y = __builtin_shufflevector(x, x, 1, 1, 3, 3); \
				p[j] = x OP __builtin_shufflevector(one, y, 0, 1, 4, 5); \
			} \
			for (int j = 1; j < 4; j++) p[j] = p[j] OP __builtin_shufflevector(p[j - 1], p[j - 1], 3, 3, 3, 3); \
			const double from = base OP run; \
			for (int j = 0; j < 4; j++) { \
				const tl_four x = from OP p[j]; \
				put_four_##F(d + i + 4 * j, &x); \
			} \
			run = run OP p[3][3]; \
		} \
		return name##_row(v + i, d + i, n - i, before, run); \
	} \
	TLK_SCANNER(name, T, double, name##_blocks(v, d, n, before ? before + r : 0, s[r], c->totals))
TLK_BLOCKS(scan_sum_f32, f32, float, +, 0.0) TLK_BLOCKS(scan_prod_f32, f32, float, *, 1.0)
TLK_BLOCKS(scan_sum_f64, f64, double, +, 0.0) TLK_BLOCKS(scan_prod_f64, f64, double, *, 1.0)

#define TLK_SCAN_ALL(name, T, A, step) TLK_SCAN_OF(name, T, A, step, step, TLK_NEVER)
#define TLK_SCANS(s, T, nan) \
	TLK_SCAN_OF(scan_max_##s, T, T, x > y ? x : y, (x > y || nan(x)) ? x : y, nan) \
	TLK_SCAN_OF(scan_min_##s, T, T, x < y ? x : y, (x < y || nan(x)) ? x : y, nan)
#define TLK_INT_SCANS(s, T) TLK_SCAN_ALL(scan_sum_##s, T, uint64_t, y + x) TLK_SCAN_ALL(scan_prod_##s, T, uint64_t, \
	y *x) TLK_SCANS(s, T, TLK_NEVER)
TLK_SCANS(f32, float, TLK_ISNAN_) TLK_SCANS(f64, double, TLK_ISNAN_)
TLK_INT_SCANS(i32, int32_t) TLK_INT_SCANS(i64, int64_t) TLK_INT_SCANS(u32, uint32_t)
TLK_INT_SCANS(u64, uint64_t)
// Logarithms of sums. The operation is expensive, so each element takes one of them, and a second one only if before is
// set.
#define TLK_LOGSUM_SCAN(name, T) \
	TLK_RUNNING_EACH(name, T, double, tl_logadd_f64(y, x)) \
	TLK_SCANNER(name, T, double, name##_each(v, d, n, before ? before + r : 0, s[r]))
TLK_LOGSUM_SCAN(scan_logsum_f32, float) TLK_LOGSUM_SCAN(scan_logsum_f64, double)
TLK_SCAN_ALL(scan_any, uint8_t, uint8_t, y | x) TLK_SCAN_ALL(scan_all, uint8_t, uint8_t, y &x)
