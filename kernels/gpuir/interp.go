package gpuir

import (
	"errors"
	"fmt"

	"github.com/torchlette/torchlette/ir"

	"github.com/torchlette/torchlette/kernels/loopir"
)

// Interpret runs p over host bytes of canonical layout. The threads of a workgroup run in lockstep, and workgroups run
// in order. Lockstep would hide two errors, so Interpret reports them: a barrier that some threads do not reach, and
// two threads that access the same workgroup memory between barriers.
func Interpret(p *Program, params []uint64, bufs [][]byte) (loopir.Fault, error) {
	if err := Verify(p); err != nil {
		return loopir.Fault{}, err
	}
	if len(params) != len(p.Params) || len(bufs) != len(p.Bufs) {
		return loopir.Fault{}, fmt.Errorf("program %s: %d parameters and %d buffers, want %d and %d",
			p.Name, len(params), len(bufs), len(p.Params), len(p.Bufs))
	}
	m := &lockstep{p: p, params: params, bufs: bufs, vars: make([][][4]uint64, len(p.Vars))}
	for i := range m.vars {
		m.vars[i] = make([][4]uint64, p.Workgroup)
	}
	all := make([]bool, p.Workgroup)
	for i := range all {
		all[i] = true
	}
	grid := p.Grid(params)
	for g := range uint64(grid[0]) * uint64(grid[1]) * uint64(grid[2]) {
		m.group = g
		m.resetShared()
		if err := m.block(p.Body, all); err != nil {
			return m.fault, fmt.Errorf("program %s: group %d: %w", p.Name, g, err)
		}
	}
	return m.fault, nil
}

type value = [4]uint64

type lockstep struct {
	p      *Program
	params []uint64
	bufs   [][]byte
	group  uint64
	vars   [][]value
	mask   []bool // threads that run the current statement
	shared [][]sharedCell
	epoch  int // number of barriers passed
	fault  loopir.Fault
}

// sharedCell is an element of a workgroup array, and who accessed it since the last barrier.
type sharedCell struct {
	v                        uint64
	writer, wEpoch           int
	reader, rEpoch           int
	manyReaders, everWritten bool
}

func (m *lockstep) resetShared() {
	m.epoch++
	m.shared = m.shared[:0]
	for _, s := range m.p.Shared {
		m.shared = append(m.shared, make([]sharedCell, s.Len*s.Vec))
	}
}

func (m *lockstep) block(body []Stmt, mask []bool) error {
	for i := range body {
		if err := m.stmt(&body[i], mask); err != nil {
			return err
		}
	}
	return nil
}

// each runs f for the active lanes.
func each(mask []bool, f func(lane int) error) error {
	for lane, on := range mask {
		if on {
			if err := f(lane); err != nil {
				return fmt.Errorf("thread %d: %w", lane, err)
			}
		}
	}
	return nil
}

func (m *lockstep) stmt(s *Stmt, mask []bool) error {
	m.mask = mask
	switch s.Op {
	case SLet, SVar, SAssign:
		return each(mask, func(lane int) (err error) {
			m.vars[s.Var][lane], err = m.eval(s.A, lane)
			return err
		})
	case SFor:
		return m.loop(s, mask)
	case SIf:
		return m.branch(s, mask)
	case SBarrier:
		return m.barrier(mask)
	case SUniform:
		return m.uniform(s, mask)
	case SStore, SAtomic:
		return each(mask, func(lane int) error { return m.store(s, lane) })
	case SSharedSet:
		return each(mask, func(lane int) error { return m.sharedSet(s, lane) })
	case SFault:
		return each(mask, func(lane int) error {
			c, err := m.eval(s.A, lane)
			if err != nil || c[0] == 0 || m.fault.Failed {
				return err
			}
			e, err := m.eval(s.B, lane)
			m.fault = loopir.Fault{Failed: true, Elem: int64(loopir.CastBits(s.B.Type, ir.I64, e[0]))}
			if s.C != nil && err == nil {
				var high value
				high, err = m.eval(s.C, lane)
				m.fault.Elem = int64(uint32(e[0])) | int64(high[0])<<32
			}
			return err
		})
	}
	return fmt.Errorf("unknown statement %d", s.Op)
}

func (m *lockstep) barrier(mask []bool) error {
	for _, on := range mask {
		if !on {
			return errors.New("a barrier that not all threads reach")
		}
	}
	m.epoch++
	return nil
}

