// The thread pool. A worker claims the pieces of its own share of a loop first: its caches hold what it left there in
// the loop before. Then it steals from the other shares: a worker that the system does not schedule delays only the
// piece that it has claimed. The caller is worker 0.
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#if defined(_WIN32)
#include <malloc.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sys/sysinfo.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include "vector/cpu.h"

#if defined(__x86_64__)
#define TLK_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define TLK_PAUSE() __asm__ volatile("isb") // yield is no wait on most cores; isb takes about as long as x86's pause
#else
#define TLK_PAUSE() ((void)0)
#endif

// A worker that waits looks at the clock each TLK_SPIN iterations, and parks after TLK_AWAKE nanoseconds. To wake a
// parked one takes 8 to 20 us, and a program that reads each result comes back within 20 to 50 us.
enum { TLK_SPIN = 256, TLK_AWAKE = 60000 };

// Blocks of at least TLK_HUGE_FROM bytes ask for huge pages: one page fault and one TLB entry for 2 MiB.
enum { TLK_HUGE = 1 << 21, TLK_HUGE_FROM = 1 << 22 };

typedef struct { void *p; int64_t bytes; } scratch;

// The pieces [low, high) that nobody has claimed: low in the lower half. The owner claims from one end and others from
// the other.
typedef struct { _Atomic uint64_t pieces; char alone[56]; } share;
enum { HALF = 32 };
static const uint64_t ALL = UINT32_MAX;

struct tl_pool {
	int threads;
	pthread_t *thread;
	pthread_mutex_t mu;
	pthread_cond_t wake;
	_Atomic uint64_t epoch;  // number of the current loop; odd while it is open
	_Atomic int parked, stop;
	_Atomic int active;      // workers inside the current loop
	_Atomic int64_t next;    // of a loop in order: the first element that nobody has claimed
	_Atomic int32_t *_Atomic word; // where requests to stop are read, or NULL
	_Atomic int attends;     // whether loops look for requests to stop
	_Atomic int cut;         // a request was seen
	_Atomic int polled;      // weight of the polls since the last look at the clock; races may lose some
	int64_t patience;        // nanoseconds; 0: the clock stops nothing
	_Atomic int flushes;     // whether subnormal numbers count as 0
	_Atomic int64_t began;   // the first look at the clock; 0 before
	int64_t n, grain;
	int polls, ordered;      // of the current loop: poll before each claim; claims are in order
	int guided;              // claims take several pieces
	int sharers;             // workers that have a share
	// Every other loop goes backward, so that what does not fit a cache is found there in part. Where a deadline stops
	// loops, all go forward, so that [0, e) grows.
	int backward;
	tl_job job;
	void *arg;
	share share[TLK_MAX_WORKERS];
	scratch mem[TLK_MAX_WORKERS + 1]; // of each worker; the last is for all workers together
};

typedef struct { tl_pool *p; int id; } start;

void tl_watch(tl_pool *p, int32_t *word, int64_t patience) {
	// Relaxed: workers see these with the loop that they join.
	atomic_store_explicit(&p->cut, 0, memory_order_relaxed);
	atomic_store_explicit(&p->polled, 0, memory_order_relaxed);
	atomic_store_explicit(&p->began, 0, memory_order_relaxed);
	atomic_store_explicit(&p->attends, 1, memory_order_relaxed);
	p->patience = patience;
	atomic_store_explicit(&p->word, (_Atomic int32_t *)word, memory_order_relaxed);
}

void tl_attend(tl_pool *p, int on) { atomic_store_explicit(&p->attends, on, memory_order_relaxed); }

int tl_attends(tl_pool *p) { return atomic_load_explicit(&p->attends, memory_order_relaxed); }

int tl_cut(tl_pool *p) { return atomic_load_explicit(&p->cut, memory_order_relaxed); }

int64_t tl_nanoseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// A look at the clock takes as long as a small step, so polls between steps weigh less than polls inside of one. The
// clock is looked at when the polls together weigh TLK_LOOK.
enum { TLK_LOOK = 64, TLK_INSIDE = 8, TLK_BETWEEN = 1 };

