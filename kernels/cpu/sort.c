// Stable sort of rows. An element becomes an item: its index in the row, and a key that as an unsigned number has the
// order asked for. Items whose key and index fit 64 bits are distinct numbers: the instruction set's sorter takes them,
// where there is one. Other items are sorted by digits, least significant digit first; digits in which all keys agree
// are skipped. Threads share the rows; if rows are few and long, all threads sort each of them together. Where nobody
// reads the indices, the instruction set's sorter takes keys alone (sort_values.h).
#include <string.h>
#include "vector/cpu.h"
#include "vector/sort.h"

enum {
	DIGIT = 256,
	SHORT = 48,        // items from which counting digits beats insertion
	SPLIT = 1 << 15,   // items from which a row is shared by all threads
	CLAIM = 1 << 13,   // items of one claim from the pool
	PARTS = 64,        // most parts of a row
	FEW = 256,         // up to this `keep`, elements are compared with the worst that is kept so far
	BLOCK = 16,        // elements of one such comparison
	TOP_BITS = 11,     // bits of a key by which the first elements are picked out
	FEWEST = 17,       // items from which AVX-512's sorter beats insertion; AVX2's beats counting from SPLIT on
	SAMPLES = 64,      // items a part from which the bounds of parts are estimated
};

typedef struct { uint64_t key, place; } wide_item;

typedef struct {
	const tl_sort *s;
	tl_pool *pool;
	const tl_key_sorter *quick; // of keys of 64 bits, or with alone of the elements' size; NULL: none
	int64_t bytes;              // of an element
	int64_t fewest;             // items from which quick is used
	char *room;
	const char *x;
	char *values;
	int64_t *indices; // NULL: nobody reads them
	int64_t rows, n, inner, keep, souter, step, sinner;
	uint64_t low, range; // i64 whose range is below 2^32: the least, and the greatest less the least
	int bits;            // low bits of a key that are in use
	// The row that all threads sort together.
	int64_t row, parts, items; // items: the number still to be sorted
	int digit;
	void *from, *to;
	int64_t (*count)[DIGIT];
	uint64_t splitter[PARTS]; // bounds of the parts that the instruction set's sorter sorts
	int failed;
} sorter;

static const char *row_of(const sorter *x, int64_t r) {
	return x->x + (r / x->inner * x->souter + r % x->inner * x->sinner) * tl_type_size(x->s->type);
}

// The key of a float is its bits: all inverted if it is negative, else with the sign bit inverted (Herf, Radix Tricks,
// 2001). NaN comes last, and -0 equals 0. FLOAT_BITS is the inverse, where LOSSY says no.
#define FLOAT_KEY(T, SIGN, INF) \
	T u = v, sign = (T)SIGN; \
	if ((T)(u & (T)~sign) > (T)INF) u = (T)~0; \
	else u = u == sign ? sign : (u & sign) ? (T)~u : (T)(u | sign);
#define FLOAT_BITS(T, SIGN) (T)(u & (T)SIGN ? u ^ (T)SIGN : (T)~u)
#define FLOAT_LOSSY(T, SIGN) (T)((u == (T)SIGN) | (u == (T)~0))
#define PLAIN_KEY(T, SIGN, INF) T u = v ^ (T)SIGN;
#define PLAIN_BITS(T, SIGN) (T)(u ^ (T)SIGN)
#define PLAIN_LOSSY(T, SIGN) 0

static inline uint64_t narrow_of(uint64_t key, int64_t j) { return key << 32 | (uint64_t)j; }
static inline wide_item wide_of(uint64_t key, int64_t j) { return (wide_item){key, (uint64_t)j}; }

#define NARROW_KEY(e) ((e) >> 32)
#define NARROW_PLACE(e) ((int64_t)((e) & 0xffffffffu))
#define WIDE_KEY(e) ((e).key)
#define WIDE_PLACE(e) ((int64_t)(e).place)

