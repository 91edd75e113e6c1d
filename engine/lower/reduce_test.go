package lower_test

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/optest"
	"github.com/torchlette/torchlette/ir"
)

type placer = func(int, ir.DType, func() float64) op.Val

// dimSets lists the sets of dims of a rank to reduce over, some negative.
func dimSets(rank int) [][]int64 {
	if rank == 0 {
		return [][]int64{{0}, {-1}}
	}
	var out [][]int64
	for mask := 1; mask < 1<<rank; mask++ {
		var d []int64
		for i := range rank {
			if mask>>i&1 == 1 {
				d = append(d, int64(i-(mask&1)*rank))
			}
		}
		out = append(out, d)
	}
	return out
}

// folded reduces v by f over groups of elements.
func folded(v []float64, groups [][]int64, f func([]float64) float64) []float64 {
	out := make([]float64, len(groups))
	for g, members := range groups {
		var x []float64
		for _, n := range members {
			x = append(x, v[n])
		}
		out[g] = f(x)
	}
	return out
}

func total(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

func totalSquares(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return s
}

func product(v []float64) float64 {
	s := 1.0
	for _, x := range v {
		s *= x
	}
	return s
}

func TestReductions(t *testing.T) {
	refs := map[string]func([]float64) float64{"sum": total, "sum_squares": totalSquares, "prod": product, "amax": nil,
		"amin": nil}
	for name, f := range refs {
		t.Run(name, func(t *testing.T) {
			everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
				types := []ir.DType{ir.F64, ir.F32, ir.I64, ir.I32}
				switch name {
				case "sum_squares":
					types = types[:2]
				case "amax", "amin":
					types = append(types, ir.Bool)
				}
				f := f
				switch {
				case f == nil && ir.Numel(shape) == 0:
					return // has no identity; the rule refuses it
				case name == "amax":
					f = slices.Max[[]float64]
				case name == "amin":
					f = slices.Min[[]float64]
				}
				for _, d := range types {
					x := place(0, d, source(-2*flag(d != ir.Bool), 2-flag(d == ir.Bool), !d.IsFloat()))
					for _, dims := range dimSets(len(shape)) {
						g, kept := groups(shape, dims)
						y := emit(e, name, dims, x)[0]
						require.True(t, slices.Equal(kept, y.Shape()), "%v over %v: %v", shape, dims, y.Shape())
						near(t, d, folded(e.Floats(x), g, f), e.Floats(y), d, dims)
					}
				}
			})
		})
	}
}

func TestReductionsOfNaN(t *testing.T) {
	e := optest.New()
	x := e.Tensor(ir.F32, []int64{2, 3}, 1, math.NaN(), 3, -1, -2, -3)
	near(t, ir.F32, []float64{math.NaN(), -1}, e.Floats(emit(e, "amax", []int64{1}, x)[0]))
	near(t, ir.F32, []float64{math.NaN(), -3}, e.Floats(emit(e, "amin", []int64{1}, x)[0]))
	near(t, ir.I64, []float64{1, 0}, e.Floats(emit(e, "argmax", []int64{1}, x)[0]))
	near(t, ir.I64, []float64{1, 2}, e.Floats(emit(e, "argmin", []int64{1}, x)[0]))
	none := e.Tensor(ir.Bool, []int64{0})
	near(t, ir.Bool, []float64{0}, e.Floats(emit(e, "amax", []int64{0}, none)[0]))
	near(t, ir.Bool, []float64{1}, e.Floats(emit(e, "amin", []int64{0}, none)[0]))
	p, attr := called("amax", []int64{0})
	_, err := p.Infer([]op.Val{e.Tensor(ir.F32, []int64{0})}, attr, nil)
	require.ErrorContains(t, err, "Expected reduction dim 0 to have non-zero size")
}

func TestArgReductions(t *testing.T) {
	full := shapes[:6]
	everyLayout(t, full, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
		for _, d := range []ir.DType{ir.F64, ir.I64, ir.Bool} {
			x := place(0, d, source(-2*flag(d != ir.Bool), 2-flag(d == ir.Bool), true)) // whole numbers: ties
			for dim := range max(len(shape), 1) {
				attr := []int64{int64(dim)}
				g, _ := groups(shape, attr)
				first := func(pick func([]float64) float64) func([]float64) float64 {
					return func(v []float64) float64 { return float64(slices.Index(v, pick(v))) }
				}
				hi, lo := slices.Max[[]float64], slices.Min[[]float64]
				near(t, ir.I64, folded(e.Floats(x), g, first(hi)), e.Floats(emit(e, "argmax", attr, x)[0]))
				near(t, ir.I64, folded(e.Floats(x), g, first(lo)), e.Floats(emit(e, "argmin", attr, x)[0]))
				for name, pick := range map[string]func([]float64) float64{"max_dim": hi, "min_dim": lo} {
					o := emit(e, name, attr, x)
					near(t, d, folded(e.Floats(x), g, pick), e.Floats(o[0]), name)
					near(t, ir.I64, folded(e.Floats(x), g, first(pick)), e.Floats(o[1]), name)
				}
			}
		}
	})
}

