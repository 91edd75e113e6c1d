// Products of float16 and bfloat16: included by gemm.c. Sums are float, and a result is rounded once. Operands are
// packed into units of 32 bits. With instructions for pairs a unit is two elements that follow each other along K; else
// it is one element, widened to float.

// Blocks: HALF_K elements of K, so that a panel of B stays in L1; HALF_A bytes of rows of A and HALF_B bytes of panels
// of B, which stay in L2; at most HALF_ROWS rows.
enum { HALF_K = 256, HALF_A = 1 << 18, HALF_B = 3 << 17, HALF_PANELS = 8, HALF_ROWS = 256, HALF_STRIP = 64 };

typedef struct {
	gemm x; // the product, or its transpose
	const tl_half_kernel *h; // NULL: the kernel for float
	const uint32_t *a;       // rows of A, am units apart
	const float *bias;       // widened, or NULL
	int64_t am, units, mb;   // units: of K, padded to a multiple of the kernel's
	int64_t group, chunk;    // panels and rows of a task
	int depth, mr, nr;       // depth: elements of a unit
} half_product;

static inline uint32_t half_unit(const half_product *p, const uint16_t *at, int64_t step, int64_t left) {
	if (p->depth == 2) return at[0] | (left > 1 ? (uint32_t)at[step] << 16 : 0);
	float f = p->x.g->type == TLK_F16 ? tl_widen_f16(at[0]) : tl_widen_bf16(at[0]);
	uint32_t u;
	memcpy(&u, &f, 4);
	return u;
}

// Packs rows [m0, m1) of A: d[i * units + u].
static void half_rows(const half_product *p, int64_t m0, int64_t m1, uint32_t *d, uint32_t *strip) {
	const gemm *x = &p->x;
	const uint16_t *a = (const uint16_t *)x->a;
	const int64_t used = (x->K + p->depth - 1) / p->depth;
	for (int64_t m = m0, n; m < m1; m += n, d += n * p->units) {
		n = least(HALF_STRIP, m1 - m);
		if (x->ak == 1) {
			x->t->half_along(x->g->type, p->depth, a + m * x->am, x->am, n, x->K, d, p->units);
		} else if (x->am == 1) {
			x->t->half_across(x->g->type, p->depth, a + m, x->ak, x->K, n, strip, HALF_STRIP);
			memset(strip + used * HALF_STRIP, 0, (size_t)((p->units - used) * HALF_STRIP) * 4);
			x->t->turn(d, strip, n, p->units, HALF_STRIP);
			continue;
		} else {
			for (int64_t i = 0; i < n; i++)
				for (int64_t u = 0, k = 0; u < used; u++, k += p->depth)
					d[i * p->units + u] = half_unit(p, a + (m + i) * x->am + k * x->ak, x->ak, x->K - k);
		}
		for (int64_t i = 0; i < n; i++) memset(d + i * p->units + used, 0, (size_t)(p->units - used) * 4);
	}
}

// Packs a panel of B: d[u * nr + j].
static void half_panel(const half_product *p, int64_t j0, int64_t nn, uint32_t *d, uint32_t *strip) {
	const gemm *x = &p->x;
	const uint16_t *b = (const uint16_t *)x->b + j0 * x->bn;
	const int64_t used = (x->K + p->depth - 1) / p->depth, nr = p->nr;
	if (x->bk == 1 && x->bn != 1 && nn == nr) {
		// Pairs that lie in memory as units are transposed from there.
		const int whole = p->depth == 2 && x->bn % 2 == 0 && x->K % 2 == 0;
		if (!whole) x->t->half_along(x->g->type, p->depth, b, x->bn, nn, x->K, strip, used);
		x->t->turn(d, whole ? (const uint32_t *)b : strip, used, nr, whole ? x->bn / 2 : used);
	} else {
		if (nn < nr) memset(d, 0, (size_t)(used * nr) * 4);
		if (x->bn == 1) x->t->half_across(x->g->type, p->depth, b, x->bk, x->K, nn, d, nr);
		for (int64_t u = 0, k = 0; u < used && x->bn != 1; u++, k += p->depth)
			for (int64_t j = 0; j < nn; j++) d[u * nr + j] = half_unit(p, b + k * x->bk + j * x->bn, x->bk, x->K - k);
	}
	memset(d + used * nr, 0, (size_t)((p->units - used) * nr) * 4);
}

