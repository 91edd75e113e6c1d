//go:build cogentcore

#include "core_abi.h"

static void on_map(int status, void *userdata) { ((tl_map *)userdata)->status = status == 0 ? 1 : 2; }

// A count is enough, since submissions complete in order. It needs no atomics, since callbacks run inside polls, on one
// thread.
static void on_done(int status, void *userdata) {
	(void)status;
	((tl_progress *)userdata)->done++;
}

static void on_error(int type, char const *message, void *userdata) {
	(void)message;
	if (type != 0) *(int *)userdata = type;
}

int tl_core_map(void *device, void *buffer, uint32_t mode, size_t size, tl_map *m) {
	int err = 0;
	m->status = 0;
	wgpuDevicePushErrorScope(device, 0);
	wgpuBufferMapAsync(buffer, mode, 0, size, on_map, m);
	wgpuDevicePopErrorScope(device, on_error, &err);
	return err;
}

void tl_core_on_done(void *queue, tl_progress *p) { wgpuQueueOnSubmittedWorkDone(queue, on_done, p); }
