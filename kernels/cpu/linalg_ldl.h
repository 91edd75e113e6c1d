// Symmetric indefinite systems in double: A = L D L' with rows exchanged. Blocks of D have one or two rows; a negative
// pivot marks two. Pivots are Bunch and Kaufman's (Golub and Van Loan, section 4.4.4), as those of LAPACK's sytrf.

// The pivot of column k: the row that moves to the end of the block, and the rows of the block.
typedef struct {
	int64_t row, rows;
} ldl_pivot;

// Returns the largest magnitude in row i of a symmetric matrix, in columns from..n-1 but the diagonal.
static double ldl_row_max(const double *a, int64_t n, int64_t i, int64_t from) {
	double most = -1;
	for (int64_t j = from; j < n; j++) {
		double v = j == i ? -1 : fabs(j < i ? a[i * n + j] : a[j * n + i]);
		if (v > most) most = v;
	}
	return most;
}

static ldl_pivot ldl_choose(const double *a, int64_t n, int64_t k, int32_t *status) {
	double alpha = (1 + sqrt(17)) / 8, own = fabs(a[k * n + k]), most = 0, row_most;
	int64_t big = k;
	for (int64_t i = k + 1; i < n; i++)
		if (fabs(a[i * n + k]) > most || i == k + 1) most = fabs(a[i * n + k]), big = i;
	if (isnan(own) || (own == 0 && most == 0)) {
		if (!*status) *status = (int32_t)(k + 1);
		return (ldl_pivot){k, 0};
	}
	if (own >= alpha * most) return (ldl_pivot){k, 1};
	row_most = ldl_row_max(a, n, big, k);
	if (own >= alpha * most * (most / row_most)) return (ldl_pivot){k, 1};
	if (fabs(a[big * n + big]) >= alpha * row_most) return (ldl_pivot){big, 1};
	return (ldl_pivot){big, 2};
}

static void ldl_exchange(double *x, double *y) {
	double t = *x;
	*x = *y, *y = t;
}

// Exchanges rows and columns p and q > p of the lower triangle from column p on; k is the block's first column.
static void ldl_swap(double *a, int64_t n, int64_t k, int64_t p, int64_t q) {
	for (int64_t i = q + 1; i < n; i++) ldl_exchange(a + i * n + p, a + i * n + q);
	for (int64_t i = p + 1; i < q; i++) ldl_exchange(a + i * n + p, a + q * n + i);
	ldl_exchange(a + p * n + p, a + q * n + q);
	if (p > k) ldl_exchange(a + p * n + k, a + q * n + k);
}

// Eliminates a block of one row: the trailing matrix loses x x' / d, and x becomes x / d.
static void ldl_one(double *a, int64_t n, int64_t k) {
	double d = 1 / a[k * n + k];
	for (int64_t i = n - 1; i > k; i--) {
		double f = d * a[i * n + k];
		for (int64_t j = k + 1; j <= i; j++) a[i * n + j] -= f * a[j * n + k];
	}
	for (int64_t i = k + 1; i < n; i++) a[i * n + k] *= d;
}

// Eliminates a block of two rows. w holds 2 n numbers: the rows of X D^-1, X being the columns below the block.
static void ldl_two(double *a, int64_t n, int64_t k, double *w) {
	double e = a[(k + 1) * n + k], d1 = a[(k + 1) * n + k + 1] / e, d2 = a[k * n + k] / e, f = 1 / (d1 * d2 - 1) / e;
	for (int64_t i = k + 2; i < n; i++) {
		const double *x = a + i * n + k;
		w[2 * i] = f * (d1 * x[0] - x[1]), w[2 * i + 1] = f * (d2 * x[1] - x[0]);
	}
	for (int64_t i = n - 1; i > k + 1; i--)
		for (int64_t j = k + 2; j <= i; j++)
			a[i * n + j] -= a[i * n + k] * w[2 * j] + a[i * n + k + 1] * w[2 * j + 1];
	for (int64_t i = k + 2; i < n; i++) memcpy(a + i * n + k, w + 2 * i, 2 * sizeof(double));
}

