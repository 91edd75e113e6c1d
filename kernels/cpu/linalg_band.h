// Diagonalisation of a small band of two diagonals by rotations, in double. linalg.c includes this file. Vectors are
// rows.

static void turn_rows(const tl_isa_table *t, double *rows, int64_t n, int64_t at, int64_t count, int64_t step,
	const double *c, const double *s) {
	for (int64_t i = 0; i < count; i++) {
		double *row = rows + (at + i * step) * n;
		t->rotate64(n, row, row + n, c[i], s[i]);
	}
}

// One implicit QL sweep with Wilkinson's shift over the block l..m of a tridiagonal matrix, from row m-1 up. Returns
// the number of rotations, which cs receives. The method of EISPACK's imtql2; Golub and Van Loan, section 8.3.
static int64_t ql_sweep(double *d, double *e, int64_t l, int64_t m, double *cs, double *sn) {
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
		cs[count] = c, sn[count++] = -s;
	}
	d[l] -= p;
	e[l] = g;
	e[m] = 0;
	return count;
}

// Makes the off-diagonal e zero by rotations of the rows of v, n long. cs has room for 2n.
static void ql_diagonalise(la_place *p, double *d, double *e, int64_t n, double *v, double *cs) {
	for (int64_t l = 0; l < n; l++)
		for (int sweep = 0; sweep < 100; sweep++) { // three sweeps are usual
			int64_t m = l;
			while (m + 1 < n && fabs(e[m]) > DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1]))) m++;
			if (m == l) break;
			int64_t count = ql_sweep(d, e, l, m, cs, cs + n);
			turn_rows(tl_isa_tables(p->isa), v, n, m - 1, count, -1, cs, cs + n);
		}
}

// Moves e[zero] out of the block, whose diagonal element d[zero] is zero: to the right by rotations of row zero with
// those after it, or up by rotations of column hi with those before it if zero is hi.
static void chase(la_place *p, double *d, double *e, int64_t lo, int64_t hi, int64_t zero, double *ut, int64_t m,
	double *vt, int64_t n) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	int64_t step = zero == hi ? -1 : 1, off = zero == hi ? -1 : 0; // e[j+off] lies beyond d[j] on the way
	double f = e[zero + off], c, s;
	e[zero + off] = 0;
	for (int64_t j = zero + step; j >= lo && j <= hi && f != 0; j += step) {
		d[j] = angle(d[j], f, &c, &s);
		if (step > 0) t->rotate64(m, ut + j * m, ut + zero * m, c, s);
		else t->rotate64(n, vt + j * n, vt + hi * n, c, s);
		if (j == (step > 0 ? hi : lo)) break;
		f = -s * e[j + off];
		e[j + off] *= c;
	}
}

// One implicit QR sweep with Wilkinson's shift over the block lo..hi of a bidiagonal matrix (Golub and Van Loan,
// algorithm 8.6.1). cs receives the cosines and sines of the rotations of columns, then those of rows, n of each.
static void qr_sweep(double *d, double *e, int64_t lo, int64_t hi, double *cs, int64_t n) {
	double a = d[hi - 1] * d[hi - 1] + (hi - 1 > lo ? e[hi - 2] * e[hi - 2] : 0), b = d[hi - 1] * e[hi - 1];
	double last = d[hi] * d[hi] + e[hi - 1] * e[hi - 1], half = (a - last) / 2, c, s;
	double shift = last, root = half + copysign(sqrt(half * half + b * b), half);
	if (root != 0) shift -= b * b / root;
	double y = d[lo] - shift / d[lo], z = e[lo];
	for (int64_t k = lo; k < hi; k++) {
		int64_t i = k - lo;
		double r = angle(y, z, &c, &s), f, g, h;
		cs[i] = c, cs[n + i] = s;
		if (k > lo) e[k - 1] = r;
		f = c * d[k] + s * e[k];
		h = c * e[k] - s * d[k];
		g = s * d[k + 1];
		double under = c * d[k + 1];
		d[k] = angle(f, g, &c, &s);
		cs[2 * n + i] = c, cs[3 * n + i] = s;
		e[k] = c * h + s * under;
		d[k + 1] = c * under - s * h;
		y = e[k];
		if (k + 1 < hi) {
			z = s * e[k + 1];
			e[k + 1] *= c;
		}
	}
}

// Makes e zero by rotations of the rows of ut, n long, and vt, vn long. cs has room for 4n.
static void qr_diagonalise(la_place *p, double *d, double *e, int64_t n, double *ut, double *vt, int64_t vn,
	double *cs) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	double norm = 0;
	for (int64_t i = 0; i < n; i++) norm = fmax(norm, fmax(fabs(d[i]), i + 1 < n ? fabs(e[i]) : 0));
	int64_t hi = n - 1;
	for (int64_t sweep = 0; hi > 0 && sweep < 60 * n; sweep++) { // two a value are usual
		int64_t lo = hi, zero = -1;
		while (lo > 0 && fabs(e[lo - 1]) > DBL_EPSILON * (fabs(d[lo - 1]) + fabs(d[lo]))) lo--;
		if (lo > 0) e[lo - 1] = 0;
		if (lo == hi) {
			hi--;
			continue;
		}
		for (int64_t k = lo; k <= hi && zero < 0; k++)
			if (fabs(d[k]) <= DBL_EPSILON * norm) zero = k;
		if (zero >= 0) {
			d[zero] = 0;
			chase(p, d, e, lo, hi, zero, ut, n, vt, vn);
			continue;
		}
		qr_sweep(d, e, lo, hi, cs, n);
		turn_rows(t, vt, vn, lo, hi - lo, 1, cs, cs + n);
		turn_rows(t, ut, n, lo, hi - lo, 1, cs + 2 * n, cs + 3 * n);
	}
}

