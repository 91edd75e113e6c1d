// Steps that factor each matrix of a batch: LU, Cholesky, triangular systems, the matrix exponential, and the drivers
// of linalg_orthogonal.c. Operands are dense. A step's parameters are the number of matrices, rows m, columns n,
// columns k of a right-hand side, and the element offset of each input.
//
// "Golub and Van Loan" below is their book Matrix Computations, fourth edition.
#include <float.h>
#include <math.h>
#include <string.h>
#include "linalg.h"

// The numbers of launch.FactorOp.
enum { CHOLESKY, LU, LU_PERMUTATION, SOLVE, TRIANGULAR, QR, EIGH, SVD, PINV, EXPM };

// Bits of option.
enum { UPPER = 1, UNIT = 2, FULL = 1, HERMITIAN = 1 };

// Columns of a block. More columns move work from products into the unblocked part; fewer make products narrow.
enum { BLOCK = 48 };

void la_minus_product(la_place *p, int64_t M, int64_t N, int64_t K, const double *a, int64_t am, int64_t ak,
	const double *b, int64_t bk,
	int64_t bn, double *c, int64_t cm, double *tmp) {
	if (M == 0 || N == 0 || K == 0) return;
	int64_t oom = tl_gemm_f64(p->pool, p->isa, p->worker, p->parallel, M, N, K, a, am, ak, b, bk, bn, tmp, N);
	if (oom) p->oom = oom;
	for (int64_t i = 0; i < M; i++)
		for (int64_t j = 0; j < N; j++) c[i * cm + j] -= tmp[i * N + j];
}

static void subtract(double f, const double *x, double *y, int64_t n) {
	for (int64_t i = 0; i < n; i++) y[i] -= f * x[i];
}

// P A = L U with partial pivoting, in place: right-looking, by blocks of columns (Golub and Van Loan, section 3.4).
// Pivots count from 1, as in LAPACK's getrf. Returns the number of the first zero pivot, or 0.
static int64_t lu(la_place *p, double *a, int64_t m, int64_t n, int32_t *pivot, double *tmp) {
	int64_t zero = 0, least = m < n ? m : n;
	for (int64_t j0 = 0; j0 < least; j0 += BLOCK) {
		int64_t j1 = j0 + BLOCK < least ? j0 + BLOCK : least;
		for (int64_t j = j0; j < j1; j++) {
			int64_t top = j;
			for (int64_t i = j + 1; i < m; i++)
				if (fabs(a[i * n + j]) > fabs(a[top * n + j])) top = i;
			pivot[j] = (int32_t)top + 1;
			for (int64_t c = 0; top != j && c < n; c++) {
				double t = a[j * n + c];
				a[j * n + c] = a[top * n + c];
				a[top * n + c] = t;
			}
			if (a[j * n + j] == 0) {
				if (!zero) zero = j + 1;
				continue;
			}
			for (int64_t i = j + 1; i < m; i++) {
				a[i * n + j] /= a[j * n + j];
				subtract(a[i * n + j], a + j * n + j + 1, a + i * n + j + 1, j1 - j - 1);
			}
		}
		for (int64_t i = j0 + 1; i < j1; i++)
			for (int64_t c = j0; c < i; c++) subtract(a[i * n + c], a + c * n + j1, a + i * n + j1, n - j1);
		la_minus_product(p, m - j1, n - j1, j1 - j0, a + j1 * n + j0, n, 1, a + j0 * n + j1, n, 1, a + j1 * n + j1, n, tmp);
	}
	return zero;
}

static void permutation(const int32_t *pivot, int64_t k, int64_t m, int64_t *to) {
	for (int64_t i = 0; i < m; i++) to[i] = i;
	for (int64_t i = 0; i < k; i++) {
		int64_t t = to[i], p = pivot[i] - 1;
		to[i] = to[p];
		to[p] = t;
	}
}

// A = L L', in place: reads the lower triangle and writes zeros above it. Right-looking, by blocks of columns (Golub
// and Van Loan, section 4.2). Returns 0; or the order of the first leading minor that is not positive, where the
// factorisation ends.
static int64_t cholesky(la_place *p, double *a, int64_t n, double *tmp) {
	int64_t bad = 0;
	for (int64_t j0 = 0; j0 < n && !bad; j0 += BLOCK) {
		int64_t j1 = j0 + BLOCK < n ? j0 + BLOCK : n;
		for (int64_t i = j0; i < n && !bad; i++)
			for (int64_t j = j0; j <= i && j < j1; j++) {
				double s = a[i * n + j];
				for (int64_t c = j0; c < j; c++) s -= a[i * n + c] * a[j * n + c];
				if (i != j) {
					a[i * n + j] = s / a[j * n + j];
				} else if (s > 0) {
					a[i * n + i] = sqrt(s);
				} else {
					bad = i + 1;
				}
			}
		if (!bad) la_minus_product(p, n - j1, n - j1, j1 - j0, a + j1 * n + j0, n, 1, a + j1 * n + j0, 1, n, a + j1 * n + j1,
			n, tmp);
	}
	for (int64_t i = 0; i < n; i++) memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof(double));
	return bad;
}

