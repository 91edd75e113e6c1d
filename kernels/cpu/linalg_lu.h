// LU of one dense row-major matrix in one type. linalg.c includes this file after linalg_real.h.

static void SUF(swap_rows)(la_place *p, REAL *a, REAL *b, int64_t n) { functions_of(p->isa)->FUNCTIONS.swap(a, b, n); }

// Exchanges elements of packed columns, c to c + columns * ld, by the pivots of rows [from, to). first is the number of
// the columns' row 0.
static void SUF(exchange)(REAL *c, int64_t ld, int64_t columns, int64_t from, int64_t to, int64_t first,
	const int32_t *pivot) {
	for (; columns > 0; columns--, c += ld)
		for (int64_t r = from; r < to; r++) {
			const int64_t other = pivot[r] - 1 - first;
			const REAL t = c[r];
			c[r] = c[other];
			c[other] = t;
		}
}

// Applies columns [b0, b1) of L, at most STRIP, to a column y, up to row `end`.
static void SUF(lu_strip)(const tl_isa_table *t, const REAL *c, int64_t ld, int64_t b0, int64_t b1, REAL *y,
	int64_t end) {
	REAL f[STRIP];
	for (int64_t j = b0; j < b1; j++) { // the triangular system of the strip
		for (int64_t d = b0; d < j; d++) y[j] += f[d - b0] * c[d * ld + j];
		f[j - b0] = -y[j];
	}
	t->SUF(addrows)(end - b1, b1 - b0, f, 1, c + b0 * ld + b1, ld, y + b1);
}

// Applies the first h columns of a packed panel to the others. No part of lu_panel, whose calls would each hold neg.
static __attribute__((noinline)) void SUF(lu_half)(la_place *p, int worker, REAL *c, int64_t ld, int64_t rows,
	int64_t nb, int64_t h) {
	REAL neg[WIDEST * WIDEST / 4]; // -U
	for (int64_t i = h; i < nb; i++) {
		for (int64_t b0 = 0; b0 < h; b0 += STRIP)
			SUF(lu_strip)(tl_isa_tables(p->isa), c, ld, b0, b0 + STRIP, c + i * ld, h);
		SUF(negate)(c + i * ld, h, neg + (i - h) * h);
	}
	SUF(product)(p, worker, 0, 1, nb - h, rows - h, h, neg, h, 1, c + h, ld, 1, c + h * ld + h, ld);
}

// Factors a packed panel of nb columns, ld apart, each of `rows` elements, with partial pivoting. Wide panels are
// halved, so that products make most of it; in narrow ones STRIP columns at a time are applied to those right of them.
// The first zero pivot, counted from 1, is added to first and stored in *zero if that is 0.
static void SUF(lu_panel)(la_place *p, int worker, REAL *c, int64_t ld, int64_t rows, int64_t nb, int64_t first,
	int32_t *pivot, int64_t *zero) {
	const tl_isa_table *t = tl_isa_tables(p->isa);
	if (nb > NARROW) {
		const int64_t h = (nb / 2 + STRIP - 1) / STRIP * STRIP;
		SUF(lu_panel)(p, worker, c, ld, rows, h, first, pivot, zero);
		SUF(exchange)(c + h * ld, ld, nb - h, 0, h, first, pivot);
		SUF(lu_half)(p, worker, c, ld, rows, nb, h);
		SUF(lu_panel)(p, worker, c + h * ld + h, ld, rows - h, nb - h, first + h, pivot + h, zero);
		SUF(exchange)(c, ld, h, h, nb, first, pivot);
		return;
	}
	for (int64_t b0 = 0; b0 < nb; b0 += STRIP) {
		int64_t b1 = b0 + STRIP < nb ? b0 + STRIP : nb;
		for (int64_t j = b0; j < b1; j++) {
			REAL *x = c + j * ld, f;
			pivot[j] = (int32_t)(first + j + functions_of(p->isa)->FUNCTIONS.largest(x + j, rows - j) + 1);
			SUF(exchange)(c, ld, nb, j, j + 1, first, pivot);
			if (x[j] == 0) {
				if (!*zero) *zero = first + j + 1;
				continue;
			}
			for (int64_t i = j + 1; i < rows; i++) x[i] /= x[j];
			for (int64_t i = j + 1; i < b1; i++) {
				f = -c[i * ld + j];
				t->SUF(addrows)(rows - j - 1, 1, &f, 1, x + j + 1, ld, c + i * ld + j + 1);
			}
		}
		for (int64_t i = b1; i < nb; i++) SUF(lu_strip)(t, c, ld, b0, b1, c + i * ld, rows);
	}
}

