//go:build !cogentcore

package wgpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	binding "github.com/oliverbestmann/webgpu/wgpu"
)

// TestAdapterLayout guards adapterRef: the C handle must be the first field.
func TestAdapterLayout(t *testing.T) {
	f := reflect.TypeFor[binding.Adapter]().Field(0)
	assert.Equal(t, "ref", f.Name)
	assert.Contains(t, f.Type.String(), "WGPUAdapter")
	assert.Equal(t, reflect.TypeFor[uintptr]().Size(), f.Type.Size())
}

// TestABI compares abi.h with the headers that come with the library, at compile time.
func TestABI(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/oliverbestmann/webgpu/wgpu").Output()
	require.NoError(t, err)
	include := filepath.Join(strings.TrimSpace(string(out)), "lib", runtime.GOOS, runtime.GOARCH)
	abi, err := os.ReadFile("abi.h")
	require.NoError(t, err)
	// The functions are declared with other pointer types there: only types and constants are compared.
	types, _, ok := strings.Cut(string(abi), "uint32_t wgpuGetVersion(void);")
	require.True(t, ok)
	src := "#include <wgpu.h>\n" + types + "\n#endif\n" + layoutAssertions
	file := filepath.Join(t.TempDir(), "abi.c")
	require.NoError(t, os.WriteFile(file, []byte(src), 0o600))
	text, err := exec.Command(cc, "-std=c11", "-fsyntax-only", "-I"+include, file).CombinedOutput()
	require.NoError(t, err, "%s", text)
}

