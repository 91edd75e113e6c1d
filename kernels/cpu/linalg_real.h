// Factorisations of one dense row-major matrix in one type. linalg.c includes this file twice: REAL float with the
// suffix 32 (SUF) and the type TYPE, then double with 64.
//
// All are blocked (Golub and Van Loan, sections 3.2, 4.2 and 5.2). Vector operations factor a panel of columns, packed
// transposed so that its columns are contiguous. Products update the rest, shared among the threads by columns.
// tl_gemm_dense adds its product to C, so the factor of an update is stored negated.

// Computes c = a b, or c += a b with add.
static void SUF(product)(la_place *p, int worker, int parallel, int add, int64_t M, int64_t N, int64_t K, const REAL *a,
	int64_t am, int64_t ak, const REAL *b, int64_t bk, int64_t bn, REAL *c, int64_t cm) {
	if (M <= 0 || N <= 0 || K <= 0) return;
	tl_dense d = {.type = TYPE, .add = add, .M = M, .N = N, .K = K, .am = am, .ak = ak, .bk = bk, .bn = bn, .cm = cm,
		.a = a, .b = b, .c = c};
	int64_t oom = tl_gemm_dense(p->pool, p->isa, worker, parallel, &d);
	if (oom) p->oom = oom;
}

// Writes the transpose of m rows of n elements: to[j*tm + i] = a[i*am + j].
static void SUF(turn)(la_place *p, const REAL *a, int64_t am, int64_t m, int64_t n, REAL *to, int64_t tm) {
	functions_of(p->isa)->FUNCTIONS.turn(a, am, m, n, to, tm);
}

static void SUF(negate)(const REAL *a, int64_t n, REAL *to) {
	for (int64_t i = 0; i < n; i++) to[i] = -a[i];
}

// Solves T X = B in place of b, whose n rows of k columns are ldb apart. neg holds -T with strides tr and tc, of which
// one triangle is read. Large systems are halved, so that most of the work is products.
static void SUF(solve)(la_place *p, int worker, const REAL *neg, int64_t tr, int64_t tc, int64_t n, int option, REAL *b,
	int64_t ldb, int64_t k) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	int upper = option & UPPER;
	if (n > SMALL && k > 1) {
		int64_t h = (n / 2 + SMALL - 1) / SMALL * SMALL, r = n - h;
		const REAL *low = neg + h * (tr + tc);
		if (upper) SUF(solve)(p, worker, low, tr, tc, r, option, b + h * ldb, ldb, k);
		else SUF(solve)(p, worker, neg, tr, tc, h, option, b, ldb, k);
		if (upper) SUF(product)(p, worker, 0, 1, h, k, r, neg + h * tc, tr, tc, b + h * ldb, ldb, 1, b, ldb);
		else SUF(product)(p, worker, 0, 1, r, k, h, neg + h * tr, tr, tc, b, ldb, 1, b + h * ldb, ldb);
		if (upper) SUF(solve)(p, worker, neg, tr, tc, h, option, b, ldb, k);
		else SUF(solve)(p, worker, low, tr, tc, r, option, b + h * ldb, ldb, k);
		return;
	}
	for (int64_t j = 0; j < k; j += CHUNK) {
		int64_t w = k - j < CHUNK ? k - j : CHUNK;
		for (int64_t s = 0; s < n; s++) {
			int64_t i = upper ? n - 1 - s : s, c = upper ? i + 1 : 0;
			REAL *row = b + i * ldb + j, d = -neg[i * (tr + tc)];
			const REAL *f = neg + i * tr + c * tc, *x = b + c * ldb + j;
			if (k == 1 && tc == 1 && ldb == 1) { // a column: its elements are contiguous
				REAL sum;
				t->SUF(dot)(1, s, f, 1, x, s, &sum, 1);
				*row += sum;
			} else {
				t->SUF(addrows)(w, s, f, tc, x, ldb, row);
			}
			for (int64_t q = 0; !(option & UNIT) && q < w; q++) row[q] /= d;
		}
	}
}

// A system's solution for some columns of the right-hand side.
typedef struct {
	la_place *p;
	const REAL *neg;
	int64_t n, k;
	int first, second; // options of the triangular systems to solve in turn; second is -1 for one system
	REAL *b;
} SUF(system);

