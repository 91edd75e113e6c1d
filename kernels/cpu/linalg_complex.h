// Factorisations of one complex row-major matrix, in double. Operands are pairs of numbers. Loops are plain: rows are
// contiguous, and the work is in axpy.

typedef double complex cplx;

static inline double size2(cplx z) { return creal(z) * creal(z) + cimag(z) * cimag(z); }

static inline cplx times(cplx x, cplx y) {
	return CMPLX(creal(x) * creal(y) - cimag(x) * cimag(y), creal(x) * cimag(y) + cimag(x) * creal(y));
}

// y += f x
static void axpy(int64_t n, cplx f, const cplx *x, cplx *y) {
	const double *a = (const double *)x, p = creal(f), q = cimag(f);
	double *b = (double *)y;
	for (int64_t i = 0; i < n; i++) {
		b[2 * i] += p * a[2 * i] - q * a[2 * i + 1];
		b[2 * i + 1] += p * a[2 * i + 1] + q * a[2 * i];
	}
}

// The sum of conj(x) y.
static cplx inner(int64_t n, const cplx *x, const cplx *y) {
	double re = 0, im = 0;
	for (int64_t i = 0; i < n; i++) {
		re += creal(x[i]) * creal(y[i]) + cimag(x[i]) * cimag(y[i]);
		im += creal(x[i]) * cimag(y[i]) - cimag(x[i]) * creal(y[i]);
	}
	return CMPLX(re, im);
}

static void c_scale(int64_t n, cplx f, cplx *x) {
	for (int64_t i = 0; i < n; i++) x[i] = times(f, x[i]);
}

static void c_in(const factor *x, int which, int64_t i, int64_t count, cplx *to) {
	int64_t at = x->par[4 + which] + 2 * i * count;
	double *d = (double *)to;
	for (int64_t c = 0; c < 2 * count; c++)
		if (x->f->type == TLK_F32) d[c] = ((const float *)x->buf[which])[at + c];
		else d[c] = ((const double *)x->buf[which])[at + c];
}

static void c_out(const factor *x, int which, int64_t i, int64_t count, const cplx *from) {
	char *b = x->buf[x->f->nin + which];
	const double *d = (const double *)from;
	for (int64_t c = 0; c < 2 * count; c++)
		if (x->f->type == TLK_F32) ((float *)b)[2 * i * count + c] = (float)d[c];
		else ((double *)b)[2 * i * count + c] = d[c];
}

static void real_out(const factor *x, int which, int64_t i, int64_t count, const double *from) {
	char *b = x->buf[x->f->nin + which];
	for (int64_t c = 0; c < count; c++)
		if (x->f->type == TLK_F32) ((float *)b)[i * count + c] = (float)from[c];
		else ((double *)b)[i * count + c] = from[c];
}

static void c_swap(cplx *a, cplx *b, int64_t n) {
	for (int64_t i = 0; a != b && i < n; i++) {
		cplx t = a[i];
		a[i] = b[i];
		b[i] = t;
	}
}

// P A = L U in place. The pivot has the largest |re| + |im| of its column, as in LAPACK. Returns the number of the
// first zero pivot, or 0.
static int64_t c_lu(cplx *a, int64_t m, int64_t n, int32_t *pivot) {
	int64_t zero = 0;
	for (int64_t j = 0; j < m && j < n; j++) {
		int64_t top = j;
		double most = -1;
		for (int64_t i = j; i < m; i++) {
			double v = fabs(creal(a[i * n + j])) + fabs(cimag(a[i * n + j]));
			if (v > most) most = v, top = i;
		}
		pivot[j] = (int32_t)(top + 1);
		c_swap(a + j * n, a + top * n, n);
		if (a[j * n + j] == 0) {
			if (!zero) zero = j + 1;
			continue;
		}
		for (int64_t i = j + 1; i < m; i++) {
			cplx l = a[i * n + j] /= a[j * n + j];
			axpy(n - j - 1, -l, a + j * n + j + 1, a + i * n + j + 1);
		}
	}
	return zero;
}

