// Elementwise instructions: one function for each type and shape of operands.

#if defined(__clang__)
#define TLK_VEC _Pragma("clang loop vectorize(assume_safety)")
#define TLK_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TLK_VEC _Pragma("GCC ivdep")
#define TLK_UNROLL _Pragma("GCC unroll 32")
#endif

#define TLK_ARG static void
#define TLK_P (tl_ctx * c, const tl_ins *q)

// Binary, for vector-vector, vector-scalar and scalar-vector operands.
#define TLK_BIN3(name, T, R, expr) TLK_BIN2(name, T, R, expr) \
	TLK_ARG name##_1 TLK_P { int64_t n = c->n[q->lanes]; R *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		T y = *(const T *)c->reg[q->b]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = (R)(expr); } }
#define TLK_BIN2(name, T, R, expr) \
	TLK_ARG name##_0 TLK_P { int64_t n = c->n[q->lanes]; R *d = c->reg[q->d]; \
		const T *a = c->reg[q->a], *b = c->reg[q->b]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) { T x = a[i], y = b[i]; d[i] = (R)(expr); } } \
	TLK_ARG name##_2 TLK_P { int64_t n = c->n[q->lanes]; R *d = c->reg[q->d]; const T *b = c->reg[q->b]; \
		T x = *(const T *)c->reg[q->a]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) { T y = b[i]; d[i] = (R)(expr); } }

// Division by one positive power of two is a shift; what truncation adds below 0 comes first. SHIFTED is of x and its
// quotient v.
#define TLK_DIVISION(name, T, expr, SHIFTED) TLK_BIN2(name, T, T, expr) \
	TLK_ARG name##_1 TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		T y = *(const T *)c->reg[q->b]; \
		if (y > 0 && (y & (y - 1)) == 0) { \
			int by = __builtin_ctzll((uint64_t)y); \
			TLK_VEC for (int64_t i = 0; i < n; i++) { T x = a[i], v = (T)((x < 0 ? x + (y - 1) : x) >> by); d[i] = SHIFTED; } \
			return; \
		} \
		for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = (expr); } }

#define TLK_UN(name, T, R, expr) \
	TLK_ARG name TLK_P { int64_t n = c->n[q->lanes]; R *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = (R)(expr); } }

#define TLK_FLOATS(M) M(f32, float, F32) M(f64, double, F64)
#define TLK_INTS(M) M(i32, int32_t, I32, uint32_t) M(i64, int64_t, I64, uint64_t) M(u32, uint32_t, U32, uint32_t) \
	M(u64, uint64_t, U64, uint64_t)