static void SUF(system_job)(void *arg, int worker, int64_t begin, int64_t end) {
	SUF(system) *s = arg;
	int64_t j0 = begin * COLUMNS, j1 = end * COLUMNS < s->k ? end * COLUMNS : s->k;
	if (s->first & IDENTITY) // the solution is zero above the diagonal: each item has a system of its own
		for (int64_t j = j0, w; j < j1; j += w) {
			w = j1 - j < COLUMNS ? j1 - j : COLUMNS;
			SUF(solve)(s->p, worker, s->neg + j * (s->n + 1), s->n, 1, s->n - j, s->first, s->b + j * (s->k + 1), s->k, w);
		}
	else SUF(solve)(s->p, worker, s->neg, s->n, 1, s->n, s->first, s->b + j0, s->k, j1 - j0);
	if (s->second >= 0) SUF(solve)(s->p, worker, s->neg, s->n, 1, s->n, s->second, s->b + j0, s->k, j1 - j0);
}

// Runs the job over n items: by all threads, or in this worker alone.
static void SUF(share)(la_place *p, int64_t n, int64_t grain, tl_job job, void *arg) {
	if (n <= 0) return;
	if (p->parallel) tl_parallel(p->pool, n, grain, job, arg);
	else job(arg, p->worker, 0, n);
}

static void SUF(systems)(la_place *p, const REAL *neg, int64_t n, int first, int second, REAL *b, int64_t k) {
	SUF(system) s = {p, neg, n, k, first, second, b};
	int64_t items = (k + COLUMNS - 1) / COLUMNS, each = p->parallel ? items / (2 * tl_pool_threads(p->pool)) : 0;
	SUF(share)(p, items, each > 1 ? each : 1, SUF(system_job), &s);
}

// A step of Cholesky's factorisation: rows from j1 on.
typedef struct {
	la_place *p;
	REAL *a, *c, *neg; // c: the packed panel, column j at j*ld; neg: -L by rows of nb
	int64_t n, j0, nb, ld;
} SUF(chol_step);

// Makes the rows of L in the panel's columns: packs them transposed, solves with the diagonal block, stores them back.
static void SUF(chol_rows)(void *arg, int worker, int64_t begin, int64_t end) {
	SUF(chol_step) *s = arg;
	const tl_isa_table *t = tl_isa_tables(s->p->isa);
	int64_t i0 = s->nb + begin * COLUMNS, i1 = s->nb + end * COLUMNS < s->ld ? s->nb + end * COLUMNS : s->ld;
	REAL *from = s->a + (s->j0 + i0) * s->n + s->j0;
	(void)worker;
	SUF(turn)(s->p, from, s->n, i1 - i0, s->nb, s->c + i0, s->ld);
	for (int64_t i = i0; i < i1; i += CHUNK) {
		int64_t w = i1 - i < CHUNK ? i1 - i : CHUNK;
		for (int64_t j = 0; j < s->nb; j++) {
			REAL f[WIDE], *y = s->c + j * s->ld + i, d = s->c[j * s->ld + j];
			for (int64_t c = 0; c < j; c++) f[c] = -s->c[c * s->ld + j];
			t->SUF(addrows)(w, j, f, 1, s->c + i, s->ld, y);
			for (int64_t q = 0; q < w; q++) y[q] /= d;
		}
	}
	SUF(turn)(s->p, s->c + i0, s->ld, s->nb, i1 - i0, from, s->n);
	for (int64_t i = i0; i < i1; i++) SUF(negate)(s->a + (s->j0 + i) * s->n + s->j0, s->nb, s->neg + i * s->nb);
}

// Subtracts L L' from rows of the rest, up to the diagonal. Tasks count from the last row back: they shrink.
static void SUF(chol_rest)(void *arg, int worker, int64_t begin, int64_t end) {
	SUF(chol_step) *s = arg;
	int64_t tasks = (s->ld - s->nb + COLUMNS - 1) / COLUMNS;
	for (int64_t k = begin; k < end; k++) {
		int64_t i0 = s->nb + (tasks - 1 - k) * COLUMNS, i1 = i0 + COLUMNS < s->ld ? i0 + COLUMNS : s->ld;
		SUF(product)(s->p, worker, 0, 1, i1 - i0, i1 - s->nb, s->nb, s->neg + i0 * s->nb, s->nb, 1, s->c + s->nb, s->ld,
			1, s->a + (s->j0 + i0) * s->n + s->j0 + s->nb, s->n);
	}
}

