// Stable radix sort of rows, least significant digit first. An element becomes an item: its index in the row, and a key
// that as an unsigned number has the order asked for. Digits in which all keys agree are skipped. Threads share the
// rows; if rows are few and long, all threads sort each of them together.
#include <string.h>
#include "cpu.h"

enum {
	DIGIT = 256,
	SHORT = 48,        // items from which counting digits beats insertion
	SPLIT = 1 << 15,   // items from which a row is shared by all threads
	CLAIM = 1 << 13,   // items of one claim from the pool
	PARTS = 64,        // most parts of a row
	FEW = 256,         // up to this `keep`, elements are compared with the worst that is kept so far
	BLOCK = 16,        // elements of one such comparison
	TOP_BITS = 11,     // bits of a key by which the first elements are picked out
};

typedef struct { uint64_t key, place; } wide_item;

typedef struct {
	const tl_sort *s;
	tl_pool *pool;
	char *room;
	const char *x;
	char *values;
	int64_t *indices;
	int64_t rows, n, inner, keep, souter, step, sinner;
	uint64_t low, range; // i64 whose range is below 2^32: the least, and the greatest less the least
	int bits;            // low bits of a key that are in use
	// The row that all threads sort together.
	int64_t row, parts, items; // items: the number still to be sorted
	int digit;
	void *from, *to;
	int64_t (*count)[DIGIT];
	int failed;
} sorter;

static const char *row_of(const sorter *x, int64_t r) {
	return x->x + (r / x->inner * x->souter + r % x->inner * x->sinner) * tl_type_size(x->s->type);
}

// The key of a float is its bits: all inverted if it is negative, else with the sign bit inverted (Herf, Radix Tricks,
// 2001). NaN comes last, and -0 equals 0.
#define FLOAT_KEY(T, SIGN, INF) \
	T u = v, sign = (T)SIGN; \
	if ((T)(u & (T)~sign) > (T)INF) u = (T)~0; \
	else u = u == sign ? sign : (u & sign) ? (T)~u : (T)(u | sign);
#define PLAIN_KEY(T, SIGN, INF) T u = v ^ (T)SIGN;

static inline uint64_t narrow_of(uint64_t key, int64_t j) { return key << 32 | (uint64_t)j; }
static inline wide_item wide_of(uint64_t key, int64_t j) { return (wide_item){key, (uint64_t)j}; }

// Writes the items of elements [begin, end) of a row to d.
#define LOADER(name, ITEM, make, T, KEY, SIGN, INF) \
	static void name(const sorter *x, const char *row, int64_t begin, int64_t end, ITEM *d) { \
		const T *e = (const T *)row; \
		T flip = x->s->descending ? (T)~0 : 0; \
		for (int64_t j = begin; j < end; j++) { T v = e[j * x->step]; \
			KEY(T, SIGN, INF) d[j - begin] = make((T)(u ^ flip), j); } \
	}
LOADER(load_bool, uint64_t, narrow_of, uint8_t, PLAIN_KEY, 0, 0)
LOADER(load_u32, uint64_t, narrow_of, uint32_t, PLAIN_KEY, 0, 0)
LOADER(load_i32, uint64_t, narrow_of, uint32_t, PLAIN_KEY, 0x80000000u, 0)
LOADER(load_f16, uint64_t, narrow_of, uint16_t, FLOAT_KEY, 0x8000, 0x7c00)
LOADER(load_bf16, uint64_t, narrow_of, uint16_t, FLOAT_KEY, 0x8000, 0x7f80)
LOADER(load_f32, uint64_t, narrow_of, uint32_t, FLOAT_KEY, 0x80000000u, 0x7f800000)
LOADER(load_i64, wide_item, wide_of, uint64_t, PLAIN_KEY, 1ull << 63, 0)
LOADER(load_f64, wide_item, wide_of, uint64_t, FLOAT_KEY, 1ull << 63, 0x7ff0000000000000ull)

