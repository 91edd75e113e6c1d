// The calls of wgpu-native 22 whose callbacks come later. The Go API gives a callback a pointer to Go memory, which may
// be freed by then; here the memory is C's.
#ifndef TL_WGPU_CORE_ABI_H
#define TL_WGPU_CORE_ABI_H

#include <stddef.h>
#include <stdint.h>

void wgpuBufferMapAsync(void *buffer, uint32_t mode, size_t offset, size_t size, void (*callback)(int status,
	void *userdata), void *userdata);
void wgpuQueueOnSubmittedWorkDone(void *queue, void (*callback)(int status, void *userdata), void *userdata);
void wgpuDevicePushErrorScope(void *device, int filter);
void wgpuDevicePopErrorScope(void *device, void (*callback)(int type, char const *message, void *userdata),
	void *userdata);

// The state of a map: 0 pending, 1 mapped, 2 failed.
typedef struct { int status; } tl_map;
// The number of completed submissions.
typedef struct { uint64_t done; } tl_progress;

// Starts to map size bytes of the buffer; m tells when it is done. Returns 0, or the type of a validation error.
int tl_core_map(void *device, void *buffer, uint32_t mode, size_t size, tl_map *m);
// Counts the work submitted so far as one completed submission in p, once it is complete.
void tl_core_on_done(void *queue, tl_progress *p);

#endif
