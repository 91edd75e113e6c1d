// Eigenvalues of a symmetric tridiagonal matrix and singular values of an upper bidiagonal one, with vectors, by
// divide and conquer in double (Gu and Eisenstat, A Divide-and-Conquer Algorithm for the Symmetric Tridiagonal
// Eigenproblem, and ... for the Bidiagonal SVD, 1995). linalg.c includes this file.
//
// Vectors are rows. The two halves of a matrix are solved alone. Their union is a diagonal matrix plus one of rank one,
// or a diagonal matrix with a full first row. Its values are the roots of
//     1 + sum of z[j]^2 / (p[j] - x)
// where p is the diagonal, or its squares. New vectors are combinations of the halves' vectors: two products.
enum { LEAF = 32 }; // size that rotations diagonalise

#define TINY 1e-140 // what is neglected in any matrix: none is small, and squares must not underflow

typedef struct {
	la_place *p;
	int squared; // singular values: the poles are squares
	int64_t ld;  // of rows of u and v
	double eps;  // relative size of what is neglected
	double *d, *e;
	double *u, *v;  // left and right vectors; eigenvectors are v
	double *s, *w;  // room: (n+1)^2 each
	int64_t *order; // rows of a block in ascending order of d, from the block's first row
	// The union of two blocks: k roots.
	int64_t k;
	double *pole, *z, *square, *tau; // root i is tau[i] right of pole origin[i]
	int64_t *origin, *place;         // place: columns of s, so that vectors of the first half come first
	int left;                        // s is of left vectors
} tree;

static inline double apart(const tree *t, int64_t j, int64_t i) { // pole j less pole i
	const double difference = t->pole[j] - t->pole[i];
	return t->squared ? difference * (t->pole[j] + t->pole[i]) : difference;
}

// Returns the root between two poles, at 0 and at `far`, of c + square0 / -x + square1 / (far - x). c stands for the
// other poles near the middle.
static double two_poles(double c, double square0, double square1, double far) {
	const double a = c * far + square0 + square1, b = square0 * far, root = sqrt(fabs(a * a - 4 * b * c));
	return a > 0 ? 2 * b / (a + root) : (a - root) / (2 * c);
}

// Finds root i, between poles i and i+1, relative to the nearer one: x receives the distances of the poles from that.
// The first guess keeps the two poles and what the others give in the middle. Steps are those of Li's middle way
// (Solving Secular Equations Stably and Efficiently, 1994), kept in a bracket.
static void secular_root(tree *t, int64_t i, double *x) {
	const tl_factor_table *f = functions_of(t->p->isa);
	const int64_t k = t->k, last = i == k - 1;
	double width = 0, low = 0, high, tau, sum = 1, slope = 0;
	if (last) for (int64_t j = 0; j < k; j++) width += t->square[j];
	else width = apart(t, i + 1, i);
	for (int64_t j = 0; j < k; j++) x[j] = apart(t, j, i);
	tau = width / 2, high = last ? width : tau;
	t->origin[i] = i;
	if (!last) {
		f->poles(t->square, x, tau, k, &sum, &slope);
		const double c = sum + (t->square[i] - t->square[i + 1]) / tau;
		if (sum < 0) {
			for (int64_t j = 0; j < k; j++) x[j] = apart(t, j, i + 1);
			t->origin[i] = i + 1;
			low = -tau, high = 0;
			tau = two_poles(c, t->square[i + 1], t->square[i], x[i]);
		} else {
			tau = two_poles(c, t->square[i], t->square[i + 1], x[i + 1]);
		}
		if (!(tau > low && tau < high)) tau = (low + high) / 2;
	}
	const double next = last ? width : x[i + 1];
	for (int step = 0; step < 200; step++) {
		double psi = 0, dpsi = 0, phi = 0, dphi = 0;
		f->poles(t->square, x, tau, i + 1, &psi, &dpsi);
		f->poles(t->square + i + 1, x + i + 1, tau, k - i - 1, &phi, &dphi);
		const double y = 1 + psi + phi;
		if (fabs(y) <= DBL_EPSILON * (1 + 8 * (phi - psi) + fabs(tau) * (dpsi + dphi))) break;
		if (y < 0) low = tau; else high = tau;
		const double one = x[i] - tau, two = next - tau, c = y - one * dpsi - two * dphi;
		const double a = (one + two) * y - one * two * (dpsi + dphi), b = one * two * y;
		const double root = sqrt(fabs(a * a - 4 * b * c));
		double eta = c == 0 ? b / a : a <= 0 ? (a - root) / (2 * c) : 2 * b / (a + root);
		if (!(y * eta < 0)) eta = -y / (dpsi + dphi);
		double to = tau + eta;
		if (!(to > low && to < high)) to = (low + high) / 2;
		if (to == tau || to == low || to == high) break;
		tau = to;
	}
	t->tau[i] = tau;
}

