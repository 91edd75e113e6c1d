package runtime

import (
	"github.com/torchlette/torchlette/engine/compile"
)

// stopped is a run that Stop ended early. The executor's binding and buffers stay as they are.
type stopped struct {
	plan    *compile.Plan
	ext     []uint32
	segment int // where it goes on, from x.bind.At on
}

// Stopped reports a run that waits for Resume or GiveUp.
func (x *Executor) Stopped() bool { return x.run != nil }

// Overwrote reports that the stopped run may have written to a buffer that it did not make. Such a run must be
// resumed; any other one can be given up and run anew.
func (x *Executor) Overwrote() bool {
	at, r := x.run.plan.Overwrites, x.run
	return r.segment > at.Segment || r.segment == at.Segment && x.bind.At.Begun > at.Step
}

// Resume goes on with the stopped run; it returns what Run does.
func (x *Executor) Resume() ([]uint32, error) {
	r := x.run
	x.run = nil
	return x.from(r.plan, r.ext, r.segment, nil)
}

// GiveUp drops the stopped run: its values were never computed.
func (x *Executor) GiveUp() {
	x.giveBack(x.run.plan, compile.Temp)
	x.giveBack(x.run.plan, compile.Output)
	x.run = nil
}