// Solves T X = B in place of b by blocked substitution (Golub and Van Loan, section 3.1). B is n x k; t has rows of n.
static void triangular(la_place *p, const double *t, int64_t n, int option, double *b, int64_t k, double *tmp) {
	int upper = option & UPPER;
	for (int64_t done = 0; done < n; done += BLOCK) {
		int64_t size = n - done < BLOCK ? n - done : BLOCK, i0 = upper ? n - done - size : done, i1 = i0 + size;
		for (int64_t s = 0; s < size; s++) {
			int64_t i = upper ? i1 - 1 - s : i0 + s;
			for (int64_t c = upper ? i + 1 : i0; c < (upper ? i1 : i); c++) subtract(t[i * n + c], b + c * k, b + i * k, k);
			for (int64_t c = 0; !(option & UNIT) && c < k; c++) b[i * k + c] /= t[i * n + i];
		}
		if (upper) la_minus_product(p, i0, k, size, t + i0, n, 1, b + i0 * k, k, 1, b, k, tmp);
		else la_minus_product(p, n - i1, k, size, t + i1 * n + i0, n, 1, b + i0 * k, k, 1, b + i1 * k, k, tmp);
	}
}

// e = exp(a) by scaling and squaring: exp(a) = exp(a / 2^s)^(2^s) with the norm of a / 2^s at most 1/2, where a Taylor
// polynomial of 16 terms leaves less than one rounding (Moler and Van Loan, Nineteen Dubious Ways to Compute the
// Exponential of a Matrix, method 3). a is overwritten; tmp holds 2 n n.
static void expm(la_place *p, double *a, int64_t n, double *e, double *tmp) {
	double norm = 0, *next = tmp + n * n;
	for (int64_t i = 0; i < n; i++) {
		double s = 0;
		for (int64_t j = 0; j < n; j++) s += fabs(a[i * n + j]);
		norm = s > norm ? s : norm;
	}
	int squares = 0;
	if (norm > 0.5 && !isinf(norm)) frexp(norm / 0.5, &squares);
	for (int64_t i = 0; i < n * n; i++) a[i] = ldexp(a[i], -squares), e[i] = i % (n + 1) == 0;
	for (int term = 16; term > 0; term--) { // Horner's rule: e = 1 + a e / term
		int64_t oom = tl_gemm_f64(p->pool, p->isa, p->worker, p->parallel, n, n, n, a, n, 1, e, n, 1, next, n);
		if (oom) p->oom = oom;
		for (int64_t i = 0; i < n * n; i++) e[i] = next[i] / term + (i % (n + 1) == 0);
	}
	for (; squares > 0; squares--) {
		int64_t oom = tl_gemm_f64(p->pool, p->isa, p->worker, p->parallel, n, n, n, e, n, 1, e, n, 1, next, n);
		if (oom) p->oom = oom;
		memcpy(e, next, (size_t)(n * n) * sizeof(double));
	}
}

// A step's operands and state.
typedef struct {
	const tl_factor *f;
	tl_pool *pool;
	int isa, alone; // alone: one matrix at a time, whose products the threads share
	char **buf;
	const int64_t *par;
	int64_t m, n, k, least;
	int64_t oom, bad; // bad: the least matrix<<32 | failure, or INT64_MAX
} factor;

// Reads matrix i, of count elements, of an input.
static void in(const factor *x, int which, int64_t i, int64_t count, double *to) {
	int64_t at = x->par[4 + which] + i * count;
	if (x->f->type == TLK_F64) memcpy(to, (const double *)x->buf[which] + at, (size_t)count * sizeof(double));
	else for (int64_t c = 0; c < count; c++) to[c] = ((const float *)x->buf[which])[at + c];
}

static void out(const factor *x, int which, int64_t i, int64_t count, const double *from) {
	char *b = x->buf[x->f->nin + which];
	if (x->f->type == TLK_F64) memcpy((double *)b + i * count, from, (size_t)count * sizeof(double));
	else for (int64_t c = 0; c < count; c++) ((float *)b)[i * count + c] = (float)from[c];
}

static int32_t *ints(const factor *x, int which, int64_t at) { return (int32_t *)x->buf[x->f->nin + which] + at; }

