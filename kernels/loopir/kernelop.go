package loopir

import "github.com/torchlette/torchlette/ir"

// Cost is the work of a launch: arithmetic on floats, and the bytes that it must read and write at least once.
type Cost struct{ Flops, Bytes int64 }

// Widths is the bytes of an element of each type on a device.
type Widths = [ir.NumStored]int

// Label implements launch.Op.
func (k *Kernel) Label() string { return k.Name }

// Buffers implements launch.Op.
func (k *Kernel) Buffers() []Buf { return k.Bufs }

// Parameters implements launch.Op.
func (k *Kernel) Parameters() []Param { return k.Params }

// Key implements launch.Op; see [Key].
func (k *Kernel) Key() string { return Key(k) }

// Interpret implements launch.Op; see [Interpret].
func (k *Kernel) Interpret(params []uint64, bufs [][]byte) (Fault, error) {
	return Interpret(k, params, bufs)
}

// Verify reports what is wrong with k; see [Verify].
func (k *Kernel) Verify() error { return Verify(k) }

// Cost implements launch.Op. It counts each operation on floats as one, even a fused one, and every element that an
// access reaches once.
func (k *Kernel) Cost(params []uint64, width *Widths) (c Cost) {
	outer := Count(params[:k.Outer])
	inner := Count(params[k.Outer : k.Outer+k.Inner])
	read, written := make([]int64, len(k.Bufs)), make([]int64, len(k.Bufs))
	for i := range k.Stages {
		stage := &k.Stages[i]
		n := outer
		if stage.OverInner {
			n *= inner
		}
		c.Flops += n * int64(k.stageCost(stage, n, params, read, written))
	}
	for b := range k.Bufs {
		c.Bytes += (read[b] + written[b]) * int64(width[k.Bufs[b].Type])
	}
	return c
}

// stageCost returns the arithmetic of a stage for one of its n indices, and adds to read and written the elements of
// each buffer.
func (k *Kernel) stageCost(s *Stage, n int64, params []uint64, read, written []int64) (ops int) {
	reach := func(a *Access) int64 {
		if a.Linear {
			return n
		}
		r := int64(1)
		for d, st := range a.Stride {
			if st != Broadcast && (d < k.Outer || s.OverInner) {
				r *= int64(params[d])
			}
		}
		return r
	}
	for i, used := range k.Uses(s) {
		e := &k.Exprs[i]
		switch {
		case !used:
		case e.Op == OpLoad:
			a := &k.Access[e.Imm]
			read[a.Buf] = max(read[a.Buf], reach(a))
		case e.Op == OpLoadAt:
			read[e.Imm] = max(read[e.Imm], n)
		case e.isArithmetic():
			ops++
		}
	}
	for i := range s.Stores {
		st := &s.Stores[i]
		if st.Access >= 0 {
			a := &k.Access[st.Access]
			written[a.Buf] = max(written[a.Buf], reach(a))
		} else {
			written[st.Buf] = max(written[st.Buf], n)
		}
	}
	return ops + len(s.Accs)
}

// isArithmetic reports an operation on floats that counts as one.
func (e *Expr) isArithmetic() bool {
	float := e.Type == ir.F32 || e.Type == ir.F64
	return float && (e.Op >= OpAdd && e.Op <= OpPow || e.Op >= OpFloor && e.Op <= OpErf)
}
