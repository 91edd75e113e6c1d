// What the C side of capi shares: the fork flag and the last error.
#ifndef TORCHLETTE_SHIM_H
#define TORCHLETTE_SHIM_H

#if defined(_WIN32)
#define TL_API __declspec(dllexport)
#endif
#include "torchlette.h"

extern int tl_forked;
extern tl_engine_state tl_shared;

// tl_refuse_fork sets the error of a forked child and returns its status.
int32_t tl_refuse_fork(void);

// tlgo_fail records a failure of the calling thread; Go's failure path calls it.
void tlgo_fail(int32_t code, uint32_t source_loc, char *message, size_t bytes);

// tlgo_free_c frees memory of the C heap.
void tlgo_free_c(void *p);

#endif