// Rounds rows [m0, m1) and nn columns from j0 of a finished product into C.
static void half_store(const half_product *p, int64_t m0, int64_t m1, int64_t j0, int64_t nn, float *sum,
	float *turned) {
	const gemm *x = &p->x;
	const int type = x->g->type;
	int64_t rows = m1 - m0, run = nn, pitch = p->nr, across = x->cm, along = x->cn;
	uint16_t *c = (uint16_t *)x->c + m0 * x->cm + j0 * x->cn;
	const float *bias = p->bias ? p->bias + (x->transposed ? m0 : j0) : NULL;
	if (x->transposed) { // rows of the caller's C
		x->t->turn((uint32_t *)turned, (const uint32_t *)sum, nn, rows, p->nr);
		sum = turned, pitch = run = rows, rows = nn, across = x->cn, along = x->cm;
	}
	for (int64_t i = 0; i < rows; i++, sum += pitch, c += across) x->t->half_store(type, sum, bias, run, c, along);
}

// A worker's memory for one task: packed panels, sums, their transpose, and a strip.
static int64_t half_bytes(const half_product *p) {
	const int64_t strip = p->nr > HALF_STRIP ? p->nr : HALF_STRIP;
	return 4 * (p->group * p->units * p->nr + 2 * p->mb * p->nr + strip * p->units) + 256;
}

// Computes rows [m0, m1) of panels [p0, p1), which are packed in b.
static void half_block(const half_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1, const uint32_t *b,
	float *sum, int *shape) {
	const gemm *x = &p->x;
	const int64_t step = HALF_K / p->depth;
	for (int64_t q = p0; q < p1; q++, b += p->units * p->nr) {
		int64_t k = 0;
		do {
			const int64_t kc = least(step, p->units - k);
			for (int64_t m = m0, rows; m < m1; m += rows) {
				rows = height32(p->mr, m, m1);
				const uint32_t *a = p->a + m * p->am + k;
				float *to = sum + (m - m0) * p->nr;
				// The lines of C that these sums become: each is on another page.
				for (int64_t i = 0; k == 0 && x->cn == 1 && i < rows; i++)
					__builtin_prefetch(x->c + ((m + i) * x->cm + q * p->nr) * 2, 1);
				const int first = k == 0;
				if (p->h) p->h->gemm((int)rows, kc, a, p->am, b + k * p->nr, to, first, shape);
				else x->t->gemm32((int)rows, kc, (const float *)a, p->am, 1, (const float *)b + k * p->nr, p->nr, to, p->nr,
					first);
			}
			k += step;
		} while (k < p->units);
		half_store(p, m0, m1, q * p->nr, least(p->nr, x->N - q * p->nr), sum, sum + p->mb * p->nr);
	}
}

static void half_job(void *arg, int worker, int64_t begin, int64_t end) {
	half_product *p = arg;
	gemm *x = &p->x;
	const int64_t panels = (x->N + p->nr - 1) / p->nr, chunks = (x->M + p->chunk - 1) / p->chunk;
	char *mem = worker == x->caller ? x->block : tl_scratch(x->pool, worker, half_bytes(p));
	if (!mem) {
		x->oom = half_bytes(p);
		return;
	}
	float *sum = (float *)mem;
	uint32_t *b = (uint32_t *)mem + 2 * p->mb * p->nr, *strip = b + p->group * p->units * p->nr;
	int shape = 0; // of the tiles that the kernel is set up for
	for (int64_t t = begin; t < end && !cut(x); t++) {
		const int64_t p0 = t / chunks * p->group, p1 = least(p0 + p->group, panels), m0 = t % chunks * p->chunk,
			m1 = least(m0 + p->chunk, x->M);
		for (int64_t q = p0; q < p1; q++)
			half_panel(p, q * p->nr, least(p->nr, x->N - q * p->nr), b + (q - p0) * p->units * p->nr, strip);
		for (int64_t m = m0; m < m1 && !cut(x); m += p->mb) {
			const int64_t e = least(m + p->mb, m1), j0 = p0 * p->nr, j1 = least(p1 * p->nr, x->N);
			half_block(p, m, e, p0, p1, b, sum, &shape);
			if (x->epilogue && x->transposed) map_block(x, j0, j1, m, e, x->cn, x->cm);
			else if (x->epilogue) map_block(x, m, e, j0, j1, x->cm, x->cn);
		}
	}
	if (p->h) p->h->leave(shape);
}

