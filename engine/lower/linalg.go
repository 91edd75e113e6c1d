package lower

import (
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

func init() {
	register(map[string]lowering{
		"cholesky":         factor(launch.FactorCholesky),
		"lu_factor":        factor(launch.FactorLU),
		"lu_permutation":   factor(launch.FactorPermutation),
		"linear_solve":     factor(launch.FactorSolve),
		"triangular_solve": factor(launch.FactorTriangular),
		"qr":               factor(launch.FactorQR),
		"eigh":             factor(launch.FactorEigh),
		"svd":              factor(launch.FactorSVD),
		"pinv":             factor(launch.FactorPinv),
		"matrix_exp":       factor(launch.FactorExp),
		"ldl_factor":       factor(launch.FactorLDL),
		"ldl_solve":        factor(launch.FactorLDLSolve),
		"eig":              factor(launch.FactorEig),
	})
}

// factor makes one step over dense operands; others are copied first. Attributes: option, and the code of a failure (0
// or 1: failures are not checked). A device without launch.Factor gets blocks.
func factor(o launch.FactorOp) lowering {
	return func(p *program) {
		x := p.in(0)
		r, option := len(x.shape), p.n.Attr[0]
		pair := 0 // dims of a pair
		if option&launch.FactorPairs != 0 && o != launch.FactorPermutation {
			pair, r = 1, r-1
		}
		n, k := x.shape[r-1], int64(0)
		var m int64
		var lead []int64
		if o == launch.FactorPermutation {
			m, lead = p.out(0).shape[r-1], x.shape[:r-1]
		} else {
			m, lead = x.shape[r-2], x.shape[:r-2]
		}
		if o == launch.FactorSolve || o == launch.FactorTriangular || o == launch.FactorLDLSolve {
			s := p.in(1).shape
			k = s[len(s)-1-pair]
		}
		batch := ir.Numel(lead)
		if batch == 0 {
			return
		}
		if f := byBlocks[o]; f != nil && p.n.FactorSide > 0 {
			f(&blocks{p: p, batch: batch, m: m, n: n, k: k, option: option, check: p.n.Attr[1] > 1})
			return
		}
		f := &launch.Factor{Op: o, Type: x.dtype, Option: option, Check: p.n.Attr[1] > 1}
		l := device.Step{Op: f, Params: constants(batch, m, n, k)}
		for i := range o.Inputs() {
			a := p.in(i)
			if !dense(a.shape, a.stride) {
				t := p.temp(a.dtype, a.shape)
				p.copy(a, t)
				a = t
				a.offset = device.Param{}
			}
			l.Bufs, l.Params = append(l.Bufs, a.buf), append(l.Params, a.offset)
		}
		for i := range p.n.Out {
			l.Bufs = append(l.Bufs, p.out(i).buf)
		}
		p.res.Launches = append(p.res.Launches, l)
	}
}