static void report(factor *x, int64_t i, int64_t what) {
	if (!x->f->check || !what) return;
	int64_t now = __atomic_load_n(&x->bad, __ATOMIC_RELAXED), mine = i << 32 | what;
	while (mine < now && !__atomic_compare_exchange_n(&x->bad, &now, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

static int all_finite(const double *a, int64_t count) {
	for (int64_t i = 0; i < count; i++)
		if (!isfinite(a[i])) return 0;
	return 1;
}

// Makes a symmetric matrix from one of its triangles.
static void mirror(double *a, int64_t n, int upper) {
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++)
			if (upper) a[i * n + j] = a[j * n + i];
			else a[j * n + i] = a[i * n + j];
}

static void transposed(const double *a, int64_t m, int64_t n, double *to) {
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) to[j * m + i] = a[i * n + j];
}

static void qr(const factor *x, int64_t i, double *a, double *room) {
	int64_t m = x->m, n = x->n, q = x->f->option & FULL ? m : x->least;
	double *tau = room, *w = tau + x->least, *to = w + m + n;
	in(x, 0, i, m * n, a);
	la_qr(a, m, n, tau, w);
	la_form_q(a, n, m, x->least, tau, to, q, w);
	out(x, 0, i, m * q, to);
	for (int64_t r = 0; r < m; r++) memset(a + r * n, 0, (size_t)(r < n ? r : n) * sizeof(double));
	out(x, 1, i, q * n, a);
}

// A = U diag(s) Vt of a, which is overwritten. U is m x q and Vt is p x n; q and p are least, or m and n with full.
static void svd(const factor *x, double *a, int full, double *u, double *s, double *vt, double *room) {
	int64_t m = x->m, n = x->n;
	if (m >= n) {
		la_svd(a, m, n, u, full ? m : n, s, vt, room);
		return;
	}
	int64_t q = full ? n : m; // the transpose has m >= n; its U and V change places
	double *v = room, *ut = v + n * q, *at = ut + m * m;
	transposed(a, m, n, at);
	la_svd(at, n, m, v, q, s, ut, at + m * n);
	transposed(v, n, q, vt);
	transposed(ut, m, m, u);
}

static int64_t svd_room(const factor *x) {
	int64_t m = x->m, n = x->n, big = m > n ? m : n;
	return la_svd_room(big, x->least) + big * big + x->least * x->least + m * n;
}

// A^+ = V diag(1/s) U' over the singular values above the cutoff max(atol, rtol * s[0]), the Moore-Penrose inverse.
static void pinv(const factor *x, int64_t i, double *a, double *room) {
	int64_t m = x->m, n = x->n, k = x->least;
	double *u = room, *s = u + m * k, *vt = s + k, *p = vt + k * n, least[2];
	for (int t = 0; t < 2; t++) in(x, 1 + t, i, 1, &least[t]);
	svd(x, a, 0, u, s, vt, p + n * m);
	double cut = k ? fmax(least[0], least[1] * s[0]) : 0;
	memset(p, 0, (size_t)(n * m) * sizeof(double));
	for (int64_t c = 0; c < k && s[c] > cut; c++)
		for (int64_t r = 0; r < n; r++)
			for (int64_t j = 0; j < m; j++) p[r * m + j] += vt[c * n + r] * (u[j * k + c] / s[c]);
	out(x, 0, i, n * m, p);
}

// Doubles of scratch for one matrix, beside the m n of the matrix itself.
static int64_t room_of(const factor *x) {
	int64_t m = x->m, n = x->n, k = x->k, big = m > n ? m : n;
	switch (x->f->op) {
	case SOLVE: return n * k + (n > k ? n * n : n * k);
	case TRIANGULAR: return 2 * n * k;
	case QR: return 2 * m + 2 * n + m * big;
	case EIGH: return n * n + 4 * n;
	case SVD: return m * m + n * n + n + svd_room(x);
	case PINV: return 2 * m * n + (m + n + 1) * x->least + svd_room(x);
	case EXPM: return 3 * n * n;
	}
	return m * n;
}

static void systems(factor *x, la_place *at, int64_t i, double *a, double *room) {
	int64_t n = x->n, k = x->k;
	double *b = room, *tmp = b + n * k;
	in(x, 0, i, n * n, a);
	in(x, 1, i, n * k, b);
	if (x->f->op == TRIANGULAR) {
		triangular(at, a, n, x->f->option, b, k, tmp);
		out(x, 0, i, n * k, b);
		return;
	}
	int32_t *pivot = ints(x, 2, i * n);
	int64_t zero = lu(at, a, n, n, pivot, tmp);
	*ints(x, 3, i) = (int32_t)zero;
	report(x, i, zero);
	for (int64_t r = 0; r < n; r++)
		for (int64_t c = 0; pivot[r] != r + 1 && c < k; c++) {
			double t = b[r * k + c], *other = b + (pivot[r] - 1) * k + c;
			b[r * k + c] = *other;
			*other = t;
		}
	triangular(at, a, n, UNIT, b, k, tmp);
	triangular(at, a, n, UPPER, b, k, tmp);
	out(x, 0, i, n * k, b);
	out(x, 1, i, n * n, a);
}

static void one(factor *x, la_place *at, int64_t i, double *a) {
	int64_t m = x->m, n = x->n, k = x->least, bad;
	double *room = a + m * n;
	switch (x->f->op) {
	case CHOLESKY:
		in(x, 0, i, n * n, a);
		bad = cholesky(at, a, n, room);
		*ints(x, 1, i) = (int32_t)bad;
		report(x, i, bad);
		out(x, 0, i, n * n, a);
		return;
	case LU:
		in(x, 0, i, m * n, a);
		bad = lu(at, a, m, n, ints(x, 1, i * k), room);
		*ints(x, 2, i) = (int32_t)bad;
		report(x, i, bad);
		out(x, 0, i, m * n, a);
		return;
	case LU_PERMUTATION: {
		const int32_t *pivot = (const int32_t *)x->buf[0] + x->par[4] + i * k;
		int64_t good = 0;
		while (good < k && pivot[good] >= 1 && pivot[good] <= m) good++;
		if (good < k) report(x, i, good + 1);
		permutation(pivot, good, m, (int64_t *)x->buf[1] + i * m);
		return;
	}
	case SOLVE: case TRIANGULAR: systems(x, at, i, a, room); return;
	case QR: qr(x, i, a, room); return;
	}
	in(x, 0, i, m * n, a);
	if (x->f->op == EXPM) {
		expm(at, a, n, room, room + n * n);
		out(x, 0, i, n * n, room);
		return;
	}
	if (!all_finite(a, m * n)) {
		report(x, i, (int64_t)UINT32_MAX);
		memset(a, 0, (size_t)(m * n) * sizeof(double));
	}
	if (x->f->op == EIGH || (x->f->op == PINV && x->f->option & HERMITIAN)) mirror(a, n, x->f->op == EIGH &&
		x->f->option & UPPER);
	if (x->f->op == PINV) {
		pinv(x, i, a, room);
	} else if (x->f->op == EIGH) {
		double *w = room, *vt = w + n;
		la_eigh(a, n, w, vt, vt + n * n);
		transposed(vt, n, n, a);
		out(x, 0, i, n, w);
		out(x, 1, i, n * n, a);
	} else {
		int full = x->f->option & FULL;
		double *u = room, *s = u + m * m, *vt = s + k;
		svd(x, a, full, u, s, vt, vt + n * n);
		out(x, 0, i, m * (full ? m : k), u);
		out(x, 1, i, k, s);
		out(x, 2, i, n * (full ? n : k), vt);
	}
}

static void job(void *arg, int worker, int64_t begin, int64_t end) {
	factor *x = arg;
	int64_t bytes = (x->m * x->n + room_of(x)) * (int64_t)sizeof(double);
	double *mem = tl_alloc(bytes + 64); // the worker's scratch belongs to the products that a factorisation runs
	if (!mem) {
		x->oom = bytes;
		return;
	}
	la_place at = {.pool = x->pool, .isa = x->isa, .worker = worker, .parallel = x->alone};
	for (int64_t i = begin; i < end && !at.oom && !tl_stop_asked(x->pool); i++) one(x, &at, i, mem);
	if (at.oom) x->oom = at.oom;
	tl_cpu_free(mem);
}

int64_t tl_run_factor(const tl_factor *f, tl_pool *pool, int isa, char **buf, const int64_t *par, tl_fault *fault) {
	factor x = {.f = f, .pool = pool, .isa = isa, .buf = buf, .par = par, .m = par[1], .n = par[2], .k = par[3],
		.bad = INT64_MAX};
	int64_t batch = par[0], work = x.m * x.n * (x.m + x.n + x.k) + 1;
	x.least = x.m < x.n ? x.m : x.n;
	x.alone = batch < 2 * tl_pool_threads(pool) && work > 1 << 22;
	if (x.alone) job(&x, 0, 0, batch);
	else tl_parallel(pool, batch, (1 << 17) / work + 1, job, &x);
	if (x.bad != INT64_MAX && !fault->set) {
		fault->set = 1;
		fault->event = f->event;
		fault->elem = x.bad;
	}
	return x.oom;
}
