// The drivers of float products. gemm.c includes this file twice: SUF adds the suffix 32 to names for REAL float, and
// 64 for REAL double.

// Returns the height of the tile that begins at row m. Tiles have nearly equal heights of at most `most` rows, since
// the additions of a tile of one row would wait for each other.
static inline int SUF(height)(int most, int64_t m, int64_t m1) {
	int64_t tiles = (m1 - m + most - 1) / most;
	return (int)((m1 - m + tiles - 1) / tiles);
}

// Packs rows [m0, m1) of A tile by tile, mr elements for each k.
static void SUF(packa)(const gemm *x, int64_t m0, int64_t m1, int64_t k0, int64_t kc, REAL *d) {
	const REAL *a = (const REAL *)x->a + k0 * x->ak;
	int rows;
	if (x->am == 1 && !x->apart) { // a column of A is contiguous and spans several tiles: LINES columns at a time
		for (int64_t k = 0; k < kc; k += LINES) {
			REAL *to = d + k * x->mr;
			for (int64_t m = m0; m < m1; m += rows, to += x->mr * kc) {
				rows = SUF(height)(x->mr, m, m1);
				x->t->SUF(packa)(a + m + k * x->ak, 1, x->ak, least(LINES, kc - k), rows, to);
			}
		}
		return;
	}
	for (int64_t m = m0; m < m1; m += rows, d += x->mr * kc) {
		rows = SUF(height)(x->mr, m, m1);
		if (!x->apart) {
			x->t->SUF(packa)(a + m * x->am, x->am, x->ak, kc, rows, d);
			continue;
		}
		for (int64_t k = k0, n; k < k0 + kc; k += n) {
			n = least(x->arun - k % x->arun, k0 + kc - k);
			x->t->SUF(packa)((const REAL *)x->a + m * x->am + element(x->ks, x->akd, x->nk, k), x->am, x->ak, n, rows,
				d + (k - k0) * x->mr);
		}
	}
}

// Packs a panel of B: nn columns from j, kc rows from k0.
static void SUF(packb)(const gemm *x, int64_t j, int64_t nn, int64_t k0, int64_t kc, REAL *d) {
	const REAL *b = (const REAL *)x->b;
	if (!x->nn) {
		x->t->SUF(packb)(b + k0 * x->bk + j * x->bn, x->bk, x->bn, kc, nn, d);
		return;
	}
	int64_t krun = x->ks[x->nk - 1], nrun = x->ns[x->nn - 1], step = x->bnd[x->nn - 1];
	if (x->bkd[x->nk - 1] == 1 && ((step != 1 && step != 2) || krun > nrun)) {
		int64_t col[32];
		elements(x->ns, x->bnd, x->nn, j, nn, col);
		for (int64_t k = k0, n; k < k0 + kc; k += n, d += n * x->nr) {
			n = least(krun - k % krun, k0 + kc - k);
			x->t->SUF(packtrans)(b + x->row[k], col, n, nn, d);
		}
		return;
	}
	tl_piece run[32];
	int64_t runs = 0;
	for (int64_t i = 0, n; i < nn; i += n) {
		n = least(nrun - (j + i) % nrun, nn - i);
		run[runs++] = (tl_piece){i, n, element(x->ns, x->bnd, x->nn, j + i)};
	}
	x->t->SUF(packruns)(b, b + x->extent, x->row + k0, kc, run, runs, step, d, d + kc * x->nr);
}

