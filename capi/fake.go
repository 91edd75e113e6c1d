package main

import (
	"time"

	"github.com/torchlette/torchlette/engine/ir"
)

type fake struct{}

var fakeNext uint64 = 1 << 32

func (fake) Op(c *Call, outs []Out) (n int, err *ir.Error) {
	fakeNext++
	if len(outs) > 0 {
		outs[0] = Out{Handle: fakeNext, DType: uint8(ir.F32), Rank: 2, Numel: 6}
		outs[0].Shape[0], outs[0].Shape[1] = 2, 3
	}
	return 1, nil
}
func (fake) FromData(d ir.DType, dev ir.DeviceID, shape []int64, data []byte, requiresGrad bool, site uint32, out *Out) *ir.Error {
	fakeNext++
	*out = Out{Handle: fakeNext, DType: uint8(d), Device: uint8(dev), Rank: uint8(len(shape)), Numel: int64(len(data) / d.Size())}
	copy(out.Shape[:], shape)
	return nil
}
func (fake) Force(h uint64, slice time.Duration) (bool, *ir.Error)   { return false, nil }
func (fake) Read(h uint64, dst []byte) *ir.Error                     { return nil }
func (fake) MarkStep(slice time.Duration) (bool, *ir.Error)          { return false, nil }
func (fake) Flush() *ir.Error                                        { return nil }
func (fake) Meta(h uint64) (Meta, *ir.Error)                         { return Meta{DType: ir.F32}, nil }
func (fake) Release(hs []uint64)                                     {}
func (fake) Dispose(h uint64)                                        {}
func (fake) Keep(h uint64) *ir.Error                                 { return nil }
func (fake) TidyBegin()                                              {}
func (fake) TidyEnd(returned []uint64)                               {}
func (fake) SetRequiresGrad(h uint64, v bool) *ir.Error              { return nil }
func (fake) RetainGrad(h uint64) *ir.Error                           { return nil }
func (fake) Grad(h uint64, out *Out) (bool, *ir.Error)               { return false, nil }
func (fake) SetGrad(h, grad uint64) *ir.Error                        { return nil }
func (fake) SetData(h, src uint64) *ir.Error                         { return nil }
func (fake) Backward(r, g, i []uint64, f uint32) (uint64, *ir.Error) { return 1, nil }
func (fake) BackwardNext(s, r uint64, ev *BackwardEvent) *ir.Error   { ev.Kind = 0; return nil }
func (fake) BackwardResults(s uint64, o []Out, h []bool) *ir.Error   { return nil }
func (fake) AddHook(h uint64) (uint64, *ir.Error)                    { return 1, nil }
func (fake) RemoveHook(hook uint64)                                  {}
func (fake) Site(file, fn string, line int) uint32                   { return 1 }
func (fake) SiteString(id uint32) string                             { return "x" }
func (fake) SetMode(mode Mode, v int64) int64                        { return []int64{1, 7, 0, 0, 0}[mode] }
func (fake) Seed(seed int64)                                         {}
func (fake) RNGState() [4]uint64                                     { return [4]uint64{} }
func (fake) SetRNGState([4]uint64)                                   {}
func (fake) Info(kind string, h uint64) ([]byte, *ir.Error)          { return []byte("{}"), nil }
func (fake) SetOption(key, value string) *ir.Error                   { return nil }
func (fake) Reset() *ir.Error                                        { return nil }
