// The steps of LU, Cholesky, triangular systems and QR in one type: operands and results. linalg.c includes this file
// after linalg_lu.h.

// A copy of an input.
typedef struct {
	const factor *x;
	int which;
	int64_t from, count;
	REAL *to;
} SUF(reading);

static void SUF(read_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(reading) *r = arg;
	const int64_t i0 = begin * PIECE, i1 = end * PIECE < r->count ? end * PIECE : r->count;
	const REAL *own = (const REAL *)r->x->buf[r->which] + r->from;
	const float *narrow = (const float *)r->x->buf[r->which] + r->from;
	(void)worker;
	if (r->x->f->type != TYPE) for (int64_t i = i0; i < i1; i++) r->to[i] = narrow[i];
	else memcpy(r->to + i0, own + i0, (size_t)(i1 - i0) * sizeof(REAL));
}

// Makes the negative of rows of a triangle.
static void SUF(triangle_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(reading) *r = arg;
	const int64_t n = r->x->n, upper = r->x->f->option & UPPER;
	(void)worker;
	for (int64_t i = begin * STEP; i < end * STEP && i < n; i++) {
		const int64_t c = i * n + (upper ? i : 0), count = upper ? n - i : i + 1;
		const float *narrow = (const float *)r->x->buf[r->which] + r->from + c;
		if (r->x->f->type == TYPE) SUF(negate)((const REAL *)r->x->buf[r->which] + r->from + c, count, r->to + c);
		else for (int64_t j = 0; j < count; j++) r->to[c + j] = -narrow[j];
	}
}

static void SUF(copy)(const la_place *at, int64_t pieces, tl_job job, SUF(reading) *r) {
	if (at->parallel) tl_parallel_whole(at->pool, pieces, 1, job, r);
	else job(r, at->worker, 0, pieces);
}

// Reads matrix i, of count elements, of an input. Nothing stops a copy.
static void SUF(read)(const factor *x, const la_place *at, int which, int64_t i, int64_t count, REAL *to) {
	SUF(reading) r = {x, which, x->par[4 + which] + i * count, count, to};
	SUF(copy)(at, (count + PIECE - 1) / PIECE, SUF(read_job), &r);
}

static void SUF(in)(const factor *x, int which, int64_t i, int64_t count, REAL *to) {
	const la_place alone = {0};
	SUF(read)(x, &alone, which, i, count, to);
}

// Returns where a result is computed: in its place, or in scratch if it is of another type.
static REAL *SUF(result)(const factor *x, int which, int64_t i, int64_t count, REAL *scratch) {
	return x->f->type == TYPE ? (REAL *)x->buf[x->f->nin + which] + i * count : scratch;
}

// Writes a result, unless it was computed in its place.
static void SUF(out)(const factor *x, int which, int64_t i, int64_t count, const REAL *from) {
	char *b = x->buf[x->f->nin + which];
	if (x->f->type != TYPE) for (int64_t c = 0; c < count; c++) ((float *)b)[i * count + c] = (float)from[c];
	else if ((const REAL *)b + i * count != from) memcpy((REAL *)b + i * count, from, (size_t)count * sizeof(REAL));
}

// Whether the n x n matrix i of an input is the identity.
static int SUF(identity)(const factor *x, int which, int64_t i, int64_t n) {
	const REAL *own = (const REAL *)x->buf[which] + x->par[4 + which] + i * n * n;
	if (x->f->type != TYPE) return 0;
	for (int64_t r = 0; r < n; r++, own += n) {
		int32_t others = 0;
		for (int64_t c = 0; c < n; c++) others += own[c] != 0;
		if (others != 1 || own[r] != 1) return 0;
	}
	return 1;
}

// Makes the negative of a matrix.
typedef struct { const REAL *from; REAL *to; int64_t count; } SUF(negation);

static void SUF(negate_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(negation) *s = arg;
	const int64_t i0 = begin * PIECE, i1 = end * PIECE < s->count ? end * PIECE : s->count;
	(void)worker;
	SUF(negate)(s->from + i0, i1 - i0, s->to + i0);
}

// Rows of an inverse, whose columns change places: column to[c] of the result is column c.
typedef struct { const REAL *from; REAL *to; int64_t n; const int64_t *place; } SUF(places);

