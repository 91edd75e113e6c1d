package composite

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// Words of grid_sample's mode and padding_mode, in order.
const (
	sampleLinear = iota
	sampleNearest
	sampleCubic
)

const (
	outsideZeros = iota
	outsideBorder
	outsideReflection
)

func registerGridsampleOps() {
	op.Register(op.Def{
		Sig: "grid_sample(Tensor input, Tensor grid, str(bilinear|nearest|bicubic) mode='bilinear', " +
			"str(zeros|border|reflection) padding_mode='zeros', bool? align_corners=None) -> Tensor",
		Doc: "input [N, C, (D,) H, W] at the places grid [N, (D',) H', W', dims], x first, where -1 and 1 are the input's " +
			"edges.", Where: op.Functional, Eval: evalGridSample,
		Samples: samples("T(2,3,5,4), T(2,3,6,2;-1.2,1.2)", "T(1,2,5,4), T(1,3,2,2;-1.4,1.4), 'nearest', 'border', True",
			"T(1,2,5,4), T(1,3,2,2;-1.4,1.4), 'bicubic', 'reflection'",
			"T(1,2,5,4), T(1,3,2,2;-3,3), 'bilinear', 'reflection', True",
			"T(1,2,5,4), T(1,3,2,2;-1.4,1.4), 'bicubic', 'zeros', True", "T(1,2,4,3,5), T(1,2,3,2,3;-1.3,1.3)",
			"T(1,2,4,3,5), T(1,2,3,2,3;-1.3,1.3), 'nearest', 'reflection'",
			"T(1,2,1,4), T(1,3,2,2;-2,2), 'bilinear', 'reflection', True",
			"T(1,1,3,4,3), T(1,2,1,2,3;-1.3,1.3), 'bicubic', 'border'"),
		ErrorSamples: samples("T(2,3,5,4), T(1,3,6,2)", "T(2,3,5,4), T(2,3,6,3)", "T(3,5,4), T(3,6,2)"),
	})
	op.Register(op.Def{
		Sig: "affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor",
		Doc: "The places, for grid_sample, that affine maps theta [N, dims, dims+1] send the elements of an output of " +
			"the given size [N, C, (D,) H, W] to.",
		Where:        op.Function,
		Samples:      samples("T(2,2,3), (2,3,4,5), False", "T(2,2,3), (2,3,4,1), True", "T(1,3,4), (1,2,3,4,2), False"),
		Eval:         evalAffineGrid,
		ErrorSamples: samples("T(2,3,3), (2,3,4,5), False"),
	})
}

func checkGridSample(x, grid op.Val) {
	s, g := x.Shape(), grid.Shape()
	if len(s) == 0 {
		fail(ir.ErrIndex, "Dimension specified as 0 but tensor has no dimensions")
	}
	if x.DType() != grid.DType() {
		fail(ir.ErrRuntime, "grid_sampler(): expected input and grid to have same dtype, but input has %s and grid has %s",
			x.DType().CName(), grid.DType().CName())
	}
	if d := len(s) - 2; d != 2 && d != 3 || len(g) != len(s) {
		fail(ir.ErrRuntime, "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input "+
			"with sizes %s and grid with sizes %s", ir.ShapeString(s), ir.ShapeString(g))
	}
	if s[0] != g[0] {
		fail(ir.ErrRuntime, "grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s "+
			"and grid with sizes %s", ir.ShapeString(s), ir.ShapeString(g))
	}
	if d := int64(len(s) - 2); g[len(g)-1] != d {
		fail(ir.ErrRuntime, "grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s", d,
			ir.ShapeString(g))
	}
	if slices.Contains(s[2:], 0) {
		fail(ir.ErrRuntime, "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s",
			ir.ShapeString(s))
	}
	needFloat("grid_sampler", x)
}

// gridTap is one element along a dim that each sample reads: its position, whether that is inside, and its weight.
type gridTap struct{ at, inside, weight op.Val }

// gridSampler reads along one dim of the given size.
type gridSampler struct {
	b             op.Builder
	mode, outside int64
	corners       bool // -1 and 1 are the centres of the first and last element, not their outer edges
	size          int64
}

