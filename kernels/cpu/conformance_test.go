package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/device/devicetest"
)

func TestConformance(t *testing.T) {
	for _, isa := range instructionSets() {
		t.Run(isa, func(t *testing.T) {
			devicetest.Run(t, func() device.Device {
				d, err := cpu.New(cpu.Options{ISA: isa, Threads: 3})
				require.NoError(t, err)
				return d
			})
		})
	}
}
