// Eigenvalues of a symmetric matrix and singular values, in one type. linalg.c includes this file after linalg_real.h;
// it ends with the #undef of the macros that choose the type.
//
// Reflectors bring the matrix to a band of two diagonals, which are diagonalised in double by rotations. The vectors
// are rows, and a sweep's rotations are applied to them after it: by all threads, some columns each.

// Writes -T of the blocks of `count` reflectors, the rows of v; see reflection.
static void SUF(make_t)(la_place *p, const REAL *v, int64_t m, int64_t count, const REAL *tau, REAL *t) {
	const tl_isa_table *table = tl_isa_tables(p->isa);
	for (int64_t j = 0; j < count; j++) {
		int64_t j0 = j / PANEL * PANEL, k = j - j0;
		REAL w[PANEL], *block = t + j0 * PANEL;
		table->SUF(dot)(k, m - j, v + j * m + j, 1, v + j0 * m + j, m, w, 1);
		SUF(t_column)(block, k, PANEL, tau[j], w);
	}
}

// Writes the first q columns of the product of the reflectors to `to`, m rows of ld elements. room holds
// (count + PANEL) * PANEL + 2 * PANEL * q numbers.
static void SUF(form)(la_place *p, const REAL *v, int64_t m, int64_t count, const REAL *tau, REAL *to, int64_t ld,
	int64_t q, REAL *room) {
	SUF(reflection) r = {.p = p, .a = to, .lda = ld, .m = m, .to = q, .count = count, .v = v, .t = room,
		.w = room + (count + PANEL) * PANEL};
	SUF(make_t)(p, v, m, count, tau, room);
	SUF(form_q)(&r, q);
}

// Rotations of neighbouring rows: number i turns rows at + i*step and the one after it.
typedef struct {
	la_place *p;
	REAL *rows;
	int64_t n, at, count, step;
	const REAL *c, *s;
} SUF(turns);

static void SUF(turns_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(turns) *x = arg;
	const tl_isa_table *t = tl_isa_tables(x->p->isa);
	(void)worker;
	for (int64_t j0 = begin * COLUMNS; j0 < end * COLUMNS && j0 < x->n; j0 += CHUNK) {
		int64_t j1 = end * COLUMNS < x->n ? end * COLUMNS : x->n, w = j1 - j0 < CHUNK ? j1 - j0 : CHUNK;
		for (int64_t i = 0; i < x->count; i++) {
			REAL *row = x->rows + (x->at + i * x->step) * x->n + j0;
			t->SUF(rotate)(w, row, row + x->n, x->c[i], x->s[i]);
		}
	}
}

static void SUF(turn_rows)(la_place *p, REAL *rows, int64_t n, int64_t at, int64_t count, int64_t step, const REAL *c,
	const REAL *s) {
	SUF(turns) x = {p, rows, n, at, count, step, c, s};
	int64_t items = (n + COLUMNS - 1) / COLUMNS;
	if (n * count > 1 << 15) SUF(share)(p, items, 1, SUF(turns_job), &x);
	else SUF(turns_job)(&x, p->worker, 0, items);
}

// Scales a matrix by a power of two, so that squares of its elements stay in range. Returns the exponent that undoes
// it.
static int SUF(rescale)(REAL *a, int64_t n) {
	REAL top = 0;
	int shift = 0;
	for (int64_t i = 0; i < n; i++) top = (REAL)fabs(a[i]) > top ? (REAL)fabs(a[i]) : top;
	if (top > 0) frexp(top, &shift);
	if (shift > -20 && shift < 20) return 0;
	for (int64_t i = 0; i < n; i++) a[i] = (REAL)ldexp(a[i], -shift);
	return shift;
}