static void half_pack_job(void *arg, int worker, int64_t begin, int64_t end) {
	half_product *p = arg;
	const int64_t bytes = HALF_STRIP * p->units * 4 + 64;
	uint32_t *strip = worker == p->x.caller ? (uint32_t *)p->x.block : tl_scratch(p->x.pool, worker, bytes);
	if (!strip) {
		p->x.oom = bytes;
		return;
	}
	half_rows(p, begin * HALF_STRIP, least(end * HALF_STRIP, p->x.M),
		(uint32_t *)p->a + begin * HALF_STRIP * p->units, strip);
}

// Cuts the product into tasks, at least `want` where it can be.
static void half_cut(half_product *p, int64_t want) {
	const gemm *x = &p->x;
	const int64_t panels = (x->N + p->nr - 1) / p->nr, bytes = p->units * p->nr * 4 + 1, row = p->units * 4 + 1;
	int64_t most = least(HALF_B / bytes, (panels + want - 1) / want);
	p->group = most < 1 ? 1 : least(most, HALF_PANELS);
	p->mb = least(HALF_ROWS, HALF_A / row) / p->mr * p->mr;
	if (p->mb < p->mr) p->mb = p->mr;
	const int64_t groups = (panels + p->group - 1) / p->group, split = (want + groups - 1) / groups;
	p->chunk = ((x->M + split - 1) / split + p->mr - 1) / p->mr * p->mr;
}

// For one row of A, widened: task t adds the rows of one part of K in up to PART_COLUMNS columns.
static void half_rows_added(const gemm *x, int64_t t) {
	const int64_t across = (x->N + PART_COLUMNS - 1) / PART_COLUMNS, part = t / across, j0 = t % across * PART_COLUMNS,
		j1 = least(j0 + PART_COLUMNS, x->N), k0 = part * x->kc, k1 = least(k0 + x->kc, x->K);
	float *c = (float *)x->packed + part * x->N + j0;
	memset(c, 0, (size_t)(j1 - j0) * 4);
	const uint16_t *b = (const uint16_t *)x->b + k0 * x->bk + j0;
	x->t->half_rows(x->g->type, j1 - j0, k1 - k0, (const float *)x->a + k0, b, x->bk, c);
}

// A product with one row or column reads its matrix once. HALF_LINES contiguous columns are read before the next poll.
enum { HALF_LINES = 16 };

static void half_vector_job(void *arg, int worker, int64_t begin, int64_t end) {
	const gemm *x = arg;
	(void)worker;
	if (x->bk == 1) // columns of B are contiguous
		for (int64_t j = begin; j < end && !cut(x); j += HALF_LINES)
			x->t->half_dots(x->g->type, least(HALF_LINES, end - j), x->K, (const float *)x->a, (const uint16_t *)x->b +
				j * x->bn, x->bn, (float *)x->packed + j);
	else for (int64_t t = begin; t < end && !cut(x); t++) half_rows_added(x, t);
}

