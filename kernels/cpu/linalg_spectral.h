// Eigenvalues of a symmetric matrix and singular values, in one type. linalg.c includes this file after linalg_real.h.
// Reflectors bring the matrix to a band of two diagonals, which is diagonalised in double. The reflectors are then
// applied to the band's vectors.

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

// Multiplies the q columns of a, m rows of lda elements, by the product of the reflectors. room holds
// (count + PANEL) * PANEL + 2 * PANEL * q numbers.
static void SUF(reflect)(la_place *p, const REAL *v, int64_t m, int64_t count, const REAL *tau, REAL *a, int64_t lda,
	int64_t q, REAL *room) {
	SUF(reflection) r = {.p = p, .a = a, .lda = lda, .m = m, .count = count, .dense = 1, .v = v, .t = room,
		.w = room + (count + PANEL) * PANEL};
	SUF(make_t)(p, v, m, count, tau, room);
	SUF(form_q)(&r, q);
}

// Writes rows of vectors, n long, in the order given (step 1) or the reverse (-1), as columns of `to`.
static void SUF(columns)(const double *rows, const int64_t *order, int step, int64_t n, REAL *to, int64_t ld) {
	for (int64_t j0 = 0; j0 < n; j0 += 16)
		for (int64_t i = 0; i < n; i++)
			for (int64_t j = j0; j < j0 + 16 && j < n; j++)
				to[i * ld + j] = (REAL)rows[order[step > 0 ? j : n - 1 - j] * n + i];
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

// A step of a reduction: rows and columns from `from` on are left. x and y make the update that is still due.
typedef struct {
	la_place *p;
	REAL *a, *parts; // parts: a vector of ld for each part
	const REAL *x, *y, *z;
	int64_t n, ld, from, areas;
} SUF(step);

// Updates parts of the rows, of nearly equal areas, and multiplies them with the next reflector z. Each has a sum of
// its own, so that bits do not depend on the threads.
static void SUF(tridiagonal_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(step) *s = arg;
	const int64_t low = s->from / 4 * 4, high = (s->n + 3) / 4 * 4, first = s->from / 16 * 16;
	(void)worker;
	for (int64_t i = begin; i < end; i++) {
		int64_t bound[2];
		for (int h = 0; h < 2; h++) {
			bound[h] = low + (int64_t)((double)(high - low) * sqrt((double)(i + h) / (double)s->areas)) / 4 * 4;
			if (i + h == s->areas) bound[h] = high;
		}
		REAL *out = s->parts + i * s->ld;
		memset(out + first, 0, (size_t)(s->ld - first) * sizeof(REAL));
		functions_of(s->p->isa)->FUNCTIONS.reduce(bound[0], bound[1], first, s->a, s->ld, s->x, s->y, s->z, out);
	}
}

// Reduces the padded symmetric matrix a to tridiagonal form by Householder's reflectors (Golub and Van Loan, section
// 8.3). d receives the diagonal, e the diagonal beside it. Row j of v receives reflector j: n-1 elements, with 1 at
// place j. Each step reads the lower triangle once: it updates a row and multiplies it with the next reflector. room
// holds AREAS + 3 vectors.
static void SUF(tridiagonal)(la_place *p, REAL *a, int64_t n, double *d, double *e, REAL *v, REAL *tau, REAL *room) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	const int64_t ld = pitch_of(n);
	REAL *x = room, *y = x + ld, *z = y + ld, *parts = z + ld, *turn;
	const REAL one = 1;
	memset(room, 0, (size_t)(3 * ld) * sizeof(REAL));
	for (int64_t j = 0; j < n && !tl_stop_asked(p->pool); j++, turn = x, x = z, z = turn) {
		const int64_t r = n - j - 1;
		for (int64_t i = j; i < n; i++) z[i] = a[i * ld + j] - x[i] * y[j] - y[i] * x[j]; // x and y are 0 at first
		d[j] = z[j];
		if (r == 0) break;
		REAL *u = v + j * (n - 1), *w = z + j + 1, beta = w[0], half;
		tau[j] = SUF(reflector)(t, &beta, w + 1, r - 1);
		e[j] = beta;
		w[0] = 1;
		memset(z, 0, (size_t)(j + 1) * sizeof(REAL));
		memset(u, 0, (size_t)j * sizeof(REAL));
		memcpy(u + j, w, (size_t)r * sizeof(REAL));
		// One share for each thread, so that most rows stay in the caches of the thread that they were with.
		const int64_t threads = tl_pool_threads(p->pool), areas = r > SHARED ? AREAS : 1;
		SUF(step) step = {.p = p, .a = a, .parts = parts, .x = x, .y = j > 0 ? y : NULL, .z = z, .n = n, .ld = ld,
			.from = j + 1, .areas = areas};
		if (areas > 1) SUF(share)(p, areas, (areas + threads - 1) / threads, SUF(tridiagonal_job), &step);
		else SUF(tridiagonal_job)(&step, p->worker, 0, 1);
		t->SUF(axpy)(r, areas, &one, 0, parts + j + 1, ld, y + j + 1);
		for (int64_t i = j + 1; i < n; i++) y[i] *= tau[j];
		t->SUF(dot)(1, r, y + j + 1, 1, w, r, &half, 1);
		half *= -tau[j] / 2;
		t->SUF(addrows)(r, 1, &half, 1, w, 0, y + j + 1);
		y[j] = 0;
	}
	e[n - 1] = 0;
}