// Computes rows [m0, m1) and columns [j0, j0+nn) of C, nn <= nr, from a panel of B. A is read in place, or from packed
// if that is set. Tiles narrower than nr, and tiles of a C that is not contiguous along n, go through a buffer.
static void SUF(panel)(gemm *x, int64_t m0, int64_t m1, int64_t j0, int64_t nn, const REAL *packed, const REAL *b,
	int64_t bk, int64_t k0, int64_t kc) {
	const REAL *a = (const REAL *)x->a + k0 * x->ak;
	int64_t as = packed ? 1 : x->am, ak = packed ? x->mr : x->ak;
	REAL *c = (REAL *)x->c;
	int nr = x->nr, first = k0 == 0 && !x->add, most = ak == 1 && as != 1 && bk == nr ? x->t->along : x->mr, rows;
	// The rows that follow in a pack of B come from memory: the tiles fetch a part of them each.
	const char *next = (const char *)(b + kc * nr);
	const int64_t tiles = (m1 - m0 + most - 1) / most;
	const int64_t bytes = x->pack && tiles >= FETCHING ? kc * nr * (int64_t)sizeof(REAL) / tiles : 0;
	for (int64_t m = m0; m < m1; m += rows) {
		rows = SUF(height)(most, m, m1);
		for (const char *to = next + bytes; next < to; next += 64) __builtin_prefetch(next, 0, 2);
		const REAL *am = packed ? packed : a + m * x->am;
		if (packed) packed += x->mr * kc;
		if (nn == nr && x->cn == 1) {
			x->t->SUF(gemm)(rows, kc, am, as, ak, b, bk, c + m * x->cm + j0, x->cm, first);
			continue;
		}
		REAL tile[14 * 32] __attribute__((aligned(64)));
		x->t->SUF(gemm)(rows, kc, am, as, ak, b, bk, tile, nr, 1);
		for (int i = 0; i < rows && x->cn == 1; i++) {
			REAL *to = c + (m + i) * x->cm + j0;
			for (int64_t j = 0; j < nn; j++) to[j] = first ? tile[i * nr + j] : to[j] + tile[i * nr + j];
		}
		for (int64_t j = 0; j < nn && x->cn != 1; j++) {
			REAL *to = c + m * x->cm + (j0 + j) * x->cn;
			for (int i = 0; i < rows; i++) to[i * x->cm] = first ? tile[i * nr + j] : to[i * x->cm] + tile[i * nr + j];
		}
	}
}

static void SUF(finish)(gemm *x, int64_t m0, int64_t m1, int64_t j0, int64_t j1) {
	if (!x->bias && !x->epilogue) return;
	int64_t cm = x->cm, cn = x->cn;
	if (x->transposed) { // back to the rows and columns of the caller's C
		int64_t a = m0, b = m1;
		m0 = j0, m1 = j1, j0 = a, j1 = b;
		cm = x->cn, cn = x->cm;
	}
	const REAL *bias = x->bias ? (const REAL *)x->bias + j0 * x->biasn : NULL;
	for (int64_t m = m0; bias && m < m1; m++) {
		REAL *c = (REAL *)x->c + m * cm + j0 * cn;
		if (cn == 1) x->t->SUF(bias)(c, bias, x->biasn, j1 - j0);
		else for (int64_t j = 0; j < j1 - j0; j++) c[j * cn] += bias[j * x->biasn];
	}
	if (x->epilogue) map_block(x, m0, m1, j0, j1, cm, cn);
}

// Returns a panel of nn columns and kc rows of B, and its row stride in bk. The panel is packed into mem; or it is B in
// place, if B's rows are contiguous and no more than mr rows of A (reuse is their number) read it.
static const REAL *SUF(panel_of)(gemm *x, REAL *mem, int64_t j, int64_t nn, int64_t k0, int64_t kc, int reuse,
	int64_t *bk) {
	if (!x->nn && nn == x->nr && x->bn == 1 && reuse <= x->mr) {
		*bk = x->bk;
		return (const REAL *)x->b + k0 * x->bk + j * x->bn;
	}
	SUF(packb)(x, j, nn, k0, kc, mem);
	*bk = x->nr;
	return mem;
}