// A = L L', in place: reads the lower triangle and writes zeros above it; right-looking. Returns 0; or the order of the
// first leading minor that is not positive, where the factorisation ends. room holds two panels.
static int64_t SUF(cholesky)(la_place *p, REAL *a, int64_t n, REAL *room) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	int64_t bad = 0, width = n > WIDE_FROM ? WIDE : NARROW;
	for (int64_t j0 = 0; j0 < n && !bad && !tl_stop_asked(p->pool); j0 += width) {
		int64_t nb = n - j0 < width ? n - j0 : width, ld = n - j0;
		SUF(chol_step) s = {p, a, room, room + ld * nb, n, j0, nb, ld};
		SUF(turn)(p, a + j0 * n + j0, n, nb, nb, s.c, ld);
		for (int64_t j = 0; j < nb; j++) {
			REAL f[WIDE], *y = s.c + j * ld;
			for (int64_t c = 0; c < j; c++) f[c] = -s.c[c * ld + j];
			t->SUF(addrows)(nb - j, j, f, 1, s.c + j, ld, y + j);
			if (!(y[j] > 0)) {
				bad = j0 + j + 1;
				break;
			}
			y[j] = (REAL)sqrt(y[j]);
			for (int64_t i = j + 1; i < nb; i++) y[i] /= y[j];
		}
		SUF(turn)(p, s.c, ld, nb, nb, a + j0 * n + j0, n);
		if (bad) break;
		int64_t tasks = (ld - nb + COLUMNS - 1) / COLUMNS;
		SUF(share)(p, tasks, 1, SUF(chol_rows), &s);
		SUF(share)(p, tasks, 1, SUF(chol_rest), &s);
	}
	for (int64_t i = 0; i < n; i++) memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof(REAL));
	return bad;
}

// A = Q R by blocks of PANEL reflectors, in the compact WY form of Schreiber and Van Loan (1989):
// Q = (I - V1 T1 V1') (I - V2 T2 V2') ...
// Row j of v, m long, is reflector j. It is zero before place j. t holds -T of each block, in rows of PANEL numbers.
typedef struct {
	la_place *p;
	REAL *a; // what the reflectors are applied to: rows of lda
	int64_t lda, m, from, to, count, block; // count reflectors; block: the one to apply, or their number
	int turned;                             // Q' is applied instead of Q
	int dense;                              // a is any matrix, not the identity
	const REAL *v, *t;
	REAL *w; // 2*PANEL numbers a column
} SUF(reflection);

// Applies one block to columns [j0, j1): A += V ((-T) (V' A)), with T' for Q'.
static void SUF(apply)(const SUF(reflection) *r, int worker, int64_t block, int64_t j0, int64_t j1) {
	int64_t row = block * PANEL, nb = r->count - row < PANEL ? r->count - row : PANEL, n = j1 - j0, rows = r->m - row;
	const REAL *v = r->v + row * r->m + row, *t = r->t + row * PANEL;
	REAL *a = r->a + row * r->lda + j0, *w = r->w + 2 * PANEL * j0, *tw = w + PANEL * n;
	SUF(product)(r->p, worker, 0, 0, nb, n, rows, v, r->m, 1, a, r->lda, 1, w, n);
	SUF(product)(r->p, worker, 0, 0, nb, n, nb, t, r->turned ? 1 : PANEL, r->turned ? PANEL : 1, w, n, 1, tw, n);
	SUF(product)(r->p, worker, 0, 1, rows, n, nb, v, 1, r->m, tw, n, 1, a, r->lda);
}

// Q' A of one block, for some columns.
static void SUF(reflect_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(reflection) *r = arg;
	int64_t j0 = r->from + begin * COLUMNS, j1 = r->from + end * COLUMNS < r->to ? r->from + end * COLUMNS : r->to;
	SUF(apply)(r, worker, r->block, j0, j1);
}

// Q times a, for some columns: the last block first. A block leaves the identity's columns before its own as they are.
static void SUF(form_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(reflection) *r = arg;
	int64_t j0 = begin * COLUMNS, j1 = end * COLUMNS < r->to ? end * COLUMNS : r->to;
	for (int64_t b = r->block - 1; b >= 0; b--) {
		int64_t from = r->dense || j0 > b * PANEL ? j0 : b * PANEL;
		if (from < j1) SUF(apply)(r, worker, b, from, j1);
	}
}

// The reflector H = I - tau (1,v)(1,v)' with H (*alpha, x) = (beta, 0), as LAPACK's larfg. x becomes v, *alpha beta;
// returns tau.
static REAL SUF(reflector)(const tl_isa_table *t, REAL *alpha, REAL *x, int64_t n) {
	REAL squares;
	int shift = 0;
	t->SUF(dot)(1, n, x, 1, x, n, &squares, 1);
	double rest = sqrt(squares), first = *alpha;
	if (!(squares > SQUARE_LEAST && squares < SQUARE_MOST) && !isnan(squares)) { // scaled: no square leaves the range
		double sum = 0;
		REAL top = (REAL)fabs(first); // no fmax of widened floats: gcc 12 for arm64 fails to compile that
		for (int64_t i = 0; i < n; i++) top = (REAL)fabs(x[i]) > top ? (REAL)fabs(x[i]) : top;
		frexp(top, &shift);
		for (int64_t i = 0; i < n; i++) {
			x[i] = (REAL)ldexp(x[i], -shift);
			sum += (double)x[i] * x[i];
		}
		rest = sqrt(sum), first = ldexp(first, -shift);
	}
	if (rest == 0) return 0;
	double beta = -copysign(hypot(first, rest), first);
	for (int64_t i = 0; i < n; i++) x[i] /= (REAL)(first - beta);
	*alpha = (REAL)ldexp(beta, shift);
	return (REAL)((beta - first) / beta);
}

