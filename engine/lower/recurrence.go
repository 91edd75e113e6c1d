package lower

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

func init() {
	rules := map[string]lowering{}
	for _, name := range op.RecurrenceNames {
		rules[name], rules[name+"_grad"] = lowerRecurrence, lowerRecurrenceGrad
		rules[name+"_cell"], rules[name+"_cell_grad"] = lowerCell, lowerCellGrad
	}
	register(rules)
}

// cell is one step without its product. Arguments are over [B, H], those of gates over one part each; nil: absent.
type cell struct {
	r           op.Recurrence
	x, p        []*arg
	state, next *arg // the state that enters and that leaves: c of an LSTM, h of a GRU, whose next is among h
	kept        []*arg
	h           []*arg // where h' is stored
}

// parts are n equal parts of the last dim.
func (a *arg) parts(n int64) []*arg {
	list := make([]*arg, n)
	for i := range list {
		x := *a
		last := len(a.shape) - 1
		x.shape, x.stride = append([]int64{}, a.shape...), append([]int64{}, a.stride...)
		x.shape[last] /= n
		x.offset = x.offset.Plus(int64(i) * x.shape[last] * x.stride[last])
		list[i] = &x
	}
	return list
}

// member is the argument at index i of the first dim.
func (a *arg) member(i int64) *arg {
	x := *a
	x.shape, x.stride = append([]int64{}, a.shape[1:]...), append([]int64{}, a.stride[1:]...)
	x.offset = x.offset.Plus(i * a.stride[0])
	return &x
}

// members are the arguments at all indices of the first dim.
func (a *arg) members() []*arg {
	list := make([]*arg, a.shape[0])
	for i := range list {
		list[i] = a.member(int64(i))
	}
	return list
}

// moving is the member that which names for each step of a series.
func (a *arg) moving(which func(step int64) int64) *arg {
	x, n := a.member(0), a.stride[0]
	x.at = func(step int64) int64 { return which(step) * n }
	return x
}

// kernel begins a kernel over the state. Absent arguments are left out, and repeated ones are taken once.
func (c *cell) kernel(p *program, name string, lists ...[]*arg) *kernel {
	var args []*arg
	for _, l := range lists {
		for _, a := range l {
			if a != nil && !slices.Contains(args, a) {
				args = append(args, a)
			}
		}
	}
	k := p.kernel(op.RecurrenceNames[c.r]+name+args[0].dtype.String(), args[0].shape, nil, 0, args...)
	k.Map()
	return k
}

func (k *kernel) loads(list []*arg) []int {
	v := make([]int, len(list))
	for i, a := range list {
		v[i] = k.load(a)
	}
	return v
}

// forward is the kernel of a cell.
func (c *cell) forward(p *program) *kernel {
	k := c.kernel(p, "_cell_", c.x, c.p, []*arg{c.state}, c.kept, c.h, []*arg{c.next})
	t := c.x[0].dtype.ComputeType()
	x, q := k.loads(c.x), k.loads(c.p)
	sigmoid := func(i int) int { return floatBodies["sigmoid"](k, t, []int{k.Add(x[i], q[i])}) }
	tanh := func(v int) int { return k.Un(loopir.OpTanh, v) }
	var kept []int
	var h int
	switch c.r {
	case op.LSTM:
		in, forget, fresh, out := sigmoid(0), sigmoid(1), tanh(k.Add(x[2], q[2])), sigmoid(3)
		next := k.Fma(forget, k.load(c.state), k.Mul(in, fresh))
		bent := tanh(next)
		h, kept = k.Mul(out, bent), []int{in, forget, fresh, out, bent}
		k.store(c.next, next)
	case op.GRU:
		reset, update := sigmoid(0), sigmoid(1)
		fresh := tanh(k.Fma(reset, q[2], x[2]))
		h = k.Fma(update, k.Sub(k.load(c.state), fresh), fresh)
		kept = []int{reset, update, fresh, q[2]}
	case op.RNNTanh:
		h = tanh(k.Add(x[0], q[0]))
	default:
		h = unaryBodies["relu"](k, t, []int{k.Add(x[0], q[0])})
	}
	for i, a := range c.kept {
		k.store(a, kept[i])
	}
	for _, a := range c.h {
		k.store(a, h)
	}
	return k
}

