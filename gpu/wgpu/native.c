//go:build !cogentcore

#include "native.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#include <time.h>
#include <unistd.h>
#endif

struct tl_device {
	tl_obj device, queue;
	uint64_t submitted;
	_Atomic uint64_t done;
	atomic_int lost;
	char why_lost[TL_MSG]; // written before lost is set
};

typedef struct {
	tl_obj ref;
	atomic_int mapped; // tl_map_status
} tl_buffer;

static tl_str str(char const *s) { return (tl_str){s, TL_STRLEN}; }

static void copy_message(char *dst, tl_str s) {
	if (s.data == NULL) s = (tl_str){"no message", TL_STRLEN};
	size_t n = s.length == TL_STRLEN ? strlen(s.data) : s.length;
	if (n > TL_MSG - 1) n = TL_MSG - 1;
	memcpy(dst, s.data, n);
	dst[n] = 0;
}

// Threads. Objects of wgpu-native are shared references to wgpu-core's, which locks what it shares, so any thread may
// call any function on them. Error scopes are the exception: a device has one stack of them, so two threads would take
// each other's errors. This file opens none. Without a scope wgpu-native calls on_uncaptured within the call that
// fails, in its thread; the thread's own variable says which function of this file that is.
//
// tl_pipeline_create may run in several threads, beside any other function; it uses no field of tl_device that changes.
// The other functions are called by one thread at a time.
static _Thread_local tl_error *current;

static void begin(tl_error *e) {
	*e = (tl_error){0, NULL};
	current = e;
}

static tl_error end(tl_error *e) {
	current = NULL;
	return *e;
}

// failure is the error e, or this one where e is none.
static void failure(tl_error *e, int code, tl_str message) {
	if (e->code != 0) return;
	e->code = code;
	if ((e->msg = malloc(TL_MSG)) != NULL) copy_message(e->msg, message);
}

static void on_uncaptured(tl_obj const *device, uint32_t type, tl_str message, void *u1, void *u2) {
	(void)device, (void)u1, (void)u2;
	if (current != NULL && type != TL_ERROR_NONE) failure(current, (int)type, message);
}

static void on_lost(tl_obj const *device, uint32_t reason, tl_str message, void *u1, void *u2) {
	(void)device, (void)u2;
	tl_device *d = u1;
	if (reason == TL_LOST_DESTROYED || reason == TL_LOST_CANCELLED || atomic_load(&d->lost)) return;
	copy_message(d->why_lost, message);
	atomic_store(&d->lost, 1);
}

typedef struct { uint32_t status; tl_obj device; char *msg; } request;

static void on_device(uint32_t status, tl_obj device, tl_str message, void *u1, void *u2) {
	(void)u2;
	request *r = u1;
	r->status = status;
	r->device = device;
	if (status != TL_SUCCESS) copy_message(r->msg, message);
}

void tl_adapter_caps(tl_obj adapter, tl_caps *out) {
	memset(out, 0, sizeof *out);
	wgpuAdapterGetLimits(adapter, &out->limits);
	out->f16 = wgpuAdapterHasFeature(adapter, TL_FEATURE_F16);
	out->i64 = wgpuAdapterHasFeature(adapter, TL_FEATURE_I64);
	out->subgroups = wgpuAdapterHasFeature(adapter, TL_FEATURE_SUBGROUP);
	out->f32_atomics = wgpuAdapterHasFeature(adapter, TL_FEATURE_F32_ATOMIC);
	out->immediates = wgpuAdapterHasFeature(adapter, TL_FEATURE_IMMEDIATES);
	out->timestamps = wgpuAdapterHasFeature(adapter, TL_FEATURE_TIMESTAMP);
	tl_adapter_info info = {0};
	if (wgpuAdapterGetInfo(adapter, &info) == TL_SUCCESS) {
		out->subgroup_min = info.subgroupMinSize;
		out->subgroup_max = info.subgroupMaxSize;
		wgpuAdapterInfoFreeMembers(info);
	}
}