// Items of i64 elements whose range is below 2^32: the key is the distance from the first in the order asked for.
static void load_ranged(const sorter *x, const char *row, int64_t begin, int64_t end, uint64_t *d) {
	const uint64_t *e = (const uint64_t *)row;
	const uint64_t from = x->s->descending ? x->low + x->range : x->low, sign = x->s->descending ? ~0ull : 0;
	for (int64_t j = begin; j < end; j++) d[j - begin] = narrow_of(((e[j * x->step] - from) ^ sign) - sign, j);
}

static void load_narrow(const sorter *x, const char *row, int64_t begin, int64_t end, uint64_t *d) {
	switch (x->s->type) {
	case TLK_BOOL: load_bool(x, row, begin, end, d); break;
	case TLK_U32: load_u32(x, row, begin, end, d); break;
	case TLK_I32: load_i32(x, row, begin, end, d); break;
	case TLK_F16: load_f16(x, row, begin, end, d); break;
	case TLK_BF16: load_bf16(x, row, begin, end, d); break;
	case TLK_I64: load_ranged(x, row, begin, end, d); break;
	default: load_f32(x, row, begin, end, d);
	}
}

static void load_wide(const sorter *x, const char *row, int64_t begin, int64_t end, wide_item *d) {
	if (x->s->type == TLK_I64) load_i64(x, row, begin, end, d);
	else load_f64(x, row, begin, end, d);
}

// Whether a block may hold an element that sorts before worst. A block with NaN counts as one that may.
#define BEATS(name, T) \
	static int name(const T *v, T worst, int descending) { \
		int any = 0; \
		if (descending) for (int i = 0; i < BLOCK; i++) any |= !(v[i] <= worst); \
		else for (int i = 0; i < BLOCK; i++) any |= !(v[i] >= worst); \
		return any; \
	}
BEATS(beats_i32, int32_t) BEATS(beats_i64, int64_t) BEATS(beats_f32, float) BEATS(beats_f64, double)

// BEATS for n elements of a row from `at` on, with the element at place as worst. Returns 1 without a look where
// comparing keys costs no more.
static int may_beat(const sorter *x, const char *row, int64_t at, int64_t n, int64_t place) {
	if (x->step != 1 || n < BLOCK) return 1;
	switch (x->s->type) {
	case TLK_I32: return beats_i32((const int32_t *)row + at, ((const int32_t *)row)[place], x->s->descending);
	case TLK_I64: return beats_i64((const int64_t *)row + at, ((const int64_t *)row)[place], x->s->descending);
	case TLK_F32: return beats_f32((const float *)row + at, ((const float *)row)[place], x->s->descending);
	case TLK_F64: return beats_f64((const double *)row + at, ((const double *)row)[place], x->s->descending);
	}
	return 1;
}

#define NARROW_KEY(e) ((e) >> 32)
#define NARROW_PLACE(e) ((int64_t)((e) & 0xffffffffu))
#define WIDE_KEY(e) ((e).key)
#define WIDE_PLACE(e) ((int64_t)(e).place)

