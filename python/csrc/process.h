/* The engine as this process has it: the words that it shares, whether fork() has cut it off, and the handles that are
 * to be given back to it. */
#ifndef TORCHLETTE_PROCESS_H
#define TORCHLETTE_PROCESS_H

#include "cpython.h"
#include "torchlette.h"

extern struct process {
    tl_engine_state *engine;
    bool forked;    /* this is a forked child: the engine stayed behind in the parent */
    uint32_t epoch; /* changes whenever live handles may have become unusable: see Tensor.epoch */
} process;

/* Handles of dead tensors collect in a list, which the next call of the engine releases. */
void drop_handle(uint64_t handle);
int32_t dropped_count(void);
const uint64_t *dropped_take(int32_t *n); /* empties the list; valid until the next drop_handle */

/* Programs of dead captured functions collect likewise. free_programs enters the engine. */
void drop_program(uint64_t id);
void free_programs(void);

#endif