// Whether the patience given to tl_watch is over.
static int late(tl_pool *p, int weight) {
	if (!p->patience) return 0;
	int n = atomic_load_explicit(&p->polled, memory_order_relaxed) + weight;
	atomic_store_explicit(&p->polled, n < TLK_LOOK ? n : 0, memory_order_relaxed);
	if (n < TLK_LOOK) return 0;
	int64_t now = tl_nanoseconds(), began = atomic_load_explicit(&p->began, memory_order_relaxed);
	if (!began) atomic_store_explicit(&p->began, now, memory_order_relaxed);
	return began && now - began > p->patience;
}

static inline int asked(tl_pool *p, int weight) {
	if (!atomic_load_explicit(&p->attends, memory_order_relaxed)) return 0;
	if (tl_cut(p)) return 1;
	_Atomic int32_t *word = atomic_load_explicit(&p->word, memory_order_relaxed);
	int32_t v = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;
	if (v == 0 && !late(p, weight)) return 0;
	if (v < 0) {
		if (atomic_fetch_add(word, 1) != -1) return 0;
		atomic_store(word, 1);
	}
	atomic_store(&p->cut, 1);
	return 1;
}

int tl_stop_asked(tl_pool *p) { return asked(p, TLK_INSIDE); }

int tl_stop_asked_between(tl_pool *p) { return asked(p, TLK_BETWEEN); }

void tl_pool_flush(tl_pool *p, int on) { atomic_store_explicit(&p->flushes, on, memory_order_relaxed); }

uint64_t tl_flush_begin(tl_pool *p) {
	const int on = atomic_load_explicit(&p->flushes, memory_order_relaxed);
	(void)on;
#if defined(__x86_64__)
	const uint64_t bits = 0x8040, old = __builtin_ia32_stmxcsr(); // flush to zero, denormals are zero
	if (((old & bits) != 0) != (on != 0)) __builtin_ia32_ldmxcsr((unsigned)(on ? old | bits : old & ~bits));
	return old;
#elif defined(__aarch64__)
	const uint64_t bits = (uint64_t)1 << 24; // FPCR.FZ
	uint64_t old;
	__asm__ volatile("mrs %0, fpcr" : "=r"(old));
	if (((old & bits) != 0) != (on != 0)) __asm__ volatile("msr fpcr, %0" : : "r"(on ? old | bits : old & ~bits));
	return old;
#else
	return 0;
#endif
}

void tl_flush_end(uint64_t old) {
#if defined(__x86_64__)
	if (__builtin_ia32_stmxcsr() != old) __builtin_ia32_ldmxcsr((unsigned)old);
#elif defined(__aarch64__)
	__asm__ volatile("msr fpcr, %0" : : "r"(old));
#else
	(void)old;
#endif
}

static void run_from(tl_pool *p, int id, int64_t from, int64_t n) {
	p->job(p->arg, id, from, from + n < p->n ? from + n : p->n);
}

static void claim_in_order(tl_pool *p, int id) {
	while (!p->polls || !tl_stop_asked(p)) {
		int64_t from = atomic_fetch_add(&p->next, p->grain);
		if (from >= p->n) return;
		run_from(p, id, from, p->grain);
	}
}

// In a guided loop a claim takes one of GUIDED parts of what is left of a share, so that claims are few, and the last
// ones are small: threads then end together where one of them is slower.
enum { GUIDED = 4 };

// Claims pieces of a share, and returns their number. The first one is *from.
static int64_t claim_pieces(share *s, int first, int guided, int64_t *from) {
	uint64_t old = atomic_load(&s->pieces), low, high, n;
	do {
		low = old & ALL, high = old >> HALF;
		if (low >= high) return 0;
		n = guided && high - low > GUIDED ? (high - low) / GUIDED : 1;
	} while (!atomic_compare_exchange_weak(&s->pieces, &old, first ? old + n : old - (n << HALF)));
	*from = (int64_t)(first ? low : high - n);
	return (int64_t)n;
}

static void claim(tl_pool *p, int id) {
	if (p->ordered) {
		claim_in_order(p, id);
		return;
	}
	for (int i = 0; i < p->sharers; i++) {
		const int of = (id + i) % p->sharers;
		while (!p->polls || !tl_stop_asked(p)) {
			int64_t from, n = claim_pieces(&p->share[of], (of == id) ^ p->backward, p->guided, &from);
			if (n == 0) break;
			run_from(p, id, from * p->grain, n * p->grain);
		}
	}
}