// The doubles at the start of room, and the numbers after them.
static double *SUF(doubles)(REAL *room, int64_t count, REAL **rest) {
	double *d = (double *)(((uintptr_t)room + 7) & ~(uintptr_t)7);
	*rest = (REAL *)(d + count);
	return d;
}

// Decomposes a symmetric matrix: A = V diag(w) V'. It reads the lower triangle of a and overwrites a with V. w ascends.
// room holds eigh_room elements.
static void SUF(eigh)(la_place *p, REAL *a, int64_t n, REAL *w, REAL *room) {
	if (n == 0) return;
	REAL *v, *tau, *more;
	double *d = SUF(doubles)(room, 2 * n + n * n + tree_room(n), &v), *e = d + n, *rows = e + n;
	tau = v + n * n, more = tau + n;
	const int64_t ld = pitch_of(n), height = (n + 3) / 4 * 4;
	REAL *padded = (REAL *)(((uintptr_t)more + 63) & ~(uintptr_t)63);
	for (int64_t i = 0; i < height; i++) {
		const int64_t c = i < n ? i + 1 : 0;
		memcpy(padded + i * ld, a + i * n, (size_t)c * sizeof(REAL));
		memset(padded + i * ld + c, 0, (size_t)(ld - c) * sizeof(REAL));
	}
	const int shift = SUF(rescale)(padded, height * ld);
	SUF(tridiagonal)(p, padded, n, d, e, v, tau, padded + height * ld);
	const int64_t *order = diagonal(p, d, e, n, EPSILON, NULL, rows, rows + n * n);
	if (!order) return;
	SUF(columns)(rows, order, 1, n, a, n);
	SUF(reflect)(p, v, n - 1, n - 1, tau, a + n, n, n, more);
	for (int64_t i = 0; i < n; i++) w[i] = (REAL)ldexp(d[order[i]], shift);
}

// A step of a reduction to two diagonals: rows of the padded matrix from `from` on are left. x y' + g u' is still due.
typedef struct {
	la_place *p;
	REAL *a, *parts, *g; // parts: a vector of ld for each part
	const REAL *x, *z, *y, *u;
	int64_t height, n, ld, from, areas;
} SUF(sides);

// Rows of part i, of as many rows as the others.
static int64_t SUF(part_of)(const SUF(sides) *s, int64_t i) {
	const int64_t low = s->from / 4 * 4;
	return low + (s->height - low) / 4 * i / s->areas * 4;
}

// Updates parts of the rows, and multiplies them with the next left reflector z.
static void SUF(left_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(sides) *s = arg;
	const int64_t first = s->from / 16 * 16;
	(void)worker;
	for (int64_t i = begin; i < end; i++) {
		REAL *out = s->parts + i * s->ld;
		memset(out + first, 0, (size_t)(s->ld - first) * sizeof(REAL));
		functions_of(s->p->isa)->FUNCTIONS.sweep(SUF(part_of)(s, i), SUF(part_of)(s, i + 1), first, s->n, s->a, s->ld, s->x,
			s->g, s->z, s->y, s->u, out);
	}
}