tl_device *tl_open(tl_obj adapter, tl_caps const *want, char *msg) {
	tl_device *d = calloc(1, sizeof *d);
	if (d == NULL) return NULL;
	uint32_t features[8];
	size_t n = 0;
	if (want->f16) features[n++] = TL_FEATURE_F16;
	if (want->i64) features[n++] = TL_FEATURE_I64;
	if (want->subgroups) features[n++] = TL_FEATURE_SUBGROUP;
	if (want->f32_atomics) features[n++] = TL_FEATURE_F32_ATOMIC;
	if (want->immediates) features[n++] = TL_FEATURE_IMMEDIATES;
	if (want->timestamps) features[n++] = TL_FEATURE_TIMESTAMP;
	tl_limits limits = want->limits;
	limits.next = NULL;
	tl_device_desc desc = {
		.label = str("torchlette"),
		.requiredFeatureCount = n,
		.requiredFeatures = features,
		.requiredLimits = &limits,
		.deviceLostCallbackInfo = {.mode = TL_CALLBACK_SPONTANEOUS, .callback = on_lost, .userdata1 = d},
		.uncapturedErrorCallbackInfo = {.callback = on_uncaptured},
	};
	request r = {.msg = msg};
	wgpuAdapterRequestDevice(adapter, &desc, (tl_request_info){.mode = TL_CALLBACK_SPONTANEOUS, .callback = on_device,
		.userdata1 = &r});
	if (r.status != TL_SUCCESS || r.device == NULL) {
		free(d);
		return NULL;
	}
	d->device = r.device;
	d->queue = wgpuDeviceGetQueue(r.device);
	return d;
}

// The struct stays: callbacks of work in flight may still come.
void tl_close(tl_device *d) {
	wgpuQueueRelease(d->queue);
	if (!atomic_load(&d->lost)) wgpuDeviceDestroy(d->device);
	wgpuDeviceRelease(d->device);
	d->device = d->queue = NULL;
}

int tl_lost(tl_device *d) { return atomic_load(&d->lost); }
char const *tl_why_lost(tl_device *d) { return d->why_lost; }

tl_error tl_buffer_create(tl_device *d, uint64_t bytes, uint64_t usage, int mapped, uintptr_t *out) {
	tl_error e;
	tl_buffer *b = calloc(1, sizeof *b);
	if (b == NULL) return (tl_error){TL_ERROR_OOM, NULL};
	tl_buffer_desc desc = {.label = str(""), .usage = usage, .size = bytes, .mappedAtCreation = (uint32_t)mapped};
	begin(&e);
	b->ref = wgpuDeviceCreateBuffer(d->device, &desc);
	if (b->ref == NULL) failure(&e, TL_ERROR_OOM, str("no buffer was created"));
	if (e.code != 0) {
		if (b->ref != NULL) wgpuBufferRelease(b->ref);
		free(b);
		return end(&e);
	}
	atomic_store(&b->mapped, mapped);
	*out = (uintptr_t)b;
	return end(&e);
}

void tl_buffer_destroy(uintptr_t h) {
	tl_buffer *b = (tl_buffer *)h;
	wgpuBufferDestroy(b->ref);
	wgpuBufferRelease(b->ref);
	// A map in flight still writes its status here, so such buffers stay.
	if (atomic_load(&b->mapped) >= 0) free(b);
}

static void on_mapped(uint32_t status, tl_str message, void *u1, void *u2) {
	(void)message, (void)u2;
	tl_buffer *b = u1;
	atomic_store(&b->mapped, status == TL_SUCCESS ? 1 : 2);
}

tl_error tl_map_start(uintptr_t h, uint64_t mode, uint64_t bytes) {
	tl_error e;
	tl_buffer *b = (tl_buffer *)h;
	atomic_store(&b->mapped, -1);
	begin(&e);
	wgpuBufferMapAsync(b->ref, mode, 0, bytes, (tl_status_info){.mode = TL_CALLBACK_SPONTANEOUS, .callback = on_mapped,
		.userdata1 = b});
	return end(&e);
}

int tl_map_status(uintptr_t h) {
	tl_buffer *b = (tl_buffer *)h;
	int s = atomic_load(&b->mapped);
	return s < 0 ? 0 : s;
}

