package lower

import (
	"encoding/binary"
	"slices"
)

// Memo lowers like nodes once: those of many layers, of every time step of a recurrence, and of windows that differ
// elsewhere. Results are shared and must not be changed. Devices recognise steps that share a *loopir.Kernel. The zero
// value is empty.
type Memo struct {
	results  map[string]*Result
	launches int    // of all results
	key      []byte // scratch
}

// mostLaunches bounds a memo, at about 1 KiB for each launch. A full memo is emptied. A recurrence has two launches for
// each step.
const mostLaunches = 1 << 13

// Lower is the function [Lower] with the memo.
func (m *Memo) Lower(n *Node) (*Result, error) {
	m.key = n.appendKey(m.key[:0])
	if r := m.results[string(m.key)]; r != nil {
		return r, nil
	}
	r, err := Lower(n)
	if err != nil {
		return nil, err
	}
	size := max(len(r.Launches), 1)
	if m.launches += size; m.results == nil || m.launches > mostLaunches {
		m.results, m.launches = map[string]*Result{}, size
	}
	m.results[string(m.key)] = r
	return r, nil
}

// appendKey writes all of n as numbers.
func (n *Node) appendKey(k []byte) []byte {
	put := func(v ...int64) {
		for _, x := range v {
			k = binary.AppendVarint(k, x)
		}
	}
	truth := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	put(int64(n.Prim.ID), int64(n.Bufs), truth(n.GemmDims), truth(n.GemmPads), truth(n.Wide), truth(n.InOrder),
		truth(n.Fourier), truth(n.Quantized), n.FactorSide, n.MaxIterations, truth(n.Residual), truth(n.Append),
		int64(n.Sums), int64(len(n.Attr)), int64(len(n.In)), int64(len(n.Folds)), int64(len(n.Kept)), int64(len(n.Members)))
	put(n.Attr...)
	for i := range n.In {
		x := &n.In[i]
		if put(int64(x.DType), truth(x.Scalar)); !x.Scalar {
			put(int64(x.Layout.ID), int64(x.Buf), truth(x.Whole), x.At)
		}
	}
	fold := func(f *Fold) {
		put(int64(f.Prim.ID), int64(f.DType), int64(len(f.Attr)), int64(len(f.In)))
		put(f.Attr...)
		for _, x := range f.In {
			put(int64(x))
		}
	}
	for i := range n.Folds {
		fold(&n.Folds[i])
	}
	if put(truth(n.Norm != nil)); n.Norm != nil {
		fold(n.Norm)
	}
	for _, v := range n.Kept {
		put(int64(v))
	}
	for i := range n.Members {
		m := &n.Members[i]
		put(int64(m.Prim.ID), int64(m.Layout.ID), int64(len(m.Values)), int64(m.Region), int64(len(m.Attr)),
			int64(len(m.In)), int64(len(m.Places)))
		put(m.Attr...)
		for _, v := range m.Values {
			put(int64(v.DType), int64(v.Out))
		}
		for _, x := range slices.Concat(m.In, m.Places) {
			put(int64(x))
		}
	}
	for i := range n.Out {
		x := &n.Out[i]
		put(int64(x.DType), int64(x.Layout.ID), int64(x.Buf), truth(x.Through), truth(x.Unread), int64(len(x.Parts)))
		for _, q := range x.Parts {
			put(int64(q.Layout.ID), q.Offset)
		}
	}
	return k
}
