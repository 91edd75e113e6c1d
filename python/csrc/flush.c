#include "flush.h"

#include "cpython.h"
#include "dispatch_queue.h"
#include "errors.h"
#include "hooks.h"
#include "process.h"
#include "threads.h"
#include "torchlette.h"
#include "wait.h"

int32_t flush_status;

int32_t queue_flush(void) {
    do {
        if (queue_waits() && (flush_status = TL_TURN()) != TL_OK) {
            return flush_status;
        }
        if (thread_here() < 0) {
            return TL_RAISED;
        }
    } while (queue_waits() && TL_BUSY_NOW());
    return queue_record();
}

int drop_flush(void) {
    if (process.forked) {
        return 0;
    }
    free_programs();
    do {
        if (check_status(queue_flush()) < 0) {
            return -1;
        }
        if (forget_hooks() < 0) { /* may drop the tensors that the functions of the hooks held */
            return -1;
        }
    } while (dropped_count() > 0);
    return 0;
}