void *tl_mapped(uintptr_t h, uint64_t mode, uint64_t bytes) {
	tl_buffer *b = (tl_buffer *)h;
	if (mode == 1) return (void *)wgpuBufferGetConstMappedRange(b->ref, 0, bytes);
	return wgpuBufferGetMappedRange(b->ref, 0, bytes);
}

tl_error tl_unmap(uintptr_t h) {
	tl_error e;
	tl_buffer *b = (tl_buffer *)h;
	begin(&e);
	wgpuBufferUnmap(b->ref);
	atomic_store(&b->mapped, 0);
	return end(&e);
}

static tl_obj pipeline_layout(tl_device *d, uint8_t const *kinds, int n, uint64_t uniform_bytes,
	uint32_t immediate_bytes, tl_obj *group_layout) {
	tl_layout_entry *e = calloc(n > 0 ? (size_t)n : 1, sizeof *e);
	if (e == NULL) return NULL;
	static uint32_t const types[] = {TL_BINDING_READ_ONLY, TL_BINDING_STORAGE, TL_BINDING_UNIFORM};
	for (int i = 0; i < n; i++) {
		e[i].binding = (uint32_t)i;
		e[i].visibility = TL_STAGE_COMPUTE;
		e[i].buffer.type = types[kinds[i]];
		if (kinds[i] == 2) {
			e[i].buffer.hasDynamicOffset = 1;
			e[i].buffer.minBindingSize = uniform_bytes;
		}
	}
	tl_layout_desc gd = {.label = str(""), .entryCount = (size_t)n, .entries = e};
	*group_layout = wgpuDeviceCreateBindGroupLayout(d->device, &gd);
	free(e);
	tl_pipeline_layout_desc pd = {.label = str(""), .bindGroupLayoutCount = 1, .bindGroupLayouts = group_layout,
		.immediateSize = immediate_bytes};
	return wgpuDeviceCreatePipelineLayout(d->device, &pd);
}

// Exit. exit() runs the destructors of drivers and their compilers while other threads go on, so it must wait until no
// pipeline is being made. on_exit_wait is registered after the first pipeline, therefore after the destructors of what
// making one has loaded, and runs before them. On Windows the other threads have ended by then.
static atomic_int making, exiting;

#ifndef _WIN32
static pid_t process;

static void on_exit_wait(void) {
	if (getpid() != process) return; // a forked child has no other threads
	atomic_store(&exiting, 1);
	struct timespec tick = {.tv_nsec = 1000000};
	for (int ms = 0; atomic_load(&making) > 0 && ms < 30000; ms++) nanosleep(&tick, NULL);
}

static void wait_at_exit(void) {
	static atomic_flag done = ATOMIC_FLAG_INIT;
	if (atomic_flag_test_and_set(&done)) return;
	process = getpid();
	atexit(on_exit_wait);
}
#else
static void wait_at_exit(void) {}
#endif

static void make_pipeline(tl_error *e, tl_device *d, char const *label, char const *text, size_t text_len,
	char const *entry, uint8_t const *kinds, int n, uint64_t uniform_bytes, uint32_t immediate_bytes,
	uintptr_t *pipeline, uintptr_t *layout) {
	tl_obj group_layout = NULL;
	tl_obj pl = pipeline_layout(d, kinds, n, uniform_bytes, immediate_bytes, &group_layout);
	tl_wgsl_source src = {.chain = {.stype = TL_STYPE_WGSL}, .code = {text, text_len}};
	tl_labeled md = {.next = &src.chain, .label = str(label)};
	// Trusted, without run-time checks: every index in the text is in bounds or clamped.
	tl_obj module = pl == NULL ? NULL : wgpuDeviceCreateShaderModuleTrusted(d->device, &md, 0);
	tl_obj p = NULL;
	if (module != NULL && e->code == 0) {
		tl_pipeline_desc desc = {.label = str(label), .layout = pl, .compute = {.module = module, .entryPoint = str(entry)}};
		p = wgpuDeviceCreateComputePipeline(d->device, &desc);
	}
	if (p == NULL) failure(e, TL_ERROR_INTERNAL, str("no pipeline was created"));
	if (module != NULL) wgpuShaderModuleRelease(module);
	if (pl != NULL) wgpuPipelineLayoutRelease(pl);
	if (e->code != 0) {
		if (p != NULL) wgpuComputePipelineRelease(p);
		if (group_layout != NULL) wgpuBindGroupLayoutRelease(group_layout);
		return;
	}
	*pipeline = (uintptr_t)p;
	*layout = (uintptr_t)group_layout;
}