// Householder reduction of a symmetric matrix to tridiagonal form (Golub and Van Loan, section 8.3): d is the diagonal,
// e the one beside it. Reflector j of n-1 is row j of v, n-1 long, one at place j. The update of a row is followed by
// its product with the next reflector: each step reads the matrix once. room holds 2n.
static void SUF(tridiagonal)(la_place *p, REAL *a, int64_t n, double *d, double *e, REAL *v, REAL *tau, REAL *room) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	REAL *w = room, *next = room + n, f[2];
	for (int64_t j = 0; j < n; j++) {
		const REAL *last = v + (j - 1) * (n - 1) + j - 1; // the last reflector, not yet applied; w is its product
		REAL *row = a + j * n + j;
		int64_t r = n - j - 1;
		if (j > 0) {
			f[0] = -last[0], f[1] = -w[0];
			t->SUF(addrows)(r + 1, 1, f, 1, w, 0, row);
			t->SUF(addrows)(r + 1, 1, f + 1, 1, last, 0, row);
		}
		d[j] = row[0];
		if (r == 0) break;
		REAL *x = v + j * (n - 1) + j, beta, half;
		memset(x - j, 0, (size_t)j * sizeof(REAL));
		memcpy(x, row + 1, (size_t)r * sizeof(REAL));
		beta = x[0];
		tau[j] = SUF(reflector)(t, &beta, x + 1, r - 1);
		e[j] = beta;
		x[0] = 1;
		for (int64_t i = 0; i < r; i++) {
			REAL *b = a + (j + 1 + i) * n + j + 1;
			if (j > 0) {
				f[0] = -last[i + 1], f[1] = -w[i + 1];
				t->SUF(addrows)(r, 1, f, 1, w + 1, 0, b);
				t->SUF(addrows)(r, 1, f + 1, 1, last + 1, 0, b);
			}
			t->SUF(dot)(1, r, b, 1, x, r, next + i, 1);
			next[i] *= tau[j];
		}
		t->SUF(dot)(1, r, next, 1, x, r, &half, 1);
		half *= -tau[j] / 2;
		t->SUF(addrows)(r, 1, &half, 1, x, 0, next);
		memcpy(w, next, (size_t)r * sizeof(REAL));
	}
	e[n - 1] = 0;
}

// One implicit QL sweep with Wilkinson's shift over the block l..m of a tridiagonal matrix, from row m-1 up. Returns
// the number of rotations, which cs receives. The method of EISPACK's imtql2; Golub and Van Loan, section 8.3.
static int64_t SUF(ql_sweep)(double *d, double *e, int64_t l, int64_t m, REAL *cs, REAL *sn) {
	double g = (d[l + 1] - d[l]) / (2 * e[l]), s = 1, c = 1, p = 0;
	int64_t count = 0;
	g = d[m] - d[l] + e[l] / (g + copysign(hypot(g, 1), g));
	for (int64_t i = m - 1; i >= l; i--) {
		double f = s * e[i], b = c * e[i], r = angle(g, f, &c, &s);
		e[i + 1] = r;
		if (r == 0) { // the matrix splits here
			d[i + 1] -= p;
			e[m] = 0;
			return count;
		}
		g = d[i + 1] - p;
		r = (d[i] - g) * s + 2 * c * b;
		p = s * r;
		d[i + 1] = g + p;
		g = c * r - b;
		cs[count] = (REAL)c, sn[count++] = (REAL)-s;
	}
	d[l] -= p;
	e[l] = g;
	e[m] = 0;
	return count;
}

// Sorts the values (sign 1 ascending, -1 descending), and the rows of a and b with them.
static void SUF(sort_rows)(double *w, int64_t n, REAL *a, int64_t an, REAL *b, int64_t bn, int sign) {
	for (int64_t i = 0; i < n; i++) {
		int64_t k = i;
		for (int64_t j = i + 1; j < n; j++)
			if (sign * w[j] < sign * w[k]) k = j;
		if (k == i) continue;
		double t = w[i];
		w[i] = w[k];
		w[k] = t;
		SUF(swap_rows)(a + i * an, a + k * an, an);
		if (b) SUF(swap_rows)(b + i * bn, b + k * bn, bn);
	}
}

// The doubles at the start of room, and the numbers after them.
static double *SUF(doubles)(REAL *room, int64_t count, REAL **rest) {
	double *d = (double *)(((uintptr_t)room + 7) & ~(uintptr_t)7);
	*rest = (REAL *)(d + count);
	return d;
}