// cellBack is the gradient of one step without its product. x and p receive cotangents; p is nil where its are x's.
type cellBack struct {
	cell
	gh    []*arg // cotangents of h', to be added
	gnext *arg   // cotangent of an LSTM's c'
	gin   *arg   // receives the cotangent of the state that entered; of a GRU without what comes through its product
}

// backward is the kernel of a cell's gradient.
func (c *cellBack) backward(p *program) *kernel {
	k := c.kernel(p, "_cell_grad_", c.kept, []*arg{c.state}, c.gh, []*arg{c.gnext}, c.x, c.p, []*arg{c.gin})
	t := c.kept[0].dtype.ComputeType()
	one, v := k.Float(t, 1), k.loads(c.kept)
	sum := func(list ...*arg) int {
		s := k.Float(t, 0)
		for _, a := range list {
			if a != nil {
				s = k.Add(s, k.load(a))
			}
		}
		return s
	}
	sigmoid := func(g, y int) int { return k.Mul(g, k.Mul(y, k.Sub(one, y))) }
	tanh := func(g, y int) int { return k.Mul(g, k.Sub(one, k.Mul(y, y))) }
	g := sum(c.gh...)
	var x, q []int
	gin := -1
	switch c.r {
	case op.LSTM:
		gc := k.Add(sum(c.gnext), tanh(k.Mul(g, v[3]), v[4]))
		x = []int{sigmoid(k.Mul(gc, v[2]), v[0]), sigmoid(k.Mul(gc, k.load(c.state)), v[1]), tanh(k.Mul(gc, v[0]), v[2]),
			sigmoid(k.Mul(g, v[4]), v[3])}
		gin = k.Mul(gc, v[1])
	case op.GRU:
		fresh := tanh(k.Mul(g, k.Sub(one, v[1])), v[2])
		update := sigmoid(k.Mul(g, k.Sub(k.load(c.state), v[2])), v[1])
		reset := sigmoid(k.Mul(fresh, v[3]), v[0])
		x, q = []int{reset, update, fresh}, []int{reset, update, k.Mul(fresh, v[0])}
		gin = k.Mul(g, v[1])
	case op.RNNTanh:
		x = []int{tanh(g, v[0])}
	default:
		x = []int{k.Select(k.Le(v[0], k.Float(t, 0)), k.Float(t, 0), g)}
	}
	for i, a := range c.x {
		k.store(a, x[i])
	}
	for i, a := range c.p {
		k.store(a, q[i])
	}
	if c.gin != nil {
		k.store(c.gin, gin)
	}
	return k
}

// lowerCell; attributes: recurrence, keep.
func lowerCell(p *program) {
	r := op.Recurrence(p.n.Attr[0])
	c := cell{r: r, x: p.in(0).parts(r.Gates()), p: p.in(1).parts(r.Gates())}
	n := 0
	if p.n.Attr[1] != 0 && !r.Plain() {
		c.kept = p.out(0).members()
		n = 1
	}
	c.h = []*arg{p.out(n)}
	if r == op.LSTM {
		c.next = p.out(n + 1)
	}
	if !r.Plain() {
		c.state = p.in(2)
	}
	if ir.Numel(c.h[0].shape) > 0 {
		c.forward(p).launch()
	}
}