tl_error tl_pipeline_create(tl_device *d, char const *label, char const *text, size_t text_len, char const *entry,
	uint8_t const *kinds, int n,
	uint64_t uniform_bytes, uint32_t immediate_bytes, uintptr_t *pipeline, uintptr_t *layout) {
	tl_error e;
	begin(&e);
	atomic_fetch_add(&making, 1);
	if (atomic_load(&exiting)) {
		failure(&e, TL_ERROR_INTERNAL, str("the process is ending"));
	} else {
		make_pipeline(&e, d, label, text, text_len, entry, kinds, n, uniform_bytes, immediate_bytes, pipeline, layout);
		wait_at_exit();
	}
	atomic_fetch_sub(&making, 1);
	return end(&e);
}

void tl_pipeline_release(uintptr_t pipeline, uintptr_t layout) {
	wgpuComputePipelineRelease((tl_obj)pipeline);
	wgpuBindGroupLayoutRelease((tl_obj)layout);
}

tl_error tl_group_create(tl_device *d, uintptr_t layout, tl_binding const *entries, int n, uintptr_t *out) {
	tl_error err;
	tl_group_entry stack[16], *e = stack;
	if (n > 16 && (e = malloc((size_t)n * sizeof *e)) == NULL) return (tl_error){TL_ERROR_OOM, NULL};
	memset(e, 0, (size_t)n * sizeof *e);
	for (int i = 0; i < n; i++) {
		e[i].binding = (uint32_t)i;
		e[i].buffer = ((tl_buffer *)entries[i].buffer)->ref;
		e[i].offset = (uint64_t)entries[i].offset;
		e[i].size = (uint64_t)entries[i].bytes;
	}
	tl_group_desc desc = {.label = str(""), .layout = (tl_obj)layout, .entryCount = (size_t)n, .entries = e};
	begin(&err);
	tl_obj g = wgpuDeviceCreateBindGroup(d->device, &desc);
	if (e != stack) free(e);
	if (err.code == 0) *out = (uintptr_t)g;
	else if (g != NULL) wgpuBindGroupRelease(g);
	return end(&err);
}

void tl_group_release(uintptr_t group) { wgpuBindGroupRelease((tl_obj)group); }

tl_error tl_queries_create(tl_device *d, uint32_t n, uintptr_t *out) {
	tl_error e;
	tl_query_desc desc = {.label = str(""), .type = TL_QUERY_TIMESTAMP, .count = n};
	begin(&e);
	tl_obj q = wgpuDeviceCreateQuerySet(d->device, &desc);
	if (e.code == 0) *out = (uintptr_t)q;
	else if (q != NULL) wgpuQuerySetRelease(q);
	return end(&e);
}

void tl_queries_release(uintptr_t q) { wgpuQuerySetRelease((tl_obj)q); }

static void on_done(uint32_t status, tl_str message, void *u1, void *u2) {
	(void)status, (void)message;
	tl_device *d = u1;
	uint64_t n = (uintptr_t)u2;
	// Callbacks may come out of order; submissions complete in order.
	if (n > atomic_load(&d->done)) atomic_store(&d->done, n);
}

typedef struct {
	tl_obj encoder, pass;
	uintptr_t pipeline, group; // bound in the pass
	uint32_t dynamic;
} encoding;

static void end_pass(encoding *e) {
	if (e->pass == NULL) return;
	wgpuComputePassEncoderEnd(e->pass);
	wgpuComputePassEncoderRelease(e->pass);
	e->pass = NULL;
}

