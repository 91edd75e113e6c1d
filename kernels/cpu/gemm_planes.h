// Sums over windows of padded pictures. gemm.c includes this file twice, as it does gemm_driver.h.

// For one row of A, a task is a range of pictures. Each is copied between zeros, which stay from one to the next;
// windows are read from the copy. The epilogue runs over the results of some pictures, which are its rows.
static void SUF(planes)(void *arg, int worker, int64_t begin, int64_t end) {
	gemm x = *(gemm *)arg;
	// Vectors read past the last window, and of less than four lines past the last line.
	const int64_t bytes = (x.copy + 3 * x.plane.down + x.plane.n + 64) * (int64_t)sizeof(REAL);
	const int64_t together = most(1, LINES_NEAR / x.N);
	REAL *mem = tl_scratch(x.pool, worker, bytes);
	if (!mem) {
		((gemm *)arg)->oom = bytes;
		return;
	}
	memset(mem, 0, (size_t)bytes);
	for (int64_t i = begin, n; i < end && !cut(&x); i += n) {
		n = least(together, end - i);
		for (int64_t k = 0; k < n; k++) {
			batch(&x, i + k);
			x.t->SUF(plane)(&x.plane, (const REAL *)x.a, (const REAL *)x.b, mem, (REAL *)x.c);
		}
		if (!x.epilogue) continue;
		const int64_t last = x.first;
		batch(&x, i);
		if (last - x.first == (n - 1) * x.N) map_block(&x, 0, n, 0, x.N, x.N, 1);
		else for (int64_t k = 0; k < n; k++) batch(&x, i + k), map_block(&x, 0, 1, 0, x.N, x.N, 1);
	}
}