// lowerCellGrad; attributes: recurrence, has h's cotangent, has c's.
func lowerCellGrad(p *program) {
	r := op.Recurrence(p.n.Attr[0])
	c := cellBack{cell: cell{r: r}}
	next := 0
	take := func() *arg { next++; return p.in(next - 1) }
	if kept := take(); r.Plain() {
		c.kept = []*arg{kept}
	} else {
		c.kept, c.state = kept.members(), take()
	}
	if p.n.Attr[1] != 0 {
		c.gh = []*arg{take()}
	}
	if p.n.Attr[2] != 0 {
		c.gnext = take()
	}
	c.x = p.out(0).parts(r.Gates())
	if r == op.GRU {
		c.p = p.out(1).parts(r.Gates())
	}
	if !r.Plain() {
		c.gin = p.out(len(p.n.Out) - 1)
	}
	if ir.Numel(c.kept[0].shape) > 0 {
		c.backward(p).launch()
	}
}

// walk is the order of the steps of one direction of a layer. Step k is at time(k). Of the T+1 states, it reads the one
// at enters(k) and writes the one at leaves(k).
type walk struct {
	steps     int64
	backwards bool
}

func (w walk) time(k int64) int64 {
	if w.backwards {
		return w.steps - 1 - k
	}
	return k
}

func (w walk) enters(k int64) int64 {
	if w.backwards {
		return w.steps - k
	}
	return k
}

func (w walk) leaves(k int64) int64 { return w.enters(k + 1) }

// modulo reuses n places in turn.
func modulo(n int64, place func(int64) int64) func(int64) int64 {
	return func(k int64) int64 { return place(k) % n }
}

// atStep is an argument at one step of a series.
func (a *arg) atStep(step int64) *arg {
	x := *a
	x.offset = x.offset.Plus(a.at(step))
	x.at = nil
	return &x
}

// asMatrix is the argument as a matrix; it has two dims.
func (a *arg) asMatrix() matrix { return matrix{a.buf, nil, a.stride[0], a.stride[1], a.offset} }

func (m matrix) turned() matrix { m.row, m.col = m.col, m.row; return m }

// lowerRecurrence makes two launches for each step, a product and a cell's kernel; attributes: recurrence, backwards,
// has bias, keep.
func lowerRecurrence(p *program) {
	r := op.Recurrence(p.n.Attr[0])
	x, w, first, states := p.in(0), p.in(1), p.in(2), p.out(0)
	steps, batch, hidden := states.shape[0], states.shape[1], states.shape[2]
	if ir.Numel(states.shape) == 0 {
		return
	}
	order, d := walk{steps, p.n.Attr[1] != 0}, x.dtype
	c := cell{r: r, x: x.moving(order.time).parts(r.Gates()), h: []*arg{states.moving(order.time)}}
	places, hs := int64(2), (*arg)(nil) // without a history: two places of h and one of c
	if p.n.Attr[3] != 0 {
		places, hs = steps+1, p.out(1)
		if !r.Plain() {
			c.kept = p.out(2).moving(order.time).members()
		}
	} else {
		hs = p.temp(d, []int64{places, batch, hidden})
	}
	enters, leaves := hs.read().moving(modulo(places, order.enters)), hs.moving(modulo(places, order.leaves))
	p.copy(first, enters.atStep(0).written())
	c.h = append(c.h, leaves)
	var last, cs *arg
	switch r {
	case op.LSTM:
		last = p.out(len(p.n.Out) - 1)
		cs, places = last.unsqueezed(), 1
		if p.n.Attr[3] != 0 {
			cs, places = p.out(3), steps+1
		}
		c.state, c.next = cs.read().moving(modulo(places, order.enters)), cs.moving(modulo(places, order.leaves))
		p.copy(p.in(3), c.state.atStep(0).written())
	case op.GRU:
		c.state = enters
	}
	var bias *arg
	if p.n.Attr[2] != 0 {
		bias = p.in(len(p.n.In) - 1)
	}
	product := p.temp(d, []int64{batch, r.Gates() * hidden})
	c.p = product.read().parts(r.Gates())
	step := c.forward(p).series()
	for k := range steps {
		p.product(launch.Gemm{}, d, nil, [3]int64{batch, r.Gates() * hidden, hidden}, enters.atStep(k).asMatrix(),
			w.asMatrix().turned(), epilogue{bias: bias}, product.asMatrix())
		step(k)
	}
	if places > 1 && r == op.LSTM {
		p.copy(c.state.atStep(steps), last)
	}
}

