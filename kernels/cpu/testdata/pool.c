// Runs loops on a pool of THREADS workers and prints, for each, the end that tl_parallel returns, the first piece of
// each worker, and how often each piece ran. pool_test.go compiles it and reads the lines.
#include "../pool.c"
#include <stdio.h>
#include <string.h>

enum { THREADS = 3, EACH = 4, PIECES = THREADS * EACH, GRAIN = 5, LENGTH = PIECES * GRAIN - 2 };

static _Atomic int arrived, stop_at;
static _Atomic int32_t word;
static int first[THREADS], times[PIECES];

// A worker waits in its first piece until all have one, so none claims another's share meanwhile.
static void job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)arg, (void)end;
	const int piece = (int)(begin / GRAIN);
	times[piece]++;
	if (first[worker] < 0) {
		first[worker] = piece;
		atomic_fetch_add(&arrived, 1);
		while (atomic_load(&arrived) < THREADS) TLK_PAUSE();
	}
	if (piece == atomic_load(&stop_at)) atomic_store(&word, 1);
}

static void run(tl_pool *p, const char *name, int at,
	int64_t (*loop)(tl_pool *, int64_t, int64_t, tl_job, void *)) {
	memset(times, 0, sizeof times);
	for (int i = 0; i < THREADS; i++) first[i] = -1;
	atomic_store(&arrived, 0);
	atomic_store(&stop_at, at);
	printf("%s %ld", name, (long)loop(p, LENGTH, GRAIN, job, NULL));
	for (int i = 0; i < THREADS; i++) printf(" %d", first[i]);
	for (int i = 0; i < PIECES; i++) printf(" %d", times[i]);
	printf("\n");
	atomic_store(&word, 0);
	tl_watch(p, (int32_t *)&word, 0);
}

enum { GUIDED_PIECES = 64 * THREADS };
static int ran_once[GUIDED_PIECES], widest[THREADS], narrowest[THREADS];
static _Atomic int claimed;

// A worker waits in its first claim until all have one.
static void guided_job(void *arg, int worker, int64_t begin, int64_t end) {
	(void)arg;
	const int n = (int)((end - begin + GRAIN - 1) / GRAIN);
	for (int i = 0; i < n; i++) ran_once[begin / GRAIN + i]++;
	atomic_fetch_add(&claimed, 1);
	if (!widest[worker]) {
		widest[worker] = n;
		atomic_fetch_add(&arrived, 1);
		while (atomic_load(&arrived) < THREADS) TLK_PAUSE();
	}
	narrowest[worker] = n;
}

// Prints the number of claims, the pieces of each worker's first and last claim, and how often each piece ran.
static void run_guided(tl_pool *p) {
	atomic_store(&arrived, 0);
	tl_parallel_guided(p, GUIDED_PIECES * GRAIN - 2, GRAIN, guided_job, NULL);
	printf("guided %d", atomic_load(&claimed));
	for (int i = 0; i < THREADS; i++) printf(" %d", widest[i]);
	for (int i = 0; i < THREADS; i++) printf(" %d", narrowest[i]);
	for (int i = 0; i < GUIDED_PIECES; i++) printf(" %d", ran_once[i]);
	printf("\n");
}

int main(void) {
	tl_pool *p = tl_pool_new(THREADS);
	if (tl_pool_threads(p) != THREADS) return 1;
	tl_watch(p, (int32_t *)&word, 0);
	for (int i = 0; i < 4; i++) run(p, "shares", -1, tl_parallel);
	run(p, "in-order", -1, tl_parallel_in_order);
	for (int i = 0; i < PIECES; i++) run(p, "stopped", i, tl_parallel);
	for (int i = 0; i < PIECES; i++) run(p, "stopped-in-order", i, tl_parallel_in_order);
	for (int i = 0; i < 2; i++) {
		tl_watch(p, (int32_t *)&word, INT64_MAX);
		run(p, "deadline", -1, tl_parallel);
	}
	run_guided(p);
	tl_pool_free(p);
	return 0;
}
