package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// fourierCase is a transform with its operand and the result that the definition gives.
type fourierCase struct {
	f        launch.FFT
	params   []uint64
	in, want []byte
}

// newFourier draws an operand of [outer, n, inner] numbers, which lie as they are, or with outer as the innermost dim.
func newFourier(t *testing.T, r *rand.Rand, f launch.FFT, outer, inner int64, turned bool) *fourierCase {
	in, out, inPair, outPair := f.Kind.Sizes(f.N)
	c := &fourierCase{f: f, in: make([]byte, (1+outer*in*inner*inPair)*int64(f.Type.Size())),
		want: make([]byte, outer*out*inner*outPair*int64(f.Type.Size()))}
	for i := range 1 + outer*in*inner*inPair {
		loopir.StoreBits(f.Type, c.in, i, ir.EncodeFloat(f.Type, r.NormFloat64()))
	}
	strides := [3]int64{in * inner * inPair, inner * inPair, inPair}
	if turned {
		strides = [3]int64{inPair, outer * inner * inPair, outer * inPair}
	}
	c.params = []uint64{uint64(outer), uint64(inner), uint64(strides[0]), uint64(strides[1]), uint64(strides[2]), 1}
	_, err := c.f.Interpret(c.params, [][]byte{c.in, c.want})
	require.NoError(t, err)
	return c
}

func (c *fourierCase) check(t *testing.T, d *cpu.Device) {
	t.Helper()
	step, bind := device.Step{Op: &c.f, Bufs: []int{0, 1}}, device.Binding{}
	got := make([]byte, len(c.want))
	for _, b := range [][]byte{c.in, got} {
		x, err := d.Alloc(max(int64(len(b)), 1))
		require.NoError(t, err)
		defer d.Free(x)
		require.NoError(t, d.Upload(x, ir.Bool, 0, b))
		bind.Bufs = append(bind.Bufs, x)
	}
	for _, v := range c.params {
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	p, err := d.Build([]device.Step{step}, 2)
	require.NoError(t, err)
	defer p.Release()
	_, err = d.Run(p, &bind)
	require.NoError(t, err)
	require.NoError(t, d.Read(bind.Bufs[1], ir.Bool, 0, got))
	tol := 1e-6
	if c.f.Type == ir.F64 {
		tol = 1e-14
	}
	closeTo(t, c.f.Type, c.want, got, tol, true)
}

// TestTransformsAreThoseOfTheDefinition takes lengths with all radices, large primes, and products of them, along
// contiguous and strided dims, few and many at once.
func TestTransformsAreThoseOfTheDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var cases []*fourierCase
	lengths := []int64{67, 100, 122, 127, 128, 134, 240, 256, 307, 720, 1009, 1024, 2018, 3000}
	for n := int64(1); n <= 64; n++ {
		lengths = append(lengths, n)
	}
	shapes := [][2]int64{{1, 1}, {3, 1}, {19, 1}, {1, 3}, {2, 17}, {5, 4}}
	for i, n := range lengths {
		if testing.Short() && (i%5 != 0 || n > 1024) {
			continue
		}
		for kind := launch.FFTForward; kind <= launch.FFTAllOfReals; kind++ {
			for s, shape := range shapes {
				if s != (i+int(kind))%len(shapes) && s != (i+3)%len(shapes) {
					continue
				}
				d := []ir.DType{ir.F32, ir.F64}[(i+s)%2]
				cases = append(cases, newFourier(t, r, launch.FFT{Type: d, Kind: kind, N: n, Scale: 0.5}, shape[0], shape[1],
					(i+s)%3 == 0))
			}
		}
	}
	if !testing.Short() {
		for _, n := range []int64{9001, 8192 + 2048} { // a long convolution; roots that are products
			for _, kind := range []launch.FFTKind{launch.FFTForward, launch.FFTToReals} {
				cases = append(cases, newFourier(t, r, launch.FFT{Type: ir.F32, Kind: kind, N: n, Scale: 1}, 1, 1, false))
			}
		}
		// Threads share the steps of this one.
		cases = append(cases, newFourier(t, r, launch.FFT{Type: ir.F64, N: 17500, Scale: 1}, 1, 1, false))
	}
	each(t, func(t *testing.T, d *cpu.Device) {
		for _, c := range cases {
			if !t.Run(fmt.Sprintf("%v_%d_%v", c.f.Kind, c.f.N, c.params), func(t *testing.T) { c.check(t, d) }) {
				return
			}
		}
	})
}

// TestProgramsShareTablesOfRoots: a table of roots is made once for a length, and outlives its programs.
func TestProgramsShareTablesOfRoots(t *testing.T) {
	d, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer d.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		newFourier(t, r, launch.FFT{Type: ir.F32, N: 60, Scale: 1}, 3, 1, false).check(t, d)
	}
	require.Equal(t, int64(1), d.Stats()["tables_of_roots"])
	newFourier(t, r, launch.FFT{Type: ir.F32, N: 61, Scale: 1}, 3, 1, false).check(t, d)
	require.Equal(t, int64(2), d.Stats()["tables_of_roots"])
}
