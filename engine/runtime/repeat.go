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

// beginRepeats is called before the plan's first segment.
func (x *Executor) beginRepeats(p *compile.Plan) {
	if p.Repeats > 0 {
		x.repeats = make([]repeated, p.Repeats)
		numbers := slices.Clone(x.bind.Scalars)
		for _, q := range p.Moving {
			numbers = append(numbers, q.Value(x.bind.Offsets, x.bind.Scalars))
		}
		x.bind.Scalars = numbers
	}
}

// repeat does segment i, which begins or ends a repeat, and returns the segment after it.
func (x *Executor) repeat(p *compile.Plan, s *compile.Segment, i int) (next int, err error) {
	r := s.Repeat
	at := &x.repeats[r.Number]
	if i == r.End {
		at.done++
		x.move(p, r, 1)
		return r.Begin, nil
	}
	if at.done >= at.read {
		on, err := x.goesOn(s, at)
		if err != nil {
			return i, err
		}
		if !on {
			x.move(p, r, -at.done)
			*at = repeated{}
			return r.End + 1, nil
		}
		at.read = at.done + 1
		switch {
		case r.Flag < 0:
			at.read = r.Most
		case !r.Exact:
			at.read = min(at.done+min(max(at.done/4, 1), max(r.Ahead, 1)), r.Most)
		}
	}
	return i + 1, nil
}

// move moves the numbers of a repeat by so many runs.
func (x *Executor) move(p *compile.Plan, r *compile.Repeat, runs int64) {
	moving := x.bind.Scalars[len(x.bind.Scalars)-len(p.Moving):]
	for _, m := range r.Moves {
		moving[m.Number] += uint64(m.By * runs)
	}
}

// goesOn reports that a repeat has another run: it has no flag or its flag is true, and no index in a run before was
// out of bounds. It returns device.ErrStopped where Stop or the deadline ends the wait for the flag.
func (x *Executor) goesOn(s *compile.Segment, at *repeated) (bool, error) {
	if at.done >= s.Repeat.Most || s.Repeat.Flag < 0 {
		return at.done < s.Repeat.Most, nil
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

// TakeKnownFault is TakeFault of runs whose error word has come to the host with a read. It does not wait.
func (x *Executor) TakeKnownFault() (device.Fault, bool) {
	if f := x.fault; f != nil {
		x.fault = nil
		return *f, true
	}
	for _, pl := range x.Devices {
		if r, ok := pl.Dev.(device.AheadReader); ok {
			if f, found := r.TakeKnownFault(); found {
				return f, true
			}
		}
	}
	return device.Fault{}, false
}
