// Declarations of the part of wgpu-native 29's C ABI that this package calls, after
// https://github.com/webgpu-native/webgpu-headers and wgpu-native's wgpu.h. abi_test.go compares every size and offset
// with the library's headers.
#ifndef TL_WGPU_ABI_H
#define TL_WGPU_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef void *tl_obj;

typedef struct { const char *data; size_t length; } tl_str;
typedef struct tl_chain { struct tl_chain *next; uint32_t stype; } tl_chain;
typedef struct { uint64_t id; } tl_future;

typedef struct {
	tl_chain *next;
	uint32_t maxTextureDimension1D, maxTextureDimension2D, maxTextureDimension3D, maxTextureArrayLayers;
	uint32_t maxBindGroups, maxBindGroupsPlusVertexBuffers, maxBindingsPerBindGroup;
	uint32_t maxDynamicUniformBuffersPerPipelineLayout, maxDynamicStorageBuffersPerPipelineLayout;
	uint32_t maxSampledTexturesPerShaderStage, maxSamplersPerShaderStage, maxStorageBuffersPerShaderStage;
	uint32_t maxStorageTexturesPerShaderStage, maxUniformBuffersPerShaderStage;
	uint64_t maxUniformBufferBindingSize, maxStorageBufferBindingSize;
	uint32_t minUniformBufferOffsetAlignment, minStorageBufferOffsetAlignment, maxVertexBuffers;
	uint64_t maxBufferSize;
	uint32_t maxVertexAttributes, maxVertexBufferArrayStride, maxInterStageShaderVariables, maxColorAttachments;
	uint32_t maxColorAttachmentBytesPerSample, maxComputeWorkgroupStorageSize, maxComputeInvocationsPerWorkgroup;
	uint32_t maxComputeWorkgroupSizeX, maxComputeWorkgroupSizeY, maxComputeWorkgroupSizeZ;
	uint32_t maxComputeWorkgroupsPerDimension, maxImmediateSize;
} tl_limits;

typedef struct { tl_chain *next; tl_str vendor, architecture, device, description; uint32_t backendType, adapterType,
	vendorID, deviceID, subgroupMinSize, subgroupMaxSize; } tl_adapter_info;
typedef struct { tl_chain *next; tl_str label; } tl_labeled; // queue, command encoder, command buffer, shader module
typedef struct { tl_chain *next; uint32_t mode; void (*callback)(tl_obj const *, uint32_t, tl_str, void *, void *);
	void *userdata1, *userdata2; } tl_lost_info;
typedef struct { tl_chain *next; void (*callback)(tl_obj const *, uint32_t, tl_str, void *, void *);
	void *userdata1, *userdata2; } tl_uncaptured_info;
typedef struct { tl_chain *next; uint32_t mode; void (*callback)(uint32_t, tl_obj, tl_str, void *, void *);
	void *userdata1, *userdata2; } tl_request_info;
// of map and of work done
typedef struct { tl_chain *next; uint32_t mode; void (*callback)(uint32_t, tl_str, void *, void *);
	void *userdata1, *userdata2; } tl_status_info;
typedef struct {
	tl_chain *next; tl_str label; size_t requiredFeatureCount; uint32_t const *requiredFeatures;
	tl_limits const *requiredLimits;
	tl_labeled defaultQueue; tl_lost_info deviceLostCallbackInfo; tl_uncaptured_info uncapturedErrorCallbackInfo;
} tl_device_desc;
typedef struct { tl_chain *next; tl_str label; uint64_t usage, size; uint32_t mappedAtCreation; } tl_buffer_desc;
typedef struct { tl_chain *next; uint32_t binding; tl_obj buffer; uint64_t offset, size; tl_obj sampler, textureView;
	} tl_group_entry;
typedef struct { tl_chain *next; tl_str label; tl_obj layout; size_t entryCount; tl_group_entry const *entries;
	} tl_group_desc;
typedef struct { tl_chain *next; uint32_t type, hasDynamicOffset; uint64_t minBindingSize; } tl_buffer_layout;
typedef struct { tl_chain *next; uint32_t type; } tl_sampler_layout;
typedef struct { tl_chain *next; uint32_t a, b, c; } tl_texture_layout; // sampled and storage textures
typedef struct { tl_chain *next; uint32_t binding; uint64_t visibility; uint32_t bindingArraySize;
	tl_buffer_layout buffer; tl_sampler_layout sampler; tl_texture_layout texture, storageTexture; } tl_layout_entry;
typedef struct { tl_chain *next; tl_str label; size_t entryCount; tl_layout_entry const *entries; } tl_layout_desc;
typedef struct { tl_chain *next; tl_str label; size_t bindGroupLayoutCount; tl_obj const *bindGroupLayouts;
	uint32_t immediateSize; } tl_pipeline_layout_desc;
typedef struct { tl_chain chain; tl_str code; } tl_wgsl_source;
typedef struct { tl_chain *next; tl_obj module; tl_str entryPoint; size_t constantCount; void const *constants;
	} tl_compute_state;
typedef struct { tl_chain *next; tl_str label; tl_obj layout; tl_compute_state compute; } tl_pipeline_desc;
typedef struct { tl_chain *next; tl_obj querySet; uint32_t beginningOfPassWriteIndex, endOfPassWriteIndex;
	} tl_pass_timestamps;
typedef struct { tl_chain *next; tl_str label; tl_pass_timestamps const *timestampWrites; } tl_pass_desc;
typedef struct { tl_chain *next; tl_str label; uint32_t type, count; } tl_query_desc;

