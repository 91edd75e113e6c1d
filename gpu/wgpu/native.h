// Functions over wgpu-native. Each is one call from Go to C.
#ifndef TL_WGPU_NATIVE_H
#define TL_WGPU_NATIVE_H

#include "abi.h"

typedef struct tl_device tl_device;

enum { TL_MSG = 4096 };

// The limits and features of an adapter that this package uses.
typedef struct {
	tl_limits limits;
	uint32_t f16, i64, subgroups, f32_atomics, immediates, timestamps;
	uint32_t subgroup_min, subgroup_max;
} tl_caps;

// The layout of gpu.Record.
typedef struct {
	uint32_t kind, word, words, query;
	uintptr_t a, b, c;
	uint64_t x, y, z;
	uint32_t dynamic, has_dynamic;
} tl_record;

enum { TL_DISPATCH, TL_COPY, TL_CLEAR, TL_RESOLVE, TL_NEW_PASS, TL_TIMED };

typedef struct { uintptr_t buffer; int64_t offset, bytes; } tl_binding; // the layout of gpu.BufferBinding

void tl_adapter_caps(tl_obj adapter, tl_caps *out);
// Returns NULL on failure, with the reason in msg (TL_MSG bytes).
tl_device *tl_open(tl_obj adapter, tl_caps const *want, char *msg);
void tl_close(tl_device *d);
int tl_lost(tl_device *d);
char const *tl_why_lost(tl_device *d);

// code is 0 or an error type (TL_ERROR_...), msg its text, which the caller frees; NULL: there is none.
typedef struct { int code; char *msg; } tl_error;

tl_error tl_buffer_create(tl_device *d, uint64_t bytes, uint64_t usage, int mapped, uintptr_t *out);
void tl_buffer_destroy(uintptr_t h);
tl_error tl_map_start(uintptr_t h, uint64_t mode, uint64_t bytes);
int tl_map_status(uintptr_t h); // 0 pending, 1 mapped, 2 failed
void *tl_mapped(uintptr_t h, uint64_t mode, uint64_t bytes);
tl_error tl_unmap(uintptr_t h);
tl_error tl_pipeline_create(tl_device *d, char const *label, char const *text, size_t text_len, char const *entry,
	uint8_t const *kinds, int n,
	uint64_t uniform_bytes, uint32_t immediate_bytes, uintptr_t *pipeline, uintptr_t *layout);
void tl_pipeline_release(uintptr_t pipeline, uintptr_t layout);
tl_error tl_group_create(tl_device *d, uintptr_t layout, tl_binding const *entries, int n, uintptr_t *out);
void tl_group_release(uintptr_t group);
tl_error tl_queries_create(tl_device *d, uint32_t n, uintptr_t *out);
void tl_queries_release(uintptr_t q);
tl_error tl_submit(tl_device *d, tl_record const *r, size_t n, uint32_t const *words);
float tl_timestamp_period(tl_device *d);
uint64_t tl_completed(tl_device *d);
void tl_poll(tl_device *d);

#endif