static void roots_job(void *arg, int worker, int64_t begin, int64_t end) {
	tree *t = arg;
	(void)worker;
	for (int64_t i = begin; i < end; i++) secular_root(t, i, t->s + i * t->k);
}

// Replaces z by the one whose roots are exactly those found: then the vectors are orthogonal however close roots are.
static void z_job(void *arg, int worker, int64_t begin, int64_t end) {
	tree *t = arg;
	(void)worker;
	for (int64_t j0 = begin * COLUMNS; j0 < end * COLUMNS && j0 < t->k; j0 += COLUMNS) {
		const int64_t j1 = j0 + COLUMNS < t->k ? j0 + COLUMNS : t->k;
		double product[COLUMNS];
		for (int64_t j = j0; j < j1; j++) product[j - j0] = 1;
		for (int64_t i = 0; i < t->k; i++) {
			const int64_t o = t->origin[i], split = i < j0 ? j0 : i > j1 ? j1 : i;
			const double tau = t->tau[i];
			for (int64_t j = j0; j < split; j++) product[j - j0] *= (apart(t, j, o) - tau) / apart(t, j, i);
			if (i >= j0 && i < j1) product[i - j0] *= tau - apart(t, i, o);
			for (int64_t j = split + (i >= j0); j < j1; j++) product[j - j0] *= (apart(t, j, o) - tau) / apart(t, j, i);
		}
		for (int64_t j = j0; j < j1; j++) t->w[j] = copysign(sqrt(fabs(product[j - j0])), t->z[j]);
	}
}

// Makes the rows of s: the new vectors in terms of the old ones.
static void vectors_job(void *arg, int worker, int64_t begin, int64_t end) {
	tree *t = arg;
	(void)worker;
	for (int64_t i = begin; i < end; i++) {
		double *row = t->s + i * t->k, sum = 0;
		for (int64_t j = 0; j < t->k; j++) {
			double q = t->z[j] / (apart(t, j, t->origin[i]) - t->tau[i]);
			if (t->left) q = j ? q * t->pole[j] : -1;
			row[t->place[j]] = q;
			sum += q * q;
		}
		sum = 1 / sqrt(sum);
		for (int64_t j = 0; j < t->k; j++) row[j] *= sum;
	}
}

static void share_roots(tree *t, int64_t n, tl_job job) {
	if (t->k > LEAF) share64(t->p, n, n > 4 * COLUMNS ? COLUMNS : 1, job, t);
	else job(t, t->p->worker, 0, n);
}

// A union of two blocks: rows lo to lo+n, the first half with columns below split.
typedef struct {
	int64_t lo, n, split;
	int64_t *item, kept, dropped; // item: rows that take part, then from the end back those that stay as they are
	char *half;                   // 1: first, 2: second, 3: both
} joint;