// uniform reads an element for all threads.
func (m *lockstep) uniform(s *Stmt, mask []bool) error {
	if err := m.barrier(mask); err != nil {
		return err
	}
	n := &Node{Op: PShared, Type: m.p.Shared[s.Ref].Type, Width: 1, Imm: uint64(s.Ref), Args: []*Node{s.A}}
	err := each(mask, func(lane int) (err error) {
		m.vars[s.Var][lane], err = m.sharedGet(n, lane)
		if err == nil && m.vars[s.Var][lane] != m.vars[s.Var][0] {
			err = errors.New("threads read different elements in place of one")
		}
		return err
	})
	m.epoch++
	return err
}

func (m *lockstep) branch(s *Stmt, mask []bool) error {
	yes, no := make([]bool, len(mask)), make([]bool, len(mask))
	var anyYes, anyNo bool
	err := each(mask, func(lane int) error {
		c, err := m.eval(s.A, lane)
		yes[lane], no[lane] = c[0] != 0, c[0] == 0
		anyYes, anyNo = anyYes || yes[lane], anyNo || no[lane]
		return err
	})
	if err != nil {
		return err
	}
	if anyYes {
		if err := m.block(s.Body, yes); err != nil {
			return err
		}
	}
	if anyNo {
		return m.block(s.Else, no)
	}
	return nil
}

func (m *lockstep) loop(s *Stmt, mask []bool) error {
	err := each(mask, func(lane int) (err error) {
		m.vars[s.Var][lane], err = m.eval(s.A, lane)
		return err
	})
	if err != nil {
		return err
	}
	on := append([]bool(nil), mask...)
	for {
		anyOn := false
		err := each(on, func(lane int) error {
			end, err := m.eval(s.B, lane)
			on[lane] = int32(m.vars[s.Var][lane][0]) < int32(end[0])
			anyOn = anyOn || on[lane]
			return err
		})
		if err != nil || !anyOn {
			return err
		}
		if err := m.block(s.Body, on); err != nil {
			return err
		}
		err = each(on, func(lane int) error {
			step, err := m.eval(s.C, lane)
			v := &m.vars[s.Var][lane][0]
			*v = uint64(uint32(int32(*v) + int32(step[0])))
			return err
		})
		if err != nil {
			return err
		}
	}
}

func (m *lockstep) store(s *Stmt, lane int) error {
	at, err := m.eval(s.A, lane)
	if err != nil {
		return err
	}
	v, err := m.eval(s.B, lane)
	if err != nil {
		return err
	}
	t := m.p.Bufs[s.Ref].Type
	first := int64(loopir.CastBits(s.A.Type, ir.I64, at[0])) * int64(s.B.Width)
	for i := range s.B.Width {
		if err := loopir.Inside(t, m.bufs[s.Ref], first+int64(i)); err != nil {
			return fmt.Errorf("store to buffer %d: %w", s.Ref, err)
		}
		x := m.adapt(s.B.Type, t.ComputeType(), v[i])
		if s.Op == SAtomic {
			ct := t.ComputeType()
			x = loopir.EvalOp(s.Mode.Op(), ct, ct, 0, loopir.LoadBits(t, m.bufs[s.Ref], first+int64(i)), x, 0)
		}
		loopir.StoreBits(t, m.bufs[s.Ref], first+int64(i), x)
	}
	return nil
}

// adapt converts between the I64 of a buffer and the I32 in which it is computed.
func (m *lockstep) adapt(from, to ir.DType, v uint64) uint64 {
	if from == to {
		return v
	}
	return loopir.CastBits(from, to, v)
}

// cells are `width` elements of an array from index n on: those of a vector, or one element.
func (m *lockstep) cells(array int, n *Node, width, lane int) ([]sharedCell, error) {
	at, err := m.eval(n, lane)
	if err != nil {
		return nil, err
	}
	i := int(int32(at[0])) * width
	if i < 0 || i+width > len(m.shared[array]) {
		return nil, fmt.Errorf("workgroup array %d: element %d of %d", array, i, len(m.shared[array]))
	}
	return m.shared[array][i : i+width], nil
}