func TestVar(t *testing.T) {
	everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
		for _, d := range []ir.DType{ir.F64, ir.F32, ir.F16} {
			x := place(0, d, source(-2, 5, false))
			for _, dims := range dimSets(len(shape)) {
				g, _ := groups(shape, dims)
				for _, corr := range []float64{0, 1} {
					mean := func(v []float64) float64 { return total(v) / float64(len(v)) }
					variance := func(v []float64) float64 {
						m, s := mean(v), 0.0
						for _, a := range v {
							s += (a - m) * (a - m)
						}
						return s / math.Max(0, float64(len(v))-corr)
					}
					o := emit(e, "var", dims, x, op.FloatVal(corr))
					near(t, d, folded(e.Floats(x), g, variance), e.Floats(o[0]), dims)
					near(t, d, folded(e.Floats(x), g, mean), e.Floats(o[1]), dims)
				}
			}
		}
	})
}

// rowwise applies f to each row along dim of several equally shaped operands.
func rowwise(shape []int64, dim int64, f func(rows ...[]float64) []float64, operands ...[]float64) []float64 {
	g, _ := groups(shape, []int64{dim})
	out := make([]float64, ir.Numel(shape))
	for _, members := range g {
		rows := make([][]float64, len(operands))
		for i, v := range operands {
			for _, n := range members {
				rows[i] = append(rows[i], v[n])
			}
		}
		for i, v := range f(rows...) {
			out[members[i]] = v
		}
	}
	return out
}

func softmaxRef(r ...[]float64) []float64 {
	e := mapped(math.Exp, r[0])
	s := total(e)
	return mapped(func(x float64) float64 { return x / s }, e)
}

func TestRowPrograms(t *testing.T) {
	type program struct {
		name string
		log  int64
	}
	refs := map[program]func(rows ...[]float64) []float64{
		{"softmax", 0}: softmaxRef,
		{"softmax", 1}: func(r ...[]float64) []float64 { return mapped(math.Log, softmaxRef(r...)) },
		{"softmax_grad", 0}: func(r ...[]float64) []float64 {
			s := total(zipped(func(g, y float64) float64 { return g * y }, r[0], r[1]))
			return zipped(func(g, y float64) float64 { return y * (g - s) }, r[0], r[1])
		},
		{"softmax_grad", 1}: func(r ...[]float64) []float64 {
			s := total(r[0])
			return zipped(func(g, y float64) float64 { return g - math.Exp(y)*s }, r[0], r[1])
		},
	}
	for p, f := range refs {
		t.Run(fmt.Sprintf("%s/%d", p.name, p.log), func(t *testing.T) {
			everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
				for _, d := range []ir.DType{ir.F64, ir.F32} {
					in := []op.Val{place(0, d, source(-3, 3, false)), place(1, d, source(-1, 1, false))}[:op.PrimNamed(p.name).NIn]
					var v [][]float64
					for _, x := range in {
						v = append(v, e.Floats(x))
					}
					for dim := range int64(max(len(shape), 1)) {
						near(t, d, rowwise(shape, dim, f, v...), e.Floats(emit(e, p.name, []int64{dim, p.log}, in...)[0]), p, dim)
					}
				}
			})
		})
	}
	e := optest.New()
	big := e.Tensor(ir.F32, []int64{3}, 1000, 1001, math.Inf(-1))
	near(t, ir.F32, []float64{1 / (1 + math.E), math.E / (1 + math.E), 0},
		e.Floats(emit(e, "softmax", []int64{0, 0}, big)[0]))
	i := e.Tensor(ir.I64, []int64{3}, 4, -1, 7)
	near(t, ir.I64, []float64{4, 3, 10}, e.Floats(emit(e, "scan", []int64{0, 0}, i)[0]))
}

func TestScan(t *testing.T) {
	steps := []func(y, x float64) float64{
		func(y, x float64) float64 { return y + x }, func(y, x float64) float64 { return y * x }, math.Max, math.Min,
		func(y, x float64) float64 { return math.Log(math.Exp(y) + math.Exp(x)) },
	}
	for n, step := range steps {
		running := func(r ...[]float64) []float64 {
			out := slices.Clone(r[0])
			for i := 1; i < len(out); i++ {
				out[i] = step(out[i-1], out[i])
			}
			return out
		}
		everyLayout(t, shapes, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
			for _, d := range []ir.DType{ir.F64, ir.F32} {
				x := place(0, d, source(-3, 3, false))
				v := e.Floats(x)
				for dim := range int64(max(len(shape), 1)) {
					near(t, d, rowwise(shape, dim, running, v), e.Floats(emit(e, "scan", []int64{dim, int64(n)}, x)[0]), n, dim)
				}
			}
		})
	}
}

