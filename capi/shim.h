// What the ABI needs in C: the fork flag, the words that Go and C share, and the last failure of each thread.
#ifndef TORCHLETTE_SHIM_H
#define TORCHLETTE_SHIM_H

#if defined(_WIN32)
#define TL_API __declspec(dllexport)
#endif
#include "torchlette.h"

extern int tl_forked;
extern tl_engine_state tl_shared;

// tl_refuse_fork records the failure of a call in a forked child, and returns the call's status.
int32_t tl_refuse_fork(void);

// tlgo_fail records a failure of the calling thread. Go calls it.
void tlgo_fail(int32_t code, uint32_t source_loc, char *message, size_t bytes);

// tlgo_free_c frees memory of the C heap. Go calls it.
void tlgo_free_c(void *p);

// tlgo_alloc_c gives memory of the C heap, NULL where there is none.
void *tlgo_alloc_c(size_t bytes);

#endif