// Makes column j of a block's -T from w = V' v, the products of its reflector with those before: -T[:j, j] =
// tau T[:j, :j] w. Elements below the diagonal, up to nb, are zero.
static void SUF(t_column)(REAL *t, int64_t j, int64_t nb, REAL tau, const REAL *w) {
	for (int64_t i = 0; i < nb; i++) {
		REAL sum = 0;
		for (int64_t k = i; k < j; k++) sum -= t[i * PANEL + k] * w[k];
		t[i * PANEL + j] = i == j ? -tau : i < j ? tau * sum : 0;
	}
}

// Factors a packed panel: nb columns of `rows` elements, m apart. Each becomes R above its diagonal, and its reflector
// below. t becomes -T.
static void SUF(qr_panel)(la_place *p, REAL *c, int64_t m, int64_t rows, int64_t nb, REAL *t) {
	const tl_isa_table *table = tl_isa_tables(p->isa);
	for (int64_t j = 0; j < nb; j++) {
		REAL *x = c + j * m + j, *v = x + 1, w[PANEL], f;
		int64_t n = rows - j - 1;
		REAL tau = SUF(reflector)(table, x, v, n);
		// One pass gives the products of v with the columns on both sides: the right ones are reflected, the left make T.
		table->SUF(dot)(nb, n, v, 1, c + j + 1, m, w, 1);
		for (int64_t i = j + 1; i < nb; i++) {
			REAL *y = c + i * m + j;
			f = -tau * (w[i] + y[0]);
			y[0] += f;
			table->SUF(addrows)(n, 1, &f, 1, v, m, y + 1);
		}
		for (int64_t i = 0; i < j; i++) w[i] += c[i * m + j]; // v begins with a one
		SUF(t_column)(t, j, nb, tau, w);
	}
}

// Makes the columns of Q: r->a becomes the first q columns of the product of the reflectors; or, if it is dense, Q a.
static void SUF(form_q)(SUF(reflection) *r, int64_t q) {
	for (int64_t i = 0; i < r->m && !r->dense; i++) {
		memset(r->a + i * r->lda, 0, (size_t)q * sizeof(REAL));
		if (i < q) r->a[i * r->lda + i] = 1;
	}
	r->to = q, r->turned = 0, r->block = (r->count + PANEL - 1) / PANEL;
	SUF(share)(r->p, (q + COLUMNS - 1) / COLUMNS, 1, SUF(form_job), r);
}

// Overwrites a (m x n) with R above its diagonal, and writes the first q columns of Q to `to`. room holds
// qr_room numbers.
static void SUF(qr)(la_place *p, REAL *a, int64_t m, int64_t n, REAL *to, int64_t q, REAL *room) {
	int64_t least = m < n ? m : n;
	REAL *v = room, *t = v + least * m, *w = t + (least + PANEL) * PANEL;
	SUF(reflection) r = {.p = p, .a = a, .lda = n, .m = m, .to = n, .count = least, .turned = 1, .v = v, .t = t, .w = w};
	memset(v, 0, (size_t)(least * m) * sizeof(REAL));
	for (int64_t j0 = 0; j0 < least && !tl_stop_asked(p->pool); j0 += PANEL) {
		int64_t nb = least - j0 < PANEL ? least - j0 : PANEL, rows = m - j0;
		REAL *d = a + j0 * n + j0, *c = v + j0 * m + j0;
		SUF(turn)(p, d, n, rows, nb, c, m);
		SUF(qr_panel)(p, c, m, rows, nb, t + j0 * PANEL);
		SUF(turn)(p, c, m, nb, nb, d, n);
		for (int64_t j = 0; j < nb; j++) {
			memset(c + j * m, 0, (size_t)j * sizeof(REAL));
			c[j * m + j] = 1;
		}
		r.block = j0 / PANEL;
		r.from = j0 + nb;
		SUF(share)(p, (n - r.from + COLUMNS - 1) / COLUMNS, 1, SUF(reflect_job), &r);
	}
	r.a = to, r.lda = q;
	SUF(form_q)(&r, q);
}