// load: writes the items of elements [begin, end) of a row to d. store: writes the elements of n items to `to`, inner
// apart, and their indices to places. Elements that keys do not tell are read from the row.
#define FORM(type, ITEM, make, KEYOF, PLACEOF, T, FORM_OF, SIGN, INF) \
	static inline void load_##type##_by(const sorter *x, const char *row, int64_t begin, int64_t end, ITEM *d, \
		int64_t step) { \
		const T *e = (const T *)row; \
		T flip = x->s->descending ? (T)~0 : 0; \
		for (int64_t j = begin; j < end; j++) { T v = e[j * step]; \
			FORM_OF##_KEY(T, SIGN, INF) d[j - begin] = make((T)(u ^ flip), j); } \
	} \
	static void load_##type(const sorter *x, const char *row, int64_t begin, int64_t end, ITEM *d) { \
		if (x->step == 1) load_##type##_by(x, row, begin, end, d, 1); \
		else load_##type##_by(x, row, begin, end, d, x->step); \
	} \
	static inline void store_##type##_by(const sorter *x, const char *row, const ITEM *e, int64_t n, T *d, \
		int64_t *places, int64_t inner) { \
		T flip = x->s->descending ? (T)~0 : 0; \
		for (int64_t i = 0; i < n; i += BLOCK) { \
			int64_t end = n - i < BLOCK ? n : i + BLOCK; \
			T lossy = 0; \
			for (int64_t j = i; j < end; j++) { \
				T u = (T)KEYOF(e[j]) ^ flip; \
				lossy |= FORM_OF##_LOSSY(T, SIGN); \
				d[j * inner] = FORM_OF##_BITS(T, SIGN); \
			} \
			for (int64_t j = i; places && j < end; j++) places[j * inner] = PLACEOF(e[j]); \
			for (int64_t j = i; lossy && j < end; j++) d[j * inner] = ((const T *)row)[PLACEOF(e[j]) * x->step]; \
		} \
	} \
	static void store_##type(const sorter *x, const char *row, const ITEM *e, int64_t n, void *to, int64_t *places) { \
		if (x->inner == 1) store_##type##_by(x, row, e, n, to, places, 1); \
		else store_##type##_by(x, row, e, n, to, places, x->inner); \
	}
#define NARROW(type, T, FORM_OF, SIGN, INF) \
	FORM(type, uint64_t, narrow_of, NARROW_KEY, NARROW_PLACE, T, FORM_OF, SIGN, INF)
#define WIDE(type, T, FORM_OF, SIGN, INF) \
	FORM(type, wide_item, wide_of, WIDE_KEY, WIDE_PLACE, T, FORM_OF, SIGN, INF)
NARROW(bool, uint8_t, PLAIN, 0, 0)
NARROW(u32, uint32_t, PLAIN, 0, 0)
NARROW(i32, uint32_t, PLAIN, 0x80000000u, 0)
NARROW(f16, uint16_t, FLOAT, 0x8000, 0x7c00)
NARROW(bf16, uint16_t, FLOAT, 0x8000, 0x7f80)
NARROW(f32, uint32_t, FLOAT, 0x80000000u, 0x7f800000)
WIDE(i64, uint64_t, PLAIN, 1ull << 63, 0)
WIDE(u64, uint64_t, PLAIN, 0, 0)
WIDE(f64, uint64_t, FLOAT, 1ull << 63, 0x7ff0000000000000ull)

// Items of i64 elements whose range is below 2^32: the key is the distance from the first in the order asked for.
static void load_ranged(const sorter *x, const char *row, int64_t begin, int64_t end, uint64_t *d) {
	const uint64_t *e = (const uint64_t *)row;
	const uint64_t from = x->s->descending ? x->low + x->range : x->low, sign = x->s->descending ? ~0ull : 0;
	for (int64_t j = begin; j < end; j++) d[j - begin] = narrow_of(((e[j * x->step] - from) ^ sign) - sign, j);
}

static void store_ranged(const sorter *x, const char *row, const uint64_t *e, int64_t n, void *to, int64_t *places) {
	const uint64_t from = x->s->descending ? x->low + x->range : x->low, sign = x->s->descending ? ~0ull : 0;
	uint64_t *d = to;
	(void)row;
	for (int64_t j = 0; j < n; j++) {
		d[j * x->inner] = ((NARROW_KEY(e[j]) ^ sign) - sign) + from;
		if (places) places[j * x->inner] = NARROW_PLACE(e[j]);
	}
}