// Combines the rows of one side's vectors, `width` columns.
static void combine(tree *t, const joint *g, double *rows, int64_t width) {
	const int64_t k = t->k, of[2] = {g->split, width - g->split};
	double *at = t->w, *part[2];
	int64_t count[2] = {0, 0}, first[2] = {0, k};
	rows += g->lo * t->ld + g->lo;
	for (int h = 0; h < 2; h++) {
		part[h] = at;
		for (int64_t j = 0; j < k; j++) {
			if (!(g->half[g->item[j]] & 1 << h)) continue;
			first[h] = t->place[j] < first[h] ? t->place[j] : first[h];
			count[h]++;
		}
		for (int64_t j = 0; j < k; j++)
			if (g->half[g->item[j]] & 1 << h)
				memcpy(at + (t->place[j] - first[h]) * of[h], rows + g->item[j] * t->ld + h * g->split,
					(size_t)of[h] * sizeof(double));
		at += count[h] * of[h];
	}
	for (int64_t j = 0; j < g->dropped; j++)
		memcpy(at + j * width, rows + g->item[g->n - 1 - j] * t->ld, (size_t)width * sizeof(double));
	for (int64_t j = 0; j < g->dropped; j++)
		memcpy(rows + (k + j) * t->ld, at + j * width, (size_t)width * sizeof(double));
	for (int h = 0; h < 2; h++) {
		for (int64_t i = 0; i < k && !count[h]; i++)
			memset(rows + i * t->ld + h * g->split, 0, (size_t)of[h] * sizeof(double));
		product64(t->p, t->p->worker, t->p->parallel && k > LEAF, 0, k, of[h], count[h], t->s + first[h], k, 1, part[h],
			of[h], 1, rows + h * g->split, t->ld);
	}
}

// Separates what needs no root: items whose z is negligible, and one of two whose poles nearly agree, which a rotation
// makes so. order lists the items with ascending poles; with singular values the first is the zero pole, which stays.
static void deflate(tree *t, joint *g, const int64_t *order, double *z, int64_t width) {
	const tl_isa_table *table = tl_isa_tables(t->p->isa);
	double *d = t->d + g->lo, most = 0, norm = 0;
	int64_t before = -1, i = 0;
	for (int64_t j = 0; j < g->n; j++) {
		most = fmax(most, fabs(d[j]));
		norm += z[j] * z[j];
	}
	norm = sqrt(norm);
	const double least = fmax(8 * t->eps * fmax(most, t->squared ? norm : norm * norm), TINY);
	g->kept = g->dropped = 0;
	if (t->squared) {
		i = 1;
		g->item[g->kept++] = order[0];
		if (fabs(z[order[0]]) <= least) z[order[0]] = least;
	}
	for (; i < g->n; i++) {
		const int64_t j = order[i];
		if (fabs(z[j]) * (t->squared ? 1 : norm) <= least) {
			g->item[g->n - 1 - g->dropped++] = j;
			continue;
		}
		if (before >= 0) {
			const double r = hypot(z[j], z[before]), c = z[j] / r, s = -z[before] / r, a = d[before], b = d[j];
			if (fabs((b - a) * c * s) <= least) {
				const int64_t x = (g->lo + before) * t->ld + g->lo, y = (g->lo + j) * t->ld + g->lo;
				z[j] = r;
				d[before] = a * c * c + b * s * s;
				d[j] = a * s * s + b * c * c;
				table->rotate64(width, t->v + x, t->v + y, c, s);
				if (t->u) table->rotate64(g->n, t->u + x, t->u + y, c, s);
				g->half[j] |= g->half[before];
				g->item[g->n - 1 - g->dropped++] = before;
			} else {
				g->item[g->kept++] = before;
			}
		}
		before = j;
	}
	if (before >= 0) g->item[g->kept++] = before;
	if (t->squared && g->kept == 1 && fabs(z[order[0]]) <= least) g->item[g->n - 1 - g->dropped++] = g->item[--g->kept];
	if (t->squared && g->kept > 1 && d[g->item[1]] < least / 2) d[g->item[1]] = least / 2;
}