// lowerRecurrenceGrad walks the steps backwards: a cell's gradient, and the product that gives the cotangent of the
// state before. Attributes: recurrence, backwards, has the cotangent of the last c, wants the first states' cotangents.
func lowerRecurrenceGrad(p *program) {
	r := op.Recurrence(p.n.Attr[0])
	g, w, next := p.in(0), p.in(1), 2
	steps, batch, hidden := g.shape[0], g.shape[1], g.shape[2]
	if ir.Numel(g.shape) == 0 {
		return
	}
	take := func() *arg { next++; return p.in(next - 1) }
	order, d := walk{steps, p.n.Attr[1] != 0}, g.dtype
	c := cellBack{cell: cell{r: r, x: p.out(0).moving(order.time).parts(r.Gates())}}
	products := p.out(0)
	if r == op.GRU {
		products = p.out(1)
		c.p = products.moving(order.time).parts(r.Gates())
	}
	if r.Plain() {
		c.kept = []*arg{take().moving(order.leaves)}
	} else {
		c.kept, c.state = take().moving(order.time).members(), take().moving(order.enters)
	}
	state := []int64{batch, hidden}
	wanted := p.n.Attr[3] != 0
	started := func(fromEnd int) *arg {
		if wanted {
			return p.out(len(p.n.Out) - fromEnd)
		}
		return p.temp(d, state)
	}
	zero := func(a *arg) { p.fill(a, func(k *kernel) int { return k.Int(d, 0) }) }
	var gh, carried *arg // the cotangents of h: through the product, and past it; of an LSTM carried is c's
	switch r {
	case op.LSTM:
		gh, carried = started(2), started(1)
		if p.n.Attr[2] != 0 {
			p.copy(take(), carried)
		} else {
			zero(carried)
		}
		c.gnext = carried.updated()
		c.gin = c.gnext
		c.gh = []*arg{g.moving(order.time), gh.read()}
	case op.GRU:
		gh, carried = started(1), p.temp(d, state)
		zero(carried)
		c.gin = carried.updated()
		c.gh = []*arg{g.moving(order.time), gh.read(), c.gin}
	default:
		gh = started(1)
		c.gh = []*arg{g.moving(order.time), gh.read()}
	}
	zero(gh)
	step := c.backward(p).series()
	rows := products.moving(order.time)
	for k := steps - 1; k >= 0; k-- {
		step(k)
		if k > 0 || wanted {
			p.product(launch.Gemm{}, d, nil, [3]int64{batch, hidden, r.Gates() * hidden}, rows.atStep(k).asMatrix(),
				w.asMatrix(), epilogue{}, gh.asMatrix())
		}
	}
	if r == op.GRU && wanted {
		to, past := gh.updated(), carried.read()
		k := p.kernel("add_"+d.String(), state, nil, 0, to, past)
		k.Map()
		k.store(to, k.Add(k.load(to), k.load(past)))
		k.launch()
	}
}

// read, written and updated are the argument with that use.
func (a *arg) read() *arg    { return a.used(reads) }
func (a *arg) written() *arg { return a.used(writes) }
func (a *arg) updated() *arg { return a.used(reads | writes) }

func (a *arg) used(u use) *arg {
	x := *a
	x.use = u
	return &x
}

// unsqueezed is the argument with a first dim of size 1.
func (a *arg) unsqueezed() *arg {
	x := *a
	x.shape, x.stride = concat([]int64{1}, a.shape), concat([]int64{ir.Numel(a.shape)}, a.stride)
	return &x
}
