// Symmetric eigenvalues and singular values of one matrix: linalg.h says what each function gives. "Golub and Van
// Loan" is their book Matrix Computations, fourth edition.
#include <float.h>
#include <math.h>
#include <string.h>
#include "linalg.h"

static double norm(const double *x, int64_t n, int64_t step) {
	double top = 0, sum = 0; // scaled by the largest, so that squares neither overflow nor underflow
	for (int64_t i = 0; i < n; i++) top = fmax(top, fabs(x[i * step]));
	if (top == 0 || isinf(top)) return top;
	for (int64_t i = 0; i < n; i++) sum += (x[i * step] / top) * (x[i * step] / top);
	return top * sqrt(sum);
}

static double dot(const double *x, const double *y, int64_t n) {
	double s[4] = {0};
	int64_t i = 0;
	for (; i + 4 <= n; i += 4)
		for (int k = 0; k < 4; k++) s[k] += x[i + k] * y[i + k];
	for (; i < n; i++) s[0] += x[i] * y[i];
	return (s[0] + s[1]) + (s[2] + s[3]);
}

static void axpy(double f, const double *x, double *y, int64_t n) {
	for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

// Rotates rows x and y by the angle with cosine c and sine s.
static void rotate(double *x, double *y, int64_t n, double c, double s) {
	for (int64_t i = 0; i < n; i++) {
		double p = x[i], q = y[i];
		x[i] = c * p - s * q;
		y[i] = s * p + c * q;
	}
}

// The reflector H = I - tau (1,v)(1,v)' with H (*alpha, x) = (beta, 0), as LAPACK's larfg. x becomes v, *alpha beta;
// returns tau.
static double reflector(double *alpha, double *x, int64_t n, int64_t step) {
	double rest = norm(x, n, step);
	if (rest == 0) return 0;
	double beta = -copysign(hypot(*alpha, rest), *alpha), tau = (beta - *alpha) / beta;
	for (int64_t i = 0; i < n; i++) x[i * step] /= *alpha - beta;
	*alpha = beta;
	return tau;
}

// Applies the reflector (1,v), tau to the rows that begin at a, each of n columns: A -= tau (1,v) ((1,v)' A). Elements
// of v are vstep apart.
static void reflect(double *a, int64_t lda, int64_t rows, int64_t n, const double *v, int64_t vstep, double tau,
	double *w) {
	if (tau == 0) return;
	memcpy(w, a, (size_t)n * sizeof(double));
	for (int64_t i = 1; i < rows; i++) axpy(v[(i - 1) * vstep], a + i * lda, w, n);
	axpy(-tau, w, a, n);
	for (int64_t i = 1; i < rows; i++) axpy(-tau * v[(i - 1) * vstep], w, a + i * lda, n);
}

// Householder reduction of a symmetric matrix to tridiagonal form (Golub and Van Loan, section 8.3): d is the diagonal,
// e the one beside it. Row j of vt keeps the reflector of column j from place j+2 on, and tau in place j+1.
static void tridiagonal(double *a, int64_t n, double *d, double *e, double *vt, double *w) {
	for (int64_t j = 0; j + 1 < n; j++) {
		double *v = vt + j * n + j + 1, *b = a + (j + 1) * n + j + 1, half;
		int64_t r = n - j - 1;
		memcpy(v, a + j * n + j + 1, (size_t)r * sizeof(double));
		double beta = v[0], tau = reflector(&beta, v + 1, r - 1, 1);
		d[j] = a[j * n + j];
		e[j] = beta;
		v[0] = 1;
		if (tau != 0) {
			for (int64_t i = 0; i < r; i++) w[i] = tau * dot(b + i * n, v, r);
			half = tau / 2 * dot(w, v, r);
			axpy(-half, v, w, r);
			for (int64_t i = 0; i < r; i++) {
				axpy(-v[i], w, b + i * n, r);
				axpy(-w[i], v, b + i * n, r);
			}
		}
		v[0] = tau;
	}
	d[n - 1] = a[n * n - 1];
	e[n - 1] = 0;
}

// q = the product of tridiagonal's reflectors.
static void tridiagonal_q(const double *vt, int64_t n, double *q, double *w) {
	memset(q, 0, (size_t)(n * n) * sizeof(double));
	for (int64_t i = 0; i < n; i++) q[i * n + i] = 1;
	for (int64_t j = n - 2; j >= 0; j--) reflect(q + (j + 1) * n + j + 1, n, n - j - 1, n - j - 1, vt + j * n + j + 2, 1,
		vt[j * n + j + 1], w);
}

// One implicit QL sweep with Wilkinson's shift over the block l..m of a tridiagonal matrix; the rows of vt are rotated
// along. The method of EISPACK's imtql2; Golub and Van Loan, section 8.3.
static void ql_sweep(double *d, double *e, double *vt, int64_t n, int64_t l, int64_t m) {
	double g = (d[l + 1] - d[l]) / (2 * e[l]), s = 1, c = 1, p = 0;
	g = d[m] - d[l] + e[l] / (g + copysign(hypot(g, 1), g));
	for (int64_t i = m - 1; i >= l; i--) {
		double f = s * e[i], b = c * e[i], r = hypot(f, g);
		e[i + 1] = r;
		if (r == 0) { // the matrix splits here
			d[i + 1] -= p;
			e[m] = 0;
			return;
		}
		s = f / r;
		c = g / r;
		g = d[i + 1] - p;
		r = (d[i] - g) * s + 2 * c * b;
		p = s * r;
		d[i + 1] = g + p;
		g = c * r - b;
		rotate(vt + i * n, vt + (i + 1) * n, n, c, s);
	}
	d[l] -= p;
	e[l] = g;
	e[m] = 0;
}

// Sorts the values (sign 1 ascending, -1 descending), and the rows of a and b with them.
static void sort_rows(double *w, int64_t n, double *a, double *b, int sign) {
	for (int64_t i = 0; i < n; i++) {
		int64_t k = i;
		for (int64_t j = i + 1; j < n; j++)
			if (sign * w[j] < sign * w[k]) k = j;
		if (k == i) continue;
		double t = w[i];
		w[i] = w[k];
		w[k] = t;
		for (int64_t j = 0; j < n; j++) {
			t = a[i * n + j], a[i * n + j] = a[k * n + j], a[k * n + j] = t;
			if (b) t = b[i * n + j], b[i * n + j] = b[k * n + j], b[k * n + j] = t;
		}
	}
}

static void transpose(double *a, int64_t n) {
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++) {
			double t = a[i * n + j];
			a[i * n + j] = a[j * n + i];
			a[j * n + i] = t;
		}
}