#define TLK_FLOAT_OPS(s, T, C) \
	TLK_BIN3(add_##s, T, T, x + y) TLK_BIN3(sub_##s, T, T, x - y) TLK_BIN3(mul_##s, T, T, x *y) TLK_BIN3(div_##s, T, T, \
		x / y) \
	TLK_BIN3(min_##s, T, T, (x < y || x != x) ? x : y) TLK_BIN3(max_##s, T, T, (x > y || x != x) ? x : y) \
	TLK_UN(neg_##s, T, T, -x) TLK_UN(isnan_##s, T, uint8_t, x != x)
TLK_FLOATS(TLK_FLOAT_OPS)

#define TLK_INT_OPS(s, T, C, U) \
	TLK_BIN3(add_##s, T, T, (U)x + (U)y) TLK_BIN3(sub_##s, T, T, (U)x - (U)y) TLK_BIN3(mul_##s, T, T, (U)x *(U)y) \
	TLK_DIVISION(div_##s, T, y == 0 ? (T)0 : y == (T)-1 && (T)-1 < 0 ? (T)(0 - (U)x) : x / y, v) \
	TLK_DIVISION(rem_##s, T, y == 0 || (y == (T)-1 && (T)-1 < 0) ? (T)0 : x % y, (T)(x - v * y)) \
	TLK_BIN3(min_##s, T, T, x < y ? x : y) TLK_BIN3(max_##s, T, T, x > y ? x : y) \
	TLK_BIN3(pow_##s, T, T, (T)-1 > 0 ? (T)tl_powu(x, y) : (T)tl_powi((int64_t)x, (int64_t)y)) \
	TLK_BIN3(and_##s, T, T, x &y) TLK_BIN3(or_##s, T, T, x | y) TLK_BIN3(xor_##s, T, T, x ^ y) \
	TLK_BIN3(shl_##s, T, T, (uint64_t)y < sizeof(T) * 8 ? (U)x << (y & (T)(sizeof(T) * 8 - 1)) : 0) \
	TLK_BIN3(shr_##s, T, T, (uint64_t)y < sizeof(T) * 8 ? x >> (y & (T)(sizeof(T) * 8 - 1)) : (x < 0 ? (T)-1 : (T)0)) \
	TLK_UN(neg_##s, T, T, (U)0 - (U)x) TLK_UN(abs_##s, T, T, x < 0 ? (U)0 - (U)x : (U)x) TLK_UN(not_##s, T, T, ~x)
TLK_INTS(TLK_INT_OPS)

#define TLK_CMP(s, T) \
	TLK_BIN3(eq_##s, T, uint8_t, x == y) TLK_BIN3(ne_##s, T, uint8_t, x != y) TLK_BIN3(lt_##s, T, uint8_t, \
		x < y) TLK_BIN3(le_##s, T, uint8_t, x <= y)
TLK_CMP(f32, float) TLK_CMP(f64, double) TLK_CMP(i32, int32_t) TLK_CMP(i64, int64_t) TLK_CMP(u32, uint32_t)
TLK_CMP(u64, uint64_t) TLK_CMP(b8, uint8_t)
TLK_BIN3(and_b8, uint8_t, uint8_t, x &y) TLK_BIN3(or_b8, uint8_t, uint8_t, x | y)
TLK_BIN3(xor_b8, uint8_t, uint8_t, x ^ y)
TLK_UN(not_b8, uint8_t, uint8_t, x ^ 1)

TLK_UN(abs_f32, float, float, tl_asf(tl_asu(x) & 0x7fffffffu))
TLK_UN(abs_f64, double, double, tl_asd(tl_asl(x) & 0x7fffffffffffffffull))
TLK_UN(floor_f32, float, float, __builtin_floorf(x)) TLK_UN(floor_f64, double, double, __builtin_floor(x))
TLK_UN(ceil_f32, float, float, __builtin_ceilf(x)) TLK_UN(ceil_f64, double, double, __builtin_ceil(x))
TLK_UN(trunc_f32, float, float, __builtin_truncf(x)) TLK_UN(trunc_f64, double, double, __builtin_trunc(x))
TLK_UN(round_f32, float, float, __builtin_rintf(x)) TLK_UN(round_f64, double, double, __builtin_rint(x))
TLK_UN(sqrt_f32, float, float, sqrtf(x)) TLK_UN(sqrt_f64, double, double, sqrt(x))
// var 1: exp(a - b), b of one lane. In a softmax this is the pass with the most arithmetic, between passes that only
// read or write, so it prefetches the next row.
#define TLK_EXPONENTIAL(s, T, EXP) \
	TLK_UN(exp_##s##_0, T, T, EXP(x)) \
	TLK_ARG exp_##s##_1 TLK_P { int64_t n = c->n[q->lanes], ahead = c->k->rows * n, i = 0; T *d = c->reg[q->d]; \
		const T *a = c->reg[q->a]; T y = *(const T *)c->reg[q->b]; \
		for (; i + 64 <= n; i += 64) { \
			for (size_t b = 0; b < 64 * sizeof(T); b += 64) __builtin_prefetch((const char *)(a + ahead + i) + b); \
			TLK_VEC for (int64_t j = i; j < i + 64; j++) d[j] = EXP(a[j] - y); \
		} \
		TLK_VEC for (; i < n; i++) d[i] = EXP(a[i] - y); }
TLK_EXPONENTIAL(f32, float, tl_expf) TLK_EXPONENTIAL(f64, double, tl_exp64)
TLK_UN(log_f32, float, float, tl_logf(x)) TLK_UN(log_f64, double, double, tl_log64(x))
TLK_UN(tanh_f32, float, float, tl_tanhf(x)) TLK_UN(tanh_f64, double, double, tl_tanh64(x))
TLK_UN(erf_f32, float, float, tl_erff(x)) TLK_UN(erf_f64, double, double, tl_erf64(x))
TLK_BIN3(rem_f32, float, float, fmodf(x, y)) TLK_BIN3(rem_f64, double, double, fmod(x, y))
// log(exp(x) + exp(y)) = max + log1p(exp(-|x - y|)). NaN propagates; two equal infinities give that infinity.
static inline float tl_logadd_f32(float x, float y) { return x == y ? x + 0.69314718f : x != x || y != y ? x + y :
	fmaxf(x, y) + log1pf(expf(-fabsf(x - y))); }
static inline double tl_logadd_f64(double x, double y) { return x == y ? x + M_LN2 : x != x || y != y ? x + y :
	fmax(x, y) + log1p(exp(-fabs(x - y))); }
TLK_BIN3(logadd_f32, float, float, tl_logadd_f32(x, y)) TLK_BIN3(logadd_f64, double, double, tl_logadd_f64(x, y))

// Arguments beyond the range of the reduction, and NaN, go to the C library. Blocks without such arguments take the
// vector loop. In other blocks each element chooses for itself, so that no result depends on its neighbours.
#define TLK_TRIG_BAD(x) (!((x) <= TLK_TRIG_MAX && (x) >= -TLK_TRIG_MAX))
#define TLK_TRIG(name, T, fast, shift, slow) \
	TLK_ARG name TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		int bad = 0; \
		for (int64_t i = 0; i < n; i++) bad |= TLK_TRIG_BAD(a[i]); \
		if (bad) { for (int64_t i = 0; i < n; i++) d[i] = TLK_TRIG_BAD(a[i]) ? slow(a[i]) : fast(a[i], shift); return; } \
		TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = fast(a[i], shift); }
TLK_TRIG(sin_f32, float, tl_trigf, 0, sinf)
TLK_TRIG(cos_f32, float, tl_trigf, 1, cosf)
TLK_TRIG(sin_f64, double, tl_trig64, 0, sin)
TLK_TRIG(cos_f64, double, tl_trig64, 1, cos)

// Arguments that FAST does not take, and those for which IEEE 754 has rules, go to the C library.
#define TLK_POW_BAD32(x, y) (!((x) > 0.0f) | !((x) < __builtin_inff()) | \
	!(tl_asf(tl_asu(y) & 0x7fffffffu) < __builtin_inff()))
#define TLK_POW_BAD64(x, y) (!((x) != 0.0) | !(tl_asd(tl_asl(x) & 0x7fffffffffffffffull) < __builtin_inf()) | \
	!(tl_asd(tl_asl(y) & 0x7fffffffffffffffull) < __builtin_inf()))

// An exponent of 2 is always a product, so that results do not depend on its number of lanes. FAST computes the rest,
// and EXP2 gives its bits for a base of 2.
#define TLK_POWER(s, T, FAST, EXP2, SLOW, BAD) \
	static void pow_lanes_##s(T *d, const T *a, const T *b, int64_t as, int64_t bs, int64_t n) { \
		enum { M = 64 }; \
		T x[M], y[M]; /* d may be a or b */ \
		if (bs == 0 && *b == 2 && as == 1) { \
			TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = a[i] * a[i]; \
			return; \
		} \
		if (as == 0 && *a == 2) { \
			TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = EXP2(b[i]); \
			return; \
		} \
		for (int64_t i = 0; i < M; i++) x[i] = *a, y[i] = *b; \
		for (int64_t m; n > 0; n -= m, d += m, a += m * as, b += m * bs) { \
			int bad = 0; \
			m = n < M ? n : M; \
			if (as) memcpy(x, a, (size_t)m * sizeof(T)); \
			if (bs) memcpy(y, b, (size_t)m * sizeof(T)); \
			for (int64_t i = 0; i < m; i++) bad |= BAD(x[i], y[i]); \
			TLK_VEC for (int64_t i = 0; i < m; i++) d[i] = y[i] == 2 ? x[i] * x[i] : FAST(x[i], y[i]); \
			for (int64_t i = 0; bad && i < m; i++) \
				if (y[i] != 2 && BAD(x[i], y[i])) d[i] = SLOW(x[i], y[i]); \
		} \
	} \
	TLK_ARG pow_##s##_0 TLK_P { pow_lanes_##s(c->reg[q->d], c->reg[q->a], c->reg[q->b], 1, 1, c->n[q->lanes]); } \
	TLK_ARG pow_##s##_1 TLK_P { pow_lanes_##s(c->reg[q->d], c->reg[q->a], c->reg[q->b], 1, 0, c->n[q->lanes]); } \
	TLK_ARG pow_##s##_2 TLK_P { pow_lanes_##s(c->reg[q->d], c->reg[q->a], c->reg[q->b], 0, 1, c->n[q->lanes]); }
TLK_POWER(f32, float, tl_powf, tl_exp2f, powf, TLK_POW_BAD32)
TLK_POWER(f64, double, tl_pow64, tl_exp2_64, pow, TLK_POW_BAD64)

#define TLK_FMA1(name, T, f, Y, Z) \
	TLK_ARG name TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const T *x = c->reg[q->a], *ys = c->reg[q->b], \
		*zs = c->reg[q->c]; \
		T y = *ys, z = *zs; \
		(void)y, (void)z; \
		TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = f(x[i], Y, Z); }
#define TLK_FMAOP(name, T, f) \
	TLK_FMA1(name##_0, T, f, ys[i], zs[i]) TLK_FMA1(name##_1, T, f, ys[i], z) TLK_FMA1(name##_2, T, f, y, \
		zs[i]) TLK_FMA1(name##_3, T, f, y, z) \
	TLK_ARG name##_4 TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; \
		const T *a = c->reg[q->a], *ys = c->reg[q->b], *zs = c->reg[q->c]; \
		const int32_t *more = c->k->extra + q->aux; \
		const T x = *(const T *)c->reg[more[0]], y = *(const T *)c->reg[more[1]]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = f((a[i] - x) * y, ys[i], zs[i]); } \
	TLK_ARG name##_5 TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; \
		const T *a = c->reg[q->a], *b = c->reg[q->b]; \
		const int32_t *more = c->k->extra + q->aux; \
		const T x = *(const T *)c->reg[more[0]], y = *(const T *)c->reg[more[1]], z = *(const T *)c->reg[more[2]], \
			w = *(const T *)c->reg[more[3]]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = f(a[i] - x, y, f(b[i], z, w)); }
#define TLK_SHIFTEDOP(name, T) \
	TLK_ARG name TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const T *a = c->reg[q->a]; \
		T y = *(const T *)c->reg[q->b], z = *(const T *)c->reg[q->c]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = (a[i] - y) * z; }
TLK_SHIFTEDOP(shifted_f32, float) TLK_SHIFTEDOP(shifted_f64, double)
TLK_FMAOP(fma_f32, float, __builtin_fmaf) TLK_FMAOP(fma_f64, double, __builtin_fma)

#define TLK_SEL(w, T) \
	TLK_ARG sel_##w##_0 TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const uint8_t *m = c->reg[q->a]; \
		const T *x = c->reg[q->b], *y = c->reg[q->c]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) { T u = x[i], v = y[i]; d[i] = m[i] ? u : v; } } \
	TLK_ARG sel_##w##_1 TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const uint8_t *m = c->reg[q->a]; \
		const T *x = c->reg[q->b]; T v = *(T *)c->reg[q->c]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) { T u = x[i]; d[i] = m[i] ? u : v; } } \
	TLK_ARG sel_##w##_2 TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const uint8_t *m = c->reg[q->a]; \
		const T *y = c->reg[q->c]; T u = *(T *)c->reg[q->b]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) { T v = y[i]; d[i] = m[i] ? u : v; } } \
	TLK_ARG sel_##w##_3 TLK_P { int64_t n = c->n[q->lanes]; T *d = c->reg[q->d]; const uint8_t *m = c->reg[q->a]; \
		T u = *(T *)c->reg[q->b], v = *(T *)c->reg[q->c]; \
		TLK_VEC for (int64_t i = 0; i < n; i++) d[i] = m[i] ? u : v; }
