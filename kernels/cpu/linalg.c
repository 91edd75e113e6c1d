// Steps that factor each matrix of a batch: LU, Cholesky, triangular systems, the matrix exponential, eigenvalues and
// singular values. Operands are dense. A step's parameters are the number of matrices, rows m, columns n, columns k of
// a right-hand side, and the element offset of each input.
//
// "Golub and Van Loan" below is their book Matrix Computations, fourth edition.
#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "vector/cpu.h"
#include "vector/factor.h"

// Where a factorisation runs. If parallel is set, the threads share its work.
typedef struct {
	tl_pool *pool;
	int isa, worker, parallel;
	volatile int64_t oom; // bytes that a product could not allocate
} la_place;

// The numbers of launch.FactorOp.
enum { CHOLESKY, LU, LU_PERMUTATION, SOLVE, TRIANGULAR, QR, EIGH, SVD, PINV, EXPM, LDL, LDL_SOLVE, EIG };

// Bits of option.
enum { UPPER = 1, UNIT = 2, FULL = 1, HERMITIAN = 1, PAIRS = 4 };

// A triangular system whose right-hand side is the identity; beside UNIT.
enum { IDENTITY = 8 };

// Sizes of blocks, in elements. Those of a panel: more columns move work from products into vector operations; fewer
// make products narrow.
enum {
	NARROW = 32, WIDE = 64, // columns of a panel of Cholesky, and of a part of a panel of LU
	WIDE_FROM = 512,        // size of a matrix from which panels are wide
	WIDEST = 128,           // columns of a panel of LU, at most
	PANEL = 32,             // columns of a panel of QR
	STRIP = 8,              // columns of a panel of LU that are applied at once
	SMALL = 32,             // rows of a triangular system that is solved by substitution
	CHUNK = 256,            // columns of a right-hand side that stay in L1 during a substitution
	COLUMNS = 64,           // columns of an update that a thread takes at least
	STEP = 16,              // rows that a thread takes at least
	AREAS = 8,              // parts of a reduction's step
	SHARED = 128,           // rows from which a step is shared
	PIECE = 1 << 14,        // elements of a copy that a thread takes
	// A float matrix up to this size is computed in double: then the result carries one rounding, at less than the cost
	// of a larger block.
	EXACT = 64,
};

static const tl_factor_table *functions_of(int isa) {
#if defined(__x86_64__)
	if (isa >= TLK_ISA_AVX512) return &tl_factor_avx512;
	if (isa >= TLK_ISA_AVX2) return &tl_factor_avx2;
#endif
	(void)isa;
	return &tl_factor_base;
}

// Columns of a panel of LU.
static int64_t lu_width(int64_t least) { return least >= 1024 ? WIDEST : least > 256 ? WIDE : NARROW; }

// The distance of padded rows of n elements: an odd number of cache lines or of pairs of them, so that rows do not meet
// in one set of L1.
static int64_t pitch_of(int64_t n) { return ((n + 15) / 16 | 1) * 16; }

// Whether a matrix is reduced to R before its singular values.
static int is_tall(int64_t m, int64_t n) { return 2 * m > 3 * n; }

// Numbers of scratch of LU: two panels.
static int64_t lu_room(int64_t m, int64_t n) {
	const int64_t least = m < n ? m : n, width = lu_width(least);
	return 2 * pitch_of(m) * (width < least ? width : least);
}

