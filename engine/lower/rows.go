package lower

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Level says which elements a value of a row kernel has.
type Level uint8

// The levels: an element for each one of the tensor whose rows are worked, for each row, or for each place in a row.
const (
	Full Level = iota
	Row
	Column
)

// Rows describes a row primitive: a reduction, softmax, a norm, cross-entropy, or their gradients. It is lowered by its
// body, alone and in fusion groups.
type Rows struct {
	// Main is the operand whose rows are worked.
	Main int
	// Level tells whether an operand has an element for each element, or for each row.
	Level func(attr []int64, operand int) Level
	// Whole: output 0 has an element for each one of the main operand. Other outputs have one for each row.
	Whole bool

	name   func(attr []int64) string
	split  func(attr, shape []int64) split
	passes func(attr []int64) int // over a row
	// body begins the stages that it needs and returns the outputs.
	body func(o *operands) []int
	// empty is the output for a row without elements; nil: rows always have some.
	empty func(k *kernel, d ir.DType) int
	// picks: body evaluates an operand at a computed place of the row. Elementwise members before it cannot be numbered.
	picks bool
}

var rowPrims = map[string]*Rows{}

// RowsOf describes a primitive with these attributes where it works rows, and fusion groups may contain it; else nil.
func RowsOf(p *op.Prim, attr []int64) *Rows { return rowPrims[p.NameFor(attr)] }

// Split returns the shape of an output with an element for each row, and whether there are rows: elements and a dim
// that is left out.
func (r *Rows) Split(attr, shape []int64) (outer []int64, ok bool) {
	s := r.split(attr, shape)
	return s.outer, len(s.reduced) > 0 && s.rows()*s.count() > 0
}

// Reduced lists the dims along which rows run.
func (r *Rows) Reduced(attr, shape []int64) []int { return r.split(attr, shape).reduced }

// registerRows registers primitives that work rows.
func registerRows(prims map[string]*Rows) {
	for name, r := range prims {
		if r.Level == nil {
			r.Level = func([]int64, int) Level { return Full }
		}
		rowPrims[name] = r
		register(map[string]lowering{name: r.lower})
	}
}

func always(n int) func([]int64) int { return func([]int64) int { return n } }

// lower lowers the primitive alone.
func (r *Rows) lower(p *program) {
	n := p.n
	x := &n.In[r.Main]
	s := r.split(n.Attr, x.Layout.Shape)
	if s.rows() == 0 {
		return
	}
	if s.count() == 0 && (r.Whole || r.empty != nil) {
		for i := range n.Out {
			if a := p.out(i); (i > 0 || !r.Whole) && r.empty != nil {
				p.fill(a, func(k *kernel) int { return r.empty(k, a.dtype) })
			}
		}
		return
	}
	m := Member{Prim: n.Prim, Attr: n.Attr, Layout: x.Layout}
	for i := range n.In {
		m.In = append(m.In, i)
	}
	if n.Residual {
		m.In = m.In[:len(m.In)-1]
	}
	for i := range n.Out {
		m.Values = append(m.Values, Value{DType: n.Out[i].DType, Out: i})
	}
	g := newRowGroup(p, []Member{m})
	g.lower(r.name(n.Attr) + "_" + x.DType.String())
}

// rowGroup lowers members that share rows as one kernel: elementwise ones, at the level of elements or of rows, and
// primitives that work the rows.
type rowGroup struct {
	p       *program
	k       *kernel
	members []Member
	s       split
	full    *ir.Layout
	picks   bool
	across  bool // rows lie across memory: one pass folds them all
	args    map[place]*arg
	twins   map[int]*arg // by operand: addressed at a computed place of the row
	outs    []*arg
	values  []rowValue
}

// place is an operand of a group as a member reads it.
type place struct {
	in    int
	level Level
}

// rowValue is a value of a member.
type rowValue struct {
	member int
	number int // among the member's values
	dtype  ir.DType
	level  Level
	expr   int
	out    int  // the group's output; -1: none
	late   bool // it depends on something that is folded over the row
}