// A = V diag(w) V' of a symmetric a, of which both triangles are read; a becomes V. w ascends. room holds eigh_room.
static void SUF(eigh)(la_place *p, REAL *a, int64_t n, REAL *w, REAL *room) {
	if (n == 0) return;
	REAL *v, *tau, *vt, *cs, *more;
	double *d = SUF(doubles)(room, 2 * n, &v), *e = d + n;
	int shift = SUF(rescale)(a, n * n);
	vt = v + n * n, tau = vt + n * n, cs = tau + n, more = cs + 2 * n;
	SUF(tridiagonal)(p, a, n, d, e, v, tau, more);
	memset(a, 0, (size_t)(n * n) * sizeof(REAL));
	a[0] = 1;
	SUF(form)(p, v, n - 1, n - 1, tau, a + n + 1, n, n - 1, more);
	SUF(turn)(a, n, n, n, vt, n);
	for (int64_t l = 0; l < n && !tl_stop_asked(p->pool); l++)
		for (int sweep = 0; sweep < 100; sweep++) { // three sweeps are usual
			int64_t m = l;
			while (m + 1 < n && fabs(e[m]) > EPSILON * (fabs(d[m]) + fabs(d[m + 1]))) m++;
			if (m == l) break;
			int64_t count = SUF(ql_sweep)(d, e, l, m, cs, cs + n);
			SUF(turn_rows)(p, vt, n, m - 1, count, -1, cs, cs + n);
		}
	SUF(sort_rows)(d, n, vt, n, NULL, 0, 1);
	for (int64_t i = 0; i < n; i++) w[i] = (REAL)ldexp(d[i], shift);
	SUF(turn)(vt, n, n, n, a, n);
}

// Householder reduction of a (m x n, m >= n) to upper bidiagonal form (Golub and Van Loan, section 5.4): d is the
// diagonal, e the one above it. Rows of left, m long, and right, n-1 long, are the reflectors. Each step reads the
// matrix twice. room holds n.
static void SUF(bidiagonal)(la_place *p, REAL *a, int64_t m, int64_t n, double *d, double *e, REAL *left, REAL *right,
	REAL *tau, REAL *w) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	for (int64_t k = 0; k < n; k++) {
		REAL *v = left + k * m, *u = right + k * (n - 1), alpha, f;
		int64_t r = n - k - 1;
		memset(v, 0, (size_t)k * sizeof(REAL));
		for (int64_t i = k; i < m; i++) v[i] = a[i * n + k];
		alpha = v[k];
		tau[k] = SUF(reflector)(t, &alpha, v + k + 1, m - k - 1);
		d[k] = alpha;
		v[k] = 1;
		if (r == 0) break;
		REAL *row = a + k * n + k + 1;
		t->SUF(axpy)(r, m - k, v + k, 1, row, n, w);
		f = -tau[k];
		t->SUF(addrows)(r, 1, &f, 1, w, 0, row);
		memset(u, 0, (size_t)k * sizeof(REAL));
		u += k;
		memcpy(u, row, (size_t)r * sizeof(REAL));
		alpha = u[0];
		REAL turned = SUF(reflector)(t, &alpha, u + 1, r - 1);
		tau[n + k] = turned;
		e[k] = alpha;
		u[0] = 1;
		for (int64_t i = k + 1; i < m; i++) {
			row = a + i * n + k + 1;
			f = -tau[k] * v[i];
			t->SUF(addrows)(r, 1, &f, 1, w, 0, row);
			t->SUF(dot)(1, r, row, 1, u, r, &f, 1);
			f *= -turned;
			t->SUF(addrows)(r, 1, &f, 1, u, 0, row);
		}
	}
}

// Moves e[zero] out of the block, whose diagonal element d[zero] is zero: to the right by rotations of row zero with
// those after it, or up by rotations of column hi with those before it if zero is hi.
static void SUF(chase)(la_place *p, double *d, double *e, int64_t lo, int64_t hi, int64_t zero, REAL *ut, int64_t m,
	REAL *vt, int64_t n) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	int64_t step = zero == hi ? -1 : 1, off = zero == hi ? -1 : 0; // e[j+off] lies beyond d[j] on the way
	double f = e[zero + off], c, s;
	e[zero + off] = 0;
	for (int64_t j = zero + step; j >= lo && j <= hi && f != 0; j += step) {
		d[j] = angle(d[j], f, &c, &s);
		if (step > 0) t->SUF(rotate)(m, ut + j * m, ut + zero * m, (REAL)c, (REAL)s);
		else t->SUF(rotate)(n, vt + j * n, vt + hi * n, (REAL)c, (REAL)s);
		if (j == (step > 0 ? hi : lo)) break;
		f = -s * e[j + off];
		e[j + off] *= c;
	}
}