// Numbers of scratch of a QR factorisation, and the first q columns of Q.
static int64_t qr_room(int64_t m, int64_t n, int64_t q) {
	int64_t least = m < n ? m : n, most = n > q ? n : q;
	return least * m + (least + PANEL) * PANEL + 2 * PANEL * most;
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

static int32_t *ints(const factor *x, int which, int64_t at) { return (int32_t *)x->buf[x->f->nin + which] + at; }

static void report(factor *x, int64_t i, int64_t what) {
	if (!x->f->check || !what) return;
	int64_t now = __atomic_load_n(&x->bad, __ATOMIC_RELAXED), mine = i << 32 | what;
	while (mine < now && !__atomic_compare_exchange_n(&x->bad, &now, mine, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

static void permutation(const int32_t *pivot, int64_t k, int64_t m, int64_t *to) {
	for (int64_t i = 0; i < m; i++) to[i] = i;
	for (int64_t i = 0; i < k; i++) {
		int64_t t = to[i], p = pivot[i] - 1;
		to[i] = to[p];
		to[p] = t;
	}
}

// The rotation with c y + s z = r and c z - s y = 0; returns r. Tiny numbers are scaled, so that no square underflows.
static inline double angle(double y, double z, double *c, double *s) {
	double squares = y * y + z * z, r = sqrt(squares);
	if (squares < 1e-280) {
		y *= 0x1p600, z *= 0x1p600;
		r = hypot(y, z);
		*c = r > 0 ? y / r : 1, *s = r > 0 ? z / r : 0;
		return r * 0x1p-600;
	}
	*c = y / r, *s = z / r;
	return r;
}

#define REAL double
#define SUF(x) x##64
#define FUNCTIONS f64
#define TYPE TLK_F64
#define EPSILON DBL_EPSILON
#define MOST DBL_MAX
#define SQUARE_LEAST 1e-280
#define SQUARE_MOST 1e280
#include "linalg_real.h"
#include "linalg_lu.h"
#include "linalg_one.h"
#include "linalg_band.h"
#include "linalg_divide.h"
#include "linalg_spectral.h"
#undef REAL
#undef SUF
#undef FUNCTIONS
#undef TYPE
#undef EPSILON
#undef MOST
#undef SQUARE_LEAST
#undef SQUARE_MOST

#define REAL float
#define SUF(x) x##32
#define FUNCTIONS f32
#define TYPE TLK_F32
#define EPSILON FLT_EPSILON
#define MOST FLT_MAX
#define SQUARE_LEAST 1e-30f
#define SQUARE_MOST 1e30f
#include "linalg_real.h"
#include "linalg_lu.h"
#include "linalg_one.h"
#include "linalg_spectral.h"

#include "linalg_ldl.h"
#include "linalg_complex.h"

// e = exp(a) by scaling and squaring: exp(a) = exp(a / 2^s)^(2^s) with the norm of a / 2^s at most 1/2, where a Taylor
// polynomial of 16 terms leaves less than one rounding (Moler and Van Loan, Nineteen Dubious Ways to Compute the
// Exponential of a Matrix, method 3). a is overwritten; tmp holds n n.
static void expm(la_place *p, double *a, int64_t n, double *e, double *tmp) {
	double norm = 0, *next = tmp;
	for (int64_t i = 0; i < n; i++) {
		double s = 0;
		for (int64_t j = 0; j < n; j++) s += fabs(a[i * n + j]);
		norm = s > norm ? s : norm;
	}
	int squares = 0;
	if (norm > 0.5 && !isinf(norm)) frexp(norm / 0.5, &squares);
	for (int64_t i = 0; i < n * n; i++) a[i] = ldexp(a[i], -squares), e[i] = i % (n + 1) == 0;
	for (int term = 16; term > 0 && !tl_stop_asked(p->pool); term--) { // Horner's rule: e = 1 + a e / term
		product64(p, p->worker, p->parallel, 0, n, n, n, a, n, 1, e, n, 1, next, n);
		for (int64_t i = 0; i < n * n; i++) e[i] = next[i] / term + (i % (n + 1) == 0);
	}
	for (; squares > 0 && !tl_stop_asked(p->pool); squares--) {
		product64(p, p->worker, p->parallel, 0, n, n, n, e, n, 1, e, n, 1, next, n);
		memcpy(e, next, (size_t)(n * n) * sizeof(double));
	}
}

// A^+ = V diag(1/s) U' over the singular values above the cutoff max(atol, rtol * s[0]), the Moore-Penrose inverse.
static void pinv(const factor *x, la_place *at, int64_t i, double *a, double *room) {
	int64_t m = x->m, n = x->n, k = x->least;
	double *u = room, *s = u + m * k, *vt = s + k, *p = vt + k * n, least[2];
	for (int t = 0; t < 2; t++) in64(x, 1 + t, i, 1, &least[t]);
	svd_of64(x, at, a, 0, u, s, vt, p + n * m);
	double cut = k ? fmax(least[0], least[1] * s[0]) : 0;
	memset(p, 0, (size_t)(n * m) * sizeof(double));
	for (int64_t c = 0; c < k && s[c] > cut; c++)
		for (int64_t r = 0; r < n; r++)
			for (int64_t j = 0; j < m; j++) p[r * m + j] += vt[c * n + r] * (u[j * k + c] / s[c]);
	out64(x, 0, i, n * m, p);
}

// Whether the matrices are computed in float.
static int in_float(const factor *x) {
	return x->f->type == TLK_F32 && x->f->op <= SVD && !(x->f->option & PAIRS) && (x->m > EXACT || x->n > EXACT);
}

// Numbers of scratch of eigenvalues and of singular values; a double takes the room of `wide` numbers.
static int64_t eigh_room(int64_t n, int64_t wide) {
	// The reduction's padded matrix and vectors, and then the way back.
	const int64_t reduction = ((n + 3) / 4 * 4 + AREAS + 3) * pitch_of(n) + 16, back = qr_room(n, n, n);
	return wide * (n * n + 2 * n + 1 + tree_room(n)) + n * n + n + (back > reduction ? back : reduction);
}

static int64_t svd_room(int64_t m, int64_t n, int64_t q, int64_t wide) {
	const int64_t height = ((is_tall(m, n) ? n : m) + 3) / 4 * 4, ld = pitch_of(n), back = qr_room(m, n, q);
	const int64_t reduction = height * (ld + 3) + (AREAS + 2) * ld + 16;
	return wide * (2 * n * n + 2 * n + 1 + tree_room(n)) + 2 * m * n + n * n + 2 * n +
		(back > reduction ? back : reduction);
}

// Numbers of scratch for one matrix, beside the m n of the matrix itself.
static int64_t room_of(const factor *x) {
	int64_t m = x->m, n = x->n, k = x->k, q = x->f->option & FULL ? m : x->least, big = m > n ? m : n;
	int64_t wide = in_float(x) ? 2 : 1;
	int64_t decomposition = svd_room(big, x->least, big, wide) + big * big + x->least * x->least + m * n;
	switch (x->f->op) {
	case CHOLESKY: return 2 * n * WIDE;
	case LU: return lu_room(m, n);
	case SOLVE: return n * k + 2 * n + 1 + (n * n > lu_room(n, n) ? n * n : lu_room(n, n));
	case TRIANGULAR: return n * k;
	case QR: return m * q + qr_room(m, n, q);
	case EIGH: return n + eigh_room(n, wide);
	case SVD: return m * m + n * n + n + decomposition;
	case PINV: return 2 * m * n + (m + n + 1) * x->least + decomposition;
	case EXPM: return 2 * n * n;
	case LDL: return 2 * n;
	case LDL_SOLVE: return n * k;
	}
	return 0;
}

// Computes matrix i in double, by what has no form in float.
static void further(factor *x, la_place *at, int64_t i, double *a) {
	int64_t m = x->m, n = x->n;
	double *room = a + m * n;
	if (x->f->op == EXPM) {
		in64(x, 0, i, n * n, a);
		expm(at, a, n, room, room + n * n);
		out64(x, 0, i, n * n, room);
		return;
	}
	if (x->f->op == LDL) {
		in64(x, 0, i, n * n, a);
		int32_t status = ldl_factor(at->pool, a, n, ints(x, 1, i * n), room);
		*ints(x, 2, i) = status;
		report(x, i, status);
		out64(x, 0, i, n * n, a);
		return;
	}
	if (x->f->op == LDL_SOLVE) {
		in64(x, 0, i, n * n, a);
		in64(x, 1, i, n * x->k, room);
		report(x, i, ldl_solve(a, n, (const int32_t *)x->buf[2] + x->par[6] + i * n, room, x->k));
		out64(x, 0, i, n * x->k, room);
		return;
	}
	in_finite64(x, i, a);
	if (x->f->option & HERMITIAN) mirror64(a, n, 0);
	pinv(x, at, i, a, room);
}

static void permute(factor *x, int64_t i) {
	int64_t m = x->m, k = x->least, good = 0;
	const int32_t *pivot = (const int32_t *)x->buf[0] + x->par[4] + i * k;
	while (good < k && pivot[good] >= 1 && pivot[good] <= m) good++;
	if (good < k) report(x, i, good + 1);
	permutation(pivot, good, m, (int64_t *)x->buf[1] + i * m);
}

static void one(factor *x, la_place *at, int64_t i, void *mem) {
	if (x->f->op == LU_PERMUTATION) permute(x, i);
	else if (x->f->option & PAIRS) complex_one(x, at, i, mem);
	else if (in_float(x) && x->f->op <= QR) factor_one32(x, at, i, mem);
	else if (in_float(x)) spectral_one32(x, at, i, mem);
	else if (x->f->op <= QR) factor_one64(x, at, i, mem);
	else if (x->f->op <= SVD) spectral_one64(x, at, i, mem);
	else further(x, at, i, mem);
}

static void job(void *arg, int worker, int64_t begin, int64_t end) {
	factor *x = arg;
	int64_t room = x->f->option & PAIRS ? c_room(x) : x->m * x->n + room_of(x);
	int64_t bytes = room * (int64_t)(in_float(x) ? sizeof(float) : sizeof(double));
	void *mem = tl_alloc(bytes + 64); // the worker's scratch belongs to the products that a factorisation runs
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