// Computes the first tile of a panel from B in place and packs the panel into mem, where one kernel does both. Returns
// the rows of the tile, or 0. Rows of B that lie farther apart are packed faster than a tile reads them.
static int64_t SUF(first_tile)(const gemm *x, REAL *mem, int64_t j, int64_t nn, int64_t k0, int64_t kc) {
	if (!x->t->SUF(keep) || x->nn || x->bn != 1 || x->cn != 1 || nn < x->nr || x->M <= x->mr) return 0;
	if (x->bk * (int64_t)sizeof(REAL) > KEPT_APART) return 0;
	const int rows = SUF(height)(x->mr, 0, x->M);
	x->t->SUF(keep)(rows, kc, (const REAL *)x->a + k0 * x->ak, x->am, x->ak, (const REAL *)x->b + k0 * x->bk + j, x->bk,
		mem, (REAL *)x->c + j, x->cm, k0 == 0 && !x->add);
	return rows;
}

// For few rows of A: a task is a range of panels of B, and packs each panel just before it is used.
static void SUF(columns)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	int64_t nr = x->nr;
	REAL *mem = tl_scratch(x->pool, worker, KC * nr * (int64_t)sizeof(REAL));
	if (!mem) {
		x->oom = KC * nr * (int64_t)sizeof(REAL);
		return;
	}
	for (int64_t p = begin; p < end && !cut(x); p++) {
		int64_t j = p * nr, nn = x->N - j < nr ? x->N - j : nr, k0 = 0;
		do {
			int64_t kc = x->K - k0 < KC ? x->K - k0 : KC, bk;
			const int64_t kept = SUF(first_tile)(x, mem, j, nn, k0, kc);
			const REAL *b = kept ? mem : SUF(panel_of)(x, mem, j, nn, k0, kc, (int)x->M, &bk);
			SUF(panel)(x, kept, x->M, j, nn, NULL, b, kept ? x->nr : bk, k0, kc);
			k0 += kc;
		} while (k0 < x->K && !cut(x));
	}
	int64_t j1 = end * nr < x->N ? end * nr : x->N;
	SUF(finish)(x, 0, x->M, begin * nr, j1);
}

#include "gemm_packed.h"

// For few rows of A and columns in the order of memory: B is read in place. Tiles include the elements between columns,
// which are dropped when a tile is stored.
static void SUF(raw)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	const REAL *whole = (const REAL *)x->b;
	int64_t nr = x->nr, first = -1, behind = 0; // columns of this task
	for (int64_t p = begin; p < end && !cut(x); p++) {
		int64_t j = p * nr, nn = least(nr, x->span - j);
		tl_piece run[32];
		int64_t runs = runs_at(x, j, nn, run);
		if (runs > 0 && first < 0) first = run[0].to;
		if (runs > 0) behind = run[runs - 1].to + run[runs - 1].n;
		REAL *last = NULL;
		if (nn < nr) { // a vector load could pass the buffer's end
			last = tl_scratch(x->pool, worker, x->K * nr * (int64_t)sizeof(REAL));
			if (!last) {
				x->oom = x->K * nr * (int64_t)sizeof(REAL);
				return;
			}
			tl_piece all = {0, nn, j};
			x->t->SUF(packruns)(whole, whole + x->extent, x->row, x->K, &all, 1, 1, last, last + x->K * nr);
		}
		int rows;
		for (int64_t m = 0; m < x->M && runs > 0; m += rows) {
			rows = SUF(height)(x->ak == 1 ? x->t->along : x->mr, m, x->M);
			const REAL *a = (const REAL *)x->a + m * x->am;
			REAL *c = (REAL *)x->c + m * x->cm, tile[14 * 32] __attribute__((aligned(64)));
			int full = run[0].n == nr;
			REAL *to = full ? c + run[0].to : tile;
			int64_t cm = full ? x->cm : nr;
			if (last) x->t->SUF(gemm)(rows, x->K, a, x->am, x->ak, last, nr, to, cm, 1);
			else x->t->SUF(gemmrows)(rows, x->K, a, x->am, x->ak, whole + j, x->row, to, cm);
			if (!full) x->t->SUF(putruns)(tile, rows, run, runs, c, x->cm);
		}
	}
	if (x->epilogue && first >= 0) map_block(x, 0, x->M, first, behind, x->cm, 1);
}

