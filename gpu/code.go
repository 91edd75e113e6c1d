package gpu

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Generator is a launch of a kind that this package does not know. It brings its own code for GPUs.
type Generator interface {
	launch.Op
	// GPUOptions decides the variant of the program for these parameters. Parameters that vary from run to run are 0,
	// except the lowest bit of an offset: 1 where the offset may be no multiple of four. Variants are compared with ==.
	GPUOptions(params []uint64, caps gpucode.Caps) any
	// GPUProgram makes the program of a variant. It declares the parameters and buffers of the launch.
	GPUProgram(options any) (*gpuir.Program, error)
}

// code is the code generator of a launch. Kinds embed plain for the methods that they do not need.
type code interface {
	// options decides the variant of the programs for these parameters; variants are compared with ==.
	options(params []uint64) any
	// programs makes the programs of a variant, one for each pass. Passes share scratch memory.
	programs(options any) ([]*gpuir.Program, error)
	// check refuses launches that the programs cannot address.
	check(params []uint64, reach []span) error
	// reach bounds the elements of each buffer that a step touches; nil: unknown.
	reach(s *device.Step) []span
	// scratch is the bytes of scratch memory that several passes need.
	scratch(options any, params []uint64) int64
	// large: the scratch memory is large. Kinds of which this is true share one.
	large() bool
	// merges reports that a launch of so many workgroups may share its dispatch with others.
	merges(groups uint64) bool
	// windows splits a step where a tensor that it reaches exceeds a binding.
	windows(s device.Step) []step
}

// span bounds the elements of a buffer that a step touches: [lo, hi), hi -1 where unknown.
type span struct {
	lo, hi int64
	moves  bool // both are relative to an offset that comes at run time
}

// plain is code of one pass with unknown reach.
type plain struct{}

func (plain) check([]uint64, []span) error { return nil }
func (plain) reach(*device.Step) []span    { return nil }
func (plain) scratch(any, []uint64) int64  { return gpucode.ScratchBytes }
func (plain) large() bool                  { return false }
func (plain) merges(uint64) bool           { return false }
func (plain) windows(s device.Step) []step { return []step{{Step: s}} }

// generate returns the code of a launch; for a launch that is no dispatch, what makes its record. It is the device's
// only switch over the kinds of launch.
func (d *Device) generate(op launch.Op) (code, move, error) {
	switch op := op.(type) {
	case *loopir.Kernel:
		return kernelCode{d: d, k: op}, nil, nil
	case *launch.Gemm:
		return gemmCode{d: d, g: op}, nil, nil
	case *launch.Attention:
		if op.Pass != launch.AttentionGradQKV {
			return attentionCode{d: d, a: op}, nil, nil
		}
	case *launch.Sort:
		return sortCode{d: d, s: op}, nil, nil
	case *launch.FactorBlock:
		return factorCode{d: d, f: op}, nil, nil
	case *launch.Iterate:
		return iterateCode{d: d, op: op}, nil, nil
	case *launch.GroupLoop:
		return groupCode{d: d, op: op}, nil, nil
	case launch.Copy:
		return nil, copyRecord, nil
	case launch.Fill:
		return nil, fillRecord, nil
	case Generator:
		return foreignCode{d: d, op: op}, nil, nil
	}
	return nil, nil, ir.Errorf(ir.ErrKernelExecution, "%s: no code for a launch of %T, %s", d.caps.Name, op, op.Label())
}

// foreignCode is the code of a Generator.
type foreignCode struct {
	plain
	d  *Device
	op Generator
}

func (c foreignCode) options(params []uint64) any { return c.op.GPUOptions(params, c.d.tile) }

func (c foreignCode) programs(options any) ([]*gpuir.Program, error) {
	return one(c.op.GPUProgram(options))
}

// one is a list of a single program.
func one(p *gpuir.Program, err error) ([]*gpuir.Program, error) { return []*gpuir.Program{p}, err }