// For each type of narrow items, runs call with the suffix of its functions.
#define NARROW_TYPES(x, call) \
	switch ((x)->s->type) { \
	case TLK_BOOL: call(bool); break; \
	case TLK_U32: call(u32); break; \
	case TLK_I32: call(i32); break; \
	case TLK_F16: call(f16); break; \
	case TLK_BF16: call(bf16); break; \
	case TLK_I64: call(ranged); break; \
	default: call(f32); \
	}

static void load_narrow(const sorter *x, const char *row, int64_t begin, int64_t end, uint64_t *d) {
#define LOAD(type) load_##type(x, row, begin, end, d)
	NARROW_TYPES(x, LOAD)
}

static void load_wide(const sorter *x, const char *row, int64_t begin, int64_t end, wide_item *d) {
	if (x->s->type == TLK_I64) load_i64(x, row, begin, end, d);
	else if (x->s->type == TLK_U64) load_u64(x, row, begin, end, d);
	else load_f64(x, row, begin, end, d);
}

static void put_narrow(const sorter *x, const char *row, const uint64_t *e, int64_t n, void *to, int64_t *places) {
#define PUT(type) store_##type(x, row, e, n, to, places)
	NARROW_TYPES(x, PUT)
}

static void put_wide(const sorter *x, const char *row, const wide_item *e, int64_t n, void *to, int64_t *places) {
	if (x->s->type == TLK_I64) store_i64(x, row, e, n, to, places);
	else if (x->s->type == TLK_U64) store_u64(x, row, e, n, to, places);
	else store_f64(x, row, e, n, to, places);
}

// Sorts n items of e by the instruction set's sorter, with room for n at b. Returns 0 if it does not take them.
static int quick_narrow(const sorter *x, uint64_t *e, uint64_t *b, int64_t n) {
	if (!x->quick || n < x->fewest) return 0;
	x->quick->sort(e, b, n, 0);
	return 1;
}