func evalGridSample(a *op.Args) []op.Val {
	x, grid, b := a.Val(), a.Val(), a.B
	mode, outside := a.Int(), a.Int()
	corners, _ := a.OptBool()
	checkGridSample(x, grid)
	narrow := widen(b, x.DType(), &x, &grid)
	s, g := x.Shape(), grid.Shape()
	d := len(s) - 2
	places := ir.Numel(g[1 : d+1])
	taps := make([][]gridTap, d)
	for i := range taps {
		at := prim.Reshape(b, prim.Select(b, grid, int64(d+1), int64(d-1-i)), []int64{s[0], 1, places})
		taps[i] = (&gridSampler{b, mode, outside, corners, s[2+i]}).taps(at)
	}
	flat := prim.Reshape(b, x, []int64{s[0], s[1], ir.Numel(s[2:])})
	var total op.Val
	// Every choice of one tap in each dim: the digits of a number to the base of the number of taps.
	n := len(taps[0])
	for choice := range pow(n, d) {
		chosen := make([]gridTap, d)
		for i := d - 1; i >= 0; i-- {
			chosen[i], choice = taps[i][choice%n], choice/n
		}
		if v := readTaps(b, flat, s[2:], chosen); total.IsTensor() {
			total = prim.Add(b, total, v)
		} else {
			total = v
		}
	}
	return a.Ret(narrow(prim.Reshape(b, total, append([]int64{s[0], s[1]}, g[1:d+1]...))))
}

func pow(base, exponent int) int {
	n := 1
	for range exponent {
		n *= base
	}
	return n
}

// readTaps is the elements of flat [N, C, places] at one tap of each dim, times the taps' weights; those outside count
// as zero.
func readTaps(b op.Builder, flat op.Val, sizes []int64, taps []gridTap) op.Val {
	t := taps[0]
	for i, u := range taps[1:] {
		t.at = prim.Add(b, prim.Mul(b, t.at, op.IntVal(sizes[i+1])), u.at)
		t.inside, t.weight = prim.BitwiseAnd(b, t.inside, u.inside), prim.Mul(b, t.weight, u.weight)
	}
	shape := []int64{flat.Shape()[0], flat.Shape()[1], t.at.Shape()[2]}
	v := prim.Where(b, expand(b, t.inside, shape), prim.Gather(b, flat, expand(b, t.at, shape), 2), op.FloatVal(0))
	return prim.Mul(b, v, expand(b, t.weight, shape))
}

// tap is the element at whole numbers that may lie outside; its position is clamped to the inside.
func (s *gridSampler) tap(at, weight op.Val) gridTap {
	b, last := s.b, s.size-1
	inside := prim.BitwiseAnd(b, prim.Ge(b, at, op.IntVal(0)), prim.Le(b, at, op.IntVal(last)))
	place := prim.Minimum(b, prim.Maximum(b, cast(b, b.Detach(at), ir.I64), op.IntVal(0)), op.IntVal(last))
	return gridTap{place, inside, weight}
}

// taps returns the elements that positions x, of -1 to 1, read.
func (s *gridSampler) taps(x op.Val) []gridTap {
	b, n := s.b, float64(s.size)
	x = prim.Add(b, x, op.FloatVal(1))
	if s.corners {
		x = affine(b, x, (n-1)/2, 0)
	} else {
		x = affine(b, affine(b, x, n, -1), 0.5, 0)
	}
	if s.mode == sampleCubic {
		low := prim.Floor(b, x)
		w := cubicWeights(b, prim.Sub(b, x, low))
		taps := make([]gridTap, len(w))
		for i := range taps {
			taps[i] = s.tap(s.returned(prim.Add(b, low, op.FloatVal(float64(i-1)))), w[i])
		}
		return taps
	}
	x = s.returned(x)
	if s.mode == sampleNearest {
		r := prim.Round(b, x)
		// A tensor of ones, through which the positions get gradients of zero, as PyTorch's do.
		return []gridTap{s.tap(r, prim.Add(b, prim.Sub(b, r, b.Detach(r)), op.FloatVal(1)))}
	}
	low := prim.Floor(b, x)
	f := prim.Sub(b, x, low)
	return []gridTap{s.tap(low, affine(b, f, -1, 1)), s.tap(prim.Add(b, low, op.FloatVal(1)), f)}
}

