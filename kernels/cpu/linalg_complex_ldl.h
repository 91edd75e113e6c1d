// Complex symmetric and Hermitian indefinite systems: A = L D L' or L D L^H with rows exchanged, as in linalg_ldl.h.
// Pivots are those of LAPACK's sytrf and hetrf, whose sizes are |re| + |im|. h says that the matrix is Hermitian: then
// its diagonal is real.

static double cldl_size(cplx z) { return fabs(creal(z)) + fabs(cimag(z)); }

static cplx cldl_other(cplx z, int h) { return h ? conj(z) : z; }

static double cldl_own(cplx z, int h) { return h ? fabs(creal(z)) : cldl_size(z); }

// Returns the largest size in row i, in columns from..n-1 but the diagonal.
static double cldl_row_max(const cplx *a, int64_t n, int64_t i, int64_t from) {
	double most = -1;
	for (int64_t j = from; j < n; j++) {
		double v = j == i ? -1 : cldl_size(j < i ? a[i * n + j] : a[j * n + i]);
		if (v > most) most = v;
	}
	return most;
}

static ldl_pivot cldl_choose(const cplx *a, int64_t n, int64_t k, int h, int32_t *status) {
	double alpha = (1 + sqrt(17)) / 8, own = cldl_own(a[k * n + k], h), most = 0, row_most;
	int64_t big = k;
	for (int64_t i = k + 1; i < n; i++)
		if (cldl_size(a[i * n + k]) > most || i == k + 1) most = cldl_size(a[i * n + k]), big = i;
	if (isnan(own) || (own == 0 && most == 0)) {
		if (!*status) *status = (int32_t)(k + 1);
		return (ldl_pivot){k, 0};
	}
	if (own >= alpha * most) return (ldl_pivot){k, 1};
	row_most = cldl_row_max(a, n, big, k);
	if (own >= alpha * most * (most / row_most)) return (ldl_pivot){k, 1};
	if (cldl_own(a[big * n + big], h) >= alpha * row_most) return (ldl_pivot){big, 1};
	return (ldl_pivot){big, 2};
}

static void cldl_exchange(cplx *x, cplx *y) {
	cplx t = *x;
	*x = *y, *y = t;
}

// Exchanges rows and columns p and q > p of the lower triangle from column p on; k is the block's first column.
static void cldl_swap(cplx *a, int64_t n, int64_t k, int64_t p, int64_t q, int h) {
	for (int64_t i = q + 1; i < n; i++) cldl_exchange(a + i * n + p, a + i * n + q);
	for (int64_t i = p + 1; i < q; i++) {
		cplx t = cldl_other(a[i * n + p], h);
		a[i * n + p] = cldl_other(a[q * n + i], h), a[q * n + i] = t;
	}
	a[q * n + p] = cldl_other(a[q * n + p], h);
	cldl_exchange(a + p * n + p, a + q * n + q);
	if (p > k) cldl_exchange(a + p * n + k, a + q * n + k);
}

static void cldl_one(cplx *a, int64_t n, int64_t k, int h) {
	cplx d = 1 / a[k * n + k];
	for (int64_t i = n - 1; i > k; i--) {
		cplx f = times(d, a[i * n + k]);
		for (int64_t j = k + 1; j <= i; j++) a[i * n + j] -= times(f, cldl_other(a[j * n + k], h));
		if (h) a[i * n + i] = creal(a[i * n + i]);
	}
	for (int64_t i = k + 1; i < n; i++) a[i * n + k] = times(d, a[i * n + k]);
}

