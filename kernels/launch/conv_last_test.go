package launch_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func floatBytes(x ...float32) (b []byte) {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// A picture of two by two positions of one channel, windows of two positions of a row with padding before them.
func TestConvolutionsOfLastChannelsByHand(t *testing.T) {
	params := make([]uint64, launch.LastParams)
	for i, v := range map[int]uint64{launch.LastBatch: 1, launch.LastChannels: 1, launch.LastOutputs: 1,
		launch.LastHigh: 2, launch.LastWide: 2, launch.LastOutHigh: 2, launch.LastOutWide: 2, launch.LastTapsHigh: 1,
		launch.LastTapsWide: 2, launch.LastStepHigh: 1, launch.LastStepWide: 1, launch.LastLeft: 1, launch.LastGapHigh: 1,
		launch.LastGapWide: 1, launch.LastLeast: uint64(math.Float32bits(0)), launch.LastMost: uint64(math.Float32bits(60)),
		launch.LastStrideX: 4, launch.LastStrideX + 1: 2, launch.LastStrideX + 2: 1, launch.LastStrideX + 3: 1} {
		params[i] = v
	}
	weights, bias := make([]float32, 32), make([]float32, 16)
	weights[0], weights[16], bias[0] = 1, 10, -15
	c, out := &launch.ConvLast{Add: true}, make([]byte, 16)
	bufs := [][]byte{floatBytes(1, 2, 3, 4), floatBytes(weights...), floatBytes(bias...), floatBytes(1, 2, 3, 40), out}
	_, err := c.Interpret(params, bufs)
	require.NoError(t, err)
	assert.Equal(t, floatBytes(0, 8, 18, 60), out) // -4, 8, 18 and 68 within limits
	assert.Equal(t, int64(2*4*2), c.Cost(params, &loopir.Widths{}).Flops)
	bufs[0] = bufs[0][:8]
	_, err = c.Interpret(params, bufs)
	assert.ErrorContains(t, err, "operand 0")
}
