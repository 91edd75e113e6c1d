#include "process.h"

#include "cpython.h"

struct process process;

/* Handles of dead tensors. The GIL orders all access. When the list cannot grow, a handle is lost, and the engine holds
 * its value until the next reset. */
static struct {
    uint64_t *handles;
    int32_t n, cap;
} dead;

void drop_handle(uint64_t handle) {
    if (dead.n == dead.cap) {
        int32_t cap = dead.cap > 0 ? 2 * dead.cap : 1024;
        uint64_t *grown = PyMem_Realloc(dead.handles, (size_t)cap * sizeof *grown);
        if (grown == NULL) {
            return;
        }
        dead.handles = grown;
        dead.cap = cap;
    }
    dead.handles[dead.n++] = handle;
}

int32_t dropped_count(void) { return dead.n; }

const uint64_t *dropped_take(int32_t *n) {
    *n = dead.n;
    dead.n = 0;
    return dead.handles;
}