// Tridiagonal form, then the symmetric QL algorithm.
void la_eigh(double *a, int64_t n, double *w, double *vt, double *work) {
	double *e = work;
	if (n == 0) return;
	double *q = a;
	tridiagonal(a, n, w, e, vt, work + n);
	tridiagonal_q(vt, n, q, work + n);
	memcpy(vt, q, (size_t)(n * n) * sizeof(double));
	transpose(vt, n);
	for (int64_t l = 0; l < n; l++)
		for (int sweep = 0; sweep < 100; sweep++) { // three sweeps are usual
			int64_t m = l;
			while (m + 1 < n && fabs(e[m]) > DBL_EPSILON * (fabs(w[m]) + fabs(w[m + 1]))) m++;
			if (m == l) break;
			ql_sweep(w, e, vt, n, l, m);
		}
	sort_rows(w, n, vt, NULL, 1);
}

// One-sided Jacobi (Hestenes, 1958): rotates pairs of rows of x until all are orthogonal, and applies the same
// rotations to the rows of j.
static void jacobi(double *x, double *j, int64_t n) {
	for (int sweep = 0, rotated = 1; rotated && sweep < 60; sweep++) {
		rotated = 0;
		for (int64_t p = 0; p + 1 < n; p++)
			for (int64_t q = p + 1; q < n; q++) {
				double *a = x + p * n, *b = x + q * n;
				double aa = dot(a, a, n), bb = dot(b, b, n), ab = dot(a, b, n);
				if (fabs(ab) <= DBL_EPSILON * 4 * sqrt(aa) * sqrt(bb) || ab == 0) continue;
				rotated = 1;
				double z = (aa - bb) / (2 * ab), t = copysign(1, z) / (fabs(z) + hypot(1, z)), c = 1 / hypot(1, t);
				// tan 2t = 2ab / (aa - bb) makes the rotated rows orthogonal.
				rotate(a, b, n, c, -t * c);
				rotate(j + p * n, j + q * n, n, c, -t * c);
			}
	}
}

// Row i of v becomes a unit vector orthogonal to the rows before it: the unit vector of some axis, projected. The first
// axis that keeps half of its length serves, else the one that keeps most.
static void complete(double *v, int64_t n, int64_t i, double *best) {
	double most = -1, *x = v + i * n;
	for (int64_t axis = 0; axis < n && most < 0.5; axis++) {
		memset(x, 0, (size_t)n * sizeof(double));
		x[axis] = 1;
		for (int pass = 0; pass < 2; pass++) // twice: one pass of Gram-Schmidt leaves rounding errors
			for (int64_t k = 0; k < i; k++) axpy(-dot(v + k * n, x, n), v + k * n, x, n);
		double len = norm(x, n, 1);
		if (len <= most) continue;
		most = len;
		for (int64_t k = 0; k < n; k++) best[k] = x[k] / len;
	}
	memcpy(x, best, (size_t)n * sizeof(double));
}

int64_t la_svd_room(int64_t m, int64_t n, int64_t q) { return n * n + m + la_qr_room(m, n, q); }

// QR first, then one-sided Jacobi on the rows of R (Golub and Van Loan, section 8.6): J R = diag(s) Vt with J
// orthogonal, so A = Q J' diag(s) Vt, and U = Q J'.
void la_svd(la_place *p, double *a, int64_t m, int64_t n, double *u, int64_t q, double *s, double *vt, double *work) {
	double *j = work, *w = j + n * n, top = 0;
	la_qr(p, a, m, n, u, q, w + m);
	memset(j, 0, (size_t)(n * n) * sizeof(double));
	for (int64_t i = 0; i < n; i++) {
		j[i * n + i] = 1;
		for (int64_t c = 0; c < n; c++) vt[i * n + c] = c < i ? 0 : a[i * n + c], top = fmax(top, fabs(vt[i * n + c]));
	}
	int shift = 0;
	if (top > 0) frexp(top, &shift); // scaled, so that squares of rows stay in range
	for (int64_t i = 0; i < n * n; i++) vt[i] = ldexp(vt[i], -shift);
	jacobi(vt, j, n);
	for (int64_t i = 0; i < n; i++) s[i] = norm(vt + i * n, n, 1);
	sort_rows(s, n, vt, j, -1);
	for (int64_t i = 0; i < n; i++) {
		if (s[i] > DBL_MIN)
			for (int64_t c = 0; c < n; c++) vt[i * n + c] /= s[i];
		else
			complete(vt, n, i, w);
		s[i] = ldexp(s[i], shift);
	}
	for (int64_t r = 0; r < m; r++) { // row r of U = Q J'
		for (int64_t i = 0; i < n; i++) w[i] = dot(u + r * q, j + i * n, n);
		memcpy(u + r * q, w, (size_t)n * sizeof(double));
	}
}
