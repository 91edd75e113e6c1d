package engine

import (
	"fmt"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// loopPaths says how loops run.
type loopPaths struct {
	found map[string]foundPath // by loop and device
	// recent are the loops recorded last, and first is the number of the first of them.
	recent []recordedLoop
	first  int
}

// foundPath is the path that a loop takes on a device, "" for none, and what keeps it from path A or from the device.
type foundPath struct{ path, reason string }

type recordedLoop struct {
	loop op.Loop
	dev  ir.DeviceID // of its operands
}

// LoopPath describes how a recorded loop runs.
type LoopPath struct {
	Number int    `json:"number"`
	Path   string `json:"path"`   // "A": values stay in registers; "B": in a workgroup; "C": the steps of each iteration
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

// on returns the path of a loop on a device, which is looked for once.
func (k *loopPaths) on(l *op.Loop, dev ir.DeviceID, caps compile.Caps) foundPath {
	key := fmt.Sprint(l.Attr(), dev)
	f, ok := k.found[key]
	if ok {
		return f
	}
	if k.found == nil || len(k.found) > mostRecent {
		k.found = map[string]foundPath{}
	}
	if dev != ir.CPU {
		f.path, f.reason = compile.DeviceLoop(l, dev, caps)
	} else if f = (foundPath{"A", compile.ResidentReason(l, caps)}); f.reason != "" {
		f.path = "C"
	}
	k.found[key] = f
	return f
}

// reason is lazy.Session.Residency.
func (k *loopPaths) reason(caps compile.Caps) func(*op.Loop, ir.DeviceID) string {
	return func(l *op.Loop, dev ir.DeviceID) string {
		if f := k.on(l, dev, caps); f.path == "" {
			return f.reason
		}
		return ""
	}
}

// paths describes the recent loops.
func (k *loopPaths) paths(caps compile.Caps) []LoopPath {
	list := []LoopPath{}
	for i := range k.recent {
		r := &k.recent[i]
		f := k.on(&r.loop, r.dev, caps)
		dev, kept := r.dev, ""
		if f.path == "" { // the CPU runs it
			dev, kept = ir.CPU, f.reason
			f = k.on(&r.loop, dev, caps)
		}
		if kept != "" {
			f.reason = kept
		}
		list = append(list, LoopPath{Number: k.first + i, Path: f.path, Device: ir.DeviceName(dev), Length: r.loop.Length,
			Reason: f.reason})
	}
	return list
}
