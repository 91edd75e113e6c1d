package runtime

import (
	"github.com/torchlette/torchlette/engine/compile"
)

// stopped is a run that Stop ended early. The executor keeps its bindings and buffers.
type stopped struct {
	plan    *compile.Plan
	ext     []uint32
	segment int // the segment to resume, at x.bind.At
}

// Stopped reports that a run waits for Resume or GiveUp.
func (x *Executor) Stopped() bool { return x.run != nil }

// Overwrote reports that the stopped run may have written to a buffer older than itself. Such a run must be resumed;
// any other may be given up and repeated.
func (x *Executor) Overwrote() bool {
	at, r := x.run.plan.Overwrites, x.run
	return r.segment > at.Segment || r.segment == at.Segment && x.bind.At.Begun > at.Step
}

// Resume continues the stopped run; it returns what Run returns.
func (x *Executor) Resume() ([]uint32, error) {
	r := x.run
	x.run = nil
	return x.from(r.plan, r.ext, r.segment, nil)
}

// GiveUp drops the stopped run; its values stay uncomputed.
func (x *Executor) GiveUp() {
	x.giveBack(x.run.plan, compile.Temp)
	x.giveBack(x.run.plan, compile.Output)
	x.run = nil
}
