package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// CanFuse reports that a fusion group may contain a primitive with these attributes.
func CanFuse(p *op.Prim, attr []int64) bool { return elements[p.NameFor(attr)] != nil }

// lowerGroup lowers a fusion group: one map that loads the group's operands, evaluates its members, and stores those
// that have an output. A member reads another one's value as a store and a load would give it. In a compiled region it
// reads the value before it is rounded to a half, unless the other member converts to that half. A group with members
// that work rows is a rowGroup.
func lowerGroup(p *program) {
	n := p.n
	if slices.ContainsFunc(n.Members, func(m Member) bool { return m.rows() != nil }) {
		newRowGroup(p, n.Members).lower(groupName(n))
		return
	}
	loads, args := make([]*arg, len(n.In)), []*arg{}
	for i := range n.In {
		if n.In[i].Scalar {
			continue
		}
		loads[i] = p.in(i)
		if n.In[i].Whole {
			loads[i].offset = device.Param{}
		}
		args = append(args, loads[i])
	}
	outs := make([]*arg, len(n.Out))
	for i := range n.Out {
		outs[i] = p.out(i)
	}
	k := p.kernel(groupName(n), n.Out[0].Layout.Shape, nil, 0, append(args, outs...)...)
	k.Map()
	values, exact := make([]int, len(n.Members)), make([]bool, len(n.Members))
	for i := range n.Members {
		m := &n.Members[i]
		v := m.Values[0]
		o := &operands{k: k, types: make([]ir.DType, len(m.In)), in: m.In, x: make([]int, len(m.In)), out: v.DType}
		for j, from := range m.In {
			switch {
			case from < 0:
				o.types[j] = n.Members[^from].Values[0].DType
				o.x[j] = values[^from]
				if !exact[^from] || m.Region != n.Members[^from].Region {
					o.x[j] = k.reload(o.types[j], values[^from])
				}
			case !n.In[from].Scalar:
				o.types[j], o.x[j] = n.In[from].DType, k.load(loads[from])
			default:
				o.types[j] = n.In[from].DType
			}
		}
		exact[i] = m.Region != 0 && v.DType.IsFloat() && slices.Contains(o.types, v.DType)
		values[i] = k.Cast(v.DType, elements[m.Prim.NameFor(m.Attr)](o))
		if v.Out >= 0 {
			k.store(outs[v.Out], values[i])
		}
	}
	k.launch()
}

// groupName names the first members.
func groupName(n *Node) string {
	const named = 4
	var names []string
	for i := range n.Members {
		if m := &n.Members[i]; i < named {
			names = append(names, m.Prim.NameFor(m.Attr))
		}
	}
	name := "fused_" + strings.Join(names, "_")
	if more := len(n.Members) - named; more > 0 {
		name += fmt.Sprintf("_%d_more", more)
	}
	return name + "_" + n.Members[0].Values[0].DType.String()
}

// reload is v as a load would give it after a store in t.
func (k *kernel) reload(t ir.DType, v int) int {
	unused := int64(32 - 8*t.Size())
	switch {
	case !t.IsNarrow():
		return k.Narrow(t, v)
	case t.Info().Kind == 'u':
		_, most := ir.Limits(t)
		return k.And(v, k.Int(ir.I32, most))
	}
	return k.Bin(loopir.OpShr, k.Bin(loopir.OpShl, v, k.Int(ir.I32, unused)), k.Int(ir.I32, unused))
}
