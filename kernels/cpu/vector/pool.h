// The thread pool of the CPU device: pool.c.
#pragma once
#include <stdint.h>

enum { TLK_MAX_WORKERS = 256 };
typedef struct tl_pool tl_pool;
typedef void (*tl_job)(void *arg, int worker, int64_t begin, int64_t end);

tl_pool *tl_pool_new(int threads);
void tl_pool_free(tl_pool *);
int tl_pool_threads(tl_pool *);
// Sets whether kernels take subnormal numbers as 0 and give 0 in their place.
void tl_pool_flush(tl_pool *, int on);
// Gives the calling thread the pool's floating-point mode. Returns the old mode, for tl_flush_end.
uint64_t tl_flush_begin(tl_pool *);
void tl_flush_end(uint64_t old);
// Runs job over [0, n) in pieces of grain elements; the caller is worker 0. Each worker begins with its share of the
// pieces. Returns the end e of what was run, [0, e): n unless a request to stop was seen. Pieces behind e may have run.
int64_t tl_parallel(tl_pool *, int64_t n, int64_t grain, tl_job job, void *arg);
// tl_parallel whose pieces are claimed in order: nothing behind e has run.
int64_t tl_parallel_in_order(tl_pool *, int64_t n, int64_t grain, tl_job job, void *arg);
// tl_parallel without polling for requests to stop.
void tl_parallel_whole(tl_pool *, int64_t n, int64_t grain, tl_job job, void *arg);
// tl_parallel_whole whose claims take several pieces, fewer and fewer of them. For jobs that poll or are short, and
// whose pieces take equal times.
void tl_parallel_guided(tl_pool *, int64_t n, int64_t grain, tl_job job, void *arg);
// Sets where requests to stop are read from now on: word, by the rule of device.Stop, or NULL if none can come. Loops
// also stop patience nanoseconds after they first looked at the clock, unless patience is 0. Inside a step they look at
// it at every eighth poll.
void tl_watch(tl_pool *, int32_t *word, int64_t patience);
// Makes loops look for requests to stop (on = 1), or ignore them until loops look again (on = 0).
void tl_attend(tl_pool *, int on);
int tl_attends(tl_pool *);
// Whether the current work is to stop. The answer stays yes until the next tl_watch.
int tl_stop_asked(tl_pool *);
int tl_stop_asked_between(tl_pool *); // the same between two steps, where the clock is looked at every 64th time
int tl_cut(tl_pool *); // the same, without polling
// Returns at least bytes of scratch memory, aligned to 64 bytes, or NULL if none could be allocated. It belongs to a
// worker or, if worker is -1, to all workers of the current loop. The next call for the same owner may move it.
void *tl_scratch(tl_pool *, int worker, int64_t bytes);
