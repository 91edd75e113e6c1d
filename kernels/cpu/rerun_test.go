package cpu

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func TestAStepThatReadsWhatItWritesIsNotBegunAnew(t *testing.T) {
	product := &launch.Gemm{Type: ir.F32}
	updates := &loopir.Kernel{Bufs: []loopir.Buf{{Type: ir.F32, Access: loopir.ReadWrite}, {Type: ir.F32}}}
	makes := &loopir.Kernel{Bufs: []loopir.Buf{{Type: ir.F32, Access: loopir.Write}, {Type: ir.F32}}}
	for name, c := range map[string]struct {
		step device.Step
		want bool
	}{
		"a product of two buffers into a third":         {device.Step{Op: product, Bufs: []int{0, 1, 2}}, true},
		"a square":                                      {device.Step{Op: product, Bufs: []int{0, 0, 2}}, true},
		"a product into its operand":                    {device.Step{Op: product, Bufs: []int{0, 1, 0}}, false},
		"a kernel that updates":                         {device.Step{Op: updates, Bufs: []int{0, 1}}, false},
		"a kernel that makes a value":                   {device.Step{Op: makes, Bufs: []int{0, 1}}, true},
		"a kernel whose result has its operand's place": {device.Step{Op: makes, Bufs: []int{1, 1}}, false},
		"a copy": {device.Step{Op: launch.Copy{}, Bufs: []int{0, 1}}, true},
		"a fill": {device.Step{Op: launch.Fill{}, Bufs: []int{0}}, true},
	} {
		assert.Equal(t, c.want, rerunnable(&c.step), name)
	}
}