// One implicit QR sweep with Wilkinson's shift over the block lo..hi of a bidiagonal matrix (Golub and Van Loan,
// algorithm 8.6.1). cs receives the cosines and sines of the rotations of columns, then those of rows, n of each.
static void SUF(qr_sweep)(double *d, double *e, int64_t lo, int64_t hi, REAL *cs, int64_t n) {
	double a = d[hi - 1] * d[hi - 1] + (hi - 1 > lo ? e[hi - 2] * e[hi - 2] : 0), b = d[hi - 1] * e[hi - 1];
	double last = d[hi] * d[hi] + e[hi - 1] * e[hi - 1], half = (a - last) / 2, c, s;
	double shift = last, root = half + copysign(sqrt(half * half + b * b), half);
	if (root != 0) shift -= b * b / root;
	double y = d[lo] - shift / d[lo], z = e[lo];
	for (int64_t k = lo; k < hi; k++) {
		int64_t i = k - lo;
		double r = angle(y, z, &c, &s), f, g, h;
		cs[i] = (REAL)c, cs[n + i] = (REAL)s;
		if (k > lo) e[k - 1] = r;
		f = c * d[k] + s * e[k];
		h = c * e[k] - s * d[k];
		g = s * d[k + 1];
		double under = c * d[k + 1];
		d[k] = angle(f, g, &c, &s);
		cs[2 * n + i] = (REAL)c, cs[3 * n + i] = (REAL)s;
		e[k] = c * h + s * under;
		d[k + 1] = c * under - s * h;
		y = e[k];
		if (k + 1 < hi) {
			z = s * e[k + 1];
			e[k + 1] *= c;
		}
	}
}

// Makes e zero by rotations of the rows of ut (m long) and vt (n long). cs has room for 4n.
static void SUF(diagonalise)(la_place *p, double *d, double *e, int64_t n, REAL *ut, int64_t m, REAL *vt, REAL *cs) {
	double norm = 0;
	for (int64_t i = 0; i < n; i++) norm = fmax(norm, fmax(fabs(d[i]), i + 1 < n ? fabs(e[i]) : 0));
	int64_t hi = n - 1;
	for (int64_t sweep = 0; hi > 0 && sweep < 60 * n && !tl_stop_asked(p->pool); sweep++) { // two a value are usual
		int64_t lo = hi, zero = -1;
		while (lo > 0 && fabs(e[lo - 1]) > EPSILON * (fabs(d[lo - 1]) + fabs(d[lo]))) lo--;
		if (lo > 0) e[lo - 1] = 0;
		if (lo == hi) {
			hi--;
			continue;
		}
		for (int64_t k = lo; k <= hi && zero < 0; k++)
			if (fabs(d[k]) <= EPSILON * norm) zero = k;
		if (zero >= 0) {
			d[zero] = 0;
			SUF(chase)(p, d, e, lo, hi, zero, ut, m, vt, n);
			continue;
		}
		SUF(qr_sweep)(d, e, lo, hi, cs, n);
		SUF(turn_rows)(p, vt, n, lo, hi - lo, 1, cs, cs + n);
		SUF(turn_rows)(p, ut, m, lo, hi - lo, 1, cs + 2 * n, cs + 3 * n);
	}
}