// Solves T X = B in place of b, of k columns, from one triangle of t.
static void c_solve(const cplx *t, int64_t n, int64_t option, cplx *b, int64_t k) {
	int64_t upper = option & UPPER;
	for (int64_t s = 0; s < n; s++) {
		int64_t i = upper ? n - 1 - s : s;
		for (int64_t c = upper ? i + 1 : 0; c < (upper ? n : i); c++) axpy(k, -t[i * n + c], b + c * k, b + i * k);
		for (int64_t q = 0; !(option & UNIT) && q < k; q++) b[i * k + q] /= t[i * n + i];
	}
}

// A = L L^H in place of the lower triangle. Returns the order of the first leading minor that is not positive, or 0.
static int64_t c_cholesky(cplx *a, int64_t n) {
	int64_t bad = 0;
	for (int64_t j = 0; j < n && !bad; j++) {
		cplx *row = a + j * n;
		double d = creal(row[j]) - creal(inner(j, row, row));
		if (!(d > 0)) bad = j + 1;
		d = bad ? 1 : sqrt(d);
		for (int64_t i = j + 1; i < n && !bad; i++) a[i * n + j] = (a[i * n + j] - inner(j, row, a + i * n)) / d;
		if (!bad) row[j] = d;
	}
	for (int64_t i = 0; i < n; i++) memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof(cplx));
	return bad;
}

// The reflector I - tau v v^H, v[0] = 1, that maps x to a real multiple of e0, as LAPACK's zlarfg: x becomes v. Returns
// tau and sets *beta.
static cplx c_reflector(cplx *x, int64_t n, double *beta) {
	double rest = 0, top = 0;
	for (int64_t i = 0; i < n; i++) top = fmax(top, fmax(fabs(creal(x[i])), fabs(cimag(x[i]))));
	int shift = 0;
	if (top > 0 && isfinite(top)) frexp(top, &shift);
	c_scale(n, ldexp(1, -shift), x);
	for (int64_t i = 1; i < n; i++) rest += size2(x[i]);
	cplx alpha = x[0], tau = 0;
	x[0] = 1;
	*beta = ldexp(creal(alpha), shift);
	if (rest == 0 && cimag(alpha) == 0) return 0;
	double b = -copysign(sqrt(size2(alpha) + rest), creal(alpha));
	tau = CMPLX((b - creal(alpha)) / b, -cimag(alpha) / b);
	c_scale(n - 1, 1 / (alpha - b), x + 1);
	*beta = ldexp(b, shift);
	return tau;
}

// c -= f v (v^H c) for rows of c; v has m elements, c m rows of n elements ld apart. w holds n.
static void c_reflect(const cplx *v, cplx f, int64_t m, cplx *c, int64_t ld, int64_t n, cplx *w) {
	memset(w, 0, (size_t)n * sizeof(cplx));
	for (int64_t i = 0; i < m; i++) axpy(n, conj(v[i]), c + i * ld, w);
	for (int64_t i = 0; i < m; i++) axpy(n, -times(f, v[i]), w, c + i * ld);
}

// Overwrites a with R, and writes the first q columns of Q to `to`. room holds least (m + 1) + max(n, q).
static void c_qr(cplx *a, int64_t m, int64_t n, cplx *to, int64_t q, cplx *room) {
	int64_t least = m < n ? m : n;
	cplx *v = room, *tau = v + least * m, *w = tau + least;
	for (int64_t j = 0; j < least; j++) {
		cplx *x = v + j * m;
		double beta;
		for (int64_t i = j; i < m; i++) x[i - j] = a[i * n + j];
		tau[j] = c_reflector(x, m - j, &beta);
		c_reflect(x, conj(tau[j]), m - j, a + j * n + j, n, n - j, w);
		for (int64_t i = j; i < m; i++) a[i * n + j] = i == j ? beta : 0;
	}
	for (int64_t i = 0; i < m * q; i++) to[i] = i / q == i % q;
	for (int64_t j = least - 1; j >= 0; j--) c_reflect(v + j * m, tau[j], m - j, to + j * q, q, q, w);
}

