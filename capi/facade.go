package main

import (
	"time"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

type Scalar struct {
	Kind op.ValKind
	Bits uint64
}
type Call struct {
	Op      op.OpID
	Mode    uint8
	Site    uint32
	In      []uint64
	Ints    []int64
	Scalars []Scalar
	Outs    []uint64
	Drop    []uint64
}
type Out struct {
	Handle                     uint64
	DType, Device, Rank, Flags uint8
	_                          uint32
	Numel                      int64
	Shape                      [16]int64
}
type Meta struct {
	DType          ir.DType
	Device         ir.DeviceID
	Shape, Stride  []int64
	Offset         int64
	Base           uint64
	Commits, Flags uint64
	GradFn         string
	Site           uint32
	OnHost         bool
}
type BackwardEvent struct {
	Kind uint32
	Hook uint64
	Grad Out
}

type Mode = int32

// facade is the part of engine.Engine that the ABI exports.
type facade interface {
	Op(c *Call, outs []Out) (n int, err *ir.Error)
	FromData(d ir.DType, dev ir.DeviceID, shape []int64, data []byte, requiresGrad bool, site uint32, out *Out) *ir.Error
	Force(h uint64, slice time.Duration) (pending bool, err *ir.Error)
	Read(h uint64, dst []byte) *ir.Error
	MarkStep(slice time.Duration) (pending bool, err *ir.Error)
	Flush() *ir.Error
	Meta(h uint64) (Meta, *ir.Error)
	Release(hs []uint64)
	Dispose(h uint64)
	Keep(h uint64) *ir.Error
	TidyBegin()
	TidyEnd(returned []uint64)
	SetRequiresGrad(h uint64, v bool) *ir.Error
	RetainGrad(h uint64) *ir.Error
	Grad(h uint64, out *Out) (has bool, err *ir.Error)
	SetGrad(h, grad uint64) *ir.Error
	SetData(h, src uint64) *ir.Error
	Backward(roots, grads []uint64, inputs []uint64, flags uint32) (session uint64, err *ir.Error)
	BackwardNext(session, replacement uint64, ev *BackwardEvent) *ir.Error
	BackwardResults(session uint64, outs []Out, has []bool) *ir.Error
	AddHook(h uint64) (hook uint64, err *ir.Error)
	RemoveHook(hook uint64)
	Site(file string, fn string, line int) uint32
	SiteString(id uint32) string
	SetMode(mode Mode, v int64) (old int64)
	Seed(seed int64)
	RNGState() [4]uint64
	SetRNGState([4]uint64)
	Info(kind string, h uint64) ([]byte, *ir.Error)
	SetOption(key, value string) *ir.Error
	Reset() *ir.Error
}

var the facade = fake{}

func engine() facade { return the }