// The functions below exist for both widths of items.
#define SORT(name, ITEM, KEYOF, PLACEOF) \
	static void name##_store(const sorter *x, int64_t r, int64_t begin, int64_t end, const ITEM *e) { \
		int w = tl_type_size(x->s->type); \
		const char *row = row_of(x, r); \
		int64_t at = (r / x->inner * x->keep + begin) * x->inner + r % x->inner; \
		for (int64_t j = begin; j < end; j++, at += x->inner) { \
			int64_t place = PLACEOF(e[j]); \
			x->indices[at] = place; \
			switch (w) { \
			case 1: ((uint8_t *)x->values)[at] = ((const uint8_t *)row)[place * x->step]; break; \
			case 2: ((uint16_t *)x->values)[at] = ((const uint16_t *)row)[place * x->step]; break; \
			case 4: ((uint32_t *)x->values)[at] = ((const uint32_t *)row)[place * x->step]; break; \
			default: ((uint64_t *)x->values)[at] = ((const uint64_t *)row)[place * x->step]; \
			} \
		} \
	} \
	/* Keeps, in their order, the items that may be among the first keep; gives their number. */ \
	static int64_t name##_pick(const sorter *x, ITEM *e, int64_t n) { \
		int shift = x->bits > TOP_BITS ? x->bits - TOP_BITS : 0; \
		int64_t count[1 << TOP_BITS] = {0}; \
		for (int64_t i = 0; i < n; i++) count[KEYOF(e[i]) >> shift]++; \
		uint64_t last = 0; \
		for (int64_t sum = count[0]; sum < x->keep; sum += count[++last]) {} \
		int64_t m = 0; \
		for (int64_t i = 0; i < n; i++) { \
			ITEM v = e[i]; \
			e[m] = v; \
			m += KEYOF(v) >> shift <= last; \
		} \
		return m; \
	} \
	/* Sorts e, of n items, with b for room; gives the one that holds the result. */ \
	static ITEM *name##_items(const sorter *x, ITEM *e, ITEM *b, int64_t n) { \
		if (n <= SHORT) { \
			for (int64_t i = 1; i < n; i++) { \
				ITEM v = e[i]; \
				int64_t j = i; \
				for (; j > 0 && KEYOF(v) < KEYOF(e[j - 1]); j--) e[j] = e[j - 1]; \
				e[j] = v; \
			} \
			return e; \
		} \
		int digits = (x->bits + 7) / 8; \
		int64_t count[8][DIGIT]; \
		memset(count, 0, (size_t)digits * sizeof count[0]); \
		for (int64_t i = 0; i < n; i++) { \
			uint64_t key = KEYOF(e[i]); \
			for (int d = 0; d < digits; d++, key >>= 8) count[d][key & 255]++; \
		} \
		for (int d = 0; d < digits; d++) { \
			int64_t *c = count[d], at = 0; \
			if (c[KEYOF(e[0]) >> 8 * d & 255] == n) continue; \
			for (int k = 0; k < DIGIT; k++) { int64_t m = c[k]; c[k] = at; at += m; } \
			for (int64_t i = 0; i < n; i++) b[c[KEYOF(e[i]) >> 8 * d & 255]++] = e[i]; \
			ITEM *t = e; \
			e = b; \
			b = t; \
		} \
		return e; \
	} \
	/* The first keep items of a row, keep <= FEW: what comes before the last of those held is gathered behind them, and \
	   sorted with them when there are room items. Of equal keys the earlier item is held already. */ \
	static ITEM *name##_few(const sorter *x, const char *row, ITEM *e) { \
		int64_t room = 2 * x->keep + 16, m = room, keep = x->keep; \
		ITEM *b = e + room + BLOCK, block[BLOCK]; \
		load_##name(x, row, 0, room, e); \
		for (int64_t at = room;; at += BLOCK) { \
			if (m >= room || at >= x->n) { \
				ITEM *s = name##_items(x, e, b, m); \
				if (at >= x->n) return s; \
				if (s != e) memcpy(e, s, (size_t)keep * sizeof *e); \
				m = keep; \
			} \
			uint64_t worst = KEYOF(e[keep - 1]); \
			int64_t n = x->n - at < BLOCK ? x->n - at : BLOCK; \
			if (!may_beat(x, row, at, n, PLACEOF(e[keep - 1]))) continue; \
			load_##name(x, row, at, at + n, block); \
			for (int64_t i = 0; i < n; i++) \
				if (KEYOF(block[i]) < worst) e[m++] = block[i]; \
		} \
	} \
	static void name##_rows(void *arg, int worker, int64_t begin, int64_t end) { \
		sorter *x = arg; \
		for (int64_t r = begin; r < end; r++) { \
			ITEM *e = x->room ? (ITEM *)x->room + 2 * r * x->n : tl_scratch(x->pool, worker, 2 * x->n * (int64_t)sizeof(ITEM)); \
			if (!e) { x->failed = 1; return; } \
			if (x->keep < x->n / 4 && x->keep <= FEW && x->n > 4 * SHORT) { \
				name##_store(x, r, 0, x->keep, name##_few(x, row_of(x, r), e)); \
				continue; \
			} \
			load_##name(x, row_of(x, r), 0, x->n, e); \
			int64_t n = x->keep < x->n / 4 && x->n > 4 * SHORT ? name##_pick(x, e, x->n) : x->n; \
			name##_store(x, r, 0, x->keep, name##_items(x, e, e + x->n, n)); \
		} \
	} \
	/* The parts of the row that all threads sort. */ \
	static void name##_load_job(void *arg, int worker, int64_t begin, int64_t end) { \
		sorter *x = arg; \
		(void)worker; \
		for (int64_t p = begin; p < end; p++) load_##name(x, row_of(x, x->row), part(x, p), part(x, p + 1), \
			(ITEM *)x->from + part(x, p)); \
	} \
	static void name##_count_job(void *arg, int worker, int64_t begin, int64_t end) { \
		sorter *x = arg; \
		const ITEM *e = x->from; \
		(void)worker; \
		for (int64_t p = begin; p < end; p++) { \
			int64_t *c = x->count[p]; \
			memset(c, 0, sizeof x->count[0]); \
			for (int64_t i = part(x, p); i < part(x, p + 1); i++) c[KEYOF(e[i]) >> 8 * x->digit & 255]++; \
		} \
	} \
	static void name##_move_job(void *arg, int worker, int64_t begin, int64_t end) { \
		sorter *x = arg; \
		const ITEM *e = x->from; \
		ITEM *to = x->to; \
		(void)worker; \
		for (int64_t p = begin; p < end; p++) { \
			int64_t *c = x->count[p]; \
			for (int64_t i = part(x, p); i < part(x, p + 1); i++) to[c[KEYOF(e[i]) >> 8 * x->digit & 255]++] = e[i]; \
		} \
	} \
	static void name##_store_job(void *arg, int worker, int64_t begin, int64_t end) { \
		sorter *x = arg; \
		(void)worker; \
		for (int64_t p = begin; p < end; p++) name##_store(x, x->row, x->keep * p / x->parts, x->keep * (p + 1) / x->parts, \
			x->from); \
	} \
	static void name##_together(sorter *x, int64_t r) { \
		x->row = r; \
		x->from = (ITEM *)x->room + 2 * r * x->n; \
		x->to = (ITEM *)x->from + x->n; \
		x->items = x->n; \
		tl_parallel(x->pool, x->parts, 1, name##_load_job, x); \
		if (x->keep < x->n / 4) x->items = name##_pick(x, x->from, x->n); \
		if (x->items < SPLIT) x->from = name##_items(x, x->from, x->to, x->items); \
		else for (x->digit = 0; x->digit < (x->bits + 7) / 8; x->digit++) { \
			tl_parallel(x->pool, x->parts, 1, name##_count_job, x); \
			if (!offsets(x)) continue; \
			tl_parallel(x->pool, x->parts, 1, name##_move_job, x); \
			void *t = x->from; \
			x->from = x->to; \
			x->to = t; \
		} \
		tl_parallel(x->pool, x->parts, 1, name##_store_job, x); \
	}

static int64_t part(const sorter *x, int64_t p) { return x->items * p / x->parts; }

// Turns the counts of each digit value into the positions at which the parts write their items. Returns 0 if all items
// agree in the digit.
static int offsets(sorter *x) {
	int64_t at = 0;
	for (int k = 0; k < DIGIT; k++) {
		int64_t first = at;
		for (int64_t p = 0; p < x->parts; p++) {
			int64_t n = x->count[p][k];
			x->count[p][k] = at;
			at += n;
		}
		if (at - first == x->items) return 0;
	}
	return 1;
}

SORT(narrow, uint64_t, NARROW_KEY, NARROW_PLACE)
SORT(wide, wide_item, WIDE_KEY, WIDE_PLACE)

typedef struct { int64_t low, high; char pad[48]; } bound; // a cache line each
typedef struct { const sorter *x; int64_t pieces; bound of[TLK_MAX_WORKERS]; } bounds;

static void bound_job(void *arg, int worker, int64_t begin, int64_t end) {
	bounds *b = arg;
	const sorter *x = b->x;
	int64_t low = b->of[worker].low, high = b->of[worker].high;
	for (int64_t i = begin; i < end; i++) {
		const int64_t p = i % b->pieces, to = x->n * (p + 1) / b->pieces;
		const int64_t *e = (const int64_t *)row_of(x, i / b->pieces);
		for (int64_t j = x->n * p / b->pieces; j < to; j++) {
			const int64_t v = e[j * x->step];
			low = v < low ? v : low;
			high = v > high ? v : high;
		}
	}
	b->of[worker].low = low, b->of[worker].high = high;
}

// Finds low, range and bits of i64 elements. Returns whether their keys fit 32 bits.
static int narrows(sorter *x) {
	const int64_t items = x->rows * x->n;
	if (x->s->type != TLK_I64 || items == 0) return 0;
	bounds b = {.x = x, .pieces = x->n / CLAIM + 1};
	for (int i = 0; i < TLK_MAX_WORKERS; i++) b.of[i].low = INT64_MAX, b.of[i].high = INT64_MIN;
	tl_parallel(x->pool, x->rows * b.pieces, SPLIT / (x->n < CLAIM ? x->n + 1 : CLAIM) + 1, bound_job, &b);
	int64_t low = INT64_MAX, high = INT64_MIN;
	for (int i = 0; i < TLK_MAX_WORKERS; i++) {
		low = b.of[i].low < low ? b.of[i].low : low;
		high = b.of[i].high > high ? b.of[i].high : high;
	}
	x->low = (uint64_t)low, x->range = (uint64_t)high - (uint64_t)low;
	if (x->range >> 32) return 0;
	for (x->bits = 1; x->bits < 32 && x->range >> x->bits;) x->bits++;
	return 1;
}

int64_t tl_run_sort(const tl_sort *s, tl_pool *pool, char **buf, const int64_t *par) {
	sorter x = {.s = s, .pool = pool, .values = buf[1], .indices = (int64_t *)buf[2], .n = par[s->n],
		.inner = par[s->inner], .keep = par[s->keep],
		.souter = par[s->souter], .step = par[s->step], .sinner = par[s->sinner]};
	x.x = buf[0] + par[s->offset] * tl_type_size(s->type);
	x.rows = par[s->outer] * x.inner;
	if (s->room >= 0) x.room = buf[s->room];
	x.bits = 8 * tl_type_size(s->type);
	int wide = tl_type_size(s->type) == 8 && !narrows(&x), threads = tl_pool_threads(pool);
	if (x.n < SPLIT || threads == 1 || x.rows >= 2 * threads) {
		tl_parallel(pool, x.rows, x.n < CLAIM ? CLAIM / (x.n + 1) + 1 : 1, wide ? wide_rows : narrow_rows, &x);
		return x.failed ? 4 * x.n * (int64_t)sizeof(uint64_t) : 0;
	}
	// Two parts for each thread: a late thread then delays the others by half a share.
	x.parts = 2 * threads < PARTS ? 2 * threads : PARTS;
	x.count = (void *)tl_scratch(pool, 0, x.parts * (int64_t)sizeof x.count[0]);
	if (!x.count) return x.parts * (int64_t)sizeof x.count[0];
	for (int64_t r = 0; r < x.rows; r++) wide ? wide_together(&x, r) : narrow_together(&x, r);
	return 0;
}