// The rotation x' = c x - s e y, y' = s x + c e y that makes the Hermitian matrix [[p, g], [conj g, q]] diagonal.
static void c_rotation(double p, double q, cplx g, double *c, cplx *se, double *s, cplx *ce) {
	double size = hypot(creal(g), cimag(g)), tau = (q - p) / (2 * size);
	double t = copysign(1, tau) / (fabs(tau) + sqrt(1 + tau * tau));
	cplx e = conj(g) / size;
	*c = 1 / sqrt(1 + t * t), *s = t * *c;
	*se = *s * e, *ce = *c * e;
}

static void c_turn(int64_t n, cplx *x, cplx *y, double c, cplx se, double s, cplx ce) {
	for (int64_t i = 0; i < n; i++) {
		cplx u = x[i], v = y[i];
		x[i] = c * u - times(se, v);
		y[i] = s * u + times(ce, v);
	}
}

enum { SWEEPS = 60 };

// Eigenvalues of a Hermitian matrix, ascending, and eigenvectors in the rows of v, by Jacobi's rotations (Golub and Van
// Loan, section 8.5).
static void c_eigh(cplx *a, int64_t n, double *w, cplx *v) {
	double norm = 0;
	for (int64_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0, norm += size2(a[i]);
	for (int64_t sweep = 0, more = 1; more && sweep < SWEEPS; sweep++) {
		more = 0;
		for (int64_t p = 0; p < n; p++)
			for (int64_t q = p + 1; q < n; q++) {
				cplx g = a[p * n + q], se, ce;
				double c, s;
				if (size2(g) <= 1e-33 * norm / (double)n || g == 0) continue;
				more = 1;
				c_rotation(creal(a[p * n + p]), creal(a[q * n + q]), g, &c, &se, &s, &ce);
				for (int64_t i = 0; i < n; i++) c_turn(1, a + i * n + p, a + i * n + q, c, se, s, ce);
				c_turn(n, a + p * n, a + q * n, c, conj(se), s, conj(ce));
				c_turn(n, v + p * n, v + q * n, c, se, s, ce);
			}
	}
	for (int64_t i = 0; i < n; i++) w[i] = creal(a[i * n + i]);
	for (int64_t i = 0; i < n; i++) {
		int64_t least = i;
		for (int64_t j = i + 1; j < n; j++) least = w[j] < w[least] ? j : least;
		double t = w[i];
		w[i] = w[least], w[least] = t;
		c_swap(v + i * n, v + least * n, n);
	}
}

// Completes `have` orthonormal rows of n elements to `want`, by unit vectors far enough from their span.
static void c_complete(cplx *u, int64_t have, int64_t want, int64_t n) {
	for (int64_t k = 0; have < want && k < n; k++) {
		cplx *x = u + have * n;
		memset(x, 0, (size_t)n * sizeof(cplx));
		x[k] = 1;
		double left = 1;
		for (int twice = 0; twice < 2; twice++) {
			for (int64_t j = 0; j < have; j++) axpy(n, -inner(n, u + j * n, x), u + j * n, x);
			left = creal(inner(n, x, x));
			if (left * (double)n < 0.5 && !twice) break;
		}
		if (left * (double)n < 0.4) continue;
		c_scale(n, 1 / sqrt(left), x);
		have++;
	}
}

// Singular values, descending, of the matrix whose n columns are the rows of x, m >= n elements each, by one-sided
// Jacobi rotations. x becomes U's columns, of which q are completed; v has V's columns in its rows.
static void c_svd(cplx *x, int64_t m, int64_t n, int64_t q, double *s, cplx *v) {
	for (int64_t i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
	for (int64_t sweep = 0, more = 1; more && sweep < SWEEPS; sweep++) {
		more = 0;
		for (int64_t i = 0; i < n; i++)
			for (int64_t j = i + 1; j < n; j++) {
				double p = creal(inner(m, x + i * m, x + i * m)), r = creal(inner(m, x + j * m, x + j * m)), c, t;
				cplx g = inner(m, x + i * m, x + j * m), se, ce;
				if (size2(g) <= 1e-31 * p * r || g == 0) continue;
				more = 1;
				c_rotation(p, r, g, &c, &se, &t, &ce);
				c_turn(m, x + i * m, x + j * m, c, se, t, ce);
				c_turn(n, v + i * n, v + j * n, c, se, t, ce);
			}
	}
	int64_t rank = 0;
	for (int64_t i = 0; i < n; i++) s[i] = sqrt(creal(inner(m, x + i * m, x + i * m)));
	for (int64_t i = 0; i < n; i++) {
		int64_t most = i;
		for (int64_t j = i + 1; j < n; j++) most = s[j] > s[most] ? j : most;
		double t = s[i];
		s[i] = s[most], s[most] = t;
		c_swap(x + i * m, x + most * m, m);
		c_swap(v + i * n, v + most * n, n);
		if (s[i] > 0) c_scale(m, 1 / s[i], x + i * m), rank = i + 1;
	}
	c_complete(x, rank, q, m);
}

// Reduces a to the upper triangle T of A = Z T Z^H: reflectors to Hessenberg form, then QR steps with Wilkinson's shift
// (Golub and Van Loan, sections 7.4 and 7.5). Returns 0 where it does not converge. room holds 2 n.
static int c_schur(cplx *a, int64_t n, cplx *z, cplx *room) {
	for (int64_t i = 0; i < n * n; i++) z[i] = i % (n + 1) == 0;
	for (int64_t j = 0; j + 2 < n; j++) {
		cplx *v = room, *w = room + n, tau;
		int64_t rest = n - j - 1;
		double beta;
		for (int64_t i = 0; i < rest; i++) v[i] = a[(j + 1 + i) * n + j];
		tau = c_reflector(v, rest, &beta);
		c_reflect(v, conj(tau), rest, a + (j + 1) * n + j, n, n - j, w);
		for (int64_t i = 0; i < n; i++)
			for (int side = 0; side < 2; side++) { // rows of a and z times I - tau v v^H
				cplx *row = (side ? z : a) + i * n + j + 1, sum = 0;
				for (int64_t c = 0; c < rest; c++) sum += times(row[c], v[c]);
				for (int64_t c = 0; c < rest; c++) row[c] -= times(times(sum, tau), conj(v[c]));
			}
	}
	int64_t high = n - 1, steps = 0;
	while (high > 0) {
		int64_t low = high;
		for (; low > 0; low--) {
			double near = sqrt(size2(a[low * n + low])) + sqrt(size2(a[(low - 1) * n + low - 1]));
			cplx *under = a + low * n + low - 1;
			if (sqrt(size2(*under)) <= DBL_EPSILON * near || *under == 0) {
				*under = 0;
				break;
			}
		}
		if (low == high) {
			high--, steps = 0;
			continue;
		}
		if (++steps > 300) return 0;
		cplx p = a[(high - 1) * n + high - 1], q = a[(high - 1) * n + high], r = a[high * n + high - 1],
			 s = a[high * n + high], half = (p - s) / 2, root = csqrt(half * half + q * r), mu;
		if (creal(half) * creal(root) + cimag(half) * cimag(root) < 0) root = -root;
		mu = half + root == 0 ? s : s - q * r / (half + root);
		if (steps % 10 == 0) mu = s + sqrt(size2(r));
		cplx *turn = room; // c is real, s complex
		for (int64_t i = low; i <= high; i++) a[i * n + i] -= mu;
		for (int64_t i = low; i < high; i++) {
			cplx x = a[i * n + i], y = a[(i + 1) * n + i];
			double size = sqrt(size2(x) + size2(y));
			cplx cx = size > 0 ? x / size : 1, cy = size > 0 ? y / size : 0;
			turn[2 * (i - low)] = cx, turn[2 * (i - low) + 1] = cy;
			for (int64_t j = i; j < n; j++) {
				cplx u = a[i * n + j], v = a[(i + 1) * n + j];
				a[i * n + j] = times(conj(cx), u) + times(conj(cy), v);
				a[(i + 1) * n + j] = times(cx, v) - times(cy, u);
			}
		}
		for (int64_t i = low; i < high; i++) {
			cplx cx = turn[2 * (i - low)], cy = turn[2 * (i - low) + 1];
			for (int side = 0; side < 2; side++) {
				int64_t last = side ? n - 1 : i + 1;
				for (int64_t j = 0; j <= last; j++) {
					cplx *e = (side ? z : a) + j * n + i, u = e[0], v = e[1];
					e[0] = times(cx, u) + times(cy, v);
					e[1] = times(conj(cx), v) - times(conj(cy), u);
				}
			}
		}
		for (int64_t i = low; i <= high; i++) a[i * n + i] += mu;
	}
	return 1;
}

// Eigenvalues and eigenvectors, in columns of norm 1, of a general matrix. room holds n n + 3 n.
static int c_eig(cplx *a, int64_t n, cplx *w, cplx *vectors, cplx *room) {
	cplx *z = room, *x = z + n * n;
	if (!c_schur(a, n, z, x)) return 0;
	double norm = 0;
	for (int64_t i = 0; i < n * n; i++) norm = fmax(norm, sqrt(size2(a[i])));
	for (int64_t k = 0; k < n; k++) {
		w[k] = a[k * n + k];
		memset(x, 0, (size_t)n * sizeof(cplx));
		x[k] = 1;
		for (int64_t i = k - 1; i >= 0; i--) {
			cplx sum = 0, gap = a[i * n + i] - w[k];
			for (int64_t j = i + 1; j <= k; j++) sum += times(a[i * n + j], x[j]);
			if (sqrt(size2(gap)) < DBL_EPSILON * norm) gap = DBL_EPSILON * norm + DBL_MIN;
			x[i] = -sum / gap;
			double large = sqrt(size2(x[i]));
			if (large > 1e100) c_scale(n, 1 / large, x);
		}
		double length = 0;
		cplx *y = x + n;
		for (int64_t i = 0; i < n; i++) {
			y[i] = 0;
			for (int64_t j = 0; j <= k; j++) y[i] += times(z[i * n + j], x[j]);
			length += size2(y[i]);
		}
		int64_t most = 0; // the largest element becomes real, as in LAPACK
		for (int64_t i = 0; i < n; i++) most = size2(y[i]) > size2(y[most]) ? i : most;
		cplx f = length > 0 ? conj(y[most]) / (sqrt(size2(y[most])) * sqrt(length)) : 1;
		for (int64_t i = 0; i < n; i++) vectors[i * n + k] = times(f, y[i]);
	}
	return 1;
}

// Writes the transpose of m rows of n elements, conjugated or not.
static void c_flip(const cplx *a, int64_t m, int64_t n, int conjugated, cplx *to) {
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) to[j * m + i] = conjugated ? conj(a[i * n + j]) : a[i * n + j];
}

static void c_svd_of(factor *x, int64_t i, cplx *a) {
	int64_t m = x->m, n = x->n, k = x->least, full = x->f->option & FULL, tall = m >= n, big = tall ? m : n;
	int64_t q = full ? big : k;
	cplx *cols = a + m * n, *v = cols + big * big, *to = v + k * k;
	double *s = (double *)(to + big * big);
	c_flip(a, m, n, 0, cols); // the columns of a, or of its adjoint
	for (int64_t j = 0; !tall && j < m * n; j++) cols[j] = conj(a[j]);
	c_svd(cols, big, k, q, s, v);
	real_out(x, 1, i, k, s);
	c_flip(tall ? cols : v, tall ? q : k, tall ? big : k, 0, to);
	c_out(x, 0, i, tall ? m * q : k * k, to);
	cplx *rows = tall ? v : cols;
	int64_t count = tall ? k * k : q * big;
	for (int64_t j = 0; j < count; j++) to[j] = conj(rows[j]);
	c_out(x, 2, i, count, to);
}

static int c_finite(const cplx *a, int64_t count) {
	for (int64_t i = 0; i < count; i++)
		if (!isfinite(creal(a[i])) || !isfinite(cimag(a[i]))) return 0;
	return 1;
}

#include "linalg_complex_ldl.h"

// Numbers of scratch, of 8 bytes, for one matrix.
static int64_t c_room(const factor *x) {
	int64_t m = x->m, n = x->n, big = m > n ? m : n;
	return 2 * (m * n + 3 * big * big + big * big + 8 * big + n * x->k);
}

static void complex_one(factor *x, la_place *at, int64_t i, cplx *a) {
	int64_t m = x->m, n = x->n, least = x->least, k = x->k, q = x->f->option & FULL ? m : least, bad = 0;
	cplx *room = a + m * n;
	c_in(x, 0, i, m * n, a);
	if (x->f->op >= EIGH && x->f->op != LDL && x->f->op != LDL_SOLVE && !c_finite(a, m * n)) {
		bad = (int64_t)UINT32_MAX;
		memset(a, 0, (size_t)(m * n) * sizeof(cplx));
	}
	switch (x->f->op) {
	case CHOLESKY:
		bad = c_cholesky(a, n);
		*ints(x, 1, i) = (int32_t)bad;
		c_out(x, 0, i, n * n, a);
		break;
	case LU:
		bad = c_lu(a, m, n, ints(x, 1, i * least));
		*ints(x, 2, i) = (int32_t)bad;
		c_out(x, 0, i, m * n, a);
		break;
	case SOLVE: {
		int32_t *pivot = ints(x, 2, i * n);
		c_in(x, 1, i, n * k, room);
		bad = c_lu(a, n, n, pivot);
		*ints(x, 3, i) = (int32_t)bad;
		for (int64_t r = 0; r < n; r++) c_swap(room + r * k, room + (pivot[r] - 1) * k, k);
		c_solve(a, n, UNIT, room, k);
		c_solve(a, n, UPPER, room, k);
		c_out(x, 0, i, n * k, room);
		c_out(x, 1, i, n * n, a);
		break;
	}
	case TRIANGULAR:
		c_in(x, 1, i, n * k, room);
		c_solve(a, n, x->f->option, room, k);
		c_out(x, 0, i, n * k, room);
		break;
	case QR:
		c_qr(a, m, n, room, q, room + m * q);
		c_out(x, 0, i, m * q, room);
		c_out(x, 1, i, q * n, a);
		break;
	case EIGH: {
		double *w = (double *)(room + 2 * n * n);
		for (int64_t r = 0; r < n; r++)
			for (int64_t c = 0; c <= r; c++)
				if (c == r) a[r * n + r] = creal(a[r * n + r]);
				else if (x->f->option & UPPER) a[r * n + c] = conj(a[c * n + r]);
				else a[c * n + r] = conj(a[r * n + c]);
		c_eigh(a, n, w, room);
		real_out(x, 0, i, n, w);
		c_flip(room, n, n, 0, room + n * n);
		c_out(x, 1, i, n * n, room + n * n);
		break;
	}
	case SVD: c_svd_of(x, i, a); break;
	case LDL:
		bad = cldl_factor(at->pool, a, n, (x->f->option & HERMITIAN) != 0, ints(x, 1, i * n), room);
		*ints(x, 2, i) = (int32_t)bad;
		c_out(x, 0, i, n * n, a);
		break;
	case LDL_SOLVE: {
		const int32_t *pivot = (const int32_t *)x->buf[2] + x->par[6] + i * n;
		c_in(x, 1, i, n * k, room);
		bad = cldl_solve(a, n, (x->f->option & HERMITIAN) != 0, pivot, room, k);
		c_out(x, 0, i, n * k, room);
		break;
	}
	case EIG: {
		cplx *w = room + n * n, *v = w + n;
		if (!c_eig(a, n, w, room, v)) bad = (int64_t)UINT32_MAX;
		c_out(x, 0, i, n, w);
		c_out(x, 1, i, n * n, room);
		break;
	}
	}
	report(x, i, bad);
}
