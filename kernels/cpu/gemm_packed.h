// The drivers of products whose B is a pack, as of constants in sessions. Included by gemm_driver.h for each type.

// Packs rows of A for products with a packed B: number i is KC terms of a block of rows.
static void SUF(pack_rows)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	const int64_t parts = (x->K + KC - 1) / KC;
	(void)worker;
	for (int64_t i = begin; i < end && !cut(x); i++) {
		const int64_t at = i / parts * x->mb, m0 = x->r0 + at, k0 = i % parts * KC;
		REAL *to = (REAL *)x->packed + at * x->K + x->mb * k0;
		SUF(packa)(x, m0, least(m0 + x->mb, x->r1), k0, least(KC, x->K - k0), to);
	}
}

// For a B in panels of all its rows: a task is a range of panels for one of ntasks parts of the rows. NEAR_PANELS of
// them and a block of rows of A stay in L2 while KC terms are summed.
static void SUF(panel_range)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	const int64_t nr = x->nr, panels = (x->N + nr - 1) / nr;
	const REAL *b = (const REAL *)x->pack;
	(void)worker;
	for (int64_t t = begin, p0, p1; t < end && !cut(x); t += p1 - p0) {
		const int64_t from = x->ntasks > 1 ? x->r0 + t / panels * x->mb : x->r0;
		const int64_t to = x->ntasks > 1 ? least(from + x->mb, x->r1) : x->r1;
		p0 = t % panels, p1 = least(least(p0 + NEAR_PANELS, panels), p0 + end - t);
		for (int64_t m0 = from; m0 < to; m0 += x->mb) {
			const int64_t m1 = least(m0 + x->mb, to);
			for (int64_t k0 = 0, kc; k0 < x->K; k0 += kc) {
				kc = least(KC, x->K - k0);
				const REAL *a = x->packs ? (const REAL *)x->packed + (m0 - x->r0) * x->K + x->mb * k0 : NULL;
				for (int64_t j = p0 * nr; j < least(p1 * nr, x->N); j += nr)
					SUF(panel)(x, m0, m1, j, least(nr, x->N - j), a, b + j * x->K + k0 * nr, nr, k0, kc);
			}
		}
		SUF(finish)(x, from, to, p0 * nr, least(p1 * nr, x->N));
	}
}

// For a B in panels. Rows of A are packed, PACKED elements of them at a time, if there are many. A task is a part of
// the rows too where panels are too few for the threads, or where B is narrow: then it stays in cache for all parts.
static void SUF(by_panels)(gemm *x, int worker, int parallel) {
	const int64_t panels = (x->N + x->nr - 1) / x->nr, want = parallel ? TASKS * tl_pool_threads(x->pool) : 1;
	int64_t blocks = (x->M + 2 * MB - 1) / (2 * MB);
	if (panels < want) blocks = most(blocks, least((x->M + x->mr - 1) / x->mr, (want + panels - 1) / panels));
	x->packs = x->ak != 1 || ((x->M > MB / 2 || tl_packs_rows(x->isa)) && x->N >= NB);
	x->mb = ((x->M + blocks - 1) / blocks + x->mr - 1) / x->mr * x->mr;
	const int64_t rows = x->packs ? most(1, PACKED / (x->mb * x->K)) * x->mb : x->M;
	const int64_t bytes = x->packs ? least(rows, (x->M + x->mb - 1) / x->mb * x->mb) * x->K * (int64_t)sizeof(REAL) : 0;
	x->packed = bytes ? tl_scratch(x->pool, worker, bytes) : NULL;
	if (bytes && !x->packed) {
		x->oom = bytes;
		return;
	}
	for (x->r0 = 0; x->r0 < x->M && !cut(x); x->r0 = x->r1) {
		x->r1 = least(x->r0 + rows, x->M);
		const int64_t here = (x->r1 - x->r0 + x->mb - 1) / x->mb, parts = here * ((x->K + KC - 1) / KC);
		x->ntasks = !x->packs || panels < want ? here : 1;
		const int64_t grain = (1 << 16) / ((x->r1 - x->r0) / x->ntasks * x->K * x->nr + 1) + 1;
		if (x->packs && parallel) tl_parallel_whole(x->pool, parts, 1, SUF(pack_rows), x);
		else if (x->packs) SUF(pack_rows)(x, worker, 0, parts);
		if (parallel) tl_parallel_guided(x->pool, x->ntasks * panels, grain, SUF(panel_range), x);
		else SUF(panel_range)(x, worker, 0, x->ntasks * panels);
	}
}

// For one row of A and a B in panels: ROW_PANELS at a time.
static void SUF(row_job)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm *x = arg;
	(void)worker;
	const int64_t j = begin * ROW_PANELS * x->nr, n = least(end * ROW_PANELS * x->nr, x->N) - j;
	x->t->SUF(row)(n, x->K, KC, (const REAL *)x->a, x->ak, (const REAL *)x->pack + j * x->K, (REAL *)x->c + j);
	SUF(finish)(x, 0, 1, j, j + n);
}

static void SUF(row)(gemm *x, int worker, int parallel) {
	const int64_t tasks = (x->N + ROW_PANELS * x->nr - 1) / (ROW_PANELS * x->nr);
	if (!parallel) {
		SUF(row_job)(x, worker, 0, tasks);
		return;
	}
	const int64_t grain = ROW_TASK / (ROW_PANELS * x->nr * x->K + 1) + 1;
	spread(x, tasks, even_grain(tasks, grain, 1, tl_pool_threads(x->pool)), SUF(row_job), x);
}
