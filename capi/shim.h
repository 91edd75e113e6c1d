// Functions and state of the exports that are written in C: the fork flag, the shared words and the last failure.
#ifndef TORCHLETTE_SHIM_H
#define TORCHLETTE_SHIM_H

#if defined(_WIN32)
#define TL_API __declspec(dllexport)
#endif
#include "torchlette.h"

extern int tl_forked;
extern tl_engine_state tl_shared;

// tl_refuse_fork records the failure of a call in a forked child, and returns its status.
int32_t tl_refuse_fork(void);

// tlgo_fail records a failure of the calling thread. Go calls it.
void tlgo_fail(int32_t code, uint32_t source_loc, char *message, size_t bytes);

// tlgo_free_c frees memory of the C heap. Go calls it.
void tlgo_free_c(void *p);

#endif