static void *work(void *v) {
	start s = *(start *)v;
	free(v);
	tl_pool *p = s.p;
	uint64_t seen = 0;
	for (;;) {
		int64_t began = tl_nanoseconds();
		do
			for (int i = 0; i < TLK_SPIN && atomic_load(&p->epoch) == seen && !atomic_load(&p->stop); i++) TLK_PAUSE();
		while (atomic_load(&p->epoch) == seen && !atomic_load(&p->stop) && tl_nanoseconds() - began < TLK_AWAKE);
		if (atomic_load(&p->epoch) == seen && !atomic_load(&p->stop)) {
			pthread_mutex_lock(&p->mu);
			atomic_fetch_add(&p->parked, 1);
			while (atomic_load(&p->epoch) == seen && !atomic_load(&p->stop)) pthread_cond_wait(&p->wake, &p->mu);
			atomic_fetch_sub(&p->parked, 1);
			pthread_mutex_unlock(&p->mu);
		}
		if (atomic_load(&p->stop)) return NULL;
		// An odd epoch is an open loop. A worker counts itself in before it looks again, and the caller closes the loop
		// before it waits for active to fall to 0: so the caller never changes a loop under a worker.
		atomic_fetch_add(&p->active, 1);
		uint64_t now = atomic_load(&p->epoch);
		if (now & 1) {
			tl_flush_begin(p);
			claim(p, s.id);
		}
		seen = now;
		atomic_fetch_sub(&p->active, 1);
	}
}

tl_pool *tl_pool_new(int threads) {
	if (threads < 1) threads = 1;
	if (threads > TLK_MAX_WORKERS) threads = TLK_MAX_WORKERS;
	tl_pool *p = calloc(1, sizeof *p);
	if (!p) return NULL;
	p->threads = 1;
	p->thread = calloc((size_t)threads, sizeof *p->thread);
	pthread_mutex_init(&p->mu, NULL);
	pthread_cond_init(&p->wake, NULL);
	for (int i = 1; i < threads && p->thread; i++) {
		start *s = malloc(sizeof *s);
		if (!s) break;
		*s = (start){p, i};
		if (pthread_create(&p->thread[i], NULL, work, s)) {
			free(s);
			break;
		}
		p->threads++;
	}
	return p;
}

void tl_pool_free(tl_pool *p) {
	if (!p) return;
	pthread_mutex_lock(&p->mu);
	atomic_store(&p->stop, 1);
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->mu);
	for (int i = 1; i < p->threads; i++) pthread_join(p->thread[i], NULL);
	for (int i = 0; i <= TLK_MAX_WORKERS; i++) tl_cpu_free(p->mem[i].p);
	pthread_mutex_destroy(&p->mu);
	pthread_cond_destroy(&p->wake);
	free(p->thread);
	free(p);
}

int tl_pool_threads(tl_pool *p) { return p->threads; }

// The number of pieces of a loop of one thread. Requests to stop are polled between them.
enum { TLK_PIECES = 128 };

// Runs a loop on the caller alone. Pieces begin at multiples of grain, as claims do. Returns the end of what was run.
static int64_t alone(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg) {
	int64_t piece = (n / grain / TLK_PIECES + 1) * grain, b = 0;
	for (; b < n; b += piece) {
		if (b > 0 && tl_stop_asked(p)) return b;
		job(arg, 0, b, b + piece < n ? b + piece : n);
	}
	return n;
}

// Gives each worker its share of the pieces.
static void share_out(tl_pool *p) {
	int64_t pieces = (p->n + p->grain - 1) / p->grain;
	if (pieces > INT32_MAX) {
		p->grain *= (pieces + INT32_MAX - 1) / INT32_MAX;
		pieces = (p->n + p->grain - 1) / p->grain;
	}
	p->sharers = pieces < p->threads ? (int)pieces : p->threads;
	for (int64_t i = 0, low = 0, high; i < p->sharers; i++, low = high) {
		high = pieces * (i + 1) / p->sharers;
		atomic_store_explicit(&p->share[i].pieces, (uint64_t)high << HALF | (uint64_t)low, memory_order_relaxed);
	}
}