// returned brings positions outside back as padding_mode says; at the bounds the gradient is zero.
func (s *gridSampler) returned(x op.Val) op.Val {
	b, n := s.b, float64(s.size)
	if s.outside == outsideZeros {
		return x
	}
	if s.outside == outsideReflection {
		low, span := -0.5, n
		if s.corners {
			low, span = 0, n-1
		}
		if span == 0 {
			x = prim.Mul(b, x, op.FloatVal(0))
		} else {
			far := prim.Sub(b, x, op.FloatVal(low))
			far = prim.Where(b, prim.Lt(b, far, op.FloatVal(0)), prim.Neg(b, far), far)
			rest := prim.Remainder(b, far, op.FloatVal(span))
			turns := prim.Floor(b, prim.Div(b, b.Detach(far), op.FloatVal(span)))
			even := prim.Eq(b, prim.Remainder(b, turns, op.FloatVal(2)), op.FloatVal(0))
			x = prim.Where(b, even, affine(b, rest, 1, low), affine(b, rest, -1, span+low))
		}
	}
	return hardtanh(b, x, op.FloatVal(0), op.FloatVal(n-1))
}

// cubicWeights returns the weights of the four elements around a position, f behind the second: the cubic convolution
// of R. Keys (1981) with a = -3/4.
func cubicWeights(b op.Builder, f op.Val) []op.Val {
	const a = -0.75
	num := op.FloatVal
	// Near: (a+2) t^3 - (a+3) t^2 + 1. Far: a t^3 - 5a t^2 + 8a t - 4a.
	near := func(t op.Val) op.Val {
		return affine(b, prim.Mul(b, prim.Mul(b, affine(b, t, a+2, -(a+3)), t), t), 1, 1)
	}
	far := func(t op.Val) op.Val {
		inner := affine(b, prim.Mul(b, affine(b, t, a, -5*a), t), 1, 8*a)
		return affine(b, prim.Mul(b, inner, t), 1, -4*a)
	}
	g := affine(b, f, -1, 1)
	return []op.Val{far(prim.Add(b, f, num(1))), near(f), near(g), far(prim.Add(b, g, num(1)))}
}

func evalAffineGrid(a *op.Args) []op.Val {
	theta, b := a.Val(), a.B
	size, _ := a.IntList()
	corners := a.Bool()
	d := len(size) - 2
	if want := []int64{size[0], int64(d), int64(d + 1)}; d != 2 && d != 3 || !ir.SameShape(theta.Shape(), want) {
		fail(ir.ErrRuntime, "Expected a batch of affine matrices of shape Nx%dx%d for size %s. Got %s.", d, d+1,
			ir.ShapeString(size), ir.ShapeString(theta.Shape()))
	}
	needFloat("affine_grid_generator", theta)
	narrow := widen(b, theta.DType(), &theta)
	shape := append(slices.Clone(size[2:]), 1)
	var columns []op.Val
	for i := d - 1; i >= 0; i-- {
		n := size[2+i]
		line := prim.Zeros(b, theta.DType(), theta.Device(), []int64{n})
		if n > 1 {
			line = ramp(b, -1, 1, n, own(theta))
			if !corners {
				// Rounded as PyTorch rounds: where the identity puts a sample in the middle of an element, its gradient
				// depends on the side on which the position falls.
				line = prim.Div(b, prim.Mul(b, line, op.FloatVal(float64(n-1))), op.FloatVal(float64(n)))
			}
		}
		columns = append(columns, prim.Along(b, line, shape, int64(i)))
	}
	ones := prim.Fill(b, op.IntVal(1), theta.DType(), theta.Device(), shape)
	base := prim.Reshape(b, prim.Cat(b, append(columns, ones), int64(d)), []int64{1, ir.Numel(size[2:]), int64(d + 1)})
	y := matmul(b, base, prim.Transpose(b, theta, 1, 2), none)
	return a.Ret(narrow(prim.Reshape(b, y, append(append([]int64{size[0]}, size[2:]...), int64(d)))))
}