// Finds values and vectors of the union.
static void solve_union(tree *t, joint *g, int64_t width) {
	const int64_t k = t->k = g->kept;
	double *d = t->d + g->lo, stay = 0;
	int64_t next = 0;
	for (int h = 1; h <= 3; h++) // the first half's, those of both, the second half's
		for (int64_t j = 0; j < k; j++)
			if (g->half[g->item[j]] == (h == 1 ? 1 : h == 2 ? 3 : 2)) t->place[j] = next++;
	for (int64_t j = 0; j < k; j++) t->square[j] = t->z[j] * t->z[j];
	share_roots(t, k, roots_job);
	share_roots(t, (k + COLUMNS - 1) / COLUMNS, z_job);
	memcpy(t->z, t->w, (size_t)k * sizeof(double));
	for (t->left = 0; t->left <= (t->u != NULL); t->left++) {
		share_roots(t, k, vectors_job);
		combine(t, g, t->left ? t->u : t->v, t->left ? g->n : width);
	}
	for (int64_t j = 0; j < g->dropped; j++) t->w[j] = d[g->item[g->n - 1 - j]];
	memcpy(d + k, t->w, (size_t)g->dropped * sizeof(double));
	for (int64_t i = 0; i < k; i++) {
		const double p = t->pole[t->origin[i]], tau = t->tau[i];
		d[i] = t->squared ? p + tau / (p + sqrt(p * p + tau)) : p + tau;
	}
	// The rest in order, then both lists as one.
	int64_t *order = t->order + g->lo, *rest = g->item + k;
	for (int64_t j = 0; j < g->dropped; j++) {
		int64_t at = j;
		for (stay = d[k + j]; at > 0 && d[rest[at - 1]] > stay; at--) rest[at] = rest[at - 1];
		rest[at] = k + j;
	}
	for (int64_t i = 0, j = 0; i + j < g->n;)
		if (j == g->dropped || (i < k && d[i] <= d[rest[j]])) order[i + j] = i, i++;
		else order[i + j] = rest[j], j++;
}

// Joins blocks whose items are `first` (after lead, an item that comes before all) and those from `second` on.
static void join(tree *t, joint *g, int64_t first, int64_t second, int lead, double *z, int64_t width) {
	const double *d = t->d + g->lo;
	int64_t *order = t->origin, *a = t->order + g->lo, *b = a + second, rest = g->n - second, at = 0;
	if (lead) order[at++] = first;
	for (int64_t i = 0, j = 0; i < first || j < rest;)
		if (j == rest || (i < first && d[a[i]] <= d[second + b[j]])) order[at++] = a[i++];
		else order[at++] = second + b[j++];
	deflate(t, g, order, z, width);
	for (int64_t j = 0; j < g->kept; j++) t->pole[j] = d[g->item[j]], t->z[j] = z[g->item[j]];
	solve_union(t, g, width);
}

// A block that rotations diagonalise. With extra, singular values have a column more: e[n-1] stands there, and v gets
// one row more, which the matrix takes to zero.
static void small_block(tree *t, int64_t lo, int64_t n, int64_t extra) {
	const tl_isa_table *table = tl_isa_tables(t->p->isa);
	const int64_t width = n + extra;
	double v[(LEAF + 1) * (LEAF + 1)] = {0}, u[LEAF * LEAF] = {0}, cs[4 * LEAF], c, s;
	double *d = t->d + lo, *e = t->e + lo;
	int64_t *order = t->order + lo;
	for (int64_t i = 0; i < width; i++) v[i * (width + 1)] = 1;
	for (int64_t i = 0; i < n; i++) u[i * (n + 1)] = 1;
	if (!t->squared) {
		ql_diagonalise(t->p, d, e, n, v, cs);
	} else {
		// Rotations of columns bring the last one to zero and the rest below the diagonal; rotations of rows bring it back.
		for (int64_t i = 0; i < n * extra; i++) {
			d[i] = angle(d[i], e[i], &c, &s);
			e[i] = i + 1 < n ? s * d[i + 1] : 0;
			if (i + 1 < n) d[i + 1] *= c;
			table->rotate64(width, v + i * width, v + (i + 1) * width, c, s);
		}
		for (int64_t i = 0; i + 1 < n && extra; i++) {
			d[i] = angle(d[i], e[i], &c, &s);
			e[i] = s * d[i + 1];
			d[i + 1] *= c;
			table->rotate64(n, u + i * n, u + (i + 1) * n, c, s);
		}
		qr_diagonalise(t->p, d, e, n, u, v, width, cs);
	}
	for (int64_t i = 0; i < width; i++) {
		if (t->squared && i < n && d[i] < 0) {
			d[i] = -d[i];
			negate64(v + i * width, width, v + i * width);
		}
		memcpy(t->v + (lo + i) * t->ld + lo, v + i * width, (size_t)width * sizeof(double));
		if (t->u && i < n) memcpy(t->u + (lo + i) * t->ld + lo, u + i * n, (size_t)n * sizeof(double));
	}
	for (int64_t i = 0; i < n; i++) {
		int64_t at = i;
		for (; at > 0 && d[order[at - 1]] > d[i]; at--) order[at] = order[at - 1];
		order[at] = i;
	}
}

