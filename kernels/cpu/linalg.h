// Dense factorisations of one matrix, in double, row-major. The step's driver, linalg.c, converts each matrix
// of a batch to double and back, so that single results carry one rounding.
#ifndef TORCHLETTE_LINALG_H
#define TORCHLETTE_LINALG_H

#include "cpu.h"

// Where a factorisation runs: products are shared between the threads when parallel is set.
typedef struct {
	tl_pool *pool;
	int isa, worker, parallel;
	int64_t oom; // bytes that a product could not get
} la_place;

// c -= a b, a of M x K and b of K x N in any strides, c in rows of cm; room for M*N numbers in tmp.
void la_minus_product(la_place *, int64_t M, int64_t N, int64_t K, const double *a, int64_t am, int64_t ak,
	const double *b, int64_t bk,
	int64_t bn, double *c, int64_t cm, double *tmp);

// Householder QR in place, as LAPACK's geqrf has it: R above, the reflectors below the diagonal, tau apart.
void la_qr(double *a, int64_t m, int64_t n, double *tau, double *work);
// The first q columns of Q, m x q, from what la_qr left in a (rows of lda).
void la_form_q(const double *a, int64_t lda, int64_t m, int64_t k, const double *tau, double *to, int64_t q,
	double *work);
// Eigenvalues ascending in w; row i of vt is the vector of w[i]. a is symmetric, both triangles given, and is
// lost; work holds 3n.
void la_eigh(double *a, int64_t n, double *w, double *vt, double *work);
// a (m x n, m >= n, lost) = U diag(s) Vt, s descending: u is m x q with q = n or m, vt n x n; work holds la_svd_room.
void la_svd(double *a, int64_t m, int64_t n, double *u, int64_t q, double *s, double *vt, double *work);
int64_t la_svd_room(int64_t m, int64_t n);

#endif