enum {
	TL_VERSION_MAJOR = 29,
	TL_STYPE_WGSL = 2,
	TL_CALLBACK_SPONTANEOUS = 3,
	TL_SUCCESS = 1,
	TL_ERROR_NONE = 1, TL_ERROR_VALIDATION = 2, TL_ERROR_OOM = 3, TL_ERROR_INTERNAL = 4,
	TL_BINDING_UNIFORM = 2, TL_BINDING_STORAGE = 3, TL_BINDING_READ_ONLY = 4,
	TL_STAGE_COMPUTE = 4,
	TL_QUERY_TIMESTAMP = 2,
	TL_LOST_DESTROYED = 2, TL_LOST_CANCELLED = 3,
	TL_FEATURE_TIMESTAMP = 9, TL_FEATURE_F16 = 0xB,
	TL_FEATURE_IMMEDIATES = 0x30001, TL_FEATURE_SUBGROUP = 0x30021, TL_FEATURE_I64 = 0x30026,
		TL_FEATURE_F32_ATOMIC = 0x30027,
};

#define TL_STRLEN SIZE_MAX

uint32_t wgpuGetVersion(void);
uint32_t wgpuAdapterGetLimits(tl_obj adapter, tl_limits *limits);
uint32_t wgpuAdapterGetInfo(tl_obj adapter, tl_adapter_info *info);
void wgpuAdapterInfoFreeMembers(tl_adapter_info info);
uint32_t wgpuAdapterHasFeature(tl_obj adapter, uint32_t feature);
tl_future wgpuAdapterRequestDevice(tl_obj adapter, tl_device_desc const *desc, tl_request_info info);
tl_obj wgpuDeviceGetQueue(tl_obj device);
uint32_t wgpuDevicePoll(tl_obj device, uint32_t wait, uint64_t const *index);
void wgpuDeviceDestroy(tl_obj device);
void wgpuDeviceRelease(tl_obj device);
tl_obj wgpuDeviceCreateBuffer(tl_obj device, tl_buffer_desc const *desc);
tl_obj wgpuDeviceCreateBindGroup(tl_obj device, tl_group_desc const *desc);
tl_obj wgpuDeviceCreateBindGroupLayout(tl_obj device, tl_layout_desc const *desc);
tl_obj wgpuDeviceCreatePipelineLayout(tl_obj device, tl_pipeline_layout_desc const *desc);
tl_obj wgpuDeviceCreateShaderModuleTrusted(tl_obj device, tl_labeled const *desc, uint64_t checks);
tl_obj wgpuDeviceCreateComputePipeline(tl_obj device, tl_pipeline_desc const *desc);
tl_obj wgpuDeviceCreateQuerySet(tl_obj device, tl_query_desc const *desc);
tl_obj wgpuDeviceCreateCommandEncoder(tl_obj device, tl_labeled const *desc);
void wgpuBindGroupRelease(tl_obj o);
void wgpuBindGroupLayoutRelease(tl_obj o);
void wgpuPipelineLayoutRelease(tl_obj o);
void wgpuShaderModuleRelease(tl_obj o);
void wgpuComputePipelineRelease(tl_obj o);
void wgpuQuerySetRelease(tl_obj o);
void wgpuCommandEncoderRelease(tl_obj o);
void wgpuCommandBufferRelease(tl_obj o);
void wgpuComputePassEncoderRelease(tl_obj o);
void wgpuBufferRelease(tl_obj o);
void wgpuQueueRelease(tl_obj o);
void wgpuBufferDestroy(tl_obj buffer);
void *wgpuBufferGetMappedRange(tl_obj buffer, size_t offset, size_t size);
void const *wgpuBufferGetConstMappedRange(tl_obj buffer, size_t offset, size_t size);
tl_future wgpuBufferMapAsync(tl_obj buffer, uint64_t mode, size_t offset, size_t size, tl_status_info info);
void wgpuBufferUnmap(tl_obj buffer);
tl_obj wgpuCommandEncoderBeginComputePass(tl_obj encoder, tl_pass_desc const *desc);
void wgpuCommandEncoderClearBuffer(tl_obj encoder, tl_obj buffer, uint64_t offset, uint64_t size);
void wgpuCommandEncoderCopyBufferToBuffer(tl_obj encoder, tl_obj src, uint64_t srcOffset, tl_obj dst,
	uint64_t dstOffset, uint64_t size);
void wgpuCommandEncoderResolveQuerySet(tl_obj encoder, tl_obj queries, uint32_t first, uint32_t count, tl_obj dst,
	uint64_t offset);
tl_obj wgpuCommandEncoderFinish(tl_obj encoder, tl_labeled const *desc);
void wgpuComputePassEncoderSetPipeline(tl_obj pass, tl_obj pipeline);
void wgpuComputePassEncoderSetBindGroup(tl_obj pass, uint32_t index, tl_obj group, size_t offsetCount,
	uint32_t const *offsets);
void wgpuComputePassEncoderSetImmediates(tl_obj pass, uint32_t offset, void const *data, size_t size);
void wgpuComputePassEncoderDispatchWorkgroups(tl_obj pass, uint32_t x, uint32_t y, uint32_t z);
void wgpuComputePassEncoderEnd(tl_obj pass);
uint64_t wgpuQueueSubmitForIndex(tl_obj queue, size_t count, tl_obj const *commands);
float wgpuQueueGetTimestampPeriod(tl_obj queue);
tl_future wgpuQueueOnSubmittedWorkDone(tl_obj queue, tl_status_info info);

#endif
