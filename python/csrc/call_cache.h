/* Calls that need not enter the engine.
 *
 * A call like an earlier one, on tensors of the same layouts, has a result that is known but for its values: the engine
 * promised it by tl_out.defer_id. The tensor is made at once, on a handle that was reserved before, and the call joins
 * the dispatch queue. */
#ifndef TORCHLETTE_CALL_CACHE_H
#define TORCHLETTE_CALL_CACHE_H

#include "argbuf.h"
#include "cpython.h"
#include "table.h"

enum { TL_KEY_WORDS = 24 };

/* What a promise holds for: operator, modes, layouts of the tensors, integers and numbers. */
typedef struct {
    uint64_t key[TL_KEY_WORDS];
    int32_t n; /* 0: the call cannot be promised */
} call_key;

/* The result of a promised call: a new reference, or NULL with an exception; *known is set. With *known unset the
 * engine is to be called, and its result given to call_cache_insert with the same key. */
PyObject *call_cache_find(overload *o, argbuf *b, uint8_t api, call_key *l, bool *known);
void call_cache_insert(const call_key *l, const argbuf *b, const tl_out *out);
void call_cache_forget(void);
void call_cache_reset(void); /* after the engine was reset: the handles from before are stale */

#endif
