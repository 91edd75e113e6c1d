#include "process.h"

#include "cpython.h"

struct process process;

/* Numbers of what is dead. The GIL orders all access. When a list cannot grow, a number is lost, and the engine holds
 * what it names until the next reset. */
typedef struct {
    uint64_t *numbers;
    int32_t n, cap;
} list;

static list dead, dead_programs;

static void append(list *l, uint64_t number) {
    if (l->n == l->cap) {
        int32_t cap = l->cap > 0 ? 2 * l->cap : 1024;
        uint64_t *grown = PyMem_Realloc(l->numbers, (size_t)cap * sizeof *grown);
        if (grown == NULL) {
            return;
        }
        l->numbers = grown;
        l->cap = cap;
    }
    l->numbers[l->n++] = number;
}

void drop_handle(uint64_t handle) { append(&dead, handle); }

int32_t dropped_count(void) { return dead.n; }

const uint64_t *dropped_take(int32_t *n) {
    *n = dead.n;
    dead.n = 0;
    return dead.numbers;
}

void drop_program(uint64_t id) { append(&dead_programs, id); }

void free_programs(void) {
    while (dead_programs.n > 0) {
        tl_captured_free(dead_programs.numbers[--dead_programs.n]);
    }
}
