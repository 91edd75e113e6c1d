// Dense factorisations of one matrix, in double, row-major. linalg.c converts each matrix of a batch to double and
// back, so that results in float carry one rounding.
#ifndef TORCHLETTE_LINALG_H
#define TORCHLETTE_LINALG_H

#include "cpu.h"

// Where a factorisation runs. If parallel is set, the threads share its products.
typedef struct {
	tl_pool *pool;
	int isa, worker, parallel;
	int64_t oom; // bytes that a product could not allocate
} la_place;

// c -= a b. a is M x K and b is K x N in any strides; rows of c are cm apart; tmp has room for M*N numbers.
void la_minus_product(la_place *, int64_t M, int64_t N, int64_t K, const double *a, int64_t am, int64_t ak,
	const double *b, int64_t bk,
	int64_t bn, double *c, int64_t cm, double *tmp);

// A = Q R by Householder reflections, in place as in LAPACK's geqrf: R in the upper triangle, the reflectors below the
// diagonal, their factors in tau.
void la_qr(double *a, int64_t m, int64_t n, double *tau, double *work);
// The first q columns of Q, m x q, from the reflectors that la_qr left in a (rows of lda).
void la_form_q(const double *a, int64_t lda, int64_t m, int64_t k, const double *tau, double *to, int64_t q,
	double *work);
// A = V diag(w) V' of a symmetric a, of which both triangles are read and overwritten. Eigenvalues ascend in w; row i
// of vt is the vector of w[i]; work holds 3n.
void la_eigh(double *a, int64_t n, double *w, double *vt, double *work);
// A = U diag(s) Vt of a (m x n, m >= n, overwritten); s descends. U is m x q with q = n or m; vt is n x n; work holds
// la_svd_room numbers.
void la_svd(double *a, int64_t m, int64_t n, double *u, int64_t q, double *s, double *vt, double *work);
int64_t la_svd_room(int64_t m, int64_t n);

#endif