func newRowGroup(p *program, members []Member) *rowGroup {
	g := &rowGroup{p: p, members: members, args: map[place]*arg{}, twins: map[int]*arg{}}
	for i := range members {
		m := &members[i]
		if r := m.rows(); r != nil {
			g.s, g.full, g.picks = r.split(m.Attr, m.Layout.Shape), m.Layout, g.picks || r.picks
		}
	}
	towards, _ := g.direction(nil)
	g.across = towards == acrossMemory && len(members) > 1
	for i := range members {
		m, r := &members[i], members[i].rows()
		late := r != nil && r.passes(m.Attr) > 0
		for _, from := range m.In {
			late = late || from < 0 && g.values[^from].late
		}
		for k, v := range m.Values {
			g.values = append(g.values, rowValue{member: i, number: k, dtype: v.DType, level: g.levelOf(m, k), out: v.Out,
				late: late})
		}
	}
	return g
}

// rows describes m where it works rows.
func (m *Member) rows() *Rows { return RowsOf(m.Prim, m.Attr) }

// levelOf is the level of value k of a member.
func (g *rowGroup) levelOf(m *Member, k int) Level {
	if r := m.rows(); r != nil && (k > 0 || !r.Whole) || r == nil && !slices.Equal(m.Layout.Shape, g.full.Shape) {
		return Row
	}
	return Full
}

// operandLevel is the level at which member m reads operand j.
func (g *rowGroup) operandLevel(m *Member, j int) Level {
	if r := m.rows(); r != nil {
		return r.Level(m.Attr, j)
	}
	return g.levelOf(m, 0)
}

// over gives an argument the strides of the kernel's dims.
func (s split) over(a *arg, l Level) *arg {
	switch l {
	case Row:
		a.strided = true
		return s.row(a)
	case Column:
		return s.column(a)
	}
	return s.full(a)
}

// in is operand i as an argument.
func (g *rowGroup) in(i int) *arg {
	a := g.p.in(i)
	if g.p.n.In[i].Whole {
		a.offset = device.Param{}
	}
	return a
}

// twin is operand i as an argument that is addressed by computed indices, along the kept dims.
func (g *rowGroup) twin(i int) *arg {
	a := g.in(i)
	a.computed = true
	var kept []int64
	for _, d := range g.s.kept {
		kept = append(kept, a.stride[d])
	}
	return g.s.once(a.over(kept))
}

// bind makes the arguments.
func (g *rowGroup) bind() (list []*arg) {
	p, n := g.p, g.p.n
	for i := range g.members {
		m := &g.members[i]
		for j, from := range m.In {
			if from < 0 || n.In[from].Scalar {
				continue
			}
			at := place{from, g.operandLevel(m, j)}
			if g.args[at] == nil {
				g.args[at] = g.s.over(g.in(from), at.level)
				list = append(list, g.args[at])
			}
			if g.picks && at.level == Full && g.twins[from] == nil {
				g.twins[from] = g.twin(from)
				list = append(list, g.twins[from])
			}
		}
	}
	g.outs = make([]*arg, len(n.Out))
	for _, v := range g.values {
		if v.out < 0 {
			continue
		}
		if a := p.out(v.out); v.level == Row {
			g.outs[v.out] = g.s.once(a)
		} else {
			g.outs[v.out] = g.s.full(a)
		}
		list = append(list, g.outs[v.out])
	}
	return list
}

// lower makes the kernel.
func (g *rowGroup) lower(name string) {
	p := g.p
	args := g.bind()
	var residual *arg
	if p.n.Residual {
		residual = g.s.full(p.in(len(p.n.In) - 1))
		args = append(args, residual)
	}
	k := p.kernel(name, g.s.outer, g.s.inner, 0, args...)
	g.k, k.onePass = k, g.across
	next := 0
	for i := range g.members {
		m := &g.members[i]
		load, value := func(at place) int { return k.load(g.args[at]) }, func(v int) int { return g.values[v].expr }
		o := g.operands(m, load, value)
		o.at = func(j, index int) int { return g.at(m, j, index) }
		for _, v := range m.evaluate(o) {
			if residual != nil && next == 0 {
				v = k.Add(v, k.load(residual))
			}
			g.values[next].expr = k.Cast(g.values[next].dtype, v)
			next++
		}
	}
	g.store()
	k.launch()
}

// operands gathers the operands of member m: loads, and values of other members by number.
func (g *rowGroup) operands(m *Member, load func(at place) int, value func(v int) int) *operands {
	n, k := g.p.n, g.k
	o := &operands{k: k, types: make([]ir.DType, len(m.In)), in: m.In, x: make([]int, len(m.In)), attr: m.Attr, s: g.s,
		outs: len(m.Values), out: m.Values[0].DType}
	for j, from := range m.In {
		if from < 0 {
			o.types[j] = g.values[^from].dtype
			o.x[j] = k.reload(o.types[j], value(^from))
			continue
		}
		if o.types[j] = n.In[from].DType; !n.In[from].Scalar {
			o.x[j] = load(place{from, g.operandLevel(m, j)})
		}
	}
	return o
}