func TestSearch(t *testing.T) {
	e := optest.New()
	rows := e.Tensor(ir.F32, []int64{2, 5}, -1, 0, 0, 2, math.NaN(), 1, 1, 1, 1, 1)
	x := e.Tensor(ir.F32, []int64{2, 4}, 0, 3, math.NaN(), -5, 1, 0, 2, 1)
	near(t, ir.I64, []float64{1, 4, 4, 0, 0, 0, 5, 0}, e.Floats(emit(e, "search", []int64{0}, rows, x)[0]))
	near(t, ir.I64, []float64{3, 4, 5, 0, 5, 0, 5, 5}, e.Floats(emit(e, "search", []int64{1}, rows, x)[0]))
	near(t, ir.I64, []float64{0, 0, 0, 0, 0, 0, 0, 0},
		e.Floats(emit(e, "search", []int64{1}, e.Tensor(ir.F32, []int64{2, 0}), x)[0]))
	for n := range 9 {
		places := make([]float64, n)
		for i := range places {
			places[i] = float64(2 * i)
		}
		for v := range 2*n + 1 {
			at := e.Floats(emit(e, "search", []int64{1}, e.Tensor(ir.I64, []int64{int64(n)}, places...),
				e.Tensor(ir.I64, []int64{1}, float64(v-1)))[0])
			near(t, ir.I64, []float64{float64((v + 1) / 2)}, at, n, v)
		}
	}
}

func TestLayerNorm(t *testing.T) {
	const eps = 1e-3
	everyLayout(t, [][]int64{{4}, {2, 3}, {3, 1, 4}, {2, 3, 2, 2}, {2, 0, 3}, {0, 3}}, func(t *testing.T, e *optest.Eager,
		shape []int64, place placer) {
		x, gy := place(0, ir.F64, source(-2, 3, false)), place(1, ir.F64, source(-1, 1, false))
		for n := 1; n <= len(shape); n++ {
			inner, outer := shape[len(shape)-n:], shape[:len(shape)-n]
			width := ir.Numel(inner)
			if width == 0 {
				continue
			}
			w := e.Tensor(ir.F64, inner, draw(width, source(0.5, 2, false))...)
			bias := e.Tensor(ir.F64, inner, draw(width, source(-1, 1, false))...)
			xs, gs, ws, bs := e.Floats(x), e.Floats(gy), e.Floats(w), e.Floats(bias)
			rows := ir.Numel(outer)
			y, plain, dx := make([]float64, len(xs)), make([]float64, len(xs)), make([]float64, len(xs))
			mean, rstd := make([]float64, rows), make([]float64, rows)
			dw, db := make([]float64, width), make([]float64, width)
			for r := range rows {
				row, g := xs[r*width:(r+1)*width], gs[r*width:(r+1)*width]
				mean[r] = total(row) / float64(width)
				v := total(mapped(func(a float64) float64 { return math.Pow(a-mean[r], 2) }, row)) / float64(width)
				rstd[r] = math.Pow(v+eps, -0.5)
				var a, c float64
				for j := range width {
					h := (row[j] - mean[r]) * rstd[r]
					plain[r*width+j], y[r*width+j] = h, h*ws[j]+bs[j]
					a, c = a+g[j]*ws[j]/float64(width), c+g[j]*ws[j]*h/float64(width)
					dw[j], db[j] = dw[j]+g[j]*h, db[j]+g[j]
				}
				for j := range width {
					dx[r*width+j] = rstd[r] * (g[j]*ws[j] - a - plain[r*width+j]*c)
				}
			}
			o := emit(e, "layer_norm", []int64{int64(n), 1, 1, 0}, x, w, bias, op.FloatVal(eps))
			near(t, ir.F64, y, e.Floats(o[0]))
			near(t, ir.F64, mean, e.Floats(o[1]))
			near(t, ir.F64, rstd, e.Floats(o[2]))
			near(t, ir.F64, plain, e.Floats(emit(e, "layer_norm", []int64{int64(n), 0, 0, 0}, x, op.FloatVal(eps))[0]))
			near(t, ir.F64, dx, e.Floats(emit(e, "layer_norm_grad", []int64{int64(n), 1, 0}, gy, x, o[1], o[2], w)[0]))
			wb := emit(e, "layer_norm_grad_wb", []int64{int64(n)}, gy, x, o[1], o[2])
			near(t, ir.F64, dw, e.Floats(wb[0]))
			near(t, ir.F64, db, e.Floats(wb[1]))
		}
	})
	e := optest.New()
	half := e.Tensor(ir.F16, []int64{2, 4}, 1, 2, 3, 4, 300, 301, 302, 303)
	o := emit(e, "layer_norm", []int64{1, 0, 0, 0}, half, op.FloatVal(1e-5))
	require.Equal(t, ir.F32, o[1].DType())
	near(t, ir.F32, []float64{2.5, 301.5}, e.Floats(o[1]))
}

