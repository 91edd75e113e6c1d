// Keeps the Go runtime's monitor thread from the cores that kernels use.
//
// The monitor sleeps while nothing runs. When a call wakes it, it looks at the processors every 20 us for a
// millisecond, and then less and less often. Where kernels use every core, each look preempts one of them, and the
// other threads wait for that one (docs/notes/2026-11-27-avx2-figures.md has measurements). So the monitor is a batch
// thread, which preempts nothing when it wakes, and its timers are coarse: it looks every SLACK_NS. It takes processors
// back from calls that block, and preempts goroutines that run for 10 ms, that much later.

#define _GNU_SOURCE // SCHED_BATCH
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>

enum {
    SLACK_NS = 2000000,
    // The monitor among the threads that this library starts, from 0: the runtime of a shared library starts in thread
    // 0, and starts the monitor before anything else.
    MONITOR = 1,
};

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

// A thread has the policy and the timer slack of the thread that creates it.
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg) {
    static atomic_uint started;
    if (atomic_fetch_add(&started, 1) != MONITOR) return __real_pthread_create(thread, attr, start, arg);
    const struct sched_param none = {0};
    const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), plain = sched_getscheduler(0) == SCHED_OTHER;
    if (slack > 0) prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
    if (plain) sched_setscheduler(0, SCHED_BATCH, &none);
    const int err = __real_pthread_create(thread, attr, start, arg);
    if (plain) sched_setscheduler(0, SCHED_OTHER, &none);
    if (slack > 0) prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
    return err;
}