// Computes a product with one row or column, if the lines of its matrix are contiguous; returns whether it did.
static int half_vector(gemm *x, int worker, int parallel) {
	gemm y = x->N == 1 && x->M > 1 ? transpose32(x) : *x;
	const int type = x->g->type;
	if (y.M != 1 || y.K == 0 || (y.bk != 1 && y.bn != 1)) return 0;
	// Results must not depend on the number of threads, so the parts do not.
	const int64_t parts = y.bk != 1 && y.N <= PART_COLUMNS && y.K >= PARTS * PART_ROWS ? PARTS : 1,
		bytes = (y.K + parts * y.N) * 4;
	float *a = tl_scratch(x->pool, worker, bytes);
	if (!a) {
		x->oom = bytes;
		return 1;
	}
	for (int64_t k = 0; k < y.K; k++) {
		const uint16_t h = ((const uint16_t *)y.a)[k * y.ak];
		a[k] = type == TLK_F16 ? tl_widen_f16(h) : tl_widen_bf16(h);
	}
	y.a = (const char *)a;
	y.packed = (char *)(a + y.K);
	y.caller = worker;
	y.kc = (y.K + parts - 1) / parts;
	const int64_t tasks = y.bk == 1 ? y.N : parts * ((y.N + PART_COLUMNS - 1) / PART_COLUMNS),
		grain = y.bk == 1 ? 65536 / (y.K + 1) / HALF_LINES * HALF_LINES + 64 : 1;
	if (parallel) spread(&y, tasks, grain, half_vector_job, &y);
	else half_vector_job(&y, worker, 0, tasks);
	float *sums = (float *)y.packed;
	for (int64_t p = 1; p < parts; p++)
		for (int64_t j = 0; j < y.N; j++) sums[j] += sums[p * y.N + j];
	for (int64_t j = 0; x->bias && j < y.N; j++) {
		const uint16_t h = ((const uint16_t *)x->bias)[y.transposed ? 0 : j * x->biasn];
		sums[j] += type == TLK_F16 ? tl_widen_f16(h) : tl_widen_bf16(h);
	}
	x->t->half_store(type, sums, NULL, y.N, (uint16_t *)x->c, y.cn);
	if (x->epilogue) map_block(x, 0, x->M, 0, x->N, x->cm, x->cn);
	x->oom = y.oom;
	return 1;
}

static void run_half(gemm *x, int worker, int parallel) {
	if ((x->M == 1 || x->N == 1) && half_vector(x, worker, parallel)) return;
	half_product p = {.x = *x, .h = x->g->type == TLK_BF16 ? tl_pair_kernel(x->isa) : NULL};
	gemm *y = &p.x;
	p.depth = p.h ? 2 : 1;
	p.mr = p.h ? p.h->mr : x->t->along;
	p.nr = p.h ? p.h->nr : x->t->nr32;
	// C' = B' A' where that reads the larger operand in place.
	if (p.h && x->bk == 1 && x->bn != 1 && x->N > x->M) *y = transpose32(x);
	const int64_t step = p.h ? p.h->step : 1;
	p.units = ((y->K + p.depth - 1) / p.depth + step - 1) / step * step;
	const int inplace = p.depth == 2 && y->ak == 1 && y->am % 2 == 0 && p.units * 2 == y->K;
	half_cut(&p, parallel ? TASKS * tl_pool_threads(x->pool) : 1);
	const int64_t packed = inplace ? 0 : (y->M * p.units * 4 + 63) & ~(int64_t)63, bias = (x->bias ? x->N * 4 : 0) + 64;
	char *mem = tl_scratch(x->pool, worker, packed + bias + half_bytes(&p));
	if (!mem) {
		x->oom = packed + bias + half_bytes(&p);
		return;
	}
	y->caller = worker;
	y->block = mem + packed + (bias & ~(int64_t)63);
	if (x->bias) {
		float *wide = (float *)(mem + packed);
		for (int64_t j = 0; j < x->N; j++) {
			const uint16_t h = ((const uint16_t *)x->bias)[j * x->biasn];
			wide[j] = x->g->type == TLK_F16 ? tl_widen_f16(h) : tl_widen_bf16(h);
		}
		p.bias = wide;
	}
	p.a = inplace ? (const uint32_t *)y->a : (const uint32_t *)mem;
	p.am = inplace ? y->am / 2 : p.units;
	const int64_t strips = inplace ? 0 : (y->M + HALF_STRIP - 1) / HALF_STRIP, panels = (y->N + p.nr - 1) / p.nr,
		tasks = (panels + p.group - 1) / p.group * ((y->M + p.chunk - 1) / p.chunk);
	if (parallel) {
		if (strips) spread(y, strips, 1, half_pack_job, (gemm *)&p);
		spread(y, tasks, 1, half_job, (gemm *)&p);
	} else {
		half_pack_job(&p, worker, 0, strips);
		half_job(&p, worker, 0, tasks);
	}
	x->oom = y->oom;
}