// Multiplies parts of the rows with the next right reflector u.
static void SUF(right_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(sides) *s = arg;
	const int64_t from = SUF(part_of)(s, begin), first = s->from / 16 * 16;
	(void)worker;
	tl_isa_tables(s->p->isa)->SUF(dot)(SUF(part_of)(s, end) - from, s->n - first, s->u + first, 1, s->a + from * s->ld +
		first, s->ld, s->g + from, 1);
}

static void SUF(halve)(const SUF(sides) *s, tl_job job) {
	// One share for each thread, as in tridiagonal.
	const int64_t threads = tl_pool_threads(s->p->pool);
	if (s->areas > 1) SUF(share)(s->p, s->areas, (s->areas + threads - 1) / threads, job, (void *)s);
	else job((void *)s, s->p->worker, 0, 1);
}

// Householder reduction of a (m x n, m >= n) to upper bidiagonal form (Golub and Van Loan, section 5.4): d is the
// diagonal, e the one above it. Rows of left, m long, and right, n-1 long, are the reflectors. A step reads what is
// left of the matrix twice and writes it once: the update of a step is made where the next one multiplies by its left
// reflector, and A u of the updated matrix is A u - v (w' u). room holds what svd_room says of the reduction.
static void SUF(bidiagonal)(la_place *p, const REAL *from, int64_t m, int64_t n, double *d, double *e, REAL *left,
	REAL *right, REAL *tau, REAL *room) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	const int64_t ld = pitch_of(n), height = (m + 3) / 4 * 4;
	REAL *a = (REAL *)(((uintptr_t)room + 63) & ~(uintptr_t)63), *w = a + height * ld, *u = w + ld, *parts = u + ld;
	REAL *x = parts + AREAS * ld, *z = x + height, *g = z + height, *turn;
	const REAL one = 1;
	for (int64_t i = 0; i < height; i++) {
		const int64_t c = i < m ? n : 0;
		memcpy(a + i * ld, from + i * n, (size_t)c * sizeof(REAL));
		memset(a + i * ld + c, 0, (size_t)(ld - c) * sizeof(REAL));
	}
	memset(w, 0, (size_t)((2 + AREAS) * ld + 3 * height) * sizeof(REAL));
	for (int64_t k = 0; k < n && !tl_stop_asked(p->pool); k++, turn = x, x = z, z = turn) {
		REAL alpha, inner;
		const int64_t r = n - k - 1;
		for (int64_t i = k; i < m; i++) z[i] = a[i * ld + k] - x[i] * w[k] - g[i] * u[k]; // w and u are 0 at first
		alpha = z[k];
		tau[k] = SUF(reflector)(t, &alpha, z + k + 1, m - k - 1);
		d[k] = alpha;
		z[k] = 1;
		memset(z, 0, (size_t)k * sizeof(REAL));
		memcpy(left + k * m, z, (size_t)m * sizeof(REAL));
		if (r == 0) break;
		SUF(sides) step = {.p = p, .a = a, .parts = parts, .g = g, .x = x, .z = z, .y = k > 0 ? w : NULL, .u = u,
			.height = height, .n = n, .ld = ld, .from = k, .areas = m - k > SHARED ? AREAS : 1};
		SUF(halve)(&step, SUF(left_job));
		t->SUF(axpy)(r, step.areas, &one, 0, parts + k + 1, ld, w + k + 1);
		w[k] = u[k] = 0;
		for (int64_t j = k + 1; j < n; j++) w[j] *= tau[k], u[j] = a[k * ld + j] - w[j];
		alpha = u[k + 1];
		const REAL turned = SUF(reflector)(t, &alpha, u + k + 2, r - 1);
		tau[n + k] = turned;
		e[k] = alpha;
		u[k + 1] = 1;
		memset(right + k * (n - 1), 0, (size_t)k * sizeof(REAL));
		memcpy(right + k * (n - 1) + k, u + k + 1, (size_t)r * sizeof(REAL));
		SUF(halve)(&step, SUF(right_job));
		t->SUF(dot)(1, r, w + k + 1, 1, u + k + 1, r, &inner, 1);
		for (int64_t i = k + 1; i < m; i++) g[i] = turned * (g[i] - z[i] * inner);
		memset(g, 0, (size_t)(k + 1) * sizeof(REAL));
	}
}