// at is operand j of member m at a place of the row: the members before are evaluated once more, there.
func (g *rowGroup) at(m *Member, j, index int) int {
	k, from := g.k, m.In[j]
	load := func(at place) int {
		if at.level != Full {
			return k.load(g.args[at])
		}
		stride := g.p.n.In[at.in].Layout.Stride[g.s.reduced[0]]
		return k.LoadAt(g.twins[at.in].kbuf, k.Add(k.address(g.twins[at.in]), k.Mul(index, k.size(stride))))
	}
	if from >= 0 {
		return load(place{from, g.operandLevel(m, j)})
	}
	var value func(v int) int
	value = func(v int) int {
		of := &g.members[g.values[v].member]
		if of.rows() != nil {
			return g.values[v].expr
		}
		return k.Cast(g.values[v].dtype, of.evaluate(g.operands(of, load, value))[g.values[v].number])
	}
	return k.reload(g.values[^from].dtype, value(^from))
}

// lastPass reports that values of the group's shape are stored in a separate pass, since some depend on reductions.
// Otherwise they are stored in the last pass that reduces, so that no pass reads an operand which a store has
// overwritten.
func (g *rowGroup) lastPass() bool {
	folds := false
	for i := range g.members {
		r := g.members[i].rows()
		folds = folds || r != nil && r.passes(g.members[i].Attr) > 0
	}
	return slices.ContainsFunc(g.values, func(v rowValue) bool {
		return v.out >= 0 && v.level == Full && (!folds || v.late || g.picks)
	})
}

// store stores the values; those of rows come before those of elements that have a pass of their own.
func (g *rowGroup) store() {
	k, last := g.k, g.lastPass()
	each := func(l Level, begin func()) {
		for _, v := range g.values {
			if v.out < 0 || v.level != l {
				continue
			}
			if begin != nil {
				begin()
				begin = nil
			}
			k.store(g.outs[v.out], v.expr)
		}
	}
	if !last {
		each(Full, nil)
	}
	each(Row, k.once)
	if last {
		each(Full, k.Each)
	}
}

// Each begins a stage over the inner space, where the stage is not the only one.
func (k *kernel) Each() {
	if k.onePass && k.inner {
		return
	}
	k.inner = true
	k.Builder.Each()
}

// Map begins a stage that runs once for each outer index.
func (k *kernel) Map() {
	k.inner, k.mapped = false, true
	k.Builder.Map()
}

// once begins a stage that runs once for each outer index, where the stage is not such a one already.
func (k *kernel) once() {
	if k.inner || !k.mapped {
		k.Map()
	}
}

// Bounds within which a group of rows has the bits that its members have one by one, on devices that add in order.
const (
	// heldRow is the longest row that a device keeps in registers from pass to pass. What is longer would be evaluated
	// again in each pass.
	heldRow = 4096
	// maxPasses bounds the passes over a row, by which values are kept in registers: a softmax or a norm takes three.
	maxPasses = 4
	// oneTile is the longest row that is one tile in a kernel with one pass. Which of 0 and -0 is an extreme, or which
	// NaN, depends on the tiles. So does a sum where the dims of a row do not merge: tiles then end with the last dims.
	// In a kernel of several passes a heldRow is one tile.
	oneTile = 1024
)

// CanFuseRows reports that one kernel may compute the members of n, some of which are row nodes: each row node adds the
// elements of a row in the same order as alone, and no pass evaluates a value again. Offsets, buffers and outputs of n
// do not matter.
func CanFuseRows(n *Node) bool {
	p := &program{n: n}
	g := newRowGroup(p, n.Members)
	towards, merged := g.direction(nil)
	passes, extremes := 0, false
	for i := range g.members {
		m := &g.members[i]
		r := m.rows()
		if r == nil {
			if numbered[m.Prim.NameFor(m.Attr)] && (g.levelOf(m, 0) == Row || g.picks || !g.s.trailing(g.full.Shape)) {
				return false
			}
			continue
		}
		s := r.split(m.Attr, m.Layout.Shape)
		alone, one := g.direction(m)
		if !slices.Equal(s.reduced, g.s.reduced) || m.Layout != g.full || alone != towards || !one {
			return false
		}
		if towards == acrossMemory && (r.passes(m.Attr) != 1 || g.readsLate(m)) {
			return false
		}
		passes += r.passes(m.Attr)
		extremes = extremes || g.takesExtremes(m)
	}
	last := g.lastPass()
	switch towards {
	case acrossMemory:
		return !last
	case alongMemory:
		if last {
			passes++
		}
		count, short := g.s.count(), !extremes && (merged || passes > 1)
		return passes <= maxPasses && (passes < 2 || count <= heldRow || merged && !g.again()) && (short || count <= oneTile)
	}
	return false
}

