package cpu_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// constants says which slots of a binding are constant, and notes what a device does with them.
type constants struct {
	bind     *device.Binding
	slots    []int
	loads    int
	replaced []int
}

func (c *constants) Key(slot int) string {
	if !slices.Contains(c.slots, slot) {
		return ""
	}
	return fmt.Sprint(c.bind.Bufs[slot].(device.Mapped).Pointer())
}

func (c *constants) Load(slot int) (device.Buffer, error) {
	c.loads++
	return c.bind.Bufs[slot], nil
}

func (c *constants) Replaced(slot int) { c.replaced = append(c.replaced, slot) }

// Products read a constant operand from its pack, with the values of the operand in any order: by columns, by rows, in
// several blocks of the depth and of the rows. The test clears the operand behind the pack.
func TestProductsReadPackedOperands(t *testing.T) {
	for _, isa := range instructionSets() {
		for _, s := range []struct{ m, n, k, bk, bn int64 }{
			{2, 5, 3, 1, 3}, {7, 391, 300, 1, 300}, {33, 64, 600, 64, 1}, {400, 300, 270, 1, 270}, {210, 40, 520, 40, 1},
			{60, 300, 260, 300, 1}, {500, 10, 300, 1, 300}, {7, 20, 33, 20, 1},
			{1, 391, 300, 1, 300}, {1, 300, 520, 300, 1}, {1, 1000, 5, 1, 5}, {1, 128, 256, 1, 256},
		} {
			if testing.Short() && s.m*s.n*s.k > 2e6 {
				continue
			}
			for _, dt := range []ir.DType{ir.F32, ir.F64} {
				what := fmt.Sprintf("%s %v %+v", isa, dt, s)
				d := newDevice(t, cpu.Options{ISA: isa, Threads: 2})
				bufs := [][]byte{data(dt, s.m*s.k), data(dt, s.n*s.k), make([]byte, s.m*s.n*int64(dt.Size()))}
				g, par := &launch.Gemm{Type: dt}, sizes(s.m, s.n, s.k, s.k, 1, 0, s.bk, s.bn, 0)
				want := copies(bufs)
				require.NoError(t, launch.InterpretGemm(g, par, want))
				step, bind := device.Step{Op: g, Bufs: []int{0, 1, 2}}, device.Binding{}
				for _, b := range bufs {
					w := d.NewWindow()
					w.Set(unsafe.Pointer(unsafe.SliceData(b)), int64(len(b)))
					bind.Bufs = append(bind.Bufs, w)
				}
				for _, v := range par {
					step.Params = append(step.Params, device.Const(int64(v)))
				}
				for i := range 2 {
					p, err := d.Build([]device.Step{step}, len(bufs))
					require.NoError(t, err)
					weights := &constants{bind: &bind, slots: []int{1}}
					require.NoError(t, d.Pack(p, &bind, weights))
					require.Equal(t, []int{1}, weights.replaced)
					require.Equal(t, i == 0, weights.loads > 0, "a second program shares the pack")
					require.GreaterOrEqual(t, d.Packed(), int64(len(bufs[1])))
					clear(bufs[1])
					clear(bufs[2])
					_, err = d.Run(p, &bind)
					require.NoError(t, err)
					tolerance := map[ir.DType]float64{ir.F32: 1e-5, ir.F64: 1e-13}[dt] * math.Sqrt(float64(s.k))
					same(t, dt, want[2], bufs[2], tolerance, what)
					p.Release()
				}
			}
		}
	}
}

// A row has the same bits alone as among others, since terms are summed in the same order: a token's numbers do not
// depend on its batch.
func TestARowOfAPackedProductHasTheBitsOfMany(t *testing.T) {
	const n, k = 391, 700
	for _, isa := range instructionSets() {
		for _, dt := range []ir.DType{ir.F32, ir.F64} {
			d, a, b := newDevice(t, cpu.Options{ISA: isa, Threads: 2}), data(dt, 9*k), data(dt, n*k)
			width := int64(dt.Size())
			run := func(m int64) []byte {
				out := make([]byte, m*n*width)
				step, bind := device.Step{Op: &launch.Gemm{Type: dt}, Bufs: []int{0, 1, 2}}, device.Binding{}
				for _, v := range sizes(m, n, k, k, 1, 0, 1, k, 0) {
					step.Params = append(step.Params, device.Const(int64(v)))
				}
				for _, x := range [][]byte{a[:m*k*width], b, out} {
					w := d.NewWindow()
					w.Set(unsafe.Pointer(unsafe.SliceData(x)), int64(len(x)))
					bind.Bufs = append(bind.Bufs, w)
				}
				p, err := d.Build([]device.Step{step}, 3)
				require.NoError(t, err)
				defer p.Release()
				require.NoError(t, d.Pack(p, &bind, &constants{bind: &bind, slots: []int{1}}))
				_, err = d.Run(p, &bind)
				require.NoError(t, err)
				return out
			}
			require.Equal(t, run(9)[:n*width], run(1), "%s %v", isa, dt)
		}
	}
}