// Packs the windows of rows [j, j + rows) of B', one column of B each, and kc terms from k0.
static void SUF(packspots)(const gemm *x, int64_t j, int64_t rows, int64_t k0, int64_t kc, REAL *d, const REAL *dend) {
	const REAL *b = (const REAL *)x->b;
	const int64_t line = x->ns[x->nn - 1], step = x->bnd[x->nn - 1];
	tl_piece run[32];
	int64_t runs = 0;
	for (int64_t i = 0, n; i < rows; i += n) {
		n = least(line - (j + i) % line, rows - i);
		const int64_t from = x->start[(j + i) / line] + (j + i) % line * step;
		// Lines that follow each other in memory are one run.
		if (runs > 0 && run[runs - 1].from + run[runs - 1].n * step == from) run[runs - 1].n += n;
		else run[runs++] = (tl_piece){i, n, from};
	}
	x->t->SUF(packwindows)(b, b + x->extent, x->row + k0, kc, run, runs, step, d, dend);
}

// Computes the tiles of positions [j0, j0 + n) and panel p of columns. block has the packed positions, or they are read
// in place; then the results' place is fetched meanwhile.
static void SUF(spots)(const gemm *x, int64_t p, int64_t j0, int64_t n, int64_t k0, int64_t kc, const REAL *block,
	REAL *sums) {
	const int64_t nr = x->nr, line = x->ns[x->nn - 1], step = x->bnd[x->nn - 1];
	const int64_t fetched = k0 + kc == x->K ? least(nr, x->M - p * nr) - 1 : 0;
	const REAL *w = (const REAL *)x->apack + p * nr * x->K + k0 * nr, *c = (const REAL *)x->c + p * nr * x->cm + j0;
	for (int64_t j = 0, rows; j < n; j += rows, sums += rows * nr, block += x->mr * kc) {
		if (!x->direct) {
			rows = SUF(height)(x->mr, j, n);
			x->t->SUF(gemm)((int)rows, kc, block, 1, x->mr, w, nr, sums, nr, k0 == 0);
			continue;
		}
		const int64_t at = (j0 + j) % line;
		rows = SUF(height)(x->mr, at, least(line, at + n - j));
		x->t->SUF(spots)((int)rows, step, kc, (const REAL *)x->b + x->start[(j0 + j) / line] + at * step, x->row + k0, w,
			sums, k0 == 0, c + j, x->cm, fetched);
	}
}

// With rows of A in panels, C' = B' A' is computed: positions of windows are the rows of tiles, packed or read in
// place. A task is a block of at most SPOTS positions, and a part of the panels.
static void SUF(turned)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	const int64_t nr = x->nr, panels = (x->M + nr - 1) / nr, each = (panels + x->ntasks - 1) / x->ntasks, K = x->K;
	const int64_t packed = x->direct ? 0 : (x->nb + x->mr) * KC, depth = x->direct ? even_depth(K) : KC;
	const int64_t bytes = (packed + each * nr * x->nb) * (int64_t)sizeof(REAL);
	REAL *block = tl_scratch(x->pool, worker, bytes), *sums = block + packed;
	if (!block) {
		x->oom = bytes;
		return;
	}
	for (int64_t t = begin; t < end && !cut(x); t++) {
		const int64_t j0 = t / x->ntasks * x->nb, n = least(x->nb, x->N - j0);
		const int64_t p0 = t % x->ntasks * each, p1 = least(p0 + each, panels);
		for (int64_t k0 = 0, kc; k0 < K && p0 < p1 && !cut(x); k0 += kc) {
			kc = least(depth, K - k0);
			REAL *a = block;
			for (int64_t j = 0, rows; j < n && !x->direct; j += rows, a += x->mr * kc) {
				rows = SUF(height)(x->mr, j, n);
				SUF(packspots)(x, j0 + j, rows, k0, kc, a, sums);
			}
			for (int64_t p = p0; p < p1; p++) {
				REAL *s = sums + (p - p0) * x->nb * nr;
				SUF(spots)(x, p, j0, n, k0, kc, block, s);
				if (k0 + kc == K) // while the sums are in L1
					x->t->SUF(turnout)(s, n, least(nr, x->M - p * nr), (REAL *)x->c + p * nr * x->cm + j0, x->cm);
			}
		}
		if (x->epilogue && p0 < p1) map_block(x, p0 * nr, least(p1 * nr, x->M), j0, j0 + n, x->cm, 1);
	}
}