// readsLate reports that m reads a value that depends on a reduction.
func (g *rowGroup) readsLate(m *Member) bool {
	return slices.ContainsFunc(m.In, func(from int) bool { return from < 0 && g.values[^from].late })
}

// again reports that a member before one that works rows has a value for each element, which each pass then evaluates.
func (g *rowGroup) again() bool {
	return slices.ContainsFunc(g.members, func(m Member) bool {
		return m.rows() != nil && slices.ContainsFunc(m.In, func(from int) bool {
			return from < 0 && g.values[^from].level == Full
		})
	})
}

// trailing reports that the reduced dims are the last ones, so that rows are contiguous.
func (s split) trailing(shape []int64) bool {
	return dense(concat(s.outer, s.inner), s.over(&arg{stride: ir.DenseStrides(shape)}, Full).stride)
}

// takesExtremes reports a member that takes the extremes of floats.
func (g *rowGroup) takesExtremes(m *Member) bool {
	d := ir.InvalidDType
	if from := m.In[0]; from < 0 {
		d = g.values[^from].dtype
	} else {
		d = g.p.n.In[from].DType
	}
	return extremes[m.Prim.NameFor(m.Attr)] && d.ComputeType().IsFloat()
}

// direction says how the rows of a kernel lie in memory.
type direction uint8

// The directions. Along memory, a row is one run of numbers: tiles of it follow each other, so that its sum does not
// depend on the tiles. Across memory, neighbours are of different rows, and one element of each row is added after the
// other. Where operands disagree, the order of a sum may depend on the others in the kernel.
const (
	noDirection direction = iota
	alongMemory
	acrossMemory
)

// leastColumns is the number of rows from which devices work them side by side where they lie across memory.
const leastColumns = 4

// direction returns the direction of a kernel of member m alone; of all members, if m is nil. merged: the dims of a row
// merge into one for every operand. Otherwise the only direction of rows is along memory.
func (g *rowGroup) direction(m *Member) (d direction, merged bool) {
	seen, members := map[place]bool{}, g.members
	if m != nil {
		members = []Member{*m}
	}
	list := []*arg{g.s.over(&arg{stride: ir.DenseStrides(g.full.Shape)}, Full)} // a result, or the value of a member
	made := 0                                                                   // values of members that m loads
	for i := range members {
		for j, from := range members[i].In {
			at := place{from, g.operandLevel(&members[i], j)}
			if seen[at] || from >= 0 && g.p.n.In[from].Scalar {
				continue
			}
			seen[at] = true
			switch {
			case from >= 0:
				list = append(list, g.s.over(&arg{stride: g.p.n.In[from].Layout.Stride}, at.level))
			case m != nil && at.level == Full:
				made++
			}
		}
	}
	outer, inner := make([][]int64, len(list)), make([][]int64, len(list))
	for i, a := range list {
		outer[i], inner[i] = a.stride[:len(g.s.outer)], a.stride[len(g.s.outer):]
	}
	_, outer = collapse(g.s.outer, outer, 0)
	size, inner := collapse(g.s.inner, inner, 0)
	merged = len(size) == 1
	columns := 0 // of the operands, those whose neighbours are in different rows
	for i := 1; i < len(list); i++ {
		switch o, n := last(outer[i]), last(inner[i]); {
		case o == 1 && n > 1:
			columns++
		case n == 1 && o > 1:
			columns--
		}
	}
	switch o, n := last(outer[0]), last(inner[0]); {
	case o != 1 || n <= 1:
		if columns <= 0 {
			return alongMemory, merged
		}
	case merged && columns+made > 0 && g.s.rows() >= leastColumns:
		return acrossMemory, merged
	}
	return noDirection, merged
}

func last(s []int64) int64 { return s[len(s)-1] }

// extremes names the primitives whose result is an extreme.
var extremes = map[string]bool{"amax": true, "amin": true, "max_all": true, "min_all": true, "max_dim": true,
	"min_dim": true, "argmax": true, "argmin": true}
