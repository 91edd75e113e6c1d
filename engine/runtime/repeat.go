package runtime

import (
	"slices"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// repeated says how far the run is in a repeat of its plan.
type repeated struct {
	done int64 // runs of its segments
	read int64 // the flag is read once so many are done
}

// mostAhead is how many runs of a repeat that is not exact are submitted before the flag is read again.
const mostAhead = 64

// beginRepeats is called before the plan's first segment.
func (x *Executor) beginRepeats(p *compile.Plan) {
	if p.Repeats > 0 {
		x.repeats = make([]repeated, p.Repeats)
		x.bind.Scalars = slices.Clone(x.bind.Scalars)
	}
}

// repeat does segment i, which begins or ends a repeat, and returns the segment after it.
func (x *Executor) repeat(s *compile.Segment, i int) (next int, err error) {
	r := s.Repeat
	at := &x.repeats[r.Number]
	if i == r.End {
		at.done++
		x.count(r, r.By)
		return r.Begin, nil
	}
	if at.done >= at.read {
		on, err := x.goesOn(s, at)
		if err != nil {
			return i, err
		}
		if !on {
			x.count(r, -r.By*uint64(at.done))
			*at = repeated{}
			return r.End + 1, nil
		}
		at.read = at.done + 1
		if !r.Exact {
			at.read = min(at.done+min(max(at.done/4, 1), mostAhead), r.Most)
		}
	}
	return i + 1, nil
}

// count adds to the number of a repeat.
func (x *Executor) count(r *compile.Repeat, by uint64) {
	if r.Scalar >= 0 {
		x.bind.Scalars[r.Scalar] += by
	}
}

// goesOn reports that a repeat has another run: its flag is true, and no index in a run before was out of bounds. It
// returns device.ErrStopped where Stop or the deadline ends the wait for the flag.
func (x *Executor) goesOn(s *compile.Segment, at *repeated) (bool, error) {
	if at.done >= s.Repeat.Most {
		return false, nil
	}
	dev, flag := x.Devices[s.Dev].Dev, []byte{0}
	var err error
	if p, ok := dev.(device.PatientReader); ok {
		err = p.ReadUnless(x.bind.Bufs[s.Repeat.Flag], ir.Bool, 0, flag, x.bind.Asked)
	} else {
		err = dev.Read(x.bind.Bufs[s.Repeat.Flag], ir.Bool, 0, flag)
	}
	if interrupted(err) || err == nil && x.bind.Asked() {
		return false, device.ErrStopped
	}
	if err != nil || flag[0] == 0 || !s.Repeat.Exact {
		return flag[0] != 0, err
	}
	f, found, err := dev.TakeFault()
	if found {
		x.fault = &f
	}
	return !found, err
}

// TakeFault returns and clears a data error of a completed run on any device.
func (x *Executor) TakeFault() (device.Fault, bool, error) {
	if f := x.fault; f != nil {
		x.fault = nil
		return *f, true, nil
	}
	for _, pl := range x.Devices {
		if f, ok, err := pl.Dev.TakeFault(); ok || err != nil {
			return f, ok, err
		}
	}
	return device.Fault{}, false, nil
}