// A step of LU updates the columns right of a panel. The panel has nb columns from j0 on, is factored, and its -L is
// packed. The first item updates the next panel and factors it; each further item updates `width` columns.
typedef struct {
	la_place *p;
	REAL *a, *packed, *after; // after: room for the next panel
	int64_t m, n, j0, nb, next, width;
	int32_t *pivot;
	int64_t *zero;
} SUF(lu_step);

// Factors the panel of nb columns at j0, and packs its -L.
static void SUF(lu_take)(const SUF(lu_step) *s, int worker, int64_t j0, int64_t nb, REAL *to) {
	const int64_t rows = s->m - j0, ld = pitch_of(rows);
	REAL *d = s->a + j0 * s->n + j0;
	SUF(turn)(s->p, d, s->n, rows, nb, to, ld);
	SUF(lu_panel)(s->p, worker, to, ld, rows, nb, j0, s->pivot + j0, s->zero);
	SUF(turn)(s->p, to, ld, nb, rows, d, s->n);
	for (int64_t j = 0; j < nb; j++) SUF(negate)(to + j * ld, rows, to + j * ld);
}

// Item 0 is the next panel, so that one thread factors it while the others work on the rest.
static void SUF(lu_job)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(lu_step) *s = arg;
	const int64_t nb = s->nb, rows = s->m - s->j0, ld = pitch_of(rows), behind = s->j0 + nb + s->next;
	for (int64_t i = begin; i < end; i++) {
		const int64_t from = i ? behind + (i - 1) * s->width : s->j0 + nb, to = i ? from + s->width : behind;
		const int64_t w = (to < s->n ? to : s->n) - from;
		REAL *a = s->a + s->j0 * s->n + from;
		for (int64_t r = 0; r < nb; r++) {
			const int64_t other = s->pivot[s->j0 + r] - 1 - s->j0;
			if (other != r) SUF(swap_rows)(s->p, a + r * s->n, a + other * s->n, w);
		}
		SUF(solve)(s->p, worker, s->packed, 1, ld, nb, UNIT, a, s->n, w);
		SUF(product)(s->p, worker, 0, 1, rows - nb, w, nb, s->packed + nb, 1, ld, a, s->n, 1, a + nb * s->n, s->n);
		if (i == 0 && s->after) SUF(lu_take)(s, worker, from, w, s->after);
	}
}

// Exchanges rows left of the pivots' panels. An item is the columns of a panel.
static void SUF(lu_left)(void *arg, int worker, int64_t begin, int64_t end) {
	const SUF(lu_step) *s = arg;
	(void)worker;
	for (int64_t i = begin; i < end; i++)
		for (int64_t r = (i + 1) * s->width; r < s->j0; r++) {
			const int64_t other = s->pivot[r] - 1;
			REAL *a = s->a + i * s->width;
			if (other != r) SUF(swap_rows)(s->p, a + r * s->n, a + other * s->n, s->width);
		}
}

// P A = L U with partial pivoting, in place, right-looking. Pivots count from 1, as in LAPACK's getrf. Returns the
// number of the first zero pivot, or 0. room holds lu_room numbers.
static int64_t SUF(lu)(la_place *p, REAL *a, int64_t m, int64_t n, int32_t *pivot, REAL *room) {
	const int64_t least = m < n ? m : n, width = lu_width(least), threads = p->parallel ? tl_pool_threads(p->pool) : 1;
	int64_t zero = 0;
	SUF(lu_step) s = {.p = p, .a = a, .m = m, .n = n, .pivot = pivot, .zero = &zero};
	REAL *packed = room, *after = room + lu_room(m, n) / 2;
	if (least > 0) SUF(lu_take)(&s, p->worker, 0, width < least ? width : least, packed);
	for (int64_t j0 = 0; j0 < least && !tl_stop_asked(p->pool); j0 += width) {
		const int64_t nb = least - j0 < width ? least - j0 : width, j1 = j0 + nb, left = least - j1;
		s.j0 = j0, s.nb = nb, s.packed = packed, s.after = left > 0 ? after : NULL;
		s.next = left > 0 ? (left < width ? left : width) : n - j1 < width ? n - j1 : width;
		const int64_t rest = n - j1 - s.next, each = rest / (2 * threads);
		s.width = each > COLUMNS ? (each + NARROW - 1) / NARROW * NARROW : COLUMNS;
		if (s.next > 0) SUF(share)(p, 1 + (rest + s.width - 1) / s.width, 1, SUF(lu_job), &s);
		after = packed, packed = s.after;
	}
	s.width = width, s.j0 = least;
	if (!tl_cut(p->pool)) SUF(share)(p, (least - 1) / width, 1, SUF(lu_left), &s);
	return zero;
}
