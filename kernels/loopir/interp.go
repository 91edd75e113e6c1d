package loopir

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
)

// Fault is the first failed check of a run.
type Fault struct {
	Failed bool
	Elem   int64
}

// Interpret runs k over canonical host bytes, one scalar at a time in row-major order. It is the oracle for every
// device: a wrong address is an error.
func Interpret(k *Kernel, params []uint64, bufs [][]byte) (Fault, error) {
	n := int64(0)
	if len(params) >= k.Outer {
		n = Count(params[:k.Outer])
	}
	return InterpretPart(k, params, bufs, 0, n)
}

// InterpretPart is [Interpret] for the outer indices numbered from from up to to.
func InterpretPart(k *Kernel, params []uint64, bufs [][]byte, from, to int64) (Fault, error) {
	if err := Verify(k); err != nil {
		return Fault{}, err
	}
	if len(params) != len(k.Params) || len(bufs) != len(k.Bufs) {
		return Fault{}, fmt.Errorf("kernel %s: %d parameters and %d buffers, want %d and %d",
			k.Name, len(params), len(bufs), len(k.Params), len(k.Bufs))
	}
	m := newMachine(k, params, bufs)
	for i := from; i < to; i++ {
		m.outer = i
		Unravel(m.index[:k.Outer], params[:k.Outer], i)
		for s := range k.Stages {
			if err := m.stage(&k.Stages[s], m.live[s]); err != nil {
				return m.fault, fmt.Errorf("kernel %s: stage %d: %w", k.Name, s, err)
			}
		}
	}
	return m.fault, nil
}

type machine struct {
	k      *Kernel
	params []uint64
	bufs   [][]byte
	index  []int64
	outer  int64 // number of the outer index
	linear int64 // number of the index as the stage sees it
	vals   []uint64
	live   [][]bool
	first  []int // by stage: number of its first accumulator
	acc    []uint64
	accIdx []uint64
	wide   []float64 // F32 sums and products accumulate in float64
	fault  Fault
}

func newMachine(k *Kernel, params []uint64, bufs [][]byte) *machine {
	m := &machine{k: k, params: params, bufs: bufs,
		index: make([]int64, k.Outer+k.Inner), vals: make([]uint64, len(k.Exprs))}
	n := 0
	for s := range k.Stages {
		m.live = append(m.live, k.Uses(&k.Stages[s]))
		m.first = append(m.first, n)
		n += len(k.Stages[s].Accs)
	}
	m.acc, m.accIdx, m.wide = make([]uint64, n), make([]uint64, n), make([]float64, n)
	return m
}

// Count is the number of indices of a space of these sizes.
func Count(sizes []uint64) int64 {
	n := int64(1)
	for _, s := range sizes {
		n *= int64(s)
	}
	return n
}

// Unravel writes to index the index of row-major number n in a space.
func Unravel(index []int64, sizes []uint64, n int64) {
	for d := len(sizes) - 1; d >= 0; d-- {
		index[d] = n % int64(sizes[d])
		n /= int64(sizes[d])
	}
}

