#include "call_cache.h"

#include "argbuf.h"
#include "cpython.h"
#include "dispatch_queue.h"
#include "errors.h"
#include "flush.h"
#include "hash.h"
#include "process.h"
#include "sharing.h"
#include "source_loc.h"
#include "table.h"
#include "tensor.h"
#include "threads.h"
#include "torchlette.h"
#include "wait.h"

enum { SETS = 512, WAYS = 2 };

static struct {
    uint64_t handles[TL_QUEUED];
    int32_t n;
} reserved;

/* Promised results by the hash of their calls. A set has two entries, the newer one first, since two calls of a loop
 * may fall into one set. */
static struct cached_call {
    call_key call; /* n is 0 in an empty entry */
    tl_out out;
} cache[SETS][WAYS];

static uint32_t generation; /* of the newest promise: the upper half of its defer_id */

void call_cache_forget(void) {
    for (int i = 0; i < SETS; i++) {
        cache[i][0].call.n = cache[i][1].call.n = 0;
    }
}

void call_cache_reset(void) {
    call_cache_forget();
    reserved.n = 0;
    queue_clear();
    process.epoch++;
}

/* Writes the key of a call and returns its length; 0 when the call must enter the engine. */
static int32_t key_of(const overload *o, const argbuf *b, uint64_t *key) {
    int32_t n = 0, k = 0;
    if (PyThreadState_Get() != current.thread) {
        return 0; /* entering the engine makes the modes those of this thread */
    }
    if (current.packer != NULL || current.vmap_levels > 0 || b->n_tensors == 0 ||
        b->n_tensors > TL_DEFERRED_TENSORS || 2 + b->n_in + b->n_ints + 2 * b->n_scalars > TL_KEY_WORDS) {
        return 0;
    }
    key[n++] = (uint64_t)o->def->id | (uint64_t)b->n_in << 16 | (uint64_t)b->n_ints << 32 |
        (uint64_t)b->n_scalars << 48;
    key[n++] = current.modes;
    for (int32_t i = 0; i < b->n_in; i++) {
        if (b->in[i] == 0 || b->in[i] == TL_SCALAR_OPERAND) {
            key[n++] = b->in[i];
            continue;
        }
        const Tensor *t = b->tensors[k++];
        bool shared = process.engine->exports != 0 && sharing_handle(t->handle);
        if (t->layout == 0 || t->epoch != process.epoch || shared) {
            return 0;
        }
        key[n++] = (uint64_t)t->layout << 32 | (uint64_t)t->dtype << 16 | (uint64_t)t->device << 8 | t->flags;
    }
    for (int32_t i = 0; i < b->n_ints; i++) {
        key[n++] = (uint64_t)b->ints[i];
    }
    for (int32_t i = 0; i < b->n_scalars; i++) {
        key[n++] = b->scalars[i].kind;
        key[n++] = b->scalars[i].bits;
    }
    return k == b->n_tensors ? n : 0;
}

static bool same_call(const call_key *a, const call_key *b) {
    uint64_t differ = (uint64_t)(a->n ^ b->n);
    for (int32_t i = 0; i < a->n && differ == 0; i++) {
        differ = a->key[i] ^ b->key[i];
    }
    return differ == 0;
}

static struct cached_call *set_of(const uint64_t *key, int32_t n) { return cache[hash_words(key, n) % SETS]; }

static int reserve(void) {
    if (check_status(TL_TURN()) < 0 || check_status(tl_reserve(reserved.handles, TL_QUEUED)) < 0) {
        return -1;
    }
    reserved.n = TL_QUEUED;
    return 0;
}

PyObject *call_cache_find(overload *o, argbuf *b, uint8_t api, call_key *l, bool *known) {
    *known = false;
    l->n = key_of(o, b, l->key);
    if (l->n == 0) {
        return NULL;
    }
    struct cached_call *p = set_of(l->key, l->n);
    if (!same_call(&p->call, l) && !same_call(&(++p)->call, l)) {
        return NULL;
    }
    *known = true;
    if (reserved.n == 0 && reserve() < 0) {
        return NULL;
    }
    /* Making the object may run the cyclic collector, and with it Python code whose calls replace the entry. So the
     * entry is copied first. */
    tl_out out;
    memcpy(&out, &p->out, offsetof(tl_out, shape) + p->out.rank * sizeof *out.shape);
    out.handle = reserved.handles[--reserved.n];
    uint32_t source_loc = call_source_loc();
    PyObject *t = tensor_wrap(&out, api);
    if (t == NULL) {
        return NULL;
    }
    for (;;) { /* while this thread waits, another one may fill the queue again */
        if (thread_here() < 0) {
            Py_DECREF(t);
            return NULL;
        }
        if (!queue_full()) {
            break;
        }
        if (check_status(queue_flush()) < 0 || TL_DUE() < 0) {
            Py_DECREF(t);
            return NULL;
        }
    }
    tl_deferred q = {.defer_id = out.defer_id, .source_loc = source_loc, .handle = out.handle};
    for (int i = 0; i < b->n_tensors; i++) {
        q.in[i] = b->tensors[i]->handle;
    }
    queue_add(&q, out.numel);
    return t;
}

/* A promise is kept only if the flags in the key explain it. A write to an alias may have made an operand require grad
 * while the operand's object does not know it yet. Then the result requires grad and no operand of the key does. */
void call_cache_insert(const call_key *l, const argbuf *b, const tl_out *out) {
    if (out->defer_id == 0 || l->n == 0) {
        return;
    }
    uint8_t known = 0;
    for (int i = 0; i < b->n_tensors; i++) {
        known |= b->tensors[i]->flags;
    }
    if ((out->flags & ~known & TL_REQUIRES_GRAD) != 0) {
        return;
    }
    if (out->defer_id >> 16 != generation) {
        call_cache_forget();
        generation = out->defer_id >> 16;
    }
    struct cached_call *p = set_of(l->key, l->n);
    p[1] = p[0];
    p->call = *l;
    p->out = *out;
}
