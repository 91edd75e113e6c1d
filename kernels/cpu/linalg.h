// Dense factorisations of one matrix, row-major. linalg.c converts each matrix of a batch to the type that it computes
// in.
#ifndef TORCHLETTE_LINALG_H
#define TORCHLETTE_LINALG_H

#include "cpu.h"

// Where a factorisation runs. If parallel is set, the threads share its work.
typedef struct {
	tl_pool *pool;
	int isa, worker, parallel;
	volatile int64_t oom; // bytes that a product could not allocate
} la_place;

// A = Q R by Householder reflections. a (m x n) becomes R, with other numbers below the diagonal; `to` the first q
// columns of Q, m x q. room holds la_qr_room numbers.
void la_qr(la_place *, double *a, int64_t m, int64_t n, double *to, int64_t q, double *room);
int64_t la_qr_room(int64_t m, int64_t n, int64_t q);
// A = V diag(w) V' of a symmetric a, of which both triangles are read and overwritten. Eigenvalues ascend in w; row i
// of vt is the vector of w[i]; work holds 3n.
void la_eigh(double *a, int64_t n, double *w, double *vt, double *work);
// A = U diag(s) Vt of a (m x n, m >= n, overwritten); s descends. U is m x q with q = n or m; vt is n x n; work holds
// la_svd_room numbers.
void la_svd(la_place *, double *a, int64_t m, int64_t n, double *u, int64_t q, double *s, double *vt, double *work);
int64_t la_svd_room(int64_t m, int64_t n, int64_t q);

#endif