// For one row of A and columns that lie one or two elements apart: a task is a range of runs of columns.
static void SUF(windows)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	(void)worker;
	const REAL *b = (const REAL *)x->b;
	const int64_t n = x->ns[x->nn - 1], most = LINES_NEAR / n < 4 ? 4 : LINES_NEAR / n / 4 * 4;
	for (int64_t r = begin, lines; r < end && !cut(x); r += lines) {
		lines = least(most, end - r);
		x->t->SUF(window)(lines, x->start + r, n, x->K, (const REAL *)x->a, x->ak, b, b + x->extent, x->row,
			x->bnd[x->nn - 1], (REAL *)x->c + r * n);
		if (x->epilogue) map_block(x, 0, 1, r * n, (r + lines) * n, x->cm, 1);
	}
}

// Packs panels [begin, end) of the block of B.
static void SUF(pack_panels)(const gemm *x, int64_t begin, int64_t end, REAL *to) {
	for (int64_t p = begin; p < end; p++) {
		int64_t j = x->n0 + p * x->nr, nn = x->n0 + x->nc - j < x->nr ? x->n0 + x->nc - j : x->nr;
		SUF(packb)(x, j, nn, x->k0, x->kc, to + p * x->nr * x->kb);
	}
}

static void SUF(pack_job)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	(void)worker;
	SUF(pack_panels)(x, begin, end, (REAL *)x->packed);
}

// Returns the bytes of mb packed rows of A. The last tile of a block may be short, which adds a tile.
static inline int64_t SUF(block_bytes)(const gemm *x) { return (x->mb + x->mr) * KC * (int64_t)sizeof(REAL); }

// Returns the memory of a worker: where it packs the block of B, if it does so, and its rows of A follow. NULL: there
// is none.
static char *SUF(memory)(gemm *x, int worker) {
	if (worker == x->caller) return x->own ? x->packed : x->block;
	return tl_scratch(x->pool, worker, x->bytes + SUF(block_bytes)(x));
}

static void SUF(block_job)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	const REAL *packed = (const REAL *)x->packed;
	REAL *block = NULL;
	int64_t have = -1, mtasks = (x->M + x->mb - 1) / x->mb;
	if (x->packs) {
		char *mem = SUF(memory)(x, worker);
		if (!mem) {
			x->oom = x->bytes + SUF(block_bytes)(x);
			return;
		}
		block = (REAL *)(mem + x->bytes);
		if (x->own) packed = (const REAL *)mem;
		if (x->own && x->owned[worker] != x->turn) {
			x->owned[worker] = x->turn;
			SUF(pack_panels)(x, 0, (x->nc + x->nr - 1) / x->nr, (REAL *)mem);
		}
	}
	for (int64_t t = begin; t < end && !cut(x); t++) {
		int64_t mt = block ? t / x->ntasks : t % mtasks, nt = block ? t % x->ntasks : t / mtasks;
		int64_t m0 = mt * x->mb, m1 = m0 + x->mb < x->M ? m0 + x->mb : x->M;
		int64_t j0 = x->n0 + nt * x->nb, j1 = j0 + x->nb < x->n0 + x->nc ? j0 + x->nb : x->n0 + x->nc;
		if (block && have != m0) SUF(packa)(x, m0, m1, x->k0, x->kc, block);
		have = m0;
		for (int64_t j = j0; j < j1; j += x->nr) {
			const REAL *b = packed + (j - x->n0) / x->nr * x->apanel;
			SUF(panel)(x, m0, m1, j, j1 - j < x->nr ? j1 - j : x->nr, block, b, x->nr, x->k0, x->kc);
		}
		if (x->k0 + x->kc == x->K) SUF(finish)(x, m0, m1, j0, j1);
	}
}