// w holds 2 n numbers: the rows of X D^-1, X being the columns below the block.
static void cldl_two(cplx *a, int64_t n, int64_t k, cplx *w, int h) {
	cplx low = a[(k + 1) * n + k], up = cldl_other(low, h), d1 = a[(k + 1) * n + k + 1], d2 = a[k * n + k];
	for (int64_t i = k + 2; i < n; i++) { // [x y] D^-1 with D = [[d2, up], [low, d1]]
		cplx x = a[i * n + k], y = a[i * n + k + 1], det = times(d1 / low, d2 / up) - 1;
		w[2 * i] = (times(d1 / low, x) - y) / up / det, w[2 * i + 1] = (times(d2 / up, y) - x) / low / det;
	}
	for (int64_t i = n - 1; i > k + 1; i--) {
		for (int64_t j = k + 2; j <= i; j++)
			a[i * n + j] -= times(a[i * n + k], cldl_other(w[2 * j], h)) + times(a[i * n + k + 1], cldl_other(w[2 * j + 1], h));
		if (h) a[i * n + i] = creal(a[i * n + i]);
	}
	for (int64_t i = k + 2; i < n; i++) memcpy(a + i * n + k, w + 2 * i, 2 * sizeof(cplx));
}

// Factors the lower triangle of a in place and clears the upper one; room holds 2 n numbers. Returns as ldl_factor.
static int32_t cldl_factor(tl_pool *pool, cplx *a, int64_t n, int h, int32_t *pivot, cplx *room) {
	int32_t status = 0;
	for (int64_t i = 0; i < n; i++) {
		memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof(cplx));
		if (h) a[i * n + i] = creal(a[i * n + i]);
	}
	for (int64_t k = 0; k < n && !tl_stop_asked(pool);) {
		ldl_pivot p = cldl_choose(a, n, k, h, &status);
		int64_t last = k + (p.rows == 2);
		if (p.row != last) cldl_swap(a, n, k, last, p.row, h);
		if (p.rows == 1) cldl_one(a, n, k, h);
		if (p.rows == 2) cldl_two(a, n, k, room, h);
		for (int64_t i = k; i <= last; i++) pivot[i] = (int32_t)(p.rows == 2 ? -p.row - 1 : p.row + 1);
		k = last + 1;
	}
	return status;
}

// Applies D^-1 of a block of two rows.
static void cldl_divide(const cplx *a, int64_t n, int64_t i, cplx *b, int64_t k, int h) {
	cplx low = a[(i + 1) * n + i], up = cldl_other(low, h), d1 = a[i * n + i] / up, d2 = a[(i + 1) * n + i + 1] / low;
	cplx det = times(d1, d2) - 1;
	for (int64_t j = 0; j < k; j++) {
		cplx x = b[i * k + j] / up, y = b[(i + 1) * k + j] / low;
		b[i * k + j] = (times(d2, x) - y) / det, b[(i + 1) * k + j] = (times(d1, y) - x) / det;
	}
}

// Solves L D L' X = B, or with L^H, in place of b, whose n rows have k columns. Returns as ldl_solve.
static int64_t cldl_solve(const cplx *a, int64_t n, int h, const int32_t *pivot, cplx *b, int64_t k) {
	int64_t wrong = ldl_wrong(pivot, n);
	for (int64_t i = 0, rows; i < n && !wrong; i += rows) {
		rows = 1 + (pivot[i] < 0);
		c_swap(b + (i + rows - 1) * k, b + (llabs((int64_t)pivot[i]) - 1) * k, k);
		for (int64_t q = i + rows; q < n; q++)
			for (int64_t c = i; c < i + rows; c++) axpy(k, -a[q * n + c], b + c * k, b + q * k);
		if (rows == 2) cldl_divide(a, n, i, b, k, h);
		for (int64_t j = 0; rows == 1 && j < k; j++) b[i * k + j] /= a[i * n + i];
	}
	for (int64_t i = n - 1, rows; i >= 0 && !wrong; i -= rows) {
		rows = 1 + (pivot[i] < 0);
		for (int64_t q = i + 1; q < n; q++)
			for (int64_t c = i - rows + 1; c <= i; c++) axpy(k, -cldl_other(a[q * n + c], h), b + q * k, b + c * k);
		c_swap(b + i * k, b + (llabs((int64_t)pivot[i]) - 1) * k, k);
	}
	return wrong;
}
