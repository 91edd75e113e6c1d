package kerneltest

import (
	"math/rand/v2"
	"strings"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// GemmCase is a product with a launch.
type GemmCase struct {
	Gemm   *launch.Gemm
	Params []uint64
	Bufs   [][]byte
}

// Copy returns the case with buffers of its own.
func (c *GemmCase) Copy() *GemmCase {
	d := *c
	d.Bufs = (&Case{Bufs: c.Bufs}).Copy().Bufs
	return &d
}

// Epilogue makes one of five functions of a product of dtype t; with residual it adds an operand to the function's
// value. nil for neither.
func Epilogue(t ir.DType, function int, residual bool) *loopir.Kernel {
	if !t.IsFloat() {
		function %= 2
	}
	if function == 0 && !residual {
		return nil
	}
	var operands []ir.DType
	if residual {
		operands = []ir.DType{t}
	}
	b, v, x, finish := launch.NewEpilogue(t, operands...)
	ct := t.ComputeType()
	switch function {
	case 1:
		v = b.Max(v, b.Int(ct, 0))
	case 2: // rounded twice
		v = b.Mul(b.Narrow(t, b.Mul(v, b.Float(ct, 0.7))), v)
	case 3:
		v = b.Div(v, b.Add(b.Float(ct, 1), b.Un(loopir.OpExp, b.Neg(v))))
	case 4:
		v = b.Fma(v, b.Un(loopir.OpErf, v), b.Float(ct, 0.5))
	}
	if residual {
		if function > 0 {
			v = b.Narrow(t, v)
		}
		v = b.Add(v, x[0])
	}
	return finish(v)
}

// GatedEpilogue makes a map of a product of dtype t with operands of two dtypes and a scalar. With numbered it draws.
func GatedEpilogue(t ir.DType, numbered bool) *loopir.Kernel {
	b, v, x, finish := launch.NewEpilogue(t, ir.Bool, t)
	ct := t.ComputeType()
	scale := b.Cast(ct, b.Param(b.Scalar(ir.I32)))
	v = b.Select(x[0], b.Narrow(t, b.Mul(v, scale)), b.Sub(v, x[1]))
	if numbered {
		drawn := b.Draw(loopir.DrawWord, b.I64(3), b.I64(5))
		v = b.Select(b.Lt(drawn, b.Int(ir.U32, 1<<30)), b.Int(ct, 0), v)
	}
	return finish(v)
}

// ManyEpilogue is a GatedEpilogue that also stores the product itself, and the gate as a number.
func ManyEpilogue(t ir.DType) *loopir.Kernel {
	b, v, x, finish := launch.NewEpilogue(t, ir.Bool, t)
	gated := b.Select(x[0], v, b.Sub(v, x[1]))
	return finish(gated, launch.Result{Type: ir.I32, Value: b.Cast(ir.I32, x[0])}, launch.Result{Type: t, Value: v})
}

// epilogue gives g a random epilogue, or none. Some of its operands are read by strides.
func epilogue(r *rand.Rand, g *launch.Gemm, numbered bool) {
	g.Epilogue = Epilogue(g.Type, r.IntN(5), r.IntN(3) == 0)
	switch r.IntN(4) {
	case 0:
		g.Epilogue = GatedEpilogue(g.Type, numbered)
	case 1:
		g.Epilogue = ManyEpilogue(g.Type)
	}
	if g.Epilogue == nil || r.IntN(2) == 0 {
		return
	}
	for range len(g.Layout().BufOperands) {
		g.Views += string("cnmx"[r.IntN(4)])
	}
	if strings.ContainsAny(g.Views, "mx") {
		g.RowDims = 1 + r.IntN(launch.MaxRowDims)
	}
}

// views adds the parameters of the operands that are read by strides, for rows of all matrices and n columns, and fills
// all operands of the epilogue. Those laid out as C have size elements.
func (g *gen) views(c *GemmCase, rows, n, size int64) {
	l := c.Gemm.Layout()
	dims := make([]int64, len(l.RowSize)) // the last ones have up to three elements
	rest := rows
	for d := len(dims) - 1; d >= 0; d-- {
		if dims[d] = rest; d > 0 {
			if dims[d] = int64(1 + g.r.IntN(3)); rest%dims[d] != 0 {
				dims[d] = 1
			}
			rest /= dims[d]
		}
	}
	for _, n := range dims {
		c.Params = append(c.Params, uint64(n))
	}
	for o, b := range l.BufOperands {
		if !c.Gemm.Viewed(o) {
			g.fill(l.Bufs[b].Type, size)
			continue
		}
		letter, offset := c.Gemm.Views[o], int64(g.r.IntN(3))
		reach := offset + 1
		stride := func(n int64, letters string) {
			s := int64(0)
			if strings.IndexByte(letters, letter) >= 0 {
				s = int64(g.r.IntN(3))
			}
			c.Params = append(c.Params, uint64(s))
			reach += s * (n - 1)
		}
		for _, n := range dims {
			stride(n, "mx")
		}
		stride(n, "nx")
		c.Params = append(c.Params, uint64(offset))
		g.fill(l.Bufs[b].Type, reach)
	}
}

// results adds the operands of the epilogue, C, the further results, and scalars.
func (g *gen) results(c *GemmCase, rows, n, size int64) {
	l := c.Gemm.Layout()
	g.views(c, rows, n, size)
	g.buffer(c.Gemm.Type, loopir.Write, size)
	for _, b := range l.BufResults {
		g.buffer(l.Bufs[b].Type, loopir.Write, size)
	}
	for range l.Scalars {
		c.Params = append(c.Params, uint64(1+g.r.IntN(3)))
	}
}

// RandomGemm is a product of about m x n x k with random stride orders, batch, bias and epilogue. aligned rounds all
// sizes up to multiples of four.
func RandomGemm(r *rand.Rand, t ir.DType, m, n, k int64, aligned bool) *GemmCase {
	if aligned {
		m, n, k = (m+3)&^3, (n+3)&^3, (k+3)&^3
	}
	g := &launch.Gemm{Type: t, Batch: r.IntN(3), Bias: r.IntN(2) == 0, CStrided: r.IntN(4) == 0}
	epilogue(r, g, !g.CStrided && r.IntN(2) == 0)
	gen := &gen{r: r, b: loopir.NewBuilder("gemm", 0, 0)}
	c := &GemmCase{Gemm: g}
	batch := make([]int64, g.Batch)
	for i := range batch {
		batch[i] = int64(1 + r.IntN(3))
		c.Params = append(c.Params, uint64(batch[i]))
	}
	c.Params = append(c.Params, uint64(m), uint64(n), uint64(k))
	offset := func() int64 {
		if aligned {
			return 4 * int64(r.IntN(2))
		}
		return int64(r.IntN(3))
	}
	// matrix appends strides of a rows x cols matrix with the rows or the columns contiguous.
	matrix := func(rows, cols int64, transposed, broadcast bool, order func(row, col int64) []uint64) int64 {
		rs, cs := cols, int64(1)
		if transposed {
			rs, cs = 1, rows
		}
		step := rows * cols
		strides := make([]uint64, len(batch))
		for i := len(batch) - 1; i >= 0; i-- {
			if broadcast && r.IntN(2) == 0 {
				continue
			}
			strides[i] = uint64(step)
			step *= batch[i]
		}
		off := offset()
		c.Params = append(c.Params, strides...)
		c.Params = append(c.Params, order(rs, cs)...)
		c.Params = append(c.Params, uint64(off))
		return step + off
	}
	rowCol := func(row, col int64) []uint64 { return []uint64{uint64(row), uint64(col)} }
	at, bt := r.IntN(2) == 0, r.IntN(2) == 0
	g.AUnit, g.BUnit = 'k', 'n'
	if at {
		g.AUnit = 'm'
	}
	if bt {
		g.BUnit = 'k'
	}
	gen.fill(t, matrix(m, k, at, true, rowCol))
	gen.fill(t, matrix(k, n, bt, true, rowCol))
	if g.Bias {
		c.Params = append(c.Params, 1, 2)
		gen.fill(t, n+2)
	}
	size := m * n
	for _, b := range batch {
		size *= b
	}
	if g.CStrided {
		size = matrix(m, n, r.IntN(2) == 0, false, rowCol)
	}
	gen.results(c, ir.Numel(batch)*m, n, size)
	c.Bufs = gen.bufs
	if t.IsFloat() && !at && r.IntN(4) == 0 {
		g.AUnit = 0 // a text that does not know the unit stride
	}
	return c
}

// RandomGemmSums is [RandomGemm] without batch dims that also stores the sums of operand 'a' or 'b'.
func RandomGemmSums(r *rand.Rand, t ir.DType, m, n, k int64, aligned bool) *GemmCase {
	c := RandomGemm(r, t, m, n, k, aligned)
	for c.Gemm.Batch > 0 {
		c = RandomGemm(r, t, m, n, k, aligned)
	}
	l, size := c.Gemm.Layout(), 0
	c.Gemm.Sums, size = 'a', l.M
	if r.IntN(2) == 0 {
		c.Gemm.Sums, size = 'b', l.N
	}
	gen := &gen{r: r, b: loopir.NewBuilder("gemm", 0, 0), bufs: c.Bufs}
	gen.buffer(t, loopir.Write, int64(c.Params[size]))
	c.Bufs = gen.bufs
	return c
}

// dims draws sizes and strides; aligned ones allow vectors of four.
type dims struct {
	r       *rand.Rand
	aligned bool
}

func (d dims) up(n int64) int64 {
	if d.aligned {
		return (n + 3) / 4 * 4
	}
	return n
}

func (d dims) sizes(n int) (s []int64) {
	for range n {
		s = append(s, 1+d.r.Int64N(3))
	}
	s[n-1] = d.up(s[n-1] + d.r.Int64N(20))
	return s
}

// strides returns strides over dims of these sizes, and how far they reach.
func (d dims) strides(size []int64, first int64, dense bool) (v []int64, reach int64) {
	v = make([]int64, len(size))
	for i := len(size) - 1; i >= 0; i-- {
		v[i] = first
		reach += (size[i] - 1) * first
		first *= size[i]
		if !dense {
			first += d.r.Int64N(5)
		}
		first = d.up(first)
	}
	return v, reach
}

// RandomGemmDims is a product whose depth and columns have several dims; B is read at overlapping places. Aligned ones
// may be read by vectors of four. With cdims the result's columns have several dims too.
func RandomGemmDims(r *rand.Rand, t ir.DType, m int64, aligned, cdims bool) *GemmCase {
	g := &launch.Gemm{Type: t, Batch: r.IntN(2), AUnit: 'k', CStrided: true, CDims: cdims,
		KDims: 1 + r.IntN(launch.MaxGemmDims), NDims: 1 + r.IntN(launch.MaxGemmDims)}
	c, batch := &GemmCase{Gemm: g}, int64(1)
	add := func(v ...int64) {
		for _, x := range v {
			c.Params = append(c.Params, uint64(x))
		}
	}
	d := dims{r, aligned}
	depth, columns := d.sizes(g.KDims), d.sizes(g.NDims)
	k, n := ir.Numel(depth), ir.Numel(columns)
	ak, areach := d.strides(depth, 1, r.IntN(2) == 0)
	kUnit, nUnit := 1+r.Int64N(2), 1+r.Int64N(2)
	if aligned { // along one of them
		kUnit, nUnit = 1, 4
		if r.IntN(2) == 0 {
			kUnit, nUnit = nUnit, kUnit
		}
	}
	bk, breach := d.strides(depth, kUnit, false)
	bn, creach := d.strides(columns, nUnit, false)
	switch {
	case nUnit == 1 && (kUnit != 1 || r.IntN(2) == 0):
		g.BUnit = 'n'
	case kUnit == 1:
		g.BUnit = 'k'
	}
	offset := int64(1)
	if aligned {
		offset = 0
	}
	if g.Batch > 0 {
		batch = 1 + r.Int64N(9)
		add(batch)
	}
	matrix := func(step, row, col int64) {
		if g.Batch > 0 {
			add(step)
		}
		add(row, col, offset)
	}
	asize, bsize := m*(areach+4)/4*4, (breach+creach+4)/4*4
	add(m, n, k)
	matrix(asize, (areach+4)/4*4, 0)
	matrix(bsize, 0, 0)
	inner := n
	if cdims { // rows between the first dim of the columns and the others
		inner = n / columns[0]
	}
	matrix(m*n, inner, 1)
	cn := ir.DenseStrides(columns)
	cn[0] = m * inner
	lists := [][]int64{depth, ak, bk, columns, bn}
	if cdims {
		lists = append(lists, cn)
	}
	for _, list := range lists {
		add(list...)
	}
	gen := &gen{r: r, b: loopir.NewBuilder("gemm", 0, 0)}
	gen.fill(t, batch*asize+1)
	gen.fill(t, batch*bsize+1)
	epilogue(r, g, false)
	gen.results(c, batch*m, n, batch*m*n+1)
	c.Bufs = gen.bufs
	return c
}

// fill adds an operand of small values, so that sums are well conditioned.
func (g *gen) fill(t ir.DType, n int64) {
	data := make([]byte, n*int64(t.Size()))
	for i := range n {
		v := ir.EncodeInt(t, int64(g.r.IntN(9)-4))
		if t.IsFloat() {
			v = ir.EncodeFloat(t, g.r.Float64()-0.5)
		}
		loopir.StoreBits(t, data, i, v)
	}
	g.bufs = append(g.bufs, data)
}
