#include "dispatch_queue.h"

#include "cpython.h"
#include "process.h"
#include "torchlette.h"

/* The most elements of queued results. The engine bounds the bytes that are pending, and counts only what is
 * recorded. */
static const int64_t MOST_ELEMENTS = 1 << 24;

static struct {
    tl_deferred calls[TL_QUEUED];
    int32_t n;
    int64_t elements;
} queue;

bool queue_full(void) { return queue.n == TL_QUEUED || queue.elements > MOST_ELEMENTS; }

void queue_add(const tl_deferred *call, int64_t elements) {
    queue.calls[queue.n++] = *call;
    queue.elements += elements;
}

bool queue_waits(void) { return queue.n > 0; }

const tl_deferred *queue_take(int32_t *n) {
    *n = queue.n;
    queue.elements = 0;
    queue.n = 0; /* nothing is added while the engine records, for it runs no Python code */
    return queue.calls;
}

void queue_clear(void) {
    queue.n = 0;
    queue.elements = 0;
}

int32_t queue_record(void) {
    int32_t n, n_dead;
    const tl_deferred *calls = queue_take(&n);
    const uint64_t *dead = dropped_take(&n_dead); /* stays valid: the engine runs no Python code */
    if (process.forked || (n == 0 && n_dead == 0)) {
        return TL_OK;
    }
    return n == 0 ? tl_release(dead, n_dead) : tl_record(calls, n, dead, n_dead);
}
