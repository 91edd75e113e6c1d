package engine

import (
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
)

// planner collects windows and finds or builds their plans.
type planner struct {
	window *lazy.Window
	cache  *compile.Cache
	debug  compile.Debug
	// verify, set by tests, builds every new plan from its program's text form, after a check that the text loses
	// nothing.
	verify bool
	trap   func(string) // for tests: called before each pass of planning
	// steady: the last window had a plan. In a loop the next one has too.
	steady bool
}

const maxPlans = 256

// start resets the planner for a session.
func (p *planner) start(s *lazy.Session, c *compile.Cache) { p.window, p.cache = lazy.NewWindow(s), c }

// swap makes next the window that is collected into and returns the former one.
func (p *planner) swap(next *lazy.Window) (former *lazy.Window) {
	former, p.window = p.window, next
	return former
}

// find returns the cached plan of the collected window, nil for none.
func (p *planner) find() *compile.Plan { return p.cache.Find(&p.window.Program) }

// collect collects the window that values and the first effects entries of the log need. ok is false if nothing is left
// to run. Either way the window marks the graph until it is cleared.
func (p *planner) collect(values []uint32, effects int) (w *lazy.Window, ok bool) {
	return p.window, p.window.Collect(values, effects)
}

// collected returns the window of the last collect, or the one that swap put in its place.
func (p *planner) collected() *lazy.Window { return p.window }

// pending collects, until done, the window that would compute a value. ok is false if nothing is left to run.
func (p *planner) pending(value uint32, effects int) (w *lazy.Window, ok bool) {
	return p.collect([]uint32{value}, effects)
}

// done clears the window that pending collected.
func (p *planner) done() { p.window.Clear() }

// abandon drops the window in collection after a panic.
func (p *planner) abandon() { p.window.Abandon() }

// numbered returns the cached plan of a number, nil for none.
func (p *planner) numbered(n int64) *compile.Plan { return p.cache.Numbered(n) }

// clear forgets all plans.
func (p *planner) clear() { p.cache.Clear() }

// missReason says why the collected window has no plan.
func (p *planner) missReason() string { return p.cache.MissReason(&p.window.Program) }

// add caches a new plan of the collected window.
func (p *planner) add(plan *compile.Plan) {
	plan.Cause = p.missReason()
	p.cache.Add(plan)
}

// fuseFrom is the run at which a plan gets a successor with the fusion groups that it was first built without.
const fuseFrom = 3

// build compiles a plan for the collected window. often: the window has run before.
func (p *planner) build(k *devices, x *runtime.Executor, often bool) (*compile.Plan, error) {
	g := &p.window.Program
	if p.verify {
		g = proved(g)
	}
	b := compile.Builder{Program: g, Caps: k.caps, TileFuser: x.TileFuser, Lowered: &p.cache.Lowered, Debug: p.debug,
		Often: often, Sections: compile.SectionsFrom, Trap: p.trap}
	return b.Build()
}

// proved returns g parsed from its text form. It panics unless g is well formed and the text loses nothing.
func proved(g *program.Program) *program.Program {
	if err := g.Verify(); err != nil {
		panic(fmt.Sprintf("BUG: %v in\n%s", err, g))
	}
	text := g.String()
	again, err := program.Parse(text)
	if err != nil || !again.Same(g) || again.String() != text || !slices.Equal(again.Offsets, g.Offsets) ||
		!slices.Equal(again.Scalars, g.Scalars) {
		panic(fmt.Sprintf("BUG: the text form loses something (%v): it is\n%s\nand was\n%s", err, again, text))
	}
	return again
}

// build compiles, prepares and caches the plan of the collected window. Any failure, a panic included, is an
// ErrAdmission: nothing has run.
func (e *Engine) build() (*compile.Plan, error) {
	p, err := e.makePlan(false, e.runtime.Prepare)
	if err != nil {
		return nil, &runtime.ErrAdmission{Err: err}
	}
	e.planner.add(p)
	e.stats.built++
	return p, nil
}

// fused gives the plan for this run of p, whose window is collected. Where compiling a kernel takes long, the first
// runs use kernels that many windows share. A window that comes again gets a plan with kernels of its own; p runs on
// until the device has compiled them. A failure to make them leaves p as it is.
func (e *Engine) fused(p *compile.Plan) *compile.Plan {
	if p.Fusible == 0 && !p.Brief || p.Runs+1 < fuseFrom {
		return p
	}
	ok, err := e.compiled(p)
	switch {
	case err != nil:
		p.Fusible, p.Brief, p.Next = 0, false, nil
		p.Cause += fmt.Sprintf("; its fusion groups are left out: %v", err)
		e.stats.unfused++
		return p
	case !ok:
		return p
	}
	next := p.Next
	e.planner.cache.Replace(p, next)
	e.stats.fused++
	return next
}

// compiled makes the successor of p, and reports whether it can run.
func (e *Engine) compiled(p *compile.Plan) (ok bool, err error) {
	defer recovered(&err)
	if p.Next == nil {
		if p.Next, err = e.makePlan(true, e.runtime.Compile); err != nil {
			return false, err
		}
	}
	return e.runtime.Compiled(p.Next)
}

// makePlan compiles the plan of the collected window, and prepares it for the devices.
func (e *Engine) makePlan(often bool, prepare func(*compile.Plan) error) (p *compile.Plan, err error) {
	defer recovered(&err)
	for _, id := range e.planner.window.Nodes {
		if err := e.devices.ensure(ir.AvalOf(e.graph.Node(id).Aval).Device); err != nil {
			return nil, err
		}
	}
	if p, err = e.planner.build(&e.devices, e.runtime, often); err != nil {
		return nil, err
	}
	return p, prepare(p)
}
