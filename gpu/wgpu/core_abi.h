// Two calls of wgpu-native 22 in place of the Go API's, which passes a pointer to Go memory that may be gone when the
// callback comes.
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

// The state of a map, in C memory: 0 pending, 1 mapped, 2 failed.
typedef struct { int status; } tl_map;
// The number of completed submissions.
typedef struct { uint64_t done; } tl_progress;

// tl_core_map returns 0, or not 0 where the call itself failed.
int tl_core_map(void *device, void *buffer, uint32_t mode, size_t size, tl_map *m);
void tl_core_on_done(void *queue, tl_progress *p);

#endif
