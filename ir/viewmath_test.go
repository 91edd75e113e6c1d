package ir

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// elements lists the storage offsets of a view in row-major order.
func elements(l *Layout, offset int64) []int64 {
	var out []int64
	idx := make([]int64, l.Rank())
	for n := int64(0); n < l.Numel; n++ {
		r := n
		for d := l.Rank() - 1; d >= 0; d-- {
			idx[d] = r % l.Shape[d]
			r /= l.Shape[d]
		}
		out = append(out, offset+l.Element(idx))
	}
	return out
}

func randomLayout(r *rand.Rand) *Layout {
	rank := r.IntN(4)
	shape := make([]int64, rank)
	for i := range shape {
		shape[i] = int64(1 + r.IntN(4))
	}
	l := DenseLayout(shape)
	for range r.IntN(3) {
		if l.Rank() == 0 {
			break
		}
		d := r.IntN(l.Rank())
		switch r.IntN(3) {
		case 0:
			perm := make([]int64, l.Rank())
			for i, p := range r.Perm(l.Rank()) {
				perm[i] = int64(p)
			}
			l = PermuteLayout(l, perm)
		case 1:
			l, _ = SliceLayout(l, 0, d, 0, l.Shape[d], int64(1+r.IntN(2)))
		case 2:
			s := append([]int64{int64(1 + r.IntN(3))}, l.Shape...)
			l, _ = ExpandLayout(l, s)
		}
	}
	return l
}

// factorings lists shapes of up to three dims with n elements, with ones mixed in.
func factorings(n int64) [][]int64 {
	out := [][]int64{{n}, {1, n}, {n, 1}}
	for a := int64(1); a <= n; a++ {
		if n%a != 0 {
			continue
		}
		out = append(out, []int64{a, n / a})
		for b := int64(1); b <= n/a; b++ {
			if (n/a)%b == 0 {
				out = append(out, []int64{a, b, n / a / b})
			}
		}
	}
	return out
}

// expressible decides by brute force whether shape can have strides over l's elements.
func expressible(l *Layout, shape []int64) bool {
	want := elements(l, 0)
	stride := make([]int64, len(shape))
	step := int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		if shape[d] > 1 {
			stride[d] = want[step] - want[0]
		}
		step *= shape[d]
	}
	got := elements(InternLayout(shape, stride), 0)
	for i := range want {
		if got[i] != want[i] {
			return false
		}
	}
	return true
}

func TestReshapeLayoutAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	views, copies := 0, 0
	for range 400 {
		l := randomLayout(r)
		for _, shape := range factorings(l.Numel) {
			out, ok := ReshapeLayout(l, shape)
			if ok {
				require.Equal(t, elements(l, 0), elements(out, 0), "%v %v to %v", l.Shape, l.Stride, shape)
				views++
				continue
			}
			require.False(t, expressible(l, shape), "%v %v to %v needs no copy", l.Shape, l.Stride, shape)
			copies++
		}
	}
	require.Positive(t, views)
	require.Positive(t, copies)
}

func TestReshapeScalarAndEmpty(t *testing.T) {
	one, ok := ReshapeLayout(InternLayout([]int64{1, 1}, []int64{7, 3}), nil)
	require.True(t, ok)
	require.Zero(t, one.Rank())
	back, ok := ReshapeLayout(one, []int64{1, 1, 1})
	require.True(t, ok)
	require.Equal(t, 3, back.Rank())
	empty, ok := ReshapeLayout(InternLayout([]int64{3, 0}, []int64{5, 9}), []int64{0, 4})
	require.True(t, ok)
	require.True(t, empty.Dense)
}

