/* The queue of deferred calls: operator calls whose results have objects already, and which the engine records later.
 * The GIL orders all access. */
#ifndef TORCHLETTE_DISPATCH_QUEUE_H
#define TORCHLETTE_DISPATCH_QUEUE_H

#include "cpython.h"
#include "torchlette.h"

enum { TL_QUEUED = 128 }; /* the most calls that wait */

bool queue_full(void);
void queue_add(const tl_deferred *call, int64_t elements); /* elements: of its result */
bool queue_waits(void);                                    /* the engine has calls to record */
const tl_deferred *queue_take(int32_t *n);                 /* empties the queue; the engine must record them next */
void queue_clear(void);
int32_t queue_record(void); /* records the queued calls, then releases the handles of dead tensors; a status */

#endif