// The end of what was run without a gap.
static int64_t ran(tl_pool *p) {
	int64_t end = p->n;
	if (p->ordered) return atomic_load(&p->next) < end ? atomic_load(&p->next) : end;
	for (int i = p->sharers - 1; i >= 0; i--) {
		const uint64_t left = atomic_load(&p->share[i].pieces);
		if ((left & ALL) < left >> HALF) end = (int64_t)(left & ALL) * p->grain;
	}
	return end;
}

// How a loop is claimed.
typedef struct { int polls, ordered, guided; } claims;

static int64_t loop(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg, claims how) {
	if (n <= 0) return n;
	if (grain < 1) grain = 1;
	if (how.polls && tl_cut(p)) return 0;
	if (p->threads == 1 && how.polls && n > grain) return alone(p, n, grain, job, arg);
	if (p->threads == 1 || n <= grain) {
		job(arg, 0, 0, n);
		return n;
	}
	p->n = n;
	p->grain = grain;
	p->job = job;
	p->arg = arg;
	p->polls = how.polls;
	p->ordered = how.ordered;
	p->guided = how.guided;
	p->backward = !p->patience && !p->backward;
	if (p->ordered) atomic_store(&p->next, 0);
	else share_out(p);
	atomic_fetch_add(&p->epoch, 1);
	if (atomic_load(&p->parked) > 0) {
		pthread_mutex_lock(&p->mu);
		pthread_cond_broadcast(&p->wake);
		pthread_mutex_unlock(&p->mu);
	}
	claim(p, 0);
	// Nothing is left to claim, or a request to stop was seen. The others finish the pieces that they have claimed.
	atomic_fetch_add(&p->epoch, 1);
	while (atomic_load(&p->active) > 0) TLK_PAUSE();
	return ran(p);
}

int64_t tl_parallel(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg) {
	return loop(p, n, grain, job, arg, (claims){.polls = 1});
}

int64_t tl_parallel_in_order(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg) {
	return loop(p, n, grain, job, arg, (claims){.polls = 1, .ordered = 1});
}

void tl_parallel_whole(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg) {
	loop(p, n, grain, job, arg, (claims){0});
}

void tl_parallel_guided(tl_pool *p, int64_t n, int64_t grain, tl_job job, void *arg) {
	loop(p, n, grain, job, arg, (claims){.guided = 1});
}

void *tl_scratch(tl_pool *p, int worker, int64_t bytes) {
	scratch *s = &p->mem[worker < 0 ? TLK_MAX_WORKERS : worker];
	if (s->bytes < bytes) {
		tl_cpu_free(s->p);
		s->bytes = (bytes + 65535) & ~(int64_t)65535;
		s->p = tl_alloc(s->bytes);
		if (!s->p) s->bytes = 0;
	}
	return s->p;
}

#if !defined(_WIN32)
// The machine's memory. Systems that overcommit give more, and end the process when it is used.
static int64_t memory_bytes;

static void count_memory(void) {
	memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
#if defined(__linux__)
	struct sysinfo now;
	if (sysinfo(&now) == 0) memory_bytes = (int64_t)((now.totalram + now.totalswap) * now.mem_unit);
#endif
}
#endif

void *tl_alloc(int64_t bytes) {
	bytes = (bytes + 63) & ~(int64_t)63;
	if (bytes < 64) bytes = 64;
#if defined(_WIN32)
	return _aligned_malloc((size_t)bytes, 64);
#else
	void *p = NULL;
	if (bytes < TLK_HUGE_FROM) return posix_memalign(&p, 64, (size_t)bytes) ? NULL : p;
	static pthread_once_t counted = PTHREAD_ONCE_INIT;
	pthread_once(&counted, count_memory);
	if (bytes > memory_bytes || posix_memalign(&p, TLK_HUGE, (size_t)bytes)) return NULL;
#if defined(MADV_HUGEPAGE)
	madvise(p, (size_t)bytes, MADV_HUGEPAGE); // a hint: without it pages are small
#endif
	return p;
#endif
}

void tl_return_unused(void) {
#if defined(__GLIBC__)
	malloc_trim(0);
#endif
}

void tl_cpu_free(void *p) {
#if defined(_WIN32)
	_aligned_free(p);
#else
	free(p);
#endif
}
