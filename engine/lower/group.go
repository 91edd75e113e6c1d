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
func CanFuse(p *op.Prim, attr []int64) bool { return elements[p.NameFor(attr)] != nil || IsStep(p) }

// IsStep reports an optimizer's step: its values are the parameter and the state.
func IsStep(p *op.Prim) bool { return steps[p.Name] != nil }

// lowerGroup lowers a fusion group. One with members that work rows is a rowGroup, others are maps.
func lowerGroup(p *program) {
	n := p.n
	if slices.ContainsFunc(n.Members, func(m Member) bool { return m.rows() != nil }) {
		newRowGroup(p, n.Members).lower(groupName(n))
		return
	}
	lowerMap(p, n.Members, groupName(n))
}

// mapValue is a value of a member of a map. exact: it is no different once it is stored and loaded.
type mapValue struct {
	dtype  ir.DType
	expr   int
	region uint8
	exact  bool
}

// lowerMap makes one map that loads the node's operands, evaluates the members, and stores those values that have an
// output. A member reads another one's value as a store and a load would give it. In a compiled region it reads the
// value before it is rounded to a half, unless the other member converts to that half.
func lowerMap(p *program, members []Member, name string) {
	n := p.n
	loads, args := make([]*arg, len(n.In)), []*arg{}
	for i := range n.In {
		if n.In[i].Scalar {
			continue
		}
		loads[i] = p.in(i)
		loads[i].offset = loads[i].offset.Plus(n.In[i].At)
		if n.In[i].Whole {
			loads[i].offset = device.Param{}
		}
		args = append(args, loads[i])
	}
	outs := make([][]*arg, len(n.Out))
	for i := range n.Out {
		outs[i] = p.parts(i)
		args = append(args, outs[i]...)
	}
	for i := range members {
		members[i].computeAddresses(outs)
	}
	k := p.kernel(name, outs[0][0].shape, nil, 0, args...)
	k.Map()
	var values []mapValue
	for i := range members {
		m := &members[i]
		if m.Joins {
			if at := m.Values[0].Out; at >= 0 {
				m.storeParts(k, outs[at], loads, values)
			}
			values = append(values, mapValue{})
			continue
		}
		o := m.mapOperands(k, loads, values)
		for j, x := range m.evaluate(o) {
			v := m.Values[j]
			values = append(values, mapValue{dtype: v.DType, expr: k.Cast(v.DType, x), region: m.Region,
				exact: m.Region != 0 && v.DType.IsFloat() && slices.Contains(o.types, v.DType)})
			if v.Out >= 0 {
				k.store(outs[v.Out][0], values[len(values)-1].expr)
			}
		}
	}
	k.launch()
}

// mapOperands are the operands of a member of a map.
func (m *Member) mapOperands(k *kernel, loads []*arg, values []mapValue) *operands {
	o := &operands{k: k, types: make([]ir.DType, len(m.In)), in: m.In, x: make([]int, len(m.In)), attr: m.Attr,
		out: m.Values[0].DType}
	for j, from := range m.In {
		switch {
		case from < 0:
			v := values[^from]
			o.types[j], o.x[j] = v.dtype, v.expr
			if !v.exact || m.Region != v.region {
				o.x[j] = k.reload(v.dtype, v.expr)
			}
		case !k.p.n.In[from].Scalar:
			o.types[j], o.x[j] = k.p.n.In[from].DType, k.load(loads[from])
		default:
			o.types[j] = k.p.n.In[from].DType
		}
	}
	return o
}

// parts makes arguments of the views of output k that a group stores.
func (p *program) parts(k int) []*arg {
	if p.n.Out[k].Parts == nil {
		return []*arg{p.out(k)}
	}
	var views []*arg
	for _, q := range p.n.Out[k].Parts {
		a := p.out(k)
		a.shape, a.stride, a.offset = q.Layout.Shape, q.Layout.Stride, device.Const(q.Offset)
		views = append(views, a)
	}
	return views
}

// computeAddresses prepares what a scatter stores.
func (m *Member) computeAddresses(outs [][]*arg) {
	if m.Places != nil {
		for _, part := range outs[m.Values[0].Out] {
			part.computed = true
		}
	}
}

// storeParts stores the operands of a cat or a scatter.
func (m *Member) storeParts(k *kernel, parts, loads []*arg, values []mapValue) {
	var size, stride int
	if m.Places != nil {
		whole := k.p.n.Out[m.Values[0].Out].Layout
		d := wrap(m.Attr[0], whole.Rank())
		size, stride = k.size(whole.Shape[d]), k.size(whole.Stride[d])
	}
	for j, from := range m.In {
		var v int
		if from < 0 {
			v = values[^from].expr
		} else {
			v = k.load(loads[from])
		}
		if m.Places == nil {
			k.store(parts[j], v)
			continue
		}
		at := k.Mul(k.Clamped(k.Cast(ir.I64, k.load(loads[m.Places[j]])), size), stride)
		k.StoreAt(-1, parts[j].kbuf, k.Add(k.address(parts[j]), at), k.Cast(parts[j].dtype, v), loopir.Set)
	}
}

// evaluate is the values of a member for an element or a row.
func (m *Member) evaluate(o *operands) []int {
	if r := m.rows(); r != nil {
		return r.body(o)
	}
	if f := steps[m.Prim.Name]; f != nil {
		return f(o)
	}
	return []int{elements[m.Prim.NameFor(m.Attr)](o)}
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