static void dispatch(encoding *e, tl_record const *r, uint32_t const *words) {
	if (e->pass == NULL) {
		tl_pass_timestamps ts = {.querySet = (tl_obj)r->c, .beginningOfPassWriteIndex = r->query,
			.endOfPassWriteIndex = r->query + 1};
		tl_pass_desc desc = {.label = str(""), .timestampWrites = r->kind == TL_TIMED ? &ts : NULL};
		e->pass = wgpuCommandEncoderBeginComputePass(e->encoder, &desc);
		e->pipeline = e->group = 0;
	}
	if (e->pipeline != r->a) {
		wgpuComputePassEncoderSetPipeline(e->pass, (tl_obj)r->a);
		e->pipeline = r->a;
	}
	if (e->group != r->b || (r->has_dynamic && e->dynamic != r->dynamic)) {
		wgpuComputePassEncoderSetBindGroup(e->pass, 0, (tl_obj)r->b, r->has_dynamic ? 1 : 0, &r->dynamic);
		e->group = r->b;
		e->dynamic = r->dynamic;
	}
	if (r->words != 0) wgpuComputePassEncoderSetImmediates(e->pass, 0, words + r->word, (size_t)r->words * 4);
	wgpuComputePassEncoderDispatchWorkgroups(e->pass, (uint32_t)r->x, (uint32_t)r->y, (uint32_t)r->z);
}

static void encode(encoding *e, tl_record const *r, uint32_t const *words) {
	switch (r->kind) {
	case TL_DISPATCH:
		dispatch(e, r, words);
		return;
	case TL_TIMED:
		end_pass(e);
		dispatch(e, r, words);
		return;
	case TL_COPY:
		end_pass(e);
		wgpuCommandEncoderCopyBufferToBuffer(e->encoder, ((tl_buffer *)r->a)->ref, r->x, ((tl_buffer *)r->b)->ref, r->y,
			r->z);
		return;
	case TL_CLEAR:
		end_pass(e);
		wgpuCommandEncoderClearBuffer(e->encoder, ((tl_buffer *)r->a)->ref, r->x, r->z);
		return;
	case TL_RESOLVE:
		end_pass(e);
		wgpuCommandEncoderResolveQuerySet(e->encoder, (tl_obj)r->a, (uint32_t)r->x, (uint32_t)r->z, ((tl_buffer *)r->b)->ref,
			r->y);
		return;
	}
	end_pass(e);
}

tl_error tl_submit(tl_device *d, tl_record const *r, size_t n, uint32_t const *words) {
	tl_error err;
	tl_labeled desc = {.label = str("")};
	begin(&err);
	encoding e = {.encoder = wgpuDeviceCreateCommandEncoder(d->device, &desc)};
	for (size_t i = 0; i < n; i++) encode(&e, &r[i], words);
	end_pass(&e);
	tl_obj commands = wgpuCommandEncoderFinish(e.encoder, &desc);
	wgpuCommandEncoderRelease(e.encoder);
	// wgpu-native ends the process at the submission of an invalid command buffer.
	if (err.code != 0) {
		if (commands != NULL) wgpuCommandBufferRelease(commands);
		return end(&err);
	}
	wgpuQueueSubmitForIndex(d->queue, 1, &commands);
	wgpuCommandBufferRelease(commands);
	d->submitted++;
	wgpuQueueOnSubmittedWorkDone(d->queue,
		(tl_status_info){.mode = TL_CALLBACK_SPONTANEOUS, .callback = on_done, .userdata1 = d,
			.userdata2 = (void *)(uintptr_t)d->submitted});
	return end(&err);
}

uint64_t tl_completed(tl_device *d) {
	uint64_t done = atomic_load(&d->done);
	if (done == d->submitted || atomic_load(&d->lost)) return done;
	wgpuDevicePoll(d->device, 0, NULL);
	return atomic_load(&d->done);
}

float tl_timestamp_period(tl_device *d) { return wgpuQueueGetTimestampPeriod(d->queue); }

void tl_poll(tl_device *d) {
	if (!atomic_load(&d->lost)) wgpuDevicePoll(d->device, 0, NULL);
}
