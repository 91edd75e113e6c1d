package gpu

import (
	"encoding/binary"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// faultBytes is the size of the error word: event+1, element low, element high, unused.
const faultBytes = 16

// faultState is the host's state of the error word.
type faultState struct {
	ran   uint64 // runs with a checking kernel
	read  uint64 // how many of these were complete when the error word was copied that was read last
	set   bool
	fault device.Fault
	// inner are the numbers of steps in bodies of loops, which the error word has by their place here; places finds it.
	inner  []innerEvent
	places map[innerEvent]int
}

// innerEvent is the number of a step, and its number in the body of a loop.
type innerEvent struct{ event, inner uint32 }

// innerBit marks a place in faultState.inner.
const innerBit = 1 << 30

// event is the number of a step in the error word.
func (f *faultState) event(s *device.Step) uint32 {
	if s.Inner == 0 {
		return s.Event
	}
	e := innerEvent{s.Event, s.Inner}
	at, ok := f.places[e]
	if !ok {
		if at = len(f.inner); f.places == nil {
			f.places = map[innerEvent]int{}
		}
		f.inner, f.places[e] = append(f.inner, e), at
	}
	return innerBit | uint32(at)
}

// found is the fault of an event and an element in the error word.
func (f *faultState) found(event uint32, element int64) device.Fault {
	if event&innerBit == 0 {
		return device.Fault{Event: event, Element: element}
	}
	e := f.inner[event&^innerBit]
	return device.Fault{Event: e.event, Element: ir.LoopFault(e.inner, element)}
}

// unread is the number of runs with a checking kernel, 0 where the error word is known after the last one.
func (f *faultState) unread() uint64 {
	if f.read == f.ran {
		return 0
	}
	return f.ran
}

// note takes the error word that was copied after a number of checking runs. If a later copy was read first, this one
// is out of date: its fault has been reported.
func (f *faultState) note(mem []byte, checked uint64) {
	if checked <= f.read {
		return
	}
	f.read = checked
	event := binary.LittleEndian.Uint32(mem)
	if event == 0 || f.set {
		return
	}
	f.set = true
	f.fault = f.found(event-1, int64(binary.LittleEndian.Uint64(mem[4:])))
}

// TakeFault implements device.Device.
func (d *Device) TakeFault() (device.Fault, bool, error) {
	if d.lost != nil {
		return device.Fault{}, false, d.lost
	}
	if d.faults.unread() != 0 {
		if err := d.readMapped(d.fault, 0, 4, nil, func([]byte) {}); err != nil {
			return device.Fault{}, false, err
		}
	}
	f, found := d.TakeKnownFault()
	return f, found, nil
}

// TakeKnownFault implements device.AheadReader. Copies of the error word that are under way have the same fault: they
// count as read.
func (d *Device) TakeKnownFault() (device.Fault, bool) {
	if !d.faults.set || d.lost != nil {
		return device.Fault{}, false
	}
	f := d.faults.fault
	d.faults.set, d.faults.fault, d.faults.read = false, device.Fault{}, d.faults.ran
	d.pending = append(d.pending, Record{Kind: ClearBuffer, A: d.fault, Z: faultBytes})
	return f, true
}