const layoutAssertions = `
#define SIZE(a, b) _Static_assert(sizeof(a) == sizeof(b), #a)
#define OFF(a, x, b, y) _Static_assert(offsetof(a, x) == offsetof(b, y), #a "." #x)
#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a)
SIZE(tl_limits, WGPULimits); OFF(tl_limits, maxImmediateSize, WGPULimits, maxImmediateSize);
OFF(tl_limits, maxBufferSize, WGPULimits, maxBufferSize);
OFF(tl_limits, maxStorageBufferBindingSize, WGPULimits, maxStorageBufferBindingSize);
OFF(tl_limits, maxStorageBuffersPerShaderStage, WGPULimits, maxStorageBuffersPerShaderStage);
OFF(tl_limits, maxComputeWorkgroupStorageSize, WGPULimits, maxComputeWorkgroupStorageSize);
OFF(tl_limits, maxComputeWorkgroupsPerDimension, WGPULimits, maxComputeWorkgroupsPerDimension);
OFF(tl_limits, minUniformBufferOffsetAlignment, WGPULimits, minUniformBufferOffsetAlignment);
SIZE(tl_adapter_info, WGPUAdapterInfo); OFF(tl_adapter_info, subgroupMaxSize, WGPUAdapterInfo, subgroupMaxSize);
SIZE(tl_str, WGPUStringView); SIZE(tl_chain, WGPUChainedStruct); SIZE(tl_future, WGPUFuture);
SIZE(tl_labeled, WGPUQueueDescriptor); SIZE(tl_labeled, WGPUCommandEncoderDescriptor);
SIZE(tl_labeled, WGPUCommandBufferDescriptor);
SIZE(tl_labeled, WGPUShaderModuleDescriptor);
SIZE(tl_lost_info, WGPUDeviceLostCallbackInfo); SIZE(tl_uncaptured_info, WGPUUncapturedErrorCallbackInfo);
SIZE(tl_request_info, WGPURequestDeviceCallbackInfo);
SIZE(tl_status_info, WGPUBufferMapCallbackInfo); SIZE(tl_status_info, WGPUQueueWorkDoneCallbackInfo);
OFF(tl_status_info, callback, WGPUBufferMapCallbackInfo, callback);
OFF(tl_status_info, userdata2, WGPUBufferMapCallbackInfo, userdata2);
SIZE(tl_device_desc, WGPUDeviceDescriptor); OFF(tl_device_desc, requiredLimits, WGPUDeviceDescriptor, requiredLimits);
OFF(tl_device_desc, uncapturedErrorCallbackInfo, WGPUDeviceDescriptor, uncapturedErrorCallbackInfo);
SIZE(tl_buffer_desc, WGPUBufferDescriptor);
OFF(tl_buffer_desc, mappedAtCreation, WGPUBufferDescriptor, mappedAtCreation);
SIZE(tl_group_entry, WGPUBindGroupEntry); OFF(tl_group_entry, size, WGPUBindGroupEntry, size);
SIZE(tl_group_desc, WGPUBindGroupDescriptor);
SIZE(tl_layout_entry, WGPUBindGroupLayoutEntry); OFF(tl_layout_entry, buffer, WGPUBindGroupLayoutEntry, buffer);
OFF(tl_layout_entry, visibility, WGPUBindGroupLayoutEntry, visibility); SIZE(tl_buffer_layout, WGPUBufferBindingLayout);
SIZE(tl_layout_desc, WGPUBindGroupLayoutDescriptor); SIZE(tl_pipeline_layout_desc, WGPUPipelineLayoutDescriptor);
OFF(tl_pipeline_layout_desc, immediateSize, WGPUPipelineLayoutDescriptor, immediateSize);
SIZE(tl_wgsl_source, WGPUShaderSourceWGSL); SIZE(tl_compute_state, WGPUComputeState);
SIZE(tl_pipeline_desc, WGPUComputePipelineDescriptor);
SIZE(tl_pass_timestamps, WGPUPassTimestampWrites); SIZE(tl_pass_desc, WGPUComputePassDescriptor);
SIZE(tl_query_desc, WGPUQuerySetDescriptor);
SIZE(uint64_t, WGPUBufferUsage); SIZE(uint64_t, WGPUMapMode); SIZE(uint32_t, WGPUBool); SIZE(uint32_t, WGPUFeatureName);
SAME(TL_STYPE_WGSL, WGPUSType_ShaderSourceWGSL); SAME(TL_CALLBACK_SPONTANEOUS, WGPUCallbackMode_AllowSpontaneous);
SAME(TL_SUCCESS, WGPUMapAsyncStatus_Success); SAME(TL_SUCCESS, WGPURequestDeviceStatus_Success);
SAME(TL_SUCCESS, WGPUStatus_Success);
SAME(TL_ERROR_NONE, WGPUErrorType_NoError); SAME(TL_ERROR_VALIDATION, WGPUErrorType_Validation);
SAME(TL_ERROR_OOM, WGPUErrorType_OutOfMemory); SAME(TL_ERROR_INTERNAL, WGPUErrorType_Internal);
SAME(TL_BINDING_UNIFORM, WGPUBufferBindingType_Uniform); SAME(TL_BINDING_STORAGE, WGPUBufferBindingType_Storage);
SAME(TL_BINDING_READ_ONLY, WGPUBufferBindingType_ReadOnlyStorage); SAME(TL_STAGE_COMPUTE, 4);
SAME(TL_QUERY_TIMESTAMP, WGPUQueryType_Timestamp);
SAME(TL_LOST_DESTROYED, WGPUDeviceLostReason_Destroyed);
SAME(TL_LOST_CANCELLED, WGPUDeviceLostReason_CallbackCancelled);
SAME(TL_FEATURE_TIMESTAMP, WGPUFeatureName_TimestampQuery); SAME(TL_FEATURE_F16, WGPUFeatureName_ShaderF16);
SAME(TL_FEATURE_IMMEDIATES, WGPUNativeFeature_Immediates); SAME(TL_FEATURE_SUBGROUP, WGPUNativeFeature_Subgroup);
SAME(TL_FEATURE_I64, WGPUNativeFeature_ShaderInt64); SAME(TL_FEATURE_F32_ATOMIC, WGPUNativeFeature_ShaderFloat32Atomic);
`