// For many rows of A: all workers pack a block of B together, then share it.
static void SUF(blocks)(gemm *x, int worker, int parallel) {
	int64_t nmax = x->N < SHARED_N ? x->N : SHARED_N, panels = (nmax + x->nr - 1) / x->nr, want = parallel ?
		TASKS * tl_pool_threads(x->pool) : 1;
	// Packing A pays in two cases. If the elements of a row lie apart, each would otherwise cost a cache line in every
	// tile. If B has many columns, packed rows are read often, and faster than rows in place.
	x->packs = x->apart || x->ak != 1 || x->N >= NB;
	// A task packs its own rows of A. If columns are few, tasks are cut by rows rather than by columns, so that no two
	// of them pack the same rows.
	if (x->packs && x->N <= FEW_COLUMNS) {
		int64_t tiles = (x->M + want * x->mr - 1) / (want * x->mr);
		if (x->M >= least(x->mb, most(FEW_TILES, tiles) * x->mr) * want / 2) want = 1;
	}
	if (parallel) // a block of rows is a task, or as many tasks as there are across the columns
		x->mb = even_blocks((x->M + x->mr - 1) / x->mr, x->mb / x->mr, tl_pool_threads(x->pool)) * x->mr;
	// Without packing, a block of B has as many rows as fit FEW_PANELS bytes, so that long runs of a row of A are read
	// in place.
	x->kb = KC;
	if (!x->packs) x->kb = least(x->K, FEW_PANELS / (panels * x->nr * (int64_t)sizeof(REAL)) / KC * KC);
	if (x->kb < KC) x->kb = least(x->K, KC); // panels follow each other, as the tile fetches ahead
	int64_t bytes = panels * x->nr * x->kb * (int64_t)sizeof(REAL);
	// Few threads pack a block of B each: to fetch what others packed takes longer.
	const int64_t threads = parallel ? tl_pool_threads(x->pool) : 1;
	x->own = x->packs && threads > 1 && threads <= OWN_THREADS && bytes <= OWN_BYTES &&
		x->M >= OWN_ROWS * threads;
	x->bytes = x->own ? bytes : 0;
	// The memory is that of this worker: in a serial run, each worker may compute a product of its own.
	char *mem = tl_scratch(x->pool, worker, bytes + SUF(block_bytes)(x));
	x->block = mem + bytes;
	x->caller = worker;
	if (!mem) {
		x->oom = bytes;
		return;
	}
	x->packed = mem;
	x->apanel = x->nr * x->kb;
	int64_t mtasks = (x->M + x->mb - 1) / x->mb;
	for (x->n0 = 0; x->n0 < x->N; x->n0 += nmax) {
		x->nc = x->N - x->n0 < nmax ? x->N - x->n0 : nmax;
		int64_t np = (x->nc + x->nr - 1) / x->nr;
		// A task that packs its rows of A is as wide as leaves `want` tasks, so that a late thread delays the others by
		// little. A task that does not pack has NB columns, which stay in L2 from one block of its rows to the next.
		x->nb = NB;
		if (x->packs) {
			int64_t across = (want + mtasks - 1) / mtasks;
			x->nb = (np + across - 1) / across * x->nr;
		}
		x->ntasks = (x->nc + x->nb - 1) / x->nb;
		int64_t nt = mtasks * x->ntasks;
		for (x->k0 = 0; x->k0 < x->K; x->k0 += x->kb) {
			x->kc = least(x->K - x->k0, x->kb);
			if (parallel) {
				x->turn++;
				if (!x->own) spread(x, np, 4, SUF(pack_job), x);
				spread(x, nt, x->packs ? 1 : nt / (TASKS * want) + 1, SUF(block_job), x);
			} else {
				SUF(pack_job)(x, worker, 0, np);
				SUF(block_job)(x, worker, 0, nt);
			}
		}
	}
}

