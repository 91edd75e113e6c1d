// Rows whose indices nobody reads: keys of the elements' size are sorted by the instruction set's sorter. Keys put -0
// before 0 and do not keep NaN's bits, so zeros and NaN are then stored anew, in the order in which the row has them.
// A row of n keys takes 2 n of room.

enum { PASSAGE = 1024 }; // elements whose keys are made at once for a part

static int key_kind(int type) {
	switch (type) {
	case TLK_F32: case TLK_F64: return TLK_KEY_FLOAT;
	case TLK_I32: case TLK_I64: return TLK_KEY_SIGNED;
	}
	return TLK_KEY_UNSIGNED;
}

// Stores the zeros and NaN of a sorted row of n floats d, inner apart, in the order of the row. zero and nan: the bits
// of v are those of a zero, of a NaN.
#define RESTORE(name, T, REAL) \
	static int64_t before_##name(const T *d, int64_t n, int64_t inner, int descending, int at, int least) { \
		int64_t low = 0; \
		while (n > 0) { \
			T bits = d[(low + n / 2) * inner]; \
			REAL v; \
			memcpy(&v, &bits, sizeof v); \
			/* 0: below the zeros, 1: a zero, 2: above them, 3: NaN. */ \
			int is = v < 0 ? 0 : v == 0 ? 1 : v > 0 ? 2 : 3; \
			if (descending ? is > at - least : is < at + least) low += n / 2 + 1, n -= n / 2 + 1; \
			else n /= 2; \
		} \
		return low; \
	} \
	static void restore_##name(const sorter *x, const char *row, T *d) { \
		const T *e = (const T *)row, magnitude = (T)~(T)0 >> 1; \
		const int64_t n = x->n, inner = x->inner, step = x->step; \
		const int down = x->s->descending; \
		int64_t zero = before_##name(d, n, inner, down, 1, 0), zeros = before_##name(d, n, inner, down, 1, 1); \
		int64_t nan = before_##name(d, n, inner, down, 3, 0), nans = down ? before_##name(d, n, inner, down, 3, 1) : n; \
		if (nan == nans && (zero == zeros || d[zero * inner] == d[(zeros - 1) * inner])) return; \
		for (int64_t j = 0; j < n; j++) { \
			T bits = e[j * step]; \
			REAL v; \
			memcpy(&v, &bits, sizeof v); \
			if ((bits & magnitude) == 0) d[zero++ * inner] = bits; \
			else if (v != v) d[nan++ * inner] = bits; \
		} \
	}
RESTORE(f32, uint32_t, float)
RESTORE(f64, uint64_t, double)

static void restore(const sorter *x, int64_t r, char *values) {
	if (x->s->type == TLK_F32) restore_f32(x, row_of(x, r), (uint32_t *)values);
	else if (x->s->type == TLK_F64) restore_f64(x, row_of(x, r), (uint64_t *)values);
}

static char *values_of(const sorter *x, int64_t r) {
	return x->values + (r / x->inner * x->n * x->inner + r % x->inner) * x->bytes;
}

static void value_rows(void *arg, int worker, int64_t begin, int64_t end) {
	sorter *x = arg;
	const tl_key_sorter *k = x->quick;
	const int kind = key_kind(x->s->type), down = x->s->descending;
	for (int64_t r = begin; r < end; r++) {
		char *e = x->room ? x->room + 2 * r * x->n * x->bytes : tl_scratch(x->pool, worker, 2 * x->n * x->bytes);
		if (!e) { x->failed = 1; return; }
		char *to = values_of(x, r), *d = x->inner == 1 ? to : e + x->n * x->bytes;
		k->keys(kind, down, row_of(x, r), x->step, x->n, e);
		k->sort(e, d, x->n, 1);
		k->values(kind, down, d, x->n, to, x->inner);
		restore(x, r, to);
	}
}

// Counts the keys of the parts of a row between splitters; with moves set, writes them there.
static void passages(sorter *x, int64_t p, int moves) {
	uint64_t keys[PASSAGE];
	const char *row = row_of(x, x->row);
	const int64_t end = part(x, p + 1);
	if (!moves) memset(x->count[p], 0, sizeof x->count[0]);
	for (int64_t j = part(x, p); j < end; j += PASSAGE) {
		const int64_t n = end - j < PASSAGE ? end - j : PASSAGE;
		x->quick->keys(key_kind(x->s->type), x->s->descending, row + j * x->step * x->bytes, x->step, n, keys);
		if (moves) x->quick->move(keys, n, x->splitter, (int)x->parts, x->count[p], x->from);
		else x->quick->count(keys, n, x->splitter, (int)x->parts, x->count[p]);
	}
}

static void values_count_job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	for (int64_t p = begin; p < end; p++) passages(arg, p, 0);
}

static void values_move_job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)worker;
	for (int64_t p = begin; p < end; p++) passages(arg, p, 1);
}

static void values_sort_job(void *arg, int worker, int64_t begin, int64_t end) {
	sorter *x = arg;
	const int64_t *ends = x->count[x->parts - 1], b = x->bytes;
	(void)worker;
	for (int64_t p = begin; p < end; p++) {
		const int64_t at = p ? ends[p - 1] : 0, n = ends[p] - at;
		char *d = (char *)x->to + at * b;
		x->quick->sort((char *)x->from + at * b, d, n, 1);
		x->quick->values(key_kind(x->s->type), x->s->descending, d, n, values_of(x, x->row) + at * x->inner * b, x->inner);
	}
}

// Sorts one row with all threads: keys go between the splitters where they belong, and each range is sorted by one
// thread.
static void values_together(sorter *x, int64_t r) {
	const int64_t samples = SAMPLES * x->parts, apart = x->n / samples * x->step;
	char *to = values_of(x, r);
	x->row = r;
	x->items = x->n;
	x->from = x->room + 2 * r * x->n * x->bytes;
	x->to = x->inner == 1 ? to : (char *)x->from + x->n * x->bytes;
	x->quick->keys(key_kind(x->s->type), x->s->descending, row_of(x, r), apart, samples, x->from);
	x->quick->sort(x->from, (char *)x->from + samples * x->bytes, samples, 0);
	for (int64_t p = 1; p < x->parts; p++)
		memcpy((char *)x->splitter + (p - 1) * x->bytes, (char *)x->from + p * SAMPLES * x->bytes, (size_t)x->bytes);
	tl_parallel(x->pool, x->parts, 1, values_count_job, x);
	offsets(x, (int)x->parts);
	tl_parallel(x->pool, x->parts, 1, values_move_job, x);
	tl_parallel(x->pool, x->parts, 1, values_sort_job, x);
	restore(x, r, to);
}
