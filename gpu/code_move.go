package gpu

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// move makes the record of a launch that is no dispatch, for each run.
type move func(p *program, s *step, bind *device.Binding) (Record, error)

func copyRecord(p *program, s *step, bind *device.Binding) (Record, error) {
	src, dst := p.last[s.Bufs[0]], p.last[s.Bufs[1]]
	from, to, n := runtimeValue(s.Params[0], bind), runtimeValue(s.Params[1], bind), runtimeValue(s.Params[2], bind)
	if src == dst {
		return Record{}, ir.Errorf(ir.ErrKernelExecution, "copy: source and destination are one buffer")
	}
	if (from|to|n)&3 != 0 {
		return Record{}, ir.Errorf(ir.ErrKernelExecution, "copy: bytes %d+%d to %d are not whole words", from, n, to)
	}
	return Record{Kind: CopyBuffer, A: src.handle, B: dst.handle, X: uint64(from), Y: uint64(to), Z: uint64(n)}, nil
}

func fillRecord(p *program, s *step, bind *device.Binding) (Record, error) {
	at, n := runtimeValue(s.Params[0], bind), runtimeValue(s.Params[1], bind)
	if (at|n)&3 != 0 {
		return Record{}, ir.Errorf(ir.ErrKernelExecution, "fill: bytes %d+%d are not whole words", at, n)
	}
	return Record{Kind: ClearBuffer, A: p.last[s.Bufs[0]].handle, X: uint64(at), Z: uint64(n)}, nil
}