static void SUF(places_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(places) *s = arg;
	(void)worker;
	const int64_t n = s->n, *place = s->place;
	for (int64_t r = begin; r < end; r++) {
		const REAL *from = s->from + r * n;
		REAL *to = s->to + r * n;
		for (int64_t c = 0; c < n; c++) to[place[c]] = from[c];
	}
}

static void SUF(triangular_of)(factor *x, la_place *at, int64_t i, REAL *a, REAL *room) {
	const int64_t n = x->n, k = x->k;
	REAL *b = SUF(result)(x, 0, i, n * k, room);
	SUF(reading) triangle = {x, 0, x->par[4] + i * n * n, n * n, a};
	SUF(copy)(at, (n + STEP - 1) / STEP, SUF(triangle_job), &triangle);
	SUF(read)(x, at, 1, i, n * k, b);
	SUF(systems)(at, a, n, x->f->option, -1, b, k);
	SUF(out)(x, 0, i, n * k, b);
}

static void SUF(solve_of)(factor *x, la_place *at, int64_t i, REAL *a, REAL *room) {
	const int64_t n = x->n, k = x->k;
	int32_t *pivot = ints(x, 2, i * n);
	REAL *lu = SUF(result)(x, 1, i, n * n, a), *b = SUF(result)(x, 0, i, n * k, room), *neg = room + n * k;
	SUF(read)(x, at, 0, i, n * n, lu);
	const int64_t zero = SUF(lu)(at, lu, n, n, pivot, neg);
	if (tl_cut(at->pool)) return; // the rest of the pivots is unset
	*ints(x, 3, i) = (int32_t)zero;
	report(x, i, zero);
	const int inverse = n == k && n > SMALL && SUF(identity)(x, 1, i, n);
	REAL *to = inverse ? room : b;
	SUF(read)(x, at, 1, i, n * k, to);
	for (int64_t r = 0; r < n && !inverse; r++)
		if (pivot[r] != r + 1) SUF(swap_rows)(at, b + r * k, b + (pivot[r] - 1) * k, k);
	SUF(negation) minus = {lu, neg, n * n};
	SUF(share)(at, (n * n + PIECE - 1) / PIECE, 1, SUF(negate_job), &minus);
	SUF(systems)(at, neg, n, UNIT | (inverse ? IDENTITY : 0), UPPER, to, k);
	if (inverse) { // of P A: the columns go where P took the rows from
		int64_t *place = (int64_t *)(((uintptr_t)neg + 7) & ~(uintptr_t)7);
		permutation(pivot, n, n, place);
		SUF(places) s = {room, b, n, place};
		SUF(share)(at, n, STEP, SUF(places_job), &s);
	}
	SUF(out)(x, 0, i, n * k, b);
	SUF(out)(x, 1, i, n * n, lu);
}

static void SUF(factor_one)(factor *x, la_place *at, int64_t i, REAL *a) {
	int64_t m = x->m, n = x->n, k = x->least, q = x->f->option & FULL ? m : k, bad;
	REAL *room = a + m * n;
	if (x->f->op == CHOLESKY || x->f->op == LU) {
		a = SUF(result)(x, 0, i, m * n, a);
		SUF(read)(x, at, 0, i, m * n, a);
	}
	switch (x->f->op) {
	case CHOLESKY:
		bad = SUF(cholesky)(at, a, n, room);
		*ints(x, 1, i) = (int32_t)bad;
		report(x, i, bad);
		break;
	case LU:
		bad = SUF(lu)(at, a, m, n, ints(x, 1, i * k), room);
		*ints(x, 2, i) = (int32_t)bad;
		report(x, i, bad);
		break;
	case QR:
		SUF(read)(x, at, 0, i, m * n, a);
		SUF(qr)(at, a, m, n, room, q, room + m * q);
		SUF(out)(x, 0, i, m * q, room);
		for (int64_t r = 0; r < m; r++) memset(a + r * n, 0, (size_t)(r < n ? r : n) * sizeof(REAL));
		SUF(out)(x, 1, i, q * n, a);
		return;
	case TRIANGULAR:
		SUF(triangular_of)(x, at, i, a, room);
		return;
	default:
		SUF(solve_of)(x, at, i, a, room);
		return;
	}
	SUF(out)(x, 0, i, m * n, a);
}