// Factors the lower triangle of a in place and clears the upper one; room holds 2 n numbers. Returns the number of the
// first block that is zero, from 1, or 0.
static int32_t ldl_factor(tl_pool *pool, double *a, int64_t n, int32_t *pivot, double *room) {
	int32_t status = 0;
	for (int64_t i = 0; i < n; i++) memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof(double));
	for (int64_t k = 0; k < n && !tl_stop_asked(pool);) {
		ldl_pivot p = ldl_choose(a, n, k, &status);
		int64_t last = k + (p.rows == 2);
		if (p.row != last) ldl_swap(a, n, k, last, p.row);
		if (p.rows == 1) ldl_one(a, n, k);
		if (p.rows == 2) ldl_two(a, n, k, room);
		for (int64_t i = k; i <= last; i++) pivot[i] = (int32_t)(p.rows == 2 ? -p.row - 1 : p.row + 1);
		k = last + 1;
	}
	return status;
}

static void ldl_swap_rows(double *b, int64_t k, int64_t p, int64_t q) {
	for (int64_t j = 0; p != q && j < k; j++) ldl_exchange(b + p * k + j, b + q * k + j);
}

// Subtracts f times row p of b from row q.
static void ldl_subtract(double *b, int64_t k, double f, int64_t p, int64_t q) {
	for (int64_t j = 0; j < k; j++) b[q * k + j] -= f * b[p * k + j];
}

// Applies D^-1 of a block of two rows.
static void ldl_divide(const double *a, int64_t n, int64_t i, double *b, int64_t k) {
	double e = a[(i + 1) * n + i], d1 = a[i * n + i] / e, d2 = a[(i + 1) * n + i + 1] / e, f = 1 / (d1 * d2 - 1) / e;
	for (int64_t j = 0; j < k; j++) {
		double x = b[i * k + j], y = b[(i + 1) * k + j];
		b[i * k + j] = f * (d2 * x - y), b[(i + 1) * k + j] = f * (d1 * y - x);
	}
}

// Returns the number of the first pivot that is out of range, from 1, or 0.
static int64_t ldl_wrong(const int32_t *pivot, int64_t n) {
	for (int64_t i = 0; i < n; i++) {
		int64_t p = llabs((int64_t)pivot[i]);
		if (p < 1 || p > n || (pivot[i] < 0 && (i + 1 == n || pivot[++i] >= 0))) return i + 1;
	}
	return 0;
}

// Solves L D L' X = B in place of b, whose n rows have k columns. Returns as ldl_wrong.
static int64_t ldl_solve(const double *a, int64_t n, const int32_t *pivot, double *b, int64_t k) {
	int64_t wrong = ldl_wrong(pivot, n);
	if (wrong) return wrong;
	for (int64_t i = 0, rows; i < n; i += rows) {
		rows = 1 + (pivot[i] < 0);
		ldl_swap_rows(b, k, i + rows - 1, llabs((int64_t)pivot[i]) - 1);
		for (int64_t q = i + rows; q < n; q++)
			for (int64_t c = i; c < i + rows; c++) ldl_subtract(b, k, a[q * n + c], c, q);
		if (rows == 2) ldl_divide(a, n, i, b, k);
		for (int64_t j = 0; rows == 1 && j < k; j++) b[i * k + j] /= a[i * n + i];
	}
	for (int64_t i = n - 1, rows; i >= 0; i -= rows) {
		rows = 1 + (pivot[i] < 0);
		for (int64_t q = i + 1; q < n; q++)
			for (int64_t c = i - rows + 1; c <= i; c++) ldl_subtract(b, k, a[q * n + c], q, c);
		ldl_swap_rows(b, k, i, llabs((int64_t)pivot[i]) - 1);
	}
	return 0;
}
