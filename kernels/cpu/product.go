package cpu

// #include "vector/cpu.h"
import "C"

import (
	"slices"
	"strconv"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func appendInts(b []byte, v ...int) []byte {
	for i, n := range v {
		if i > 0 {
			b = append(b, '/')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return b
}

// gemm makes the C form of a product: the numbers of its parameters, -1 for missing ones.
func (d *Device) gemm(p *program, g *launch.Gemm, s *device.Step) (*C.tl_gemm, error) {
	params := s.Params
	l := g.Layout()
	if len(params) != len(l.Params) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: gemm: %d parameters, want %d", len(params), len(l.Params))
	}
	if g.CDims || g.KDims > launch.MaxGemmDims || g.NDims > launch.MaxGemmDims || (g.KDims > 0) != (g.NDims > 0) ||
		g.KDims > 0 && g.Type != ir.F32 && g.Type != ir.F64 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm of %v with %d dims of K and %d of N is not supported", g.Type,
			g.KDims, g.NDims)
	}
	if g.Padded && (g.KDims != 2 || g.NDims != 2 || params[l.M].Bits != 1 || g.Bias) {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm with padding of %d dims, %d rows, bias %v is not supported",
			g.KDims, params[l.M].Bits, g.Bias)
	}
	if g.Sums != 0 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm with sums of an operand is not supported")
	}
	if g.Prologue != nil {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm with a prologue is not supported")
	}
	if g.Type == ir.Bool || g.Batch > 3 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm of %v with %d batch dims is not supported", g.Type, g.Batch)
	}
	c := &array[C.tl_gemm](&p.mem, 1)[0]
	c.nbatch, c._type = C.int32_t(g.Batch), C.int32_t(g.Type)
	c.nk, c.nn = C.int32_t(g.KDims), C.int32_t(g.NDims)
	set := func(to []C.int64_t, from []int) {
		for i, n := range from {
			to[i] = C.int64_t(n)
		}
	}
	set(c.batch[:], l.Batch)
	set(c.ab[:], l.ABatch)
	set(c.bb[:], l.BBatch)
	set(c.cb[:], l.CBatch)
	set(c.ks[:], l.KSize)
	set(c.akd[:], l.AKDim)
	set(c.bkd[:], l.BKDim)
	set(c.ns[:], l.NSize)
	set(c.bnd[:], l.BNDim)
	for i, p := range l.Pads {
		c.padded = 1
		c.pad[i].size, c.pad[i].step = C.int64_t(p.Size), C.int64_t(p.Step)
		c.pad[i].gap, c.pad[i].front = C.int64_t(p.Gap), C.int64_t(p.Front)
	}
	c.M, c.N, c.K = C.int64_t(l.M), C.int64_t(l.N), C.int64_t(l.K)
	c.am, c.ak, c.ao = C.int64_t(l.AM), C.int64_t(l.AK), C.int64_t(l.AOffset)
	c.bk, c.bn, c.bo = C.int64_t(l.BK), C.int64_t(l.BN), C.int64_t(l.BOffset)
	c.biasn, c.biaso = C.int64_t(l.BiasN), C.int64_t(l.BiasOffset)
	c.cm, c.cn, c.co = C.int64_t(l.CM), C.int64_t(l.CN), C.int64_t(l.COffset)
	if g.Bias {
		c.bias = 1
	}
	return c, d.epilogue(p, c, g, s, &l)
}

// setViews describes the operands that the epilogue reads by strides.
func setViews(c *C.tl_gemm, g *launch.Gemm, l *launch.GemmLayout) {
	c.rowdims = C.int32_t(g.RowDims)
	for d, p := range l.RowSize {
		c.rowsize[d] = C.int64_t(p)
	}
	for o, v := range l.Views {
		if !g.Viewed(o) {
			continue
		}
		c.nview++
		x := &c.view[o]
		x.set, x.n, x.offset = 1, C.int64_t(v.N), C.int64_t(v.Offset)
		for d, p := range v.Rows {
			x.row[d] = C.int64_t(p)
		}
	}
}

// epilogueSize is the number of elements for which an epilogue is planned. It is several full tiles, so that the plan
// holds for tiles of any length.
const epilogueSize = 8 * mapLanes

// elements is the number of elements of the result of step s.
func elements(s *device.Step, l *launch.GemmLayout) int64 {
	n := int64(s.Params[l.M].Bits) * int64(s.Params[l.N].Bits)
	for _, b := range l.Batch {
		n *= int64(s.Params[b].Bits)
	}
	return n
}

// rowsOnce marks the operands of the epilogue with one element of float for all columns, and returns the set of their
// buffers.
func rowsOnce(c *C.tl_gemm, g *launch.Gemm, s *device.Step, l *launch.GemmLayout) (once uint8) {
	for o, b := range l.BufOperands {
		t, step := l.Bufs[b].Type, s.Params[l.Views[o].N]
		if g.Viewed(o) && (t == ir.F32 || t == ir.F64) && step.Bits == 0 && !step.Varies() {
			c.view[o].once = 1
			once |= 1 << (1 + o)
		}
	}
	return once
}

// epilogue compiles the epilogue of a product, a map over the elements of C, and attaches it.
func (d *Device) epilogue(p *program, c *C.tl_gemm, g *launch.Gemm, s *device.Step, l *launch.GemmLayout) error {
	k := g.Epilogue
	if k == nil {
		return nil
	}
	if err := g.CheckEpilogue(); err != nil {
		return ir.Errorf(ir.ErrInternal, "BUG: cpu: %v", err)
	}
	if n := len(l.BufOperands) + len(l.BufResults); n > C.TLK_EPILOGUE_OPERANDS {
		return ir.Errorf(ir.ErrKernelExecution, "cpu: gemm with an epilogue of %d operands and results: want at most %d",
			n, C.TLK_EPILOGUE_OPERANDS)
	}
	bufs, params := []int{s.Bufs[l.BufC]}, []device.Param{device.Const(epilogueSize)}
	for _, b := range slices.Concat(l.BufOperands, l.BufResults) {
		bufs = append(bufs, s.Bufs[b])
	}
	scalars := array[C.int32_t](&p.mem, len(l.Scalars))
	for i, q := range l.Scalars {
		scalars[i], params = C.int32_t(q), append(params, s.Params[q])
	}
	f, err := d.codeOf(p, k, &device.Step{Op: k, Bufs: bufs, Params: params}, rowsOnce(c, g, s, l))
	if err != nil {
		return err
	}
	p.codes[len(p.codes)-1].elements = elements(s, l)
	for i, b := range k.Bufs {
		c.width[i] = C.int32_t(b.Type.Size())
	}
	c.noperand, c.epilogue, c.nscalar, c.scalar = C.int32_t(len(bufs)-1), f.kern, C.int32_t(len(scalars)),
		unsafe.SliceData(scalars)
	c.nresult = C.int32_t(len(l.BufResults))
	setViews(c, g, l)
	if launch.Numbered(k) {
		c.numbered = 1
	}
	return nil
}
