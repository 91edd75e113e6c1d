package simplify

import (
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// shifted is a value to which two constants for each channel are added, as a bias and a batch norm do.
type shifted struct {
	first, second int // nodes: the additions
	a, b          int // the operands of first and second that are the constants
}

// Shifts replaces two additions of constants of channels, such as a convolution's bias and a batch norm's shift, by one
// addition of their sum: [Split] computes the sum once. It applies to float32 and float64, if the first result has no
// other reader. Results change by rounding.
func Shifts(p *program.Program, args int) *program.Program {
	s := newSearch(p, args)
	firsts, seconds := map[int]*shifted{}, map[int]*shifted{}
	for i := range p.Nodes {
		if f := s.shift(i); f != nil && firsts[f.second] == nil && seconds[f.first] == nil {
			firsts[f.first], seconds[f.second] = f, f
		}
	}
	if len(firsts) == 0 {
		return p
	}
	// The second constant is recorded after the first addition.
	return s.constantsFirst(func(c *copier, i int) {
		switch {
		case firsts[i] != nil:
			c.shift(firsts[i])
		case seconds[i] != nil:
			c.refs[program.NodeRef(i)] = c.refs[program.NodeRef(seconds[i].first)]
		default:
			c.node(i)
		}
	})
}

// shift finds the two additions that end with node i, nil for none.
func (s *search) shift(i int) *shifted {
	first, b := s.channelwise(i, prim.Known.Add)
	if first < 0 || s.constant[first] {
		return nil
	}
	if d := ir.AvalOf(s.p.Nodes[i].Aval).DType; d != ir.F32 && d != ir.F64 {
		return nil
	}
	if value, a := s.channelwise(first, prim.Known.Add); value >= 0 && !s.constant[value] {
		return &shifted{first: first, second: i, a: a, b: b}
	}
	return nil
}

// shift copies the first addition with the sum of both constants.
func (c *copier) shift(f *shifted) {
	av := ir.AvalOf(c.from.Nodes[f.first].Aval)
	n := []int64{av.Shape()[1]}
	sum := c.combined(prim.Known.Add, along(operand(c.from, f.first, f.a), n, 0),
		along(operand(c.from, f.second, f.b), n, 0), n, av, f.second)
	stride := make([]int64, av.Layout.Rank())
	stride[1] = 1
	sum.layout = ir.InternLayout(av.Shape(), stride)
	c.replaced(f.first, f.a, sum)
}