func (m *lockstep) sharedSet(s *Stmt, lane int) error {
	v, err := m.eval(s.B, lane)
	if err != nil {
		return err
	}
	at := s.A
	if s.C != nil {
		at = NAdd(NMul(s.A, NInt(4)), s.C)
	}
	cells, err := m.cells(s.Ref, at, s.B.Width, lane)
	if err != nil {
		return err
	}
	for i := range cells {
		c := &cells[i]
		if c.wEpoch == m.epoch && c.writer != lane {
			return fmt.Errorf("workgroup array %d: threads %d and %d write one element", s.Ref, c.writer, lane)
		}
		if c.rEpoch == m.epoch && (c.manyReaders || c.reader != lane) {
			return fmt.Errorf("workgroup array %d: written while another thread reads it", s.Ref)
		}
		c.v, c.writer, c.wEpoch, c.everWritten = v[i], lane, m.epoch, true
	}
	return nil
}

func (m *lockstep) sharedGet(n *Node, lane int) (out value, err error) {
	cells, err := m.cells(int(n.Imm), n.Args[0], n.Width, lane)
	if err != nil {
		return out, err
	}
	for i := range cells {
		c := &cells[i]
		if !c.everWritten {
			return out, fmt.Errorf("workgroup array %d: read before written", n.Imm)
		}
		if c.wEpoch == m.epoch && c.writer != lane {
			return out, fmt.Errorf("workgroup array %d: read of what thread %d wrote without a barrier", n.Imm, c.writer)
		}
		if c.rEpoch == m.epoch {
			c.manyReaders = c.manyReaders || c.reader != lane
		} else {
			c.rEpoch, c.reader, c.manyReaders = m.epoch, lane, false
		}
		out[i] = c.v
	}
	return out, nil
}

// scalarOp is the operation of n on numbers: indices are divided as integers are.
func (n *Node) scalarOp() loopir.Op {
	switch n.Op {
	case PIndexDiv:
		return loopir.OpDiv
	case PIndexRem:
		return loopir.OpRem
	}
	return n.Op
}

func (m *lockstep) eval(n *Node, lane int) (value, error) {
	switch n.Op {
	case loopir.OpConst:
		return value{n.Imm}, nil
	case loopir.OpParam:
		return value{m.adapt(m.p.Params[n.Imm].Type, n.Type, m.params[n.Imm])}, nil
	case PHalf:
		return value{uint64(uint32(m.params[n.Imm>>1] >> (32 * (n.Imm & 1))))}, nil
	case PVar:
		return m.vars[n.Imm][lane], nil
	case PLocalID:
		return value{uint64(lane)}, nil
	case PGroupID:
		return value{m.group}, nil
	case PShared:
		return m.sharedGet(n, lane)
	case PShuffle:
		other := lane ^ int(n.Imm)
		if other >= len(m.mask) || !m.mask[other] {
			return value{}, fmt.Errorf("a shuffle that thread %d does not reach", other)
		}
		return m.vars[n.Args[0].Imm][other], nil
	}
	var args [6]value
	for i, a := range n.Args {
		v, err := m.eval(a, lane)
		if err != nil {
			return value{}, err
		}
		args[i] = v
	}
	switch n.Op {
	case PLoad:
		return m.load(n, args[0][0])
	case PSplat:
		x := args[0][0]
		return value{x, x, x, x}, nil
	case PLane:
		return value{args[0][n.Imm]}, nil
	case PVec:
		return value{args[0][0], args[1][0], args[2][0], args[3][0]}, nil
	case PPhilox:
		w := func(i int) uint32 { return uint32(args[i][0]) }
		r := loopir.Philox([4]uint32{w(0), w(1), w(2), w(3)}, [2]uint32{w(4), w(5)})
		return value{uint64(r[0]), uint64(r[1]), uint64(r[2]), uint64(r[3])}, nil
	}
	op := n.scalarOp()
	var out value
	for i := range n.Width {
		out[i] = loopir.EvalOp(op, n.Type, n.Args[0].Type, n.Imm, args[0][i], args[1][i], args[2][i])
	}
	return out, nil
}

func (m *lockstep) load(n *Node, index uint64) (value, error) {
	buf := int(n.Imm)
	t := m.p.Bufs[buf].Type
	first := int64(loopir.CastBits(n.Args[0].Type, ir.I64, index)) * int64(n.Width)
	var out value
	for i := range n.Width {
		if err := loopir.Inside(t, m.bufs[buf], first+int64(i)); err != nil {
			return out, fmt.Errorf("load from buffer %d: %w", buf, err)
		}
		out[i] = m.adapt(t.ComputeType(), n.Type, loopir.LoadBits(t, m.bufs[buf], first+int64(i)))
	}
	return out, nil
}