// Solves the block of n rows from lo on; see small_block. A tridiagonal block is torn by subtracting the matrix
// |e| (..., 1, sign(e), ...)'(..., 1, sign(e), ...); a bidiagonal one at a row, which is then the lead item.
static void divide(tree *t, int64_t lo, int64_t n, int64_t extra, double *z, int64_t *item, char *half) {
	if (n <= LEAF) {
		if (n > 0) small_block(t, lo, n, extra);
		return;
	}
	if (tl_stop_asked(t->p->pool)) return;
	const int64_t first = n / 2, second = t->squared ? first + 1 : first, width = n + extra, ld = t->ld;
	double *d = t->d + lo, *e = t->e + lo, *v = t->v + lo * ld + lo;
	const double tear = e[first - 1], up = t->squared ? d[first] : sqrt(fabs(tear)),
		down = t->squared ? e[first] : copysign(up, tear);
	if (!t->squared) d[first - 1] -= fabs(tear), d[first] -= fabs(tear);
	divide(t, lo, first, t->squared, z, item, half);
	divide(t, lo + second, n - second, extra, z, item, half);
	if (tl_cut(t->p->pool)) return; // the halves' orders are unset
	joint g = {.lo = lo, .n = n, .split = second, .item = item, .half = half};
	for (int64_t j = 0; j < n; j++) {
		z[j] = j < second ? up * v[j * ld + second - 1] : down * v[j * ld + second];
		half[j] = j < second ? 1 : 2;
	}
	if (t->squared) { // the lead item: the vectors that both halves take to zero
		double c, s;
		d[first] = 0;
		half[first] = 3;
		if (extra) {
			z[first] = angle(z[first], down * v[n * ld + second], &c, &s);
			tl_isa_tables(t->p->isa)->rotate64(width, v + first * ld, v + n * ld, c, s);
		}
		t->u[(lo + first) * (ld + 1)] = 1;
	}
	join(t, &g, first, second, t->squared, z, width);
}

// Doubles of scratch of diagonal().
static int64_t tree_room(int64_t n) { return 2 * (n + 1) * (n + 1) + 10 * (n + 1); }

// Diagonalises a tridiagonal matrix, or with u a bidiagonal one: d becomes its values, rows of v and u the vectors.
// Returns the rows in ascending order of d, or NULL after a request to stop. d and e are changed; eps is the precision
// asked for.
static const int64_t *diagonal(la_place *p, double *d, double *e, int64_t n, double eps, double *u, double *v,
	double *room) {
	const int64_t m = n + 1;
	tree t = {.p = p, .squared = u != NULL, .ld = n, .eps = eps, .d = d, .e = e, .u = u, .v = v, .s = room,
		.w = room + m * m};
	double *list = t.w + m * m, *z = list + 4 * m;
	t.pole = list, t.z = list + m, t.square = list + 2 * m, t.tau = list + 3 * m;
	t.order = (int64_t *)(z + m), t.origin = t.order + m, t.place = t.origin + m;
	int64_t *item = t.place + m;
	char *half = (char *)(item + m);
	memset(v, 0, (size_t)(n * n) * sizeof(double));
	if (u) memset(u, 0, (size_t)(n * n) * sizeof(double));
	if (!tl_cut(p->pool)) divide(&t, 0, n, 0, z, item, half);
	return tl_cut(p->pool) ? NULL : t.order;
}
