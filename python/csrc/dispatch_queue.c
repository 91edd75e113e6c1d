/* Calls that the engine need not be entered for. A call like an earlier one, on tensors of the same layouts, has
 * a result that is known but for its values: the engine promised it (tl_out.promise). The tensor is made here at
 * once, on a handle reserved before, and the call joins a queue that the engine records as soon as anything else
 * is asked of it. The GIL orders all access. */
#include "core.h"

enum { QUEUED = 128, SETS = 512, WAYS = 2 };

/* Elements of the queued results at which the queue is settled: the engine counts pending bytes, and bounds them. */
static const int64_t MOST_ELEMENTS = 1 << 24;

static struct {
    tl_deferred calls[QUEUED];
    int32_t n;
    int64_t elements;
} queue;

static struct {
    uint64_t handles[QUEUED];
    int32_t n;
} reserved;

/* What the engine promised, by call: the newest of each set first. Two calls of a loop may well meet in one set. */
static struct cached_call {
    call_key call; /* n 0: none */
    tl_out out;
} cache[SETS][WAYS];

static uint32_t generation; /* upper half of the newest promise */

void queue_forget(void) {
    for (int i = 0; i < SETS; i++) {
        cache[i][0].call.n = cache[i][1].call.n = 0;
    }
}

/* After the engine was reset: handles from before are stale. */
void queue_reset(void) {
    queue_forget();
    queue.n = reserved.n = 0;
    queue.elements = 0;
    G.epoch++;
}

bool queue_waits(void) { return queue.n > 0; }

const tl_deferred *queue_take(int32_t *n) {
    *n = queue.n;
    queue.elements = 0;
    queue.n = 0; /* the engine runs no Python, so nothing is added while it records */
    return queue.calls;
}

/* Writes the key of a call and gives its length; 0 when the call must enter the engine. */
static int32_t key_of(const overload *o, const argbuf *b, uint64_t *key) {
    int32_t n = 0, k = 0;
    if (PyThreadState_Get() != G.running) {
        return 0; /* the engine is entered, where the modes become this thread's */
    }
    if (G.packer != NULL || G.refuse_draws || b->n_tensors == 0 || b->n_tensors > TL_DEFERRED_TENSORS ||
        2 + b->n_in + b->n_ints + 2 * b->n_scalars > TL_KEY_WORDS) {
        return 0;
    }
    key[n++] = (uint64_t)o->def->id | (uint64_t)b->n_in << 16 | (uint64_t)b->n_ints << 32 | (
        uint64_t)b->n_scalars << 48;
    key[n++] = G.modes;
    for (int32_t i = 0; i < b->n_in; i++) {
        if (b->in[i] == 0 || b->in[i] == TL_SCALAR_OPERAND) {
            key[n++] = b->in[i];
            continue;
        }
        const Tensor *t = b->tensors[k++];
        if (t->layout == 0 || t->epoch != G.epoch) {
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

static struct cached_call *set_of(const uint64_t *key, int32_t n) {
    uint64_t h = 0, odd = 0x9E3779B97F4A7C15u;
    for (int32_t i = 0; i < n; i++, odd += 0x632BE59BD9B4E01Au) {
        h += (key[i] ^ key[i] >> 32) * odd; /* no product waits for another */
    }
    return cache[(h >> 32 ^ h >> 12) % SETS];
}

static int reserve(void) {
    if (check_status(TL_TURN()) < 0 || check_status(tl_reserve(reserved.handles, QUEUED)) < 0) {
        return -1;
    }
    reserved.n = QUEUED;
    return 0;
}

/* The result of a call, if it was promised: a new reference with *known set, or NULL with it set and an exception.
 * With *known unset the engine is to be called; learn then takes what it promises. */
PyObject *queue_call(overload *o, argbuf *b, uint8_t api, call_key *l, bool *known) {
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
    /* Making the object may run the cyclic collector, and with it calls of others, which may take the place in
     * the cache. */
    tl_out out;
    memcpy(&out, &p->out, offsetof(tl_out, shape) + p->out.rank * sizeof *out.shape);
    out.handle = reserved.handles[--reserved.n];
    uint32_t source_loc = call_source_loc();
    PyObject *t = tensor_wrap(G.tensor, &out, api);
    if (t == NULL) {
        return NULL;
    }
    for (;;) { /* what waits may let another thread fill the queue again */
        if (thread_here() < 0) {
            Py_DECREF(t);
            return NULL;
        }
        if (queue.n < QUEUED && queue.elements <= MOST_ELEMENTS) {
            break;
        }
        if (check_status(queue_flush()) < 0 || TL_DUE() < 0) {
            Py_DECREF(t);
            return NULL;
        }
    }
    tl_deferred *q = &queue.calls[queue.n++];
    *q = (tl_deferred){.defer_id = out.defer_id, .source_loc = source_loc, .handle = out.handle};
    for (int i = 0; i < b->n_tensors; i++) {
        q->in[i] = b->tensors[i]->handle;
    }
    queue.elements += out.numel;
    return t;
}

/* Takes in what the engine said of a call that it has just recorded. A tensor may have come to require grad by a
 * write to its alias, of which its object does not know: what follows from that is no promise to those of its flags. */
void queue_insert(const call_key *l, const argbuf *b, const tl_out *out) {
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
        queue_forget();
        generation = out->defer_id >> 16;
    }
    struct cached_call *p = set_of(l->key, l->n);
    p[1] = p[0];
    p->call = *l;
    p->out = *out;
}