// A = U diag(s) Vt of a (m x n, m >= n, overwritten); s descends. U is m x q with q = n or m; vt is n x n; room holds
// svd_room. A tall matrix is first reduced to R.
static void SUF(svd)(la_place *p, REAL *a, int64_t m, int64_t n, REAL *u, int64_t q, REAL *s, REAL *vt, REAL *room) {
	REAL *left, *right, *tau, *tmp, *more;
	double *d = SUF(doubles)(room, 2 * n + 2 * n * n + tree_room(n), &left), *e = d + n, *ur = e + n, *vr = ur + n * n;
	int tall = is_tall(m, n), shift = SUF(rescale)(a, m * n);
	int64_t rows = tall ? n : m;
	right = left + n * m, tau = right + n * n, tmp = tau + 2 * n, more = tmp + m * n;
	if (tall) SUF(qr)(p, a, m, n, u, q, more);
	for (int64_t i = 1; i < n && tall; i++) memset(a + i * n, 0, (size_t)i * sizeof(REAL));
	if (n == 0) return;
	SUF(bidiagonal)(p, a, rows, n, d, e, left, right, tau, more);
	const int64_t *order = diagonal(p, d, e, n, EPSILON, ur, vr, vr + n * n);
	if (!order) return;
	REAL *basis = tall ? tmp : u;
	int64_t width = tall ? n : q;
	memset(basis, 0, (size_t)(rows * width) * sizeof(REAL));
	for (int64_t i = n; i < width; i++) basis[i * (width + 1)] = 1;
	SUF(columns)(ur, order, -1, n, basis, width);
	SUF(reflect)(p, left, rows, n, tau, basis, width, width, more);
	SUF(columns)(vr, order, -1, n, a, n);
	if (n > 1) SUF(reflect)(p, right, n - 1, n - 1, tau + n, a + n, n, n, more);
	SUF(turn)(p, a, n, n, n, vt, n);
	for (int64_t i = 0; i < n; i++) s[i] = (REAL)ldexp(d[order[n - 1 - i]], shift);
	if (!tall) return;
	SUF(product)(p, p->worker, p->parallel, 0, m, n, n, u, q, 1, tmp, n, 1, left, n);
	for (int64_t i = 0; i < m; i++) memcpy(u + i * q, left + i * n, (size_t)n * sizeof(REAL));
}

// A = U diag(s) Vt of a, which is overwritten. U is m x q and Vt is p x n; q and p are least, or m and n with full.
static void SUF(svd_of)(const factor *x, la_place *p, REAL *a, int full, REAL *u, REAL *s, REAL *vt, REAL *room) {
	int64_t m = x->m, n = x->n, q = full ? n : m;
	if (m >= n) {
		SUF(svd)(p, a, m, n, u, full ? m : n, s, vt, room);
		return;
	}
	REAL *v = room, *ut = v + n * q, *t = ut + m * m; // the transpose has m >= n; its U and V change places
	SUF(turn)(p, a, n, m, n, t, m);
	SUF(svd)(p, t, n, m, v, q, s, ut, t + m * n);
	SUF(turn)(p, v, q, n, q, vt, n);
	SUF(turn)(p, ut, m, m, m, u, m);
}

static int SUF(all_finite)(const REAL *a, int64_t count) {
	int32_t others = 0;
	for (int64_t i = 0; i < count; i++) others += !(fabs(a[i]) <= MOST);
	return !others;
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
	if (x->f->op == EIGH) a = SUF(result)(x, 1, i, n * n, a);
	SUF(in_finite)(x, i, a);
	if (x->f->op == EIGH) {
		if (x->f->option & UPPER) SUF(mirror)(a, n, 1);
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