// For one row of A: dot products if the columns of B are contiguous, else a sum of rows of B.
static void SUF(vector_job)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	(void)worker;
	const REAL *a = (const REAL *)x->a, *b = (const REAL *)x->b + begin * x->bn;
	REAL *c = (REAL *)x->c + begin * x->cn;
	if (x->bk == 1 && x->ak == 1) x->t->SUF(dot)(end - begin, x->K, a, 1, b, x->bn, c, x->cn);
	else x->t->SUF(axpy)(end - begin, x->K, a, x->ak, b, x->bk, c);
}

// For one row of A: each part of K sums its rows of B, which are contiguous, into a row of its own.
static void SUF(part_job)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	(void)worker;
	for (int64_t p = begin; p < end; p++) {
		int64_t k0 = p * x->kc, k1 = least(k0 + x->kc, x->K);
		x->t->SUF(axpy)(x->N, k1 - k0, (const REAL *)x->a + k0 * x->ak, x->ak, (const REAL *)x->b + k0 * x->bk, x->bk,
			(REAL *)x->packed + p * x->N);
	}
}

// Computes the parts of K and adds their rows in order.
static void SUF(parts)(gemm *x, int worker, int parallel) {
	static const REAL one = 1;
	x->kc = (x->K + PARTS - 1) / PARTS;
	int64_t parts = (x->K + x->kc - 1) / x->kc;
	x->packed = tl_scratch(x->pool, worker, parts * x->N * (int64_t)sizeof(REAL));
	if (!x->packed) {
		x->oom = parts * x->N * (int64_t)sizeof(REAL);
		return;
	}
	if (parallel) spread(x, parts, 1, SUF(part_job), x);
	else SUF(part_job)(x, worker, 0, parts);
	x->t->SUF(axpy)(x->N, parts, &one, 0, (const REAL *)x->packed, x->N, (REAL *)x->c);
}

static int SUF(vector)(gemm *x, int worker, int parallel) {
	gemm y = *x;
	if (x->N == 1 && x->M > 1) { // C' = B' A'
		y.M = 1;
		y.N = x->M;
		y.a = x->b;
		y.ak = x->bk;
		y.b = x->a;
		y.bk = x->ak;
		y.bn = x->am;
		y.cn = x->cm;
	} else if (x->M != 1) {
		return 0;
	}
	if (!(y.bk == 1 && y.ak == 1) && !(y.bn == 1 && y.cn == 1)) return 0;
	// Results must not depend on the number of threads, so this condition does not.
	if (y.bn == 1 && !(y.bk == 1 && y.ak == 1) && y.N <= PART_COLUMNS && y.K >= PARTS * PART_ROWS) {
		SUF(parts)(&y, worker, parallel);
		x->oom = y.oom;
		SUF(finish)(x, 0, x->M, 0, x->N);
		return 1;
	}
	const int64_t threads = tl_pool_threads(x->pool), wide = y.N / (2 * threads);
	int64_t grain = 65536 / (y.K + 1) + 64;
	if (y.bn == 1 && grain < wide) grain = (wide + 63) & ~63; // long runs of each row of B
	else grain = even_grain(y.N, grain, 16, threads);
	if (parallel) spread(x, y.N, grain, SUF(vector_job), &y);
	else SUF(vector_job)(&y, 0, 0, y.N);
	SUF(finish)(x, 0, x->M, 0, x->N);
	return 1;
}

// For few rows of A and contiguous columns of B: C' = B' A' reads B once, in place, and packs A.
static gemm SUF(transpose)(const gemm *x) {
	gemm y = *x;
	y.M = x->N, y.N = x->M;
	y.a = x->b, y.am = x->bn, y.ak = x->bk;
	y.b = x->a, y.bk = x->ak, y.bn = x->am;
	y.cm = x->cn, y.cn = x->cm;
	y.transposed = 1;
	return y;
}