func TestSelectSliceExpandPermute(t *testing.T) {
	l := DenseLayout([]int64{3, 4})
	s, off := SelectLayout(l, 5, 0, 2)
	require.Equal(t, []int64{13, 14, 15, 16}, elements(s, off))
	s, off = SelectLayout(l, 0, 1, 3)
	require.Equal(t, []int64{3, 7, 11}, elements(s, off))
	s, off = SliceLayout(l, 0, 1, 1, 4, 2)
	require.Equal(t, []int64{1, 3, 5, 7, 9, 11}, elements(s, off))
	s, _ = SliceLayout(l, 0, 1, 3, 1, 1)
	require.Zero(t, s.Numel)
	e, ok := ExpandLayout(DenseLayout([]int64{3, 1}), []int64{2, 3, 2})
	require.True(t, ok)
	require.Equal(t, []int64{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}, elements(e, 0))
	_, ok = ExpandLayout(l, []int64{3, 5})
	require.False(t, ok)
	_, ok = ExpandLayout(l, []int64{4})
	require.False(t, ok)
	p := PermuteLayout(l, []int64{1, 0})
	require.Equal(t, []int64{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, elements(p, 0))
}

// A view of a value is found in another layout of the value's shape, where the memory says which elements it has.
func TestRestride(t *testing.T) {
	dense := DenseLayout([]int64{3, 4, 5})
	turned := PermuteLayout(DenseLayout([]int64{5, 3, 4}), []int64{1, 2, 0})
	views := map[string]func(l *Layout, at int64) (*Layout, int64){
		"select": func(l *Layout, at int64) (*Layout, int64) { return SelectLayout(l, at, 1, 2) },
		"slice":  func(l *Layout, at int64) (*Layout, int64) { return SliceLayout(l, at, 2, 1, 5, 2) },
		"both": func(l *Layout, at int64) (*Layout, int64) {
			l, at = SliceLayout(l, at, 0, 1, 3, 1)
			return SelectLayout(PermuteLayout(l, []int64{2, 0, 1}), at, 0, 4)
		},
		"diagonal": func(l *Layout, at int64) (*Layout, int64) {
			return InternLayout([]int64{4, 3}, []int64{l.Stride[1], l.Stride[0] + l.Stride[2]}), at + l.Stride[2]
		},
		"windows": func(l *Layout, at int64) (*Layout, int64) {
			return InternLayout([]int64{3, 4, 2, 3}, []int64{l.Stride[0], l.Stride[1], l.Stride[2], l.Stride[2]}), at
		},
		"empty": func(l *Layout, at int64) (*Layout, int64) { return SliceLayout(l, at, 1, 2, 2, 1) },
	}
	rows, ok := ExpandLayout(DenseLayout([]int64{1, 4, 5}), []int64{3, 4, 5})
	require.True(t, ok)
	for name, view := range views {
		for _, c := range [][2]*Layout{{dense, turned}, {turned, dense}, {dense, dense}, {rows, dense}} {
			if c[0] == rows && (name == "both" || name == "diagonal") {
				continue // they say nothing of the rows
			}
			out, at := view(c[0], 7)
			want, wantAt := view(c[1], 0)
			got, gotAt, ok := Restride(c[0], 7, out, at, c[1])
			require.True(t, ok, name)
			require.Equal(t, elements(want, wantAt), elements(got, gotAt), name)
		}
	}
	for name, out := range map[string]*Layout{"a row of equal rows": DenseLayout([]int64{4, 5}),
		"beyond the end": DenseLayout([]int64{3, 4, 6}), "no element": InternLayout([]int64{2}, []int64{100})} {
		_, _, ok := Restride(rows, 0, out, 0, dense)
		require.False(t, ok, name)
	}
	_, _, ok = Restride(dense, 0, InternLayout([]int64{2, 3}, []int64{20, 4}), 0, dense)
	require.False(t, ok, "it wraps around")
}

func TestExpandBatchKeepsHiddenDims(t *testing.T) {
	hidden := []HiddenDim{{Level: 1, Size: 4, Stride: 3}}
	shape, stride := []int64{1, 3}, []int64{3, 1}
	for _, l := range []*Layout{InternLayout(shape, stride), InternHidden(hidden, shape, stride)} {
		got, ok := ExpandBatch(l, []int64{2, 3})
		require.True(t, ok)
		require.Equal(t, []int64{2, 3}, got.Shape)
		require.Equal(t, []int64{0, 1}, got.Stride)
		require.Equal(t, l.Hidden, got.Hidden)
		_, ok = ExpandBatch(l, []int64{2, 2})
		require.False(t, ok)
	}
}
