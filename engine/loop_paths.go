package engine

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// loopPaths says how loops run.
type loopPaths struct {
	reasons map[string]string // by loop and device; "" for path A
	// recent are the loops recorded last, and first is the number of the first of them.
	recent []recordedLoop
	first  int
}

type recordedLoop struct {
	loop op.Loop
	dev  ir.DeviceID // of its operands
}

// LoopPath describes how a recorded loop runs.
type LoopPath struct {
	Number int    `json:"number"`
	Path   string `json:"path"`   // "A": values stay in registers; "C": the steps of each iteration, in one launch
	Device string `json:"device"` // where it runs
	Length int64  `json:"length"`
	Reason string `json:"reason"` // what keeps it from path A, or from its operands' device
}

// mostRecent bounds the list of recent loops.
const mostRecent = 256

// note adds a loop to the recent ones.
func (k *loopPaths) note(l op.Loop, in []op.Val) {
	r := recordedLoop{loop: l, dev: ir.CPU}
	for _, v := range in {
		if v.IsTensor() && v.Device() != ir.CPU {
			r.dev = v.Device()
		}
	}
	if len(k.recent) == mostRecent {
		k.recent = k.recent[:copy(k.recent, k.recent[1:])]
		k.first++
	}
	k.recent = append(k.recent, r)
}

// remembered returns find's answer for a loop on a device, which it asks for once.
func (k *loopPaths) remembered(l *op.Loop, dev ir.DeviceID, find func() string) string {
	key := fmt.Sprint(l.Attr(), dev)
	why, ok := k.reasons[key]
	if !ok {
		if k.reasons == nil || len(k.reasons) > mostRecent {
			k.reasons = map[string]string{}
		}
		why = find()
		k.reasons[key] = why
	}
	return why
}

// reason is lazy.Session.Residency.
func (k *loopPaths) reason(caps compile.Caps) func(*op.Loop, ir.DeviceID) string {
	return func(l *op.Loop, dev ir.DeviceID) string {
		return k.remembered(l, dev, func() string { return compile.LoopReason(l, dev, caps) })
	}
}

// paths describes the recent loops.
func (k *loopPaths) paths(caps compile.Caps) []LoopPath {
	list := []LoopPath{}
	for i := range k.recent {
		r := &k.recent[i]
		p := LoopPath{Number: k.first + i, Path: "A", Device: ir.DeviceName(r.dev), Length: r.loop.Length}
		if r.dev != ir.CPU {
			p.Reason = k.remembered(&r.loop, r.dev, func() string { return compile.LoopReason(&r.loop, r.dev, caps) })
		}
		if r.dev == ir.CPU || p.Reason != "" {
			p.Device = ir.DeviceName(ir.CPU)
			why := k.remembered(&r.loop, ir.CPU, func() string { return compile.ResidentReason(&r.loop, caps) })
			if why != "" {
				p.Path, p.Reason = "C", why
			}
		}
		list = append(list, p)
	}
	return list
}
