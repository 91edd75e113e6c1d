// Fourier transforms of one precision and one instruction set. The including file defines TLK_FFT_REAL and
// TLK_FFT_LANES, and TLK_FFT(x), x with the precision's suffix.
//
// Everything is built from column transforms: W transforms of one length side by side, one in each lane of a vector.
// Element j of all of them is a row of 2 W numbers: W real parts, then W imaginary parts. So no arithmetic needs a
// shuffle. A single long transform of n = n1 n2 elements is n2 column transforms of n1 elements and n1 of n2, with a
// product by roots of unity and a transposition between them.

#define REAL TLK_FFT_REAL
#define F(x) TLK_FFT(x)

typedef REAL F(fvec) __attribute__((vector_size(TLK_VL * 4), aligned(sizeof(REAL)), may_alias));
typedef struct { F(fvec) r, i; } F(fcx);
#define V F(fvec)
#define CX F(fcx)
#define W ((int)(TLK_VL * 4 / sizeof(REAL)))

#if defined(__clang__)
#define TLK_FEW _Pragma("clang loop unroll_count(4)")
#else
#define TLK_FEW _Pragma("GCC unroll 4")
#endif
#define LD(p) (*(const V *)(p))
#define ST(p, v) (*(V *)(p) = (v))

// Shuffles of two vectors: even elements, odd elements, the first and the second half of both interleaved; and one
// vector backwards.
#define SHUFFLES(EVEN, ODD, LOW, HIGH, BACK) \
	TLK_INLINE V F(even)(V a, V b) { return __builtin_shufflevector(a, b, EVEN); } \
	TLK_INLINE V F(odd)(V a, V b) { return __builtin_shufflevector(a, b, ODD); } \
	TLK_INLINE V F(low)(V a, V b) { return __builtin_shufflevector(a, b, LOW); } \
	TLK_INLINE V F(high)(V a, V b) { return __builtin_shufflevector(a, b, HIGH); } \
	TLK_INLINE V F(back)(V a) { return __builtin_shufflevector(a, a, BACK); }