func TestRMSNorm(t *testing.T) {
	const eps = 1e-3
	everyLayout(t, [][]int64{{4}, {2, 3}, {2, 3, 2, 2}, {0, 3}}, func(t *testing.T, e *optest.Eager, shape []int64,
		place placer) {
		x, gy := place(0, ir.F64, source(-2, 3, false)), place(1, ir.F64, source(-1, 1, false))
		width := shape[len(shape)-1]
		w := e.Tensor(ir.F64, []int64{width}, draw(width, source(0.5, 2, false))...)
		xs, gs, ws := e.Floats(x), e.Floats(gy), e.Floats(w)
		y, dx, rstd := make([]float64, len(xs)), make([]float64, len(xs)), make([]float64, int64(len(xs))/width)
		for r := range rstd {
			row, g := xs[r*int(width):(r+1)*int(width)], gs[r*int(width):(r+1)*int(width)]
			rstd[r] = math.Pow(total(mapped(func(a float64) float64 { return a * a }, row))/float64(width)+eps, -0.5)
			var c float64
			for j, a := range row {
				y[r*int(width)+j] = a * rstd[r] * ws[j]
				c += g[j] * ws[j] * a * rstd[r] / float64(width)
			}
			for j, a := range row {
				dx[r*int(width)+j] = rstd[r] * (g[j]*ws[j] - a*rstd[r]*c)
			}
		}
		o := emit(e, "layer_norm", []int64{1, 1, 0, 1}, x, w, op.FloatVal(eps))
		near(t, ir.F64, y, e.Floats(o[0]))
		near(t, ir.F64, make([]float64, len(rstd)), e.Floats(o[1]))
		near(t, ir.F64, rstd, e.Floats(o[2]))
		near(t, ir.F64, dx, e.Floats(emit(e, "layer_norm_grad", []int64{1, 1, 1}, gy, x, o[1], o[2], w)[0]))
	})
}

func TestTopk(t *testing.T) {
	full := append(slices.Clone(shapes[:6]), []int64{2, 40})
	everyLayout(t, full, func(t *testing.T, e *optest.Eager, shape []int64, place placer) {
		for _, d := range []ir.DType{ir.F32, ir.F64, ir.I64, ir.Bool} {
			nan := 0
			next := source(-2*flag(d != ir.Bool), 4-3*flag(d == ir.Bool), true)
			x := place(0, d, func() float64 {
				v := next()
				if nan++; d.IsFloat() && nan%5 == 0 {
					return []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[nan/5%3]
				}
				return v
			})
			v := e.Floats(x)
			for dim := range int64(max(len(shape), 1)) {
				n := int64(1)
				if len(shape) > 0 {
					n = shape[dim]
				}
				for _, k := range slices.Compact([]int64{0, 1, (n + 1) / 2, n}) {
					for _, largest := range []int64{0, 1} {
						checkTopk(t, e, x, v, shape, k, dim, largest)
					}
				}
			}
		}
	})
}

// less sorts NaN above every number.
func less(a, b float64) bool { return a < b || !math.IsNaN(a) && math.IsNaN(b) }

func checkTopk(t *testing.T, e *optest.Eager, x op.Val, v []float64, shape []int64, k, dim, largest int64) {
	t.Helper()
	o := emit(e, "sort", []int64{k, dim, largest}, x)
	if k == 0 && len(shape) > 0 {
		require.Zero(t, o[0].L().Numel)
		return
	}
	if len(shape) == 0 {
		near(t, x.DType(), v, e.Floats(o[0]))
		near(t, ir.I64, []float64{0}, e.Floats(o[1]))
		return
	}
	g, _ := groups(shape, []int64{dim})
	values, indices := make([]float64, o[0].L().Numel), make([]float64, o[0].L().Numel)
	for _, members := range g {
		order := make([]int, len(members))
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(i, j int) bool {
			a, b := v[members[order[i]]], v[members[order[j]]]
			if largest != 0 {
				a, b = b, a
			}
			return less(a, b)
		})
		for j := range k {
			at := unravel(members[0], shape)
			at[dim] = j
			n := ravel(at, o[0].Shape())
			values[n], indices[n] = v[members[order[j]]], float64(order[j])
		}
	}
	near(t, x.DType(), values, e.Floats(o[0]), k, dim, largest)
	near(t, ir.I64, indices, e.Floats(o[1]), k, dim, largest)
}