static int quick_wide(const sorter *x, wide_item *e, wide_item *b, int64_t n) {
	(void)x, (void)e, (void)b, (void)n;
	return 0;
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

// The functions below exist for both widths of items.
#define SORT(name, ITEM, KEYOF, PLACEOF) \
	static void name##_store(const sorter *x, int64_t r, int64_t begin, int64_t end, const ITEM *e) { \
		const int64_t at = (r / x->inner * x->keep + begin) * x->inner + r % x->inner; \
		put_##name(x, row_of(x, r), e + begin, end - begin, x->values + at * x->bytes, \
			x->indices ? x->indices + at : NULL); \
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
		if (quick_##name(x, e, b, n)) return e; \
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
		else if (quick_##name##_parts(x)) {} \
		else for (x->digit = 0; x->digit < (x->bits + 7) / 8; x->digit++) { \
			tl_parallel(x->pool, x->parts, 1, name##_count_job, x); \
			if (!offsets(x, DIGIT)) continue; \
			tl_parallel(x->pool, x->parts, 1, name##_move_job, x); \
			void *t = x->from; \
			x->from = x->to; \
			x->to = t; \
		} \
		tl_parallel(x->pool, x->parts, 1, name##_store_job, x); \
	}

static int64_t part(const sorter *x, int64_t p) { return x->items * p / x->parts; }

// Turns the counts of each of `digits` digit values into the positions at which the parts write their items. Returns 0
// if all items agree in the digit.
static int offsets(sorter *x, int digits) {
	int64_t at = 0;
	for (int k = 0; k < digits; k++) {
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

static void parts_count_job(void *arg, int worker, int64_t begin, int64_t end) {
	sorter *x = arg;
	(void)worker;
	for (int64_t p = begin; p < end; p++) {
		memset(x->count[p], 0, sizeof x->count[0]);
		x->quick->count((const uint64_t *)x->from + part(x, p), part(x, p + 1) - part(x, p), x->splitter, (int)x->parts,
			x->count[p]);
	}
}

static void parts_move_job(void *arg, int worker, int64_t begin, int64_t end) {
	sorter *x = arg;
	(void)worker;
	for (int64_t p = begin; p < end; p++)
		x->quick->move((const uint64_t *)x->from + part(x, p), part(x, p + 1) - part(x, p), x->splitter, (int)x->parts,
			x->count[p], x->to);
}

// Sorts the items between two splitters. After the move, the counts of the last part are the ends of these.
static void parts_sort_job(void *arg, int worker, int64_t begin, int64_t end) {
	sorter *x = arg;
	const int64_t *ends = x->count[x->parts - 1];
	(void)worker;
	for (int64_t p = begin; p < end; p++) {
		int64_t at = p ? ends[p - 1] : 0;
		x->quick->sort((uint64_t *)x->to + at, (uint64_t *)x->from + at, ends[p] - at, 0);
	}
}

// Sorts the row that all threads sort by the instruction set's sorter: items go to the side of the splitters where they
// belong, and each range between two splitters is sorted by one thread. Returns 0 if there is no sorter.
static int quick_narrow_parts(sorter *x) {
	if (!x->quick) return 0;
	const int64_t samples = SAMPLES * x->parts; // far fewer than the items: PARTS * SAMPLES < SPLIT
	uint64_t *sample = x->to, *e = x->from;
	for (int64_t i = 0; i < samples; i++) sample[i] = e[x->items * i / samples];
	x->quick->sort(sample, sample + samples, samples, 0);
	for (int64_t p = 1; p < x->parts; p++) x->splitter[p - 1] = sample[p * SAMPLES];
	tl_parallel(x->pool, x->parts, 1, parts_count_job, x);
	offsets(x, (int)x->parts);
	tl_parallel(x->pool, x->parts, 1, parts_move_job, x);
	tl_parallel(x->pool, x->parts, 1, parts_sort_job, x);
	void *t = x->from;
	x->from = x->to;
	x->to = t;
	return 1;
}

static int quick_wide_parts(sorter *x) {
	(void)x;
	return 0;
}

SORT(narrow, uint64_t, NARROW_KEY, NARROW_PLACE)
SORT(wide, wide_item, WIDE_KEY, WIDE_PLACE)

#include "sort_values.h"

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

int64_t tl_run_sort(const tl_sort *s, tl_pool *pool, int isa, char **buf, const int64_t *par) {
	sorter x = {.s = s, .pool = pool, .quick = tl_isa_sorter(isa, 8), .values = buf[1], .bytes = tl_type_size(s->type),
		.indices = s->indices < 0 ? NULL : (int64_t *)buf[s->indices], .n = par[s->n], .inner = par[s->inner],
		.keep = par[s->keep], .souter = par[s->souter], .step = par[s->step], .sinner = par[s->sinner]};
	x.x = buf[0] + par[s->offset] * tl_type_size(s->type);
	x.rows = par[s->outer] * x.inner;
	if (s->room >= 0) x.room = buf[s->room];
	x.fewest = isa >= TLK_ISA_AVX512 ? FEWEST : SPLIT;
	x.bits = 8 * (int)x.bytes;
	const int alone = x.quick && !x.indices && x.keep == x.n && x.bytes >= 4, threads = tl_pool_threads(pool);
	const int wide = !alone && x.bytes == 8 && !narrows(&x);
	if (alone) x.quick = tl_isa_sorter(isa, (int)x.bytes);
	if (x.n < SPLIT || threads == 1 || x.rows >= 2 * threads) {
		tl_parallel(pool, x.rows, x.n < CLAIM ? CLAIM / (x.n + 1) + 1 : 1,
			alone ? value_rows : wide ? wide_rows : narrow_rows, &x);
		return x.failed ? 4 * x.n * (int64_t)sizeof(uint64_t) : 0;
	}
	// Two parts for each thread: a late thread then delays the others by half a share.
	x.parts = 2 * threads < PARTS ? 2 * threads : PARTS;
	x.count = (void *)tl_scratch(pool, 0, x.parts * (int64_t)sizeof x.count[0]);
	if (!x.count) return x.parts * (int64_t)sizeof x.count[0];
	for (int64_t r = 0; r < x.rows; r++) {
		if (alone) values_together(&x, r);
		else if (wide) wide_together(&x, r);
		else narrow_together(&x, r);
	}
	return 0;
}