TLK_SEL(1, uint8_t) TLK_SEL(4, uint32_t) TLK_SEL(8, uint64_t)

#define TLK_CASTS_FROM(s, T) \
	TLK_UN(cast_##s##_b8, T, uint8_t, x != 0) TLK_UN(cast_##s##_i32, T, int32_t, x) TLK_UN(cast_##s##_i64, T, int64_t, x) \
	TLK_UN(cast_##s##_f32, T, float, x) TLK_UN(cast_##s##_f64, T, double, x)
TLK_CASTS_FROM(b8, uint8_t) TLK_CASTS_FROM(i32, int32_t) TLK_CASTS_FROM(i64, int64_t)
TLK_UN(narrow_f16, float, float, tl_half_to_float(tl_float_to_half(x))) TLK_UN(narrow_bf16, float, float,
	tl_brain_to_float(tl_float_to_brain(x)))
TLK_CASTS_FROM(u32, uint32_t) TLK_CASTS_FROM(f32, float) TLK_CASTS_FROM(f64, double)
TLK_UN(cast_b8_u32, uint8_t, uint32_t, x) TLK_UN(cast_i32_u32, int32_t, uint32_t, x) TLK_UN(cast_i64_u32, int64_t,
	uint32_t, x)
TLK_UN(cast_u32_u32, uint32_t, uint32_t, x) TLK_UN(cast_f32_u32, float, uint32_t, (int64_t)x)
TLK_UN(cast_f64_u32, double,
	uint32_t, (int64_t)x)
// A float below 2^63 goes by way of int64, so that negative numbers wrap.
#define TLK_UNSIGNED(x) ((x) < 9223372036854775808.0 ? (uint64_t)(int64_t)(x) : (uint64_t)(x))
TLK_CASTS_FROM(u64, uint64_t)
TLK_UN(cast_u64_u32, uint64_t, uint32_t, x) TLK_UN(cast_u64_u64, uint64_t, uint64_t, x)
TLK_UN(cast_b8_u64, uint8_t, uint64_t, x) TLK_UN(cast_i32_u64, int32_t, uint64_t, x)
TLK_UN(cast_i64_u64, int64_t, uint64_t, x) TLK_UN(cast_u32_u64, uint32_t, uint64_t, x)
TLK_UN(cast_f32_u64, float, uint64_t, TLK_UNSIGNED(x)) TLK_UN(cast_f64_u64, double, uint64_t, TLK_UNSIGNED(x))