func (m *machine) stage(s *Stage, live []bool) error {
	if !s.OverInner {
		m.linear = m.outer
		for d := m.k.Outer; d < len(m.index); d++ {
			m.index[d] = 0
		}
		return m.visit(s, live)
	}
	first := m.firstAcc(s)
	for i, a := range s.Accs {
		t := m.k.Exprs[a.Val].Type
		m.acc[first+i] = Identity(a.Op, t)
		m.wide[first+i] = float64(a.Op) // 0 for Sum, 1 for Prod
		if a.Idx >= 0 {
			m.accIdx[first+i] = NoIndex(m.k.Exprs[a.Idx].Type)
		}
	}
	sizes := m.params[m.k.Outer : m.k.Outer+m.k.Inner]
	n := Count(sizes)
	for j := range n {
		Unravel(m.index[m.k.Outer:], sizes, j)
		m.linear = m.outer*n + j
		if err := m.visit(s, live); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) firstAcc(s *Stage) int {
	for i := range m.k.Stages {
		if s == &m.k.Stages[i] {
			return m.first[i]
		}
	}
	panic("BUG: loopir: foreign stage")
}

// visit works one index: values, accumulators, then checks and stores.
func (m *machine) visit(s *Stage, live []bool) error {
	if err := m.eval(live, false); err != nil {
		return err
	}
	first := m.firstAcc(s)
	for i, a := range s.Accs {
		n := first + i
		t := m.k.Exprs[a.Val].Type
		if t == ir.F32 && (a.Op == Sum || a.Op == Prod) {
			m.wide[n] = evalF64(a.Op.Op(), m.wide[n], float64(f32(m.vals[a.Val])), 0)
			m.acc[n] = ir.EncodeFloat(t, m.wide[n])
			continue
		}
		var it ir.DType
		var idx uint64
		if a.Idx >= 0 {
			it, idx = m.k.Exprs[a.Idx].Type, m.vals[a.Idx]
		}
		m.acc[n], m.accIdx[n] = Combine(a.Op, t, it, m.acc[n], m.accIdx[n], m.vals[a.Val], idx)
	}
	if s.Prefix {
		// Running values changed: expressions that depend on them are evaluated again.
		if err := m.eval(live, true); err != nil {
			return err
		}
	}
	for _, c := range s.Checks {
		if m.vals[c.Cond] == 0 && !m.fault.Failed {
			t := m.k.Exprs[c.Elem].Type
			m.fault = Fault{true, int64(CastBits(t, ir.I64, m.vals[c.Elem]))}
		}
	}
	// All values are read before any is written: kernels may work in place.
	for _, st := range s.Stores {
		if err := m.store(st); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) store(st Store) error {
	if st.Guard >= 0 && m.vals[st.Guard] == 0 {
		return nil
	}
	buf, at := st.Buf, int64(0)
	if st.Access >= 0 {
		buf, at = m.k.Access[st.Access].Buf, m.address(m.k.Access[st.Access])
	} else {
		at = int64(m.vals[st.Index])
	}
	t := m.k.Bufs[buf].Type
	if err := Inside(t, m.bufs[buf], at); err != nil {
		return fmt.Errorf("store to buffer %d: %w", buf, err)
	}
	v := m.vals[st.Val]
	if st.Mode != Set {
		ct := t.ComputeType()
		v = EvalOp(st.Mode.Op(), ct, ct, 0, LoadBits(t, m.bufs[buf], at), v, 0)
	}
	StoreBits(t, m.bufs[buf], at, v)
	return nil
}

// Inside reports an element at of type t that is outside buf.
func Inside(t ir.DType, buf []byte, at int64) error {
	if at < 0 || (at+1)*int64(t.Size()) > int64(len(buf)) {
		return fmt.Errorf("element %d is outside %d bytes of %v", at, len(buf), t)
	}
	return nil
}

func (m *machine) address(a Access) int64 {
	at := int64(0)
	if a.Offset >= 0 {
		at = int64(m.params[a.Offset])
	}
	if a.Linear {
		return at + m.linear
	}
	for d, s := range a.Stride {
		switch s {
		case Broadcast:
		case Unit:
			at += m.index[d]
		default:
			at += m.index[d] * int64(m.params[s])
		}
	}
	return at
}

// eval computes the live expressions in order; again re-evaluates all, with
// running values in place.
func (m *machine) eval(live []bool, again bool) error {
	for i, e := range m.k.Exprs {
		if !live[i] {
			continue
		}
		if e.Op.IsLeaf() {
			if again && (e.Op == OpLoad || e.Op == OpLoadAt) {
				continue
			}
			v, err := m.leaf(e)
			if err != nil {
				return fmt.Errorf("expression %d (%v): %w", i, e.Op, err)
			}
			m.vals[i] = v
			continue
		}
		var v [3]uint64
		for n, a := range [...]int{e.A, e.B, e.C} {
			if a >= 0 {
				v[n] = m.vals[a]
			}
		}
		m.vals[i] = EvalOp(e.Op, e.Type, m.k.Exprs[e.A].Type, e.Imm, v[0], v[1], v[2])
	}
	return nil
}

func (m *machine) leaf(e Expr) (uint64, error) {
	switch e.Op {
	case OpConst:
		return e.Imm, nil
	case OpParam:
		return canonicalBits(e.Type, m.params[e.Imm]), nil
	case OpIndex:
		return uint64(m.index[e.Imm]), nil
	case OpLinear:
		return uint64(m.linear), nil
	case OpAcc, OpAccRun:
		return m.acc[e.Imm], nil
	case OpAccIdx:
		return m.accIdx[e.Imm], nil
	}
	buf, at := int(e.Imm), int64(0)
	if e.Op == OpLoad {
		a := m.k.Access[e.Imm]
		buf, at = a.Buf, m.address(a)
	} else {
		at = int64(m.vals[e.A])
	}
	t := m.k.Bufs[buf].Type
	if err := Inside(t, m.bufs[buf], at); err != nil {
		return 0, err
	}
	return LoadBits(t, m.bufs[buf], at), nil
}
