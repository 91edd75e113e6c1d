// Divides products among two threads and prints, for each, what is divided, how much of it, and what the busier thread
// has of it where each computes its share. blocks_test.go compiles it and reads the lines. Tiles compute nothing.
#include "../pool.c"
static void shared(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg);
#define tl_parallel_whole shared
#define tl_parallel_guided shared
#include "../gemm.c"
#include <stdio.h>

enum { THREADS = 2 };

static int64_t busier, tasks;

static void shared(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg) {
	const gemm *x = arg;
	const int64_t each = job == block_job32 ? x->mb : 1, all = job == block_job32 ? x->M : n;
	if (job == pack_job32 || job == pack_rows32) return;
	tasks = n;
	p->n = n;
	p->grain = grain;
	share_out(p);
	for (int i = 0; i < p->sharers; i++) {
		const uint64_t share = p->share[i].pieces;
		const int64_t from = (int64_t)(share & ALL) * p->grain, to = least((int64_t)(share >> HALF) * p->grain, n);
		busier = most(busier, least(to * each, all) - least(from * each, all));
	}
}

static const tl_isa_table table = {.mr32 = 6, .nr32 = 16, .along = 6};

// What products of float32 without an epilogue do not call, or take from here.
const tl_isa_table *tl_isa_tables(int isa) { return isa ? NULL : &table; }
const tl_half_kernel *tl_pair_kernel(int isa) { return isa ? NULL : NULL; }
int tl_packs_rows(int isa) { return isa; }
float tl_widen_f16(uint16_t v) { return v; }
float tl_widen_bf16(uint16_t v) { return v; }
int tl_map_direct(const tl_kern *k) { return k != NULL; }
int64_t tl_map_bytes(const tl_kern *k) { return k != NULL; }
void tl_map_run(tl_ctx *c, int64_t at, int64_t n) { (void)c, (void)at, (void)n; }
void tl_map_at(tl_ctx *c, char *const *at, int64_t n) { (void)c, (void)at, (void)n; }
void tl_map_enter(tl_ctx *c, const tl_kern *k, char **buf, const int64_t *par, char *mem) {
	(void)c, (void)k, (void)buf, (void)par, (void)mem;
}

static int product(tl_pool *p, const char *name, int64_t whole, int64_t m, int64_t n, int64_t k) {
	tl_dense d = {.type = TLK_F32, .M = m, .N = n, .K = k, .am = k, .ak = 1, .bk = 1, .bn = k, .cm = n};
	busier = 0;
	if (tl_gemm_dense(p, 0, 0, 1, &d)) return 0;
	printf("%s %ld %ld\n", name, (long)whole, (long)busier);
	return 1;
}

// A product with a packed B, whose tasks are counted.
static int packed(tl_pool *p, int64_t m, int64_t n, int64_t k) {
	static char none[1];
	tl_gemm g = {.type = TLK_F32, .co = -1, .M = 0, .N = 1, .K = 2, .am = 2, .ak = 3, .bk = 3, .bn = 2, .ao = 4, .bo = 4,
		.pack = none};
	const int64_t par[] = {m, n, k, 1, 0};
	char *buf[] = {none, none, none};
	busier = 0;
	if (tl_run_gemm(&g, p, 0, buf, par)) return 0;
	printf("packed %ld %ld\n", (long)tasks, (long)busier);
	return 1;
}

int main(void) {
	tl_pool *p = tl_pool_new(THREADS);
	int ok = 1;
	for (int64_t m = 193; ok && m < 1000; m += 9) ok = product(p, "rows", m, m, 128, 512);
	for (int64_t n = 384; ok && n <= 2048; n += 128) ok = product(p, "columns", n, 1, n, 512);
	for (int64_t n = 8; ok && n <= 16; n++) ok = product(p, "panels", n, 64, 16 * n, 256);
	for (int64_t n = 2; ok && n <= 128; n += 14) ok = packed(p, 1000, n, 512);
	tl_pool_free(p);
	return !ok;
}
