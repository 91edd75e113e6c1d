package launch

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Resident is the form of a loop whose values stay in registers: one straight line of scalar expressions that each lane
// computes in each iteration. Elements of small tensors are expressions of their own.
type Resident struct {
	Lanes int64
	// Exprs are in SSA form. OpLoad reads the port Imm: a carry has its value before the iteration. OpIndex is the lane.
	Exprs   []loopir.Expr
	Ports   []Port
	Carries []ResidentCarry
	Stores  []ResidentStore
	// Condition is the port of the carry that ends the loop where it is false; -1: none.
	Condition int
}

// Port is one element of a buffer for each lane, in each iteration: element At + lane * Lane + place * Place behind the
// offset of parameter Operand; -1: none.
type Port struct {
	Buf, Operand    int
	Type            ir.DType
	At, Lane, Place int64
	Carry           bool
}

// ResidentCarry is an element of a carry. It begins as its port says, and becomes Next after each iteration.
type ResidentCarry struct {
	Number int // of the loop's carry
	In     int // port
	Next   int // expression
	Out    int // port of the last value
	Kept   int // port that keeps the value before each iteration; -1: none
}

// ResidentStore writes an expression in each iteration.
type ResidentStore struct{ Port, Val int }

// Moves reports that the form reads or writes places.
func (r *Resident) Moves() bool {
	return slices.ContainsFunc(r.Ports, func(p Port) bool { return p.Place != 0 })
}

// Compact drops the expressions that nothing needs.
func (r *Resident) Compact() {
	used := make([]bool, len(r.Exprs))
	for _, c := range r.Carries {
		used[c.Next] = true
	}
	for _, s := range r.Stores {
		used[s.Val] = true
	}
	for i, e := range slices.Backward(r.Exprs) {
		for _, a := range [...]int{e.A, e.B, e.C} {
			if used[i] && a >= 0 {
				used[a] = true
			}
		}
	}
	num := make([]int, len(r.Exprs))
	var kept []loopir.Expr
	for i, e := range r.Exprs {
		if !used[i] {
			continue
		}
		for _, a := range [...]*int{&e.A, &e.B, &e.C} {
			if *a >= 0 {
				*a = num[*a]
			}
		}
		num[i] = len(kept)
		kept = append(kept, e)
	}
	for i := range r.Carries {
		r.Carries[i].Next = num[r.Carries[i].Next]
	}
	for i := range r.Stores {
		r.Stores[i].Val = num[r.Stores[i].Val]
	}
	r.Exprs = kept
}

// Iterate runs a resident form: Length iterations for each lane, of a loop that may have more before and after them.
// Parameters: lanes, iterations, the lowest place of these, and the offset in elements of each of the first Operands
// buffers. Iteration t works at place First+t; in reverse at place First+Length-1-t. A lane ends early where the form's
// condition is false.
type Iterate struct {
	Form     *Resident
	Bufs     []loopir.Buf
	Operands int
	Reverse  bool
}

// Numbers of Iterate's parameters; the offsets follow.
const (
	IterateLanes = iota
	IterateLength
	IterateFirst
	IterateOffsets
)

var _ Op = (*Iterate)(nil)

// Label implements Op.
func (*Iterate) Label() string { return "loop" }

// Buffers implements Op.
func (i *Iterate) Buffers() []loopir.Buf { return i.Bufs }

// Parameters implements Op.
func (i *Iterate) Parameters() []loopir.Param {
	list := slices.Repeat([]loopir.Param{{Kind: loopir.Size, Type: ir.I64}}, IterateFirst)
	return append(list, slices.Repeat([]loopir.Param{{Kind: loopir.Offset, Type: ir.I64}}, 1+i.Operands)...)
}

// Key implements Op.
func (i *Iterate) Key() string {
	f := i.Form
	return fmt.Sprint("iterate", i.Bufs, i.Operands, i.Reverse, f.Condition, f.Exprs, f.Ports, f.Carries, f.Stores)
}