#define LIST(...) __VA_ARGS__
#if TLK_FFT_LANES == 16
SHUFFLES(LIST(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
	LIST(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31),
	LIST(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
	LIST(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
	LIST(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))
#elif TLK_FFT_LANES == 8
SHUFFLES(LIST(0, 2, 4, 6, 8, 10, 12, 14), LIST(1, 3, 5, 7, 9, 11, 13, 15), LIST(0, 8, 1, 9, 2, 10, 3, 11),
	LIST(4, 12, 5, 13, 6, 14, 7, 15), LIST(7, 6, 5, 4, 3, 2, 1, 0))
#elif TLK_FFT_LANES == 4
SHUFFLES(LIST(0, 2, 4, 6), LIST(1, 3, 5, 7), LIST(0, 4, 1, 5), LIST(2, 6, 3, 7), LIST(3, 2, 1, 0))
#else
SHUFFLES(LIST(0, 2), LIST(1, 3), LIST(0, 2), LIST(1, 3), LIST(1, 0))
#endif
#undef SHUFFLES
#undef LIST

// Transposes W rows: each round interleaves row i with row i + W/2.
TLK_INLINE void F(turn)(V *r) {
	V t[W];
	TLK_UNROLL for (int n = 1; n < W; n *= 2) {
		TLK_UNROLL for (int i = 0; i < W / 2; i++) {
			t[2 * i] = F(low)(r[i], r[i + W / 2]);
			t[2 * i + 1] = F(high)(r[i], r[i + W / 2]);
		}
		TLK_UNROLL for (int i = 0; i < W; i++) r[i] = t[i];
	}
}

TLK_INLINE CX F(row)(const REAL *p) { return (CX){LD(p), LD(p + W)}; }
TLK_INLINE CX F(plus)(CX a, CX b) { return (CX){a.r + b.r, a.i + b.i}; }
TLK_INLINE CX F(minus)(CX a, CX b) { return (CX){a.r - b.r, a.i - b.i}; }
TLK_INLINE CX F(times)(CX a, REAL r, REAL i) { return (CX){a.r * r - a.i * i, a.r * i + a.i * r}; }

// Stores a result of a butterfly, times the root at w where turned is set.
TLK_INLINE void F(put)(REAL *b, CX v, const int turned, const REAL *w) {
	if (turned) v = F(times)(v, w[0], w[1]);
	ST(b, v.r);
	ST(b + W, v.i);
}

TLK_INLINE void F(four)(CX a, CX b, CX c, CX d, REAL *y, int64_t bs, const int step, const int at, const int turned,
	const REAL *w) {
	CX s = F(plus)(a, c), t = F(plus)(b, d), u = F(minus)(a, c), v = F(minus)(b, d);
	F(put)(y + at * bs, F(plus)(s, t), at && turned, w + 2 * at - 2);
	F(put)(y + (at + step) * bs, (CX){u.r + v.i, u.i - v.r}, turned, w + 2 * (at + step) - 2);
	F(put)(y + (at + 2 * step) * bs, F(minus)(s, t), turned, w + 2 * (at + 2 * step) - 2);
	F(put)(y + (at + 3 * step) * bs, (CX){u.r - v.i, u.i + v.r}, turned, w + 2 * (at + 3 * step) - 2);
}

TLK_INLINE void F(eight)(const REAL *x, int64_t as, REAL *y, int64_t bs, const int turned, const REAL *w) {
	const REAL h = (REAL)0.70710678118654752440;
	CX s[4], d[4];
	TLK_UNROLL for (int k = 0; k < 4; k++) {
		CX a = F(row)(x + k * as), b = F(row)(x + (k + 4) * as);
		s[k] = F(plus)(a, b);
		d[k] = F(minus)(a, b);
	}
	F(four)(s[0], s[1], s[2], s[3], y, bs, 2, 0, turned, w);
	CX one = {(d[1].r + d[1].i) * h, (d[1].i - d[1].r) * h}, two = {d[2].i, -d[2].r};
	CX three = {(d[3].i - d[3].r) * h, (d[3].r + d[3].i) * -h};
	F(four)(d[0], one, two, three, y, bs, 2, 1, turned, w);
}

// An odd length r by its definition, on sums and differences of the elements k and r - k. root[2 t] and root[2 t + 1]
// are the cosine and sine of t/r turns.
TLK_INLINE void F(odds)(const int r, const REAL *root, const REAL *x, int64_t as, REAL *y, int64_t bs, const int turned,
	const REAL *w) {
	CX t[TLK_FFT_PRIME / 2 + 1], u[TLK_FFT_PRIME / 2 + 1], a = F(row)(x), sum = a;
	const int half = r / 2;
	TLK_FEW for (int k = 1; k <= half; k++) {
		CX b = F(row)(x + k * as), c = F(row)(x + (r - k) * as);
		t[k] = F(plus)(b, c);
		u[k] = F(minus)(b, c);
		sum = F(plus)(sum, t[k]);
	}
	F(put)(y, sum, 0, w);
	TLK_FEW for (int l = 1; l <= half; l++) {
		CX c = a, s = {(V){0}, (V){0}};
		int at = 0;
		TLK_FEW for (int k = 1; k <= half; k++) {
			at += l;
			at -= at >= r ? r : 0;
			c.r += t[k].r * root[2 * at];
			c.i += t[k].i * root[2 * at];
			s.r += u[k].r * root[2 * at + 1];
			s.i += u[k].i * root[2 * at + 1];
		}
		F(put)(y + l * bs, (CX){c.r + s.i, c.i - s.r}, turned, w + 2 * l - 2);
		F(put)(y + (r - l) * bs, (CX){c.r - s.i, c.i + s.r}, turned, w + 2 * (r - l) - 2);
	}
}

TLK_INLINE void F(butterfly)(const int r, const REAL *root, const REAL *x, int64_t as, REAL *y, int64_t bs,
	const int turned, const REAL *w) {
	if (r == 2) {
		CX a = F(row)(x), b = F(row)(x + as);
		F(put)(y, F(plus)(a, b), 0, w);
		F(put)(y + bs, F(minus)(a, b), turned, w);
	} else if (r == 4)
		F(four)(F(row)(x), F(row)(x + as), F(row)(x + 2 * as), F(row)(x + 3 * as), y, bs, 1, 0, turned, w);
	else if (r == 8) F(eight)(x, as, y, bs, turned, w);
	else F(odds)(r, root, x, as, y, bs, turned, w);
}

// A pass of Stockham's algorithm: of n = r m s elements, the r elements x[q + s (p + m k)] make y[q + s (r p + k)].
TLK_INLINE void F(pass)(const int r, const tl_fft_pass *f, const REAL *x, REAL *y) {
	const int64_t s = f->s, as = 2 * W * s * f->m, bs = 2 * W * s;
	const REAL *w = f->turn, *root = f->root;
	for (int64_t q = 0; q < s; q++) F(butterfly)(r, root, x + 2 * W * q, as, y + 2 * W * q, bs, 0, w);
	for (int64_t p = 1; p < f->m; p++, w += 2 * (r - 1))
		for (int64_t q = 0; q < s; q++)
			F(butterfly)(r, root, x + 2 * W * (q + s * p), as, y + 2 * W * (q + s * r * p), bs, 1, w);
}

static void F(passes)(const tl_fft_pass *f, const REAL *x, REAL *y) {
	switch (f->r) {
	case 2: F(pass)(2, f, x, y); return;
	case 3: F(pass)(3, f, x, y); return;
	case 4: F(pass)(4, f, x, y); return;
	case 5: F(pass)(5, f, x, y); return;
	case 7: F(pass)(7, f, x, y); return;
	case 8: F(pass)(8, f, x, y); return;
	default: F(pass)((int)f->r, f, x, y);
	}
}

// The column transform of the rows at x, which may be a. Returns where the result is: a or b, or x where n is 1.
static REAL *F(smooth)(const tl_fft_col *c, const REAL *x, REAL *a, REAL *b) {
	for (int k = 0; k < c->passes; k++) {
		REAL *y = x == a ? b : a;
		F(passes)(&c->pass[k], x, y);
		x = y;
	}
	return (REAL *)(uintptr_t)x;
}

// Bluestein's algorithm: a transform is a convolution with the chirp exp(-i pi j j / n), and that a product of
// transforms of a length with small factors. The inverse is a transform with real and imaginary parts exchanged.
static REAL *F(columns)(const tl_fft_col *c, const REAL *x, REAL *a, REAL *b) {
	if (!c->conv) return F(smooth)(c, x, a, b);
	const REAL *chirp = c->chirp, *spectrum = c->spectrum;
	REAL *y = x == a ? a : b, *other = x == a ? b : a;
	for (int64_t j = 0; j < c->n; j++) F(put)(y + 2 * W * j, F(row)(x + 2 * W * j), 1, chirp + 2 * j);
	memset(y + 2 * W * c->n, 0, (size_t)((c->conv->n - c->n) * 2 * W) * sizeof(REAL));
	REAL *z = F(smooth)(c->conv, y, y, other);
	if (z != y) other = y;
	for (int64_t j = 0; j < c->conv->n; j++) {
		CX v = F(times)(F(row)(z + 2 * W * j), spectrum[2 * j], spectrum[2 * j + 1]);
		F(put)(z + 2 * W * j, (CX){v.i, v.r}, 0, chirp);
	}
	z = F(smooth)(c->conv, z, z, other);
	for (int64_t j = 0; j < c->n; j++) {
		CX v = F(row)(z + 2 * W * j);
		F(put)(z + 2 * W * j, (CX){v.i, v.r}, 1, chirp + 2 * j);
	}
	return z;
}

// Where the elements of W columns lie: element j of lane l is at j step + l lane, its imaginary part image after the
// real one. Where image is 0 there is none. exchange: real and imaginary parts change places.
typedef struct { int64_t step, lane, image; int lanes, exchange; } F(place);

static void F(gather)(const F(place) *g, const REAL *x, int64_t n, REAL *to) {
	REAL *re = to + (g->exchange ? W : 0), *im = to + (g->exchange ? 0 : W), some[2 * W] = {0};
	int64_t j = 0;
	if (g->image == 1 && g->lane == 2) {
		for (; j < n; j++, x += g->step, re += 2 * W, im += 2 * W) {
			const REAL *p = x;
			// The next block's elements: they are on as many pages as this one has, so no hardware prefetcher follows.
			__builtin_prefetch(x + 2 * W, 0, 2);
			__builtin_prefetch(x + 4 * W - 1, 0, 2);
			if (g->lanes < W) p = memcpy(some, x, (size_t)(2 * g->lanes) * sizeof(REAL));
			V a = LD(p), b = LD(p + W);
			ST(re, F(even)(a, b));
			ST(im, F(odd)(a, b));
		}
		return;
	}
	if (g->lane == 1 && g->lanes == W) {
		for (; j < n; j++, x += g->step, re += 2 * W, im += 2 * W) {
			ST(re, LD(x));
			ST(im, g->image ? LD(x + g->image) : (V){0});
		}
		return;
	}
	if (g->image == 1 && g->step == 2)
		for (; j + W / 2 <= n; j += W / 2) {
			V r[W];
			TLK_UNROLL for (int l = 0; l < W; l++) r[l] = LD(x + 2 * j + g->lane * (l < g->lanes ? l : 0));
			F(turn)(r);
			TLK_UNROLL for (int k = 0; k < W / 2; k++) {
				ST(re + 2 * W * (j + k), r[2 * k]);
				ST(im + 2 * W * (j + k), r[2 * k + 1]);
			}
		}
	for (; j < n; j++)
		for (int l = 0; l < W; l++) {
			const REAL *p = x + j * g->step + l * g->lane;
			re[2 * W * j + l] = l < g->lanes ? p[0] : 0;
			im[2 * W * j + l] = l < g->lanes && g->image ? p[g->image] : 0;
		}
}

static void F(scatter)(const F(place) *g, const REAL *from, int64_t n, REAL scale, REAL *y) {
	const REAL *re = from + (g->exchange ? W : 0), *im = from + (g->exchange ? 0 : W);
	REAL some[2 * W];
	int64_t j = 0;
	if (g->image == 1 && g->lane == 2) {
		for (; j < n; j++, y += g->step, re += 2 * W, im += 2 * W) {
			REAL *p = g->lanes < W ? some : y;
			__builtin_prefetch(y + 2 * W, 1, 2);
			__builtin_prefetch(y + 4 * W - 1, 1, 2);
			V a = LD(re) * scale, b = LD(im) * scale;
			ST(p, F(low)(a, b));
			ST(p + W, F(high)(a, b));
			if (g->lanes < W) memcpy(y, some, (size_t)(2 * g->lanes) * sizeof(REAL));
		}
		return;
	}
	if (g->lane == 1 && g->lanes == W) {
		for (; j < n; j++, y += g->step, re += 2 * W, im += 2 * W) {
			ST(y, LD(re) * scale);
			if (g->image) ST(y + g->image, LD(im) * scale);
		}
		return;
	}
	if (g->image == 1 && g->step == 2)
		for (; j + W / 2 <= n; j += W / 2) {
			V r[W];
			TLK_UNROLL for (int k = 0; k < W / 2; k++) {
				r[2 * k] = LD(re + 2 * W * (j + k)) * scale;
				r[2 * k + 1] = LD(im + 2 * W * (j + k)) * scale;
			}
			F(turn)(r);
			TLK_UNROLL for (int l = 0; l < W; l++) if (l < g->lanes) ST(y + 2 * j + g->lane * l, r[l]);
		}
	for (; j < n; j++)
		for (int l = 0; l < g->lanes; l++) {
			REAL *p = y + j * g->step + l * g->lane;
			p[0] = re[2 * W * j + l] * scale;
			if (g->image) p[g->image] = im[2 * W * j + l] * scale;
		}
}

// The transform of a real sequence of even length n from that of the n/2 pairs of its elements, taken as complex
// numbers; and back. With a = Z[k], b = conj(Z[h - k]), h = n/2 and t = exp(-2 pi i k / n), both ways compute
// s = a + b and d = (a - b) times -i t, or times i conj(t): then s + d is element k and conj(s - d) is element h - k.
// Forward, the results are twice too large.
TLK_INLINE void F(mirrored)(CX a, CX b, V tr, V ti, CX *lo, CX *hi) {
	CX s = {a.r + b.r, a.i - b.i}, d = {a.r - b.r, a.i + b.i};
	CX t = {d.r * tr - d.i * ti, d.r * ti + d.i * tr};
	*lo = F(plus)(s, t);
	*hi = (CX){s.r - t.r, t.i - s.i};
}

// Roots for mirrored, from exp(-2 pi i k / n).
TLK_INLINE void F(factor)(V *tr, V *ti, int forward) {
	V r = *tr, i = *ti;
	*tr = forward ? i : i; // -i t = (Im t, -Re t); i conj(t) = (Im t, Re t)
	*ti = forward ? -r : r;
}

// Makes rows 0 to h of forward real transforms of rows 0 to h-1, or the other way, in place. Backward, real and
// imaginary parts are exchanged.
static void F(real_columns)(REAL *z, int64_t h, const REAL *root, int forward) {
	if (forward) memcpy(z + 2 * W * h, z, 2 * W * sizeof(REAL));
	else { // the imaginary parts of the first and last element do not count
		ST(z + W, (V){0});
		ST(z + 2 * W * h + W, (V){0});
	}
	for (int64_t k = 0; k <= h / 2; k++) {
		REAL *p = z + 2 * W * k, *q = z + 2 * W * (h - k);
		V tr = (V){0} + root[2 * k], ti = (V){0} + root[2 * k + 1];
		F(factor)(&tr, &ti, forward);
		CX lo, hi;
		F(mirrored)(F(row)(p), F(row)(q), tr, ti, &lo, &hi);
		F(put)(q, forward ? hi : (CX){hi.i, hi.r}, 0, z);
		F(put)(p, forward ? lo : (CX){lo.i, lo.r}, 0, z);
	}
}

// The same for one row of h + 1 elements at x, which may be y. Results are scaled.
static void F(real_row)(const REAL *x, REAL *y, int64_t h, const REAL *root, int forward, REAL scale) {
	REAL first[2] = {x[0], x[1]};
	int64_t k = 1;
	for (; 2 * k + 2 * W <= h; k += W) { // elements k on, and those up to h - k
		int64_t m = h - k - W + 1;
		V a = LD(x + 2 * k), b = LD(x + 2 * k + W), c = LD(x + 2 * m), d = LD(x + 2 * m + W), e = LD(root + 2 * k),
			f = LD(root + 2 * k + W), tr = F(even)(e, f), ti = F(odd)(e, f);
		F(factor)(&tr, &ti, forward);
		CX lo, hi;
		F(mirrored)((CX){F(even)(a, b), F(odd)(a, b)}, (CX){F(back)(F(even)(c, d)), F(back)(F(odd)(c, d))}, tr, ti, &lo,
			&hi);
		lo.r *= scale, lo.i *= scale, hi.r = F(back)(hi.r) * scale, hi.i = F(back)(hi.i) * scale;
		ST(y + 2 * k, F(low)(lo.r, lo.i));
		ST(y + 2 * k + W, F(high)(lo.r, lo.i));
		ST(y + 2 * m, F(low)(hi.r, hi.i));
		ST(y + 2 * m + W, F(high)(hi.r, hi.i));
	}
	for (; k <= h / 2; k++) {
		const REAL *p = x + 2 * k, *q = x + 2 * (h - k);
		REAL tr = root[2 * k + 1], ti = forward ? -root[2 * k] : root[2 * k];
		REAL sr = p[0] + q[0], si = p[1] - q[1], dr = p[0] - q[0], di = p[1] + q[1];
		REAL ur = dr * tr - di * ti, ui = dr * ti + di * tr;
		y[2 * (h - k)] = (sr - ur) * scale, y[2 * (h - k) + 1] = (ui - si) * scale;
		y[2 * k] = (sr + ur) * scale, y[2 * k + 1] = (si + ui) * scale;
	}
	if (forward) { // 2 (re + im) and 2 (re - im)
		y[2 * h] = 2 * (first[0] - first[1]) * scale, y[2 * h + 1] = 0;
		y[0] = 2 * (first[0] + first[1]) * scale, y[1] = 0;
	} else {
		REAL last = x[2 * h];
		y[0] = (first[0] + last) * scale, y[1] = (first[0] - last) * scale;
	}
}

// Fills in the second half of a spectrum of length n, of which element n - k is the conjugate of element k. Of real
// elements whose parts are exchanged, the first has no imaginary part.
static void F(complete)(REAL *z, int64_t n, int exchanged) {
	if (exchanged) ST(z, (V){0});
	for (int64_t k = 1; k < n - k; k++) {
		CX v = F(row)(z + 2 * W * k);
		F(put)(z + 2 * W * (n - k), exchanged ? (CX){-v.r, v.i} : (CX){v.r, -v.i}, 0, z);
	}
}

// Transforms the columns of blocks [begin, end): W lanes each.
static void F(column_job)(void *arg, int worker, int64_t begin, int64_t end) {
	tl_fft_run *r = arg;
	const tl_fft *f = r->f;
	const int64_t half = f->n / 2, size = f->rows * 2 * W, bytes = 2 * size * (int64_t)sizeof(REAL);
	const int even = f->n % 2 == 0, back = f->kind == TLK_FFT_INVERSE || f->kind == TLK_FFT_TO_REALS;
	const int reals = f->kind == TLK_FFT_OF_REALS || f->kind == TLK_FFT_ALL;
	const int64_t in = f->kind == TLK_FFT_TO_REALS ? half + 1 : reals && even ? half : f->n;
	REAL *a = tl_scratch(r->pool, worker, bytes), *b = a + size;
	if (!a) {
		r->oom = bytes;
		return;
	}
	F(place) from = {.step = r->x.step, .lane = r->x.lane, .image = 1, .exchange = back};
	F(place) to = {.step = r->y.step, .lane = r->y.lane, .image = 1, .exchange = back};
	int64_t out = f->kind == TLK_FFT_OF_REALS ? half + 1 : f->n;
	if (reals) from.image = even ? from.step : 0, from.step *= 1 + even;
	if (f->kind == TLK_FFT_TO_REALS) {
		to.image = even ? to.step : 0, to.step *= 1 + even, from.exchange = !even;
		if (even) out = half;
	}
	REAL scale = (REAL)(reals && even ? f->scale / 2 : f->scale);
	for (int64_t u = begin; u < end; u++) {
		int64_t other = u / r->blocks, lane = u % r->blocks * W;
		from.lanes = to.lanes = r->lanes - lane < W ? (int)(r->lanes - lane) : W;
		F(gather)(&from, (const REAL *)r->in + other * r->x.other + lane * from.lane, in, a);
		if (f->kind == TLK_FFT_TO_REALS && even) F(real_columns)(a, half, f->root, 0);
		else if (f->kind == TLK_FFT_TO_REALS) F(complete)(a, f->n, 1);
		REAL *z = F(columns)(f->column, a, a, b);
		if (reals && even) F(real_columns)(z, half, f->root, 1);
		if (f->kind == TLK_FFT_ALL && even) F(complete)(z, f->n, 0);
		F(scatter)(&to, z, out, scale, (REAL *)r->out + other * r->y.other + lane * to.lane);
	}
}

// One transform of contiguous elements, in two steps. With parallel the pool shares each step. The operand is real
// where real is set; room holds the elements of a convolution. x may be y.
typedef struct {
	tl_pool *pool;
	const tl_fft_row *row;
	const REAL *x;
	REAL *y, *buffers, *between, *room;
	REAL scale;
	int64_t rows;
	int real, exchange, parallel;
	volatile int64_t oom;
} F(line);

// The two buffers of a column transform.
static REAL *F(pair)(F(line) *l, int worker) {
	if (l->buffers) return l->buffers;
	int64_t bytes = 4 * W * l->rows * (int64_t)sizeof(REAL);
	REAL *a = tl_scratch(l->pool, worker, bytes);
	if (!a) l->oom = bytes;
	return a;
}

// Multiplies rows k to k + W of block's result z by the roots exp(-2 pi i k j / n), and stores them transposed: lanes
// are the first step's elements k then, rows are its lanes j.
static void F(tile)(const tl_fft_row *p, const REAL *z, int64_t block, int64_t k, int lanes, REAL *to) {
	const REAL *turn = (const REAL *)p->turn + 2 * W * (p->low ? k : block * p->padded + k);
	V re[W], im[W];
	TLK_UNROLL for (int i = 0; i < W; i++) {
		CX t = F(row)(turn + 2 * W * i), v = F(row)(z + 2 * W * (k + i));
		if (p->low) { // the root of the block's first column, as a product of two
			int64_t at = (k + i) * block * W % p->n;
			const double *h = p->high + 2 * (at >> p->bits), *l = p->low + 2 * (at & ((1 << p->bits) - 1));
			t = F(times)(t, (REAL)(h[0] * l[0] - h[1] * l[1]), (REAL)(h[0] * l[1] + h[1] * l[0]));
		}
		re[i] = v.r * t.r - v.i * t.i;
		im[i] = v.r * t.i + v.i * t.r;
	}
	F(turn)(re);
	F(turn)(im);
	TLK_UNROLL for (int l = 0; l < W; l++)
		if (l < lanes) {
			ST(to + 2 * W * l, re[l]);
			ST(to + 2 * W * l + W, im[l]);
		}
}

static void F(first_job)(void *arg, int worker, int64_t begin, int64_t end) {
	F(line) *l = arg;
	const tl_fft_row *p = l->row;
	REAL *a = F(pair)(l, worker), *b = a + 2 * W * l->rows;
	if (!a) return;
	const int unit = l->real ? 1 : 2;
	F(place) from = {.step = unit * p->n2, .lane = unit, .image = !l->real, .exchange = l->exchange};
	for (int64_t block = begin; block < end; block++) {
		from.lanes = p->n2 - block * W < W ? (int)(p->n2 - block * W) : W;
		F(gather)(&from, l->x + unit * block * W, p->n1, a);
		REAL *z = F(columns)(p->first, a, a, b);
		memset(z + 2 * W * p->n1, 0, (size_t)(2 * W * (p->padded - p->n1)) * sizeof(REAL));
		for (int64_t k = 0; k < p->n1; k += W)
			F(tile)(p, z, block, k, from.lanes, l->between + 2 * W * (k / W * p->n2 + block * W));
	}
}

static void F(second_job)(void *arg, int worker, int64_t begin, int64_t end) {
	F(line) *l = arg;
	const tl_fft_row *p = l->row;
	REAL *a = F(pair)(l, worker), *b = a + 2 * W * l->rows;
	if (!a) return;
	F(place) to = {.step = 2 * p->n1, .lane = 2, .image = 1, .exchange = l->exchange};
	for (int64_t block = begin; block < end; block++) {
		to.lanes = p->n1 - block * W < W ? (int)(p->n1 - block * W) : W;
		REAL *z = F(columns)(p->second, l->between + 2 * W * block * p->n2, a, b);
		F(scatter)(&to, z, p->n2, l->scale, l->y + 2 * block * W);
	}
}

static void F(steps)(F(line) *l) {
	const tl_fft_row *p = l->row;
	int64_t first = (p->n2 + W - 1) / W, second = (p->n1 + W - 1) / W;
	if (l->parallel) {
		int64_t grain = TLK_FFT_GRAIN / (W * p->n1) + 1;
		tl_parallel(l->pool, first, grain, F(first_job), l);
		grain = TLK_FFT_GRAIN / (W * p->n2) + 1;
		if (!l->oom) tl_parallel(l->pool, second, grain, F(second_job), l);
		return;
	}
	F(first_job)(l, 0, 0, first);
	F(second_job)(l, 0, 0, second);
}

// (x, y) times the root at w, with parts exchanged before or after.
TLK_INLINE void F(chirped)(REAL r, REAL i, const REAL *w, int before, int after, REAL *to) {
	REAL x = before ? i : r, y = before ? r : i, u = x * w[0] - y * w[1], v = x * w[1] + y * w[0];
	to[0] = after ? v : u;
	to[1] = after ? u : v;
}

// The transform of one row: in two steps, or by Bluestein's algorithm as in columns.
static void F(transform)(F(line) *l) {
	const tl_fft_row *p = l->row;
	if (!p->conv) {
		F(steps)(l);
		return;
	}
	const REAL *chirp = p->chirp, *spectrum = p->spectrum;
	const int64_t m = p->conv->n;
	F(line) inner = *l;
	REAL *z = l->room;
	inner.row = p->conv, inner.x = inner.y = z, inner.scale = 1, inner.real = inner.exchange = 0;
	for (int64_t j = 0; j < p->n; j++)
		if (l->real) F(chirped)(l->x[j], 0, chirp + 2 * j, l->exchange, 0, z + 2 * j);
		else F(chirped)(l->x[2 * j], l->x[2 * j + 1], chirp + 2 * j, l->exchange, 0, z + 2 * j);
	memset(z + 2 * p->n, 0, (size_t)(2 * (m - p->n)) * sizeof(REAL));
	F(steps)(&inner);
	for (int64_t j = 0; j < m; j++) F(chirped)(z[2 * j], z[2 * j + 1], spectrum + 2 * j, 0, 1, z + 2 * j);
	F(steps)(&inner);
	l->oom = inner.oom;
	for (int64_t j = 0; j < p->n; j++) {
		F(chirped)(z[2 * j], z[2 * j + 1], chirp + 2 * j, 1, l->exchange, l->y + 2 * j);
		l->y[2 * j] *= l->scale, l->y[2 * j + 1] *= l->scale;
	}
}

// One row of reals, or to reals; both x and y are contiguous, line has room for n + 2 complex numbers.
static void F(real_line)(const tl_fft *f, F(line) *l, REAL *line) {
	const int64_t n = f->n, half = n / 2;
	REAL *y = l->y;
	if (f->kind != TLK_FFT_TO_REALS && n % 2 == 0) {
		l->scale = 1;
		F(transform)(l);
		F(real_row)(y, y, half, f->root, 1, (REAL)f->scale / 2);
		for (int64_t k = 1; k < half && f->kind == TLK_FFT_ALL; k++)
			y[2 * (n - k)] = y[2 * k], y[2 * (n - k) + 1] = -y[2 * k + 1];
	} else if (f->kind == TLK_FFT_ALL) {
		l->real = 1;
		F(transform)(l);
	} else if (f->kind == TLK_FFT_OF_REALS) {
		l->real = 1, l->y = line;
		F(transform)(l);
		memcpy(y, line, (size_t)(2 * half + 2) * sizeof(REAL));
	} else if (n % 2 == 0) {
		F(real_row)(l->x, line, half, f->root, 0, 1);
		l->x = line;
		F(transform)(l);
	} else {
		line[0] = l->x[0], line[1] = 0;
		for (int64_t k = 1; k <= half; k++) {
			line[2 * k] = line[2 * (n - k)] = l->x[2 * k];
			line[2 * k + 1] = l->x[2 * k + 1], line[2 * (n - k) + 1] = -l->x[2 * k + 1];
		}
		l->x = l->y = line;
		F(transform)(l);
		for (int64_t j = 0; j < n; j++) y[j] = line[2 * j];
	}
}

// Copies n numbers or, with unit 2, pairs.
static void F(copied)(const REAL *x, int64_t xs, REAL *y, int64_t ys, int64_t n, int unit) {
	for (int64_t j = 0; j < n; j++)
		for (int u = 0; u < unit; u++) y[j * ys + u] = x[j * xs + u];
}

// Transforms rows [begin, end), each alone.
static void F(row_job)(void *arg, int worker, int64_t begin, int64_t end) {
	tl_fft_run *r = arg;
	const tl_fft *f = r->f;
	const int64_t pair = r->alone ? 0 : 4 * W * f->rows, line = 2 * f->n + 4;
	const int64_t bytes = (pair + f->between + f->room + 3 * line) * (int64_t)sizeof(REAL);
	REAL *mem = tl_scratch(r->pool, r->alone ? -1 : worker, bytes);
	if (!mem) {
		r->oom = bytes;
		return;
	}
	const int xunit = f->kind == TLK_FFT_OF_REALS || f->kind == TLK_FFT_ALL ? 1 : 2;
	const int yunit = f->kind == TLK_FFT_TO_REALS ? 1 : 2;
	const int64_t xn = f->kind == TLK_FFT_TO_REALS ? f->n / 2 + 1 : f->n;
	const int64_t yn = f->kind == TLK_FFT_OF_REALS ? f->n / 2 + 1 : f->n;
	REAL *lines = mem + pair + f->between + f->room;
	for (int64_t u = begin; u < end && !r->oom; u++) {
		const REAL *x = (const REAL *)r->in + u / r->lanes * r->x.other + u % r->lanes * r->x.lane;
		REAL *y = (REAL *)r->out + u / r->lanes * r->y.other + u % r->lanes * r->y.lane;
		F(line) l = {.pool = r->pool, .row = f->row, .x = x, .y = y, .buffers = r->alone ? NULL : mem, .between = mem + pair,
			.room = mem + pair + f->between, .scale = (REAL)f->scale, .rows = f->rows, .parallel = r->alone,
			.exchange = f->kind == TLK_FFT_INVERSE || f->kind == TLK_FFT_TO_REALS};
		if (r->x.step != xunit) {
			F(copied)(x, r->x.step, lines + line, xunit, xn, xunit);
			l.x = lines + line;
		}
		if (r->y.step != yunit) l.y = lines + 2 * line;
		if (f->kind < TLK_FFT_OF_REALS) F(transform)(&l);
		else F(real_line)(f, &l, lines);
		if (r->y.step != yunit) F(copied)(lines + 2 * line, yunit, y, r->y.step, yn, yunit);
		if (l.oom) r->oom = l.oom;
	}
}

#undef REAL
#undef F
#undef V
#undef CX
#undef W
#undef TLK_FEW
#undef LD
#undef ST
