package wgpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/device/devicetest"
	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/wgpu"
)

// open makes a device of whatever adapter there is; a machine without one skips.
func open(t *testing.T, o gpu.Options) *gpu.Device {
	t.Helper()
	driver := &wgpu.Driver{}
	list, err := gpu.Adapters(driver)
	require.NoError(t, err)
	if len(list) == 0 {
		t.Skip("no adapter")
	}
	o.AllowSoftware = true
	if o.CacheDir == "" {
		o.CacheDir = "-"
	}
	d, err := gpu.Open(driver, o)
	require.NoError(t, err)
	return d
}

func TestConformance(t *testing.T) {
	devicetest.Run(t, func() device.Device { return open(t, gpu.Options{}) })
}

// TestConformanceCore uses core WebGPU only: parameters in uniform buffers, packed
// halves, 32-bit integers, 8 storage buffers.
func TestConformanceCore(t *testing.T) {
	devicetest.Run(t, func() device.Device { return open(t, gpu.Options{Core: true, NoProbe: true}) })
}