// A = U diag(s) Vt of a (m x n, m >= n, overwritten); s descends. U is m x q with q = n or m; vt is n x n; room holds
// svd_room. A tall matrix is first reduced to R.
static void SUF(svd)(la_place *p, REAL *a, int64_t m, int64_t n, REAL *u, int64_t q, REAL *s, REAL *vt, REAL *room) {
	REAL *left, *right, *tau, *cs, *ut, *tmp, *more;
	double *d = SUF(doubles)(room, 2 * n, &left), *e = d + n;
	int tall = 2 * m > 3 * n, shift = SUF(rescale)(a, m * n);
	int64_t rows = tall ? n : m;
	right = left + n * m, tau = right + n * n, cs = tau + 2 * n, ut = cs + 4 * n, tmp = ut + n * m, more = tmp + m * n;
	if (tall) SUF(qr)(p, a, m, n, u, q, more);
	for (int64_t i = 1; i < n && tall; i++) memset(a + i * n, 0, (size_t)i * sizeof(REAL));
	if (n == 0) return;
	SUF(bidiagonal)(p, a, rows, n, d, e, left, right, tau, more);
	REAL *basis = tall ? tmp : u;
	int64_t width = tall ? n : q;
	SUF(form)(p, left, rows, n, tau, basis, width, width, more);
	SUF(turn)(basis, width, rows, n, ut, rows);
	memset(a, 0, (size_t)(n * n) * sizeof(REAL));
	a[0] = 1;
	if (n > 1) SUF(form)(p, right, n - 1, n - 1, tau + n, a + n + 1, n, n - 1, more);
	SUF(turn)(a, n, n, n, vt, n);
	SUF(diagonalise)(p, d, e, n, ut, rows, vt, cs);
	for (int64_t i = 0; i < n; i++) {
		if (d[i] >= 0) continue;
		d[i] = -d[i];
		SUF(negate)(vt + i * n, n, vt + i * n);
	}
	SUF(sort_rows)(d, n, ut, rows, vt, n, -1);
	for (int64_t i = 0; i < n; i++) s[i] = (REAL)ldexp(d[i], shift);
	if (!tall) {
		SUF(turn)(ut, rows, n, rows, u, q);
		return;
	}
	SUF(product)(p, p->worker, p->parallel, 0, m, n, n, u, q, 1, ut, 1, n, tmp, n);
	for (int64_t i = 0; i < m; i++) memcpy(u + i * q, tmp + i * n, (size_t)n * sizeof(REAL));
}

// A = U diag(s) Vt of a, which is overwritten. U is m x q and Vt is p x n; q and p are least, or m and n with full.
static void SUF(svd_of)(const factor *x, la_place *p, REAL *a, int full, REAL *u, REAL *s, REAL *vt, REAL *room) {
	int64_t m = x->m, n = x->n, q = full ? n : m;
	if (m >= n) {
		SUF(svd)(p, a, m, n, u, full ? m : n, s, vt, room);
		return;
	}
	REAL *v = room, *ut = v + n * q, *t = ut + m * m; // the transpose has m >= n; its U and V change places
	SUF(turn)(a, n, m, n, t, m);
	SUF(svd)(p, t, n, m, v, q, s, ut, t + m * n);
	SUF(turn)(v, q, n, q, vt, n);
	SUF(turn)(ut, m, m, m, u, m);
}

static int SUF(all_finite)(const REAL *a, int64_t count) {
	for (int64_t i = 0; i < count; i++)
		if (!isfinite(a[i])) return 0;
	return 1;
}

// Makes a symmetric matrix from one of its triangles.
static void SUF(mirror)(REAL *a, int64_t n, int upper) {
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++)
			if (upper) a[i * n + j] = a[j * n + i];
			else a[j * n + i] = a[i * n + j];
}

// Reads matrix i; one with elements that are not finite is reported and replaced by zeros.
static void SUF(in_finite)(factor *x, int64_t i, REAL *a) {
	SUF(in)(x, 0, i, x->m * x->n, a);
	if (SUF(all_finite)(a, x->m * x->n)) return;
	report(x, i, (int64_t)UINT32_MAX);
	memset(a, 0, (size_t)(x->m * x->n) * sizeof(REAL));
}

static void SUF(spectral_one)(factor *x, la_place *at, int64_t i, REAL *a) {
	int64_t m = x->m, n = x->n, k = x->least;
	REAL *room = a + m * n;
	SUF(in_finite)(x, i, a);
	if (x->f->op == EIGH) {
		SUF(mirror)(a, n, x->f->option & UPPER);
		SUF(eigh)(at, a, n, room, room + n);
		SUF(out)(x, 0, i, n, room);
		SUF(out)(x, 1, i, n * n, a);
		return;
	}
	int full = x->f->option & FULL;
	REAL *u = room, *s = u + m * m, *vt = s + k;
	SUF(svd_of)(x, at, a, full, u, s, vt, vt + n * n);
	SUF(out)(x, 0, i, m * (full ? m : k), u);
	SUF(out)(x, 1, i, k, s);
	SUF(out)(x, 2, i, n * (full ? n : k), vt);
}

#undef REAL
#undef SUF
#undef TYPE
#undef EPSILON
#undef SQUARE_LEAST
#undef SQUARE_MOST