// Cost implements Op.
func (i *Iterate) Cost(params []uint64, width *loopir.Widths) (c loopir.Cost) {
	n := int64(params[IterateLanes])
	c.Flops = n * int64(params[IterateLength]) * int64(len(i.Form.Exprs))
	for _, p := range i.Form.Ports {
		each := n
		if p.Place != 0 {
			each *= int64(params[IterateLength])
		}
		c.Bytes += each * int64(width[p.Type])
	}
	return c
}

// Interpret implements Op.
func (i *Iterate) Interpret(params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := CheckArguments(i, params, bufs); err != nil {
		return loopir.Fault{}, err
	}
	for lane := range int64(params[IterateLanes]) {
		if err := i.lane(lane, params, bufs); err != nil {
			return loopir.Fault{}, fmt.Errorf("loop: lane %d: %w", lane, err)
		}
	}
	return loopir.Fault{}, nil
}

// lane runs all iterations of a lane.
func (i *Iterate) lane(lane int64, params []uint64, bufs [][]byte) (err error) {
	f, length, first := i.Form, int64(params[IterateLength]), int64(params[IterateFirst])
	at := func(port int, place int64) (*Port, int64, error) {
		p := &f.Ports[port]
		n := p.At + lane*p.Lane + place*p.Place
		if p.Operand >= 0 {
			n += int64(params[IterateOffsets+p.Operand])
		}
		return p, n, loopir.Inside(p.Type, bufs[p.Buf], n)
	}
	load := func(port int, place int64) (uint64, error) {
		p, n, err := at(port, place)
		if err != nil {
			return 0, err
		}
		return loopir.LoadBits(p.Type, bufs[p.Buf], n), nil
	}
	store := func(port int, place int64, v uint64) error {
		p, n, err := at(port, place)
		if err == nil {
			loopir.StoreBits(p.Type, bufs[p.Buf], n, v)
		}
		return err
	}
	carry := map[int]uint64{} // by port
	for _, c := range f.Carries {
		if carry[c.In], err = load(c.In, 0); err != nil {
			return err
		}
	}
	ends := func() bool { return f.Condition >= 0 && carry[f.Condition] == 0 }
	vals := make([]uint64, len(f.Exprs))
	for t := int64(0); t < length && !ends(); t++ {
		place := first + t
		if i.Reverse {
			place = first + length - 1 - t
		}
		if err := f.eval(vals, lane, carry, func(port int) (uint64, error) { return load(port, place) }); err != nil {
			return err
		}
		if err := f.finish(vals, carry, func(port int, v uint64) error { return store(port, place, v) }); err != nil {
			return err
		}
	}
	for _, c := range f.Carries {
		if err := store(c.Out, 0, carry[c.In]); err != nil {
			return err
		}
	}
	return nil
}

// finish stores what one iteration has computed, and changes the carries.
func (r *Resident) finish(vals []uint64, carry map[int]uint64, store func(port int, v uint64) error) error {
	for _, s := range r.Stores {
		if err := store(s.Port, vals[s.Val]); err != nil {
			return err
		}
	}
	for _, c := range r.Carries {
		if c.Kept < 0 {
			continue
		}
		if err := store(c.Kept, carry[c.In]); err != nil {
			return err
		}
	}
	for _, c := range r.Carries {
		carry[c.In] = vals[c.Next]
	}
	return nil
}

// eval computes the expressions of one iteration.
func (r *Resident) eval(vals []uint64, lane int64, carry map[int]uint64, load func(port int) (uint64, error)) error {
	for n, e := range r.Exprs {
		switch e.Op {
		case loopir.OpConst:
			vals[n] = e.Imm
		case loopir.OpIndex:
			vals[n] = uint64(lane)
		case loopir.OpLoad:
			v, ok := carry[int(e.Imm)]
			if !ok {
				var err error
				if v, err = load(int(e.Imm)); err != nil {
					return err
				}
			}
			vals[n] = v
		default:
			var v [3]uint64
			for k, a := range [...]int{e.A, e.B, e.C} {
				if a >= 0 {
					v[k] = vals[a]
				}
			}
			at := r.Exprs[e.A].Type
			if e.Op == loopir.OpSelect {
				at = r.Exprs[e.B].Type
			}
			vals[n] = loopir.EvalOp(e.Op, e.Type, at, e.Imm, v[0], v[1], v[2])
		}
	}
	return nil
}
