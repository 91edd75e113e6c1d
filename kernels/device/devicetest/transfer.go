package devicetest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func (s *suite) caps(t *testing.T) {
	c := s.d.Caps()
	assert.NotEmpty(t, c.Name)
	for _, d := range []ir.DType{ir.Bool, ir.I32, ir.I64, ir.U32, ir.F16, ir.F32, ir.U8, ir.I8, ir.I16, ir.U16} {
		assert.Positive(t, c.Storage[d], "%s", d)
	}
	assert.GreaterOrEqual(t, c.MaxStorageBuffers, 8)
	assert.Positive(t, c.MaxBuffer)
	assert.LessOrEqual(t, c.MaxBinding, c.MaxBuffer)
	assert.Positive(t, c.Align)
	assert.NotNil(t, s.d.Stats())
}

// canonical makes n random elements that every stored form keeps.
func canonical(r *rand.Rand, d ir.DType, n int) []byte {
	out := make([]byte, n*d.Size())
	for i := range n {
		switch d {
		case ir.Bool:
			out[i] = byte(r.IntN(2))
		case ir.I64:
			binary.LittleEndian.PutUint64(out[8*i:], uint64(int64(int32(r.Uint32()))))
		default:
			for j := range d.Size() {
				out[i*d.Size()+j] = byte(r.Uint32())
			}
		}
	}
	return out
}

// transfer writes parts at odd offsets over a background, for every dtype.
func (s *suite) transfer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for d := ir.Bool; d < ir.NumStored; d++ {
		if s.d.Caps().Storage[d] == 0 {
			b, err := s.d.Alloc(64)
			require.NoError(t, err)
			requireCode(t, s.d.Upload(b, d, 0, make([]byte, 2*d.Size())), ir.ErrRuntime)
			s.d.Free(b)
			continue
		}
		for _, c := range []struct{ n, off, len int }{{1, 0, 1}, {7, 0, 7}, {33, 5, 11}, {100, 3, 1}, {100, 99, 1},
			{4097, 1000, 2049}} {
			want := canonical(r, d, c.n)
			b := s.put(t, d, want)
			part := canonical(r, d, c.len)
			require.NoError(t, s.d.Upload(b, d, int64(c.off), part))
			copy(want[c.off*d.Size():], part)
			clear(part) // data may be reused when Upload returns
			require.Equal(t, want, s.get(t, b, d, c.n), "%s %v", d, c)
			got := make([]byte, c.len*d.Size())
			require.NoError(t, s.d.Read(b, d, int64(c.off), got))
			require.Equal(t, want[c.off*d.Size():(c.off+c.len)*d.Size()], got, "%s %v", d, c)
		}
	}
}

// transferRange gives a device without 64-bit integers values that it cannot store.
func (s *suite) transferRange(t *testing.T) {
	data := binary.LittleEndian.AppendUint64(nil, 1<<40)
	b := s.alloc(t, ir.I64, 1)
	err := s.d.Upload(b, ir.I64, 0, data)
	if s.d.Caps().Storage[ir.I64] == 8 {
		require.NoError(t, err)
		require.Equal(t, data, s.get(t, b, ir.I64, 1))
		return
	}
	requireCode(t, err, ir.ErrOverflow)
}

// copySteps copies and clears parts of buffers.
func (s *suite) copySteps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n = 1000
	x := canonical(r, ir.U32, n)
	src, dst := s.put(t, ir.U32, x), s.put(t, ir.U32, bytes.Repeat([]byte{0xEE}, 4*n))
	s.run(t, []device.Step{
		{Op: launch.Copy{}, Bufs: []int{0, 1}, Params: []device.Param{device.Const(40), device.Const(80), device.Const(400)}},
		{Op: launch.Fill{}, Bufs: []int{1}, Params: []device.Param{device.Const(100), device.Const(20)}},
		{Op: launch.Copy{}, Bufs: []int{0, 1}, Params: []device.Param{device.Const(0), device.Const(3996), device.Const(4)}},
	}, src, dst)
	want := bytes.Repeat([]byte{0xEE}, 4*n)
	copy(want[80:480], x[40:440])
	clear(want[100:120])
	copy(want[3996:], x[:4])
	require.Equal(t, want, s.get(t, dst, ir.U32, n))
}

// ordering writes to a buffer that submitted runs still read.
func (s *suite) ordering(t *testing.T) {
	const n = 1 << 14
	k, params := s.affine(n)
	p, err := s.d.Build([]device.Step{launchStep(k, params)}, 2)
	require.NoError(t, err)
	defer p.Release()
	in := s.put(t, ir.F32, floats(n, func(int) float32 { return 0 }))
	outs := make([]device.Buffer, 6)
	for i := range outs {
		outs[i] = s.alloc(t, ir.F32, n)
		require.NoError(t, s.d.Upload(in, ir.F32, 0, floats(n, func(j int) float32 { return float32(i*100 + j%7) })))
		_, err := s.d.Run(p, &device.Binding{Bufs: []device.Buffer{in, outs[i]}})
		require.NoError(t, err)
	}
	for i, b := range outs {
		want := floats(n, func(j int) float32 { return 2*float32(i*100+j%7) + 1 })
		require.Equal(t, want, s.get(t, b, ir.F32, n), "run %d", i)
	}
}