static void SUF(run)(gemm *x, int worker, int parallel) {
	x->mr = x->t->SUF(mr);
	x->nr = x->t->SUF(nr);
	x->mb = (MB + x->mr - 1) / x->mr * x->mr;
	if (x->pack) {
		if (x->M == 1 && x->cn == 1) SUF(row)(x, worker, parallel);
		else SUF(by_panels)(x, worker, parallel);
		return;
	}
	if (!x->nn && !x->add && (x->M == 1 || x->N == 1) && SUF(vector)(x, worker, parallel)) return;
	if (!x->nn && x->bk == 1 && x->bn != 1 && x->M <= TRANSPOSE_ROWS && x->N > 4 * MB && x->K > 0) {
		gemm y = SUF(transpose)(x);
		SUF(blocks)(&y, worker, parallel);
		x->oom = y.oom;
		return;
	}
	if (x->windows) {
		const int64_t grain = 65536 / (x->ns[x->nn - 1] * x->K) + 1;
		if (parallel) spread(x, x->nstart, grain, SUF(windows), x);
		else SUF(windows)(x, worker, 0, x->nstart);
		return;
	}
	if (x->apack) {
		const int64_t all = (x->M + x->nr - 1) / x->nr;
		int64_t blocks = (x->N + SPOTS - 1) / SPOTS;
		if (parallel && blocks == 1) blocks = turned_blocks(all, x->N, x->mr, tl_pool_threads(x->pool));
		// Where positions are read in place, blocks are whole lines, or of a long line its tiles.
		const int64_t line = x->direct && x->ns[x->nn - 1] <= SPOTS ? x->ns[x->nn - 1] : x->mr;
		if (line != x->mr) blocks = most(blocks, (x->N / line + SPOTS / line - 1) / (SPOTS / line));
		x->nb = (x->N + blocks * line - 1) / (blocks * line) * line;
		const int64_t across = (x->N + x->nb - 1) / x->nb;
		x->ntasks = !parallel || across >= TASKS * tl_pool_threads(x->pool) ? 1 :
			least(all, (tl_pool_threads(x->pool) + across - 1) / across);
		if (parallel) spread(x, across * x->ntasks, 1, SUF(turned), x);
		else SUF(turned)(x, worker, 0, across * x->ntasks);
		return;
	}
	int64_t panels = ((x->span ? x->span : x->N) + x->nr - 1) / x->nr;
	// An A that stays in L2 needs neither packing nor blocks of B, if there are panels for all threads. Only products
	// with N >= NB may choose by the number of threads: for these, the blocked path also adds KC terms at a time, so
	// the sums have the same bits.
	int in_l2 = x->ak == 1 && x->M <= NEAR_ROWS && x->M * x->K * (int64_t)sizeof(REAL) <= x->t->near && x->N >= NB &&
		panels >= TASKS * tl_pool_threads(x->pool) && !tl_packs_rows(x->isa);
	if ((x->apart || (x->M > 2 * MB && !in_l2)) && x->K > 0) {
		SUF(blocks)(x, worker, parallel);
		return;
	}
	tl_job job = x->span ? SUF(raw) : SUF(columns);
	int64_t grain = 65536 / (x->M * (x->K + 1) * x->nr) + 1, least_grain = in_l2 ? 1 : 4;
	// Long rows share the epilogue's cost of a row.
	if (x->epilogue) least_grain = most(least_grain, least(MAP_ROW / x->nr, panels / (TASKS * tl_pool_threads(x->pool))));
	grain = most(grain, least_grain);
	if (panels < TASKS * grain) grain = even_grain(panels, grain, 1, tl_pool_threads(x->pool));
	if (parallel) spread(x, panels, grain, job, x);
	else job(x, worker, 0, panels);
}
