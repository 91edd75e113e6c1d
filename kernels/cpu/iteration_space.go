package cpu

import "github.com/torchlette/torchlette/ir"

// affine is a linear map from the index space to element numbers of buffer buf, or to plain numbers where buf is -1.
type affine struct {
	buf    int
	typ    ir.DType
	offset int // parameter, -1: none
	base   int64
	stride [2][]int64
}

// The two groups of dims, and the number that walks give to the outer group's second cut dim.
const (
	outer     = 0
	inner     = 1
	secondCut = 3
)

// space is one group of dims and how it is cut into tiles: dim t in chunks, the dims after it whole, the dims before it
// one index at a time. Where uchunk is not 0, dim u before t is cut too, in chunks of uchunk.
type space struct {
	size   []int64
	t, u   int
	chunk  int64
	uchunk int64
	trail  int64 // elements of the dims after t
}

func (s *space) numel() int64 { return ir.Numel(s.size) }

// lanes is the largest number of elements of a tile.
func (s *space) lanes() int64 {
	if len(s.size) == 0 {
		return 1
	}
	return s.chunk * s.trail * max(1, s.uchunk)
}

func (s *space) upieces() int64 {
	if s.uchunk == 0 {
		return 1
	}
	return (s.size[s.u] + s.uchunk - 1) / s.uchunk
}

func (s *space) pieces() int64 {
	if len(s.size) == 0 {
		return 1
	}
	return (s.size[s.t] + s.chunk - 1) / s.chunk
}

func (s *space) tiles() int64 {
	n := s.pieces()
	for d := range s.t {
		if s.uchunk > 0 && d == s.u {
			n *= s.upieces()
			continue
		}
		n *= s.size[d]
	}
	return n
}

// inTile reports that dim d varies between the lanes of a tile.
func (s *space) inTile(d int) bool {
	return d > s.t || d == s.t && s.chunk > 1 || s.uchunk > 0 && d == s.u
}

// whole makes the space one tile.
func (s *space) whole() {
	s.t, s.chunk, s.trail = 0, 1, 1
	if len(s.size) > 0 {
		s.chunk = s.size[0]
		s.trail = ir.Numel(s.size[1:])
	}
}

// single makes every index a tile.
func (s *space) single() { s.t, s.chunk, s.trail = max(0, len(s.size)-1), 1, 1 }

// cutTransposed makes tiles of rows of dim u by columns of the last dim.
func (s *space) cutTransposed(u int) {
	s.t, s.trail = len(s.size)-1, 1
	s.chunk = min(transposeLanes, s.size[s.t])
	s.u, s.uchunk = u, min(transposeLanes, s.size[u])
}

// transposeLanes is the side of a tile through which a transposed operand is read: two cache lines of 64 bytes from
// each row and column of 4-byte elements.
const transposeLanes = 32

// rowLanes is the length from which a row is a good tile by itself: operands that are constant along the row, or repeat
// from row to row, then need no copy.
const rowLanes = 256

// cut chooses a tile of at most budget lanes, over as many trailing dims as fit.
func (s *space) cut(budget int64) {
	s.t, s.chunk, s.trail = 0, 1, 1
	for d := len(s.size) - 1; d >= 0; d-- {
		s.t = d
		switch {
		case s.trail >= rowLanes || s.trail > budget/2:
			s.chunk = 1
			return
		case s.trail*s.size[d] > budget:
			s.chunk = max(1, budget/s.trail)
			return
		case d == 0:
			s.chunk = s.size[0]
			return
		}
		s.trail *= s.size[d]
	}
}

// collapse drops dims of one element and merges neighbouring dims that every map sees as one.
func collapse(group int, size []int64, maps []*affine) []int64 {
	var out []int64
	kept := make([][]int64, len(maps))
	for d, n := range size {
		if n == 1 {
			continue
		}
		joins := len(out) > 0
		for i, m := range maps {
			if k := kept[i]; joins && k[len(k)-1] != m.stride[group][d]*n {
				joins = false
			}
		}
		if joins {
			out[len(out)-1] *= n
		} else {
			out = append(out, n)
		}
		for i, m := range maps {
			if joins {
				kept[i][len(kept[i])-1] = m.stride[group][d]
			} else {
				kept[i] = append(kept[i], m.stride[group][d])
			}
		}
	}
	for i, m := range maps {
		m.stride[group] = kept[i]
	}
	return out
}

// dim is one loop of a walk over the lanes of a tile: mul elements, times the run-time length of a chunk where dyn is
// not 0. dyn 1 and 2: the chunk of group dyn-1; 3: that of the outer group's second cut dim.
type dim struct {
	mul    int64
	dyn    int
	stride int64
}

// walk lists the loops of a tile through m, outermost first, merged where possible. A loop whose length is known only
// at run time is not merged with the one before it.
func walk(m *affine, spaces [2]*space, groups []int) []dim {
	var w []dim
	for _, g := range groups {
		s := spaces[g]
		for d, n := range s.size {
			if !s.inTile(d) {
				continue
			}
			x := dim{mul: n, stride: m.stride[g][d]}
			switch {
			case d == s.t && s.pieces() > 1:
				x.mul, x.dyn = 1, g+1
			case s.uchunk > 0 && d == s.u:
				x.mul, x.dyn = 1, secondCut
			}
			if k := len(w) - 1; k >= 0 && x.dyn == 0 && w[k].stride == x.stride*x.mul {
				w[k] = dim{mul: w[k].mul * x.mul, dyn: w[k].dyn, stride: x.stride}
				continue
			}
			w = append(w, x)
		}
	}
	return w
}

// dense reports that the lanes of a walk are consecutive elements.
func dense(w []dim) bool { return len(w) == 0 || len(w) == 1 && w[0].stride == 1 }
