package lower

import "github.com/torchlette/torchlette/ir"

// lowering appends a node's launches to its program.
type lowering func(p *program)

// table has an entry for each primitive, by variant where it has variants. to_device has none: the executor performs
// it.
var table = map[string]lowering{}

func register(rules map[string]lowering) {
	for name, f := range rules {
		if table[name] != nil {
			panic("BUG: two lowerings for " + name)
		}
		table[name] = f
	}
}

// Lower returns the launches of a node. Empty outputs need none.
func Lower(n *Node) (*Result, error) {
	f := table[n.Prim.NameFor(n.Attr)]
	if len(n.Members) > 0 {
		f = lowerGroup
	}
	if f == nil {
		return nil, ir.Errorf(ir.ErrInternal, "lower: no lowering for primitive %s", n.Prim.NameFor(n.Attr))
	}
	p := &program{n: n, scalar: make([]int, len(n.In))}
	next := 0
	for i := range n.In {
		if n.In[i].Scalar {
			p.scalar[i] = next
			next++
		}
	}
	f(p)
	return &p.res, nil
}
