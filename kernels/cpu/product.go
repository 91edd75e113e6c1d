package cpu

// #include "cpu.h"
import "C"

import (
	"strconv"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
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

// gemm lays out a product: the numbers of its parameters, -1 for those it lacks.
func gemm(mem *arena, g *kir.Gemm, params []device.Param) (*C.tl_gemm, error) {
	l := g.Layout()
	if len(params) != len(l.Params) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: cpu: gemm: %d parameters, want %d", len(params), len(l.Params))
	}
	if g.CDims || g.KDims > kir.MaxGemmDims || g.NDims > kir.MaxGemmDims || (g.KDims > 0) != (g.NDims > 0) || g.KDims > 0 && g.Type != ir.F32 && g.Type != ir.F64 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm of %v with %d dims of depth and %d of columns", g.Type, g.KDims, g.NDims)
	}
	if g.Residual && g.Type != ir.F32 && g.Type != ir.F64 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm of %v with a residual", g.Type)
	}
	if g.Sums != 0 {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm with sums of an operand")
	}
	if g.Type == ir.Bool || g.Batch > 3 || !g.Type.IsFloat() && g.Act > kir.ActRelu {
		return nil, ir.Errorf(ir.ErrKernelExecution, "cpu: gemm of %v with %d batch dims and activation %d", g.Type, g.Batch, g.Act)
	}
	c := &array[C.tl_gemm](mem, 1)[0]
	c.nbatch, c._type, c.act = C.int32_t(g.Batch), C.int32_t(g.Type), C.int32_t(g.Act)
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
	c.M, c.N, c.K = C.int64_t(l.M), C.int64_t(l.N), C.int64_t(l.K)
	c.am, c.ak, c.ao = C.int64_t(l.AM), C.int64_t(l.AK), C.int64_t(l.AOffset)
	c.bk, c.bn, c.bo = C.int64_t(l.BK), C.int64_t(l.BN), C.int64_t(l.BOffset)
	c.biasn, c.biaso = C.int64_t(l.BiasN), C.int64_t(l.BiasOffset)
	c.cm, c.cn, c.co = C.int64_t(l.CM), C.int64_t(l.CN), C.int64_t(l.COffset)
	if g.Bias {
		c.bias = 1
	}
	if g.Residual {
		c.residual = 1
	}
	return c, nil
}
