package reference_test

import (
	"testing"

	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/device/devicetest"
	"github.com/torchlette/torchlette/kernels/reference"
)

// The smallest device keeps every promise of the interface; docs/howto/add-a-device.md begins with it.
func TestConformance(t *testing.T) {
	devicetest.Run(t, func() device.Device { return reference.New() })
}
