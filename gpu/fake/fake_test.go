package fake_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/device/devicetest"
)

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter is slow")
	}
	for _, core := range []bool{false, true} {
		d := fake.New()
		d.Kind = gpu.Software // small workgroups: the interpreter pays for every lane
		d.Lag = 3
		t.Run(fmt.Sprintf("core=%v", core), func(t *testing.T) {
			devicetest.Run(t, func() device.Device {
				dev, err := gpu.Open(d, gpu.Options{AllowSoftware: true, Core: core, CacheDir: "-", Merge: 8})
				require.NoError(t, err)
				return dev
			})
		})
		assert.Zero(t, d.Live, "every object is released")
	}
}
