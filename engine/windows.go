package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// windowLog keeps the times of the last windows, and, while somebody watches, which plans ran.
type windowLog struct {
	last    []windowRun // a ring of loggedWindows
	next    int
	current windowRun // the window that is collected, planned or run
	watched *watchLog // nil: nobody watches
}

// loggedWindows is how many windows the log keeps.
const loggedWindows = 512

// windowRun is one window in Info("windows"). Times are in nanoseconds on the host. From the end of one window to the
// start of the next the host records, but for Waited.
type windowRun struct {
	Number int64  `json:"number"` // counts windows that ran
	Plan   int64  `json:"plan"`
	Why    string `json:"why"` // "read", "stores" (a flush or the end of a step) or "budget" (the safety net)
	Epoch  int64  `json:"epoch"`
	Start  int64  `json:"start_ns"` // since the Unix epoch
	End    int64  `json:"end_ns"`
	Key    int64  `json:"key_ns"`  // collecting the window and finding its plan
	Build  int64  `json:"plan_ns"` // building a plan, where there was none
	Run    int64  `json:"run_ns"`  // on an asynchronous device: encoding and submitting
	Waited int64  `json:"wait_ns"` // for an asynchronous device, after the window and before the next one
	// Device lists the time on each device, where the window was profiled.
	Device   []deviceTime `json:"device"`
	Cause    string       `json:"built_because"` // of a window that built its plan
	Nodes    int64        `json:"nodes"`
	Kernels  int64        `json:"kernels"`
	Written  int64        `json:"bytes_written"`
	Recorded int64        `json:"nodes_recorded"` // since the engine started
}

// deviceTime is the time that a window's steps took on a device.
type deviceTime struct {
	Device string `json:"device"`
	Start  int64  `json:"start_ns"`
	Busy   int64  `json:"busy_ns"`
}

// watchLog lists the plans that ran since somebody began to watch.
type watchLog struct {
	runs    []*watchedPlan
	dropped int64 // windows whose plan is one too many
}

// maxWatched bounds the plans that are watched.
const maxWatched = 64

// watchedPlan is a plan with the program of its last run: the numbers, and who recorded each node.
type watchedPlan struct {
	plan    *compile.Plan
	program *program.Program
	windows []int64           // numbers
	took    [][]time.Duration // by segment and step: the sum of the profiled runs
	timed   int64             // how many these are
}

// begin notes a window that was collected from t0 on and whose plan p, where it is new, took until now to build.
func (l *windowLog) begin(e *Engine, t0 time.Time, key time.Duration, p *compile.Plan, built bool, why string) {
	c := &l.current
	*c = windowRun{Why: why, Start: t0.UnixNano(), Key: int64(key), Epoch: int64(e.session.Epoch), Plan: p.Number,
		Nodes: int64(len(p.Program.Nodes)), Kernels: int64(p.Kernels), Written: p.BytesWritten,
		Recorded: int64(e.session.Recorded())}
	if built {
		c.Cause = p.Cause
	}
}

// ran adds the window that has ended to the log.
func (l *windowLog) ran(number int64, end time.Time) {
	l.current.Number, l.current.End = number, end.UnixNano()
	if len(l.last) < loggedWindows {
		l.last = append(l.last, l.current)
		return
	}
	l.last[l.next] = l.current
	l.next = (l.next + 1) % loggedWindows
}

// waited adds to the last window a wait for its device since began.
func (l *windowLog) waited(began time.Time) {
	if n := len(l.last); n > 0 {
		l.last[(l.next+n-1)%n].Waited += int64(time.Since(began))
	}
}

// inOrder lists the windows, the oldest first.
func (l *windowLog) inOrder() []windowRun {
	return slices.Concat([]windowRun{}, l.last[l.next:], l.last[:l.next])
}

// whyForced returns the reason why a window of these values runs.
func (e *Engine) whyForced(values []uint32) string {
	switch {
	case e.net.running:
		return "budget"
	case len(values) > 0:
		return "read"
	}
	return "stores"
}

// noteWindow logs the collected window, which plan p ran.
func (e *Engine) noteWindow(w *lazy.Window, p *compile.Plan, end time.Time) {
	l := &e.windows
	for _, t := range e.runtime.Timings {
		at := slices.IndexFunc(l.current.Device, func(d deviceTime) bool { return d.Device == t.Device })
		if at < 0 {
			at = len(l.current.Device)
			l.current.Device = append(l.current.Device, deviceTime{Device: t.Device, Start: t.Start.UnixNano()})
		}
		l.current.Device[at].Busy += int64(t.Duration)
	}
	l.ran(e.runtime.Runs, end)
	if l.watched != nil {
		l.watched.add(p, &w.Program, e.runtime.Runs, e.runtime.Profiling)
	}
}

// watch begins or ends the watching of plans. Beginning clears the list.
func (l *windowLog) watch(on bool) {
	l.watched = nil
	if on {
		l.watched = &watchLog{}
	}
}

func (w *watchLog) add(p *compile.Plan, g *program.Program, window int64, timed bool) {
	at := slices.IndexFunc(w.runs, func(r *watchedPlan) bool { return r.plan == p })
	if at < 0 {
		if len(w.runs) == maxWatched {
			w.dropped++
			return
		}
		at = len(w.runs)
		w.runs = append(w.runs, &watchedPlan{plan: p, took: make([][]time.Duration, len(p.Segments))})
	}
	r := w.runs[at]
	r.program, r.windows = g.Clone(), append(r.windows, window)
	if !timed {
		return
	}
	r.timed++
	for i := range p.Segments {
		if r.took[i] == nil {
			r.took[i] = make([]time.Duration, len(p.Segments[i].Times))
		}
		for j, t := range p.Segments[i].Times {
			r.took[i][j] += t
		}
	}
}

// explainWatched lists the watched plans, with the decisions of each pass.
func (e *Engine) explainWatched() (map[string]any, *ir.Error) {
	w := e.windows.watched
	if w == nil {
		w = &watchLog{}
	}
	plans := []map[string]any{}
	for _, r := range w.runs {
		m, err := e.explainDecisions(r)
		if err != nil {
			return nil, asError(err)
		}
		plans = append(plans, m)
	}
	return map[string]any{"plans": plans, "dropped": w.dropped}, nil
}

// explainDecisions is explainPlan with the program, the passes and the buffers.
func (e *Engine) explainDecisions(r *watchedPlan) (m map[string]any, err error) {
	defer recovered(&err)
	b := compile.Builder{Program: r.program, Caps: e.devices.caps, TileFuser: e.runtime.TileFuser,
		Lowered: &e.planner.cache.Lowered, Debug: compile.Debug{Off: e.planner.debug.Off}, Often: r.plan.Often,
		Sections: compile.SectionsFrom}
	d, err := b.Explain()
	if err != nil {
		return nil, err
	}
	m = e.explainPlan(r.plan, r.program, r.took, r.timed)
	m["windows"], m["timed_runs"] = r.windows, r.timed
	m["inputs"], m["program"], m["stores"] = e.explainNodes(r.program, d.ComputedBy)
	m["passes"], m["lifetimes"] = d.Passes, d.Lifetimes
	buffers := []map[string]any{}
	for i := range r.plan.Slots {
		s := &r.plan.Slots[i]
		buffers = append(buffers, map[string]any{"kind": s.Kind.String(), "number": s.Index, "bytes": s.Bytes,
			"pool_bytes": s.PoolBytes(), "device": ir.DeviceName(s.Dev)})
	}
	m["buffers"] = buffers
	return m, nil
}

// explainNodes lists a program's inputs and nodes, each with its line of the text form, and the lines after them.
func (e *Engine) explainNodes(g *program.Program, computedBy []int) (inputs, nodes []map[string]any, rest []string) {
	lines := strings.Split(strings.TrimSuffix(g.String(), "\n"), "\n")
	first := len(g.Inputs)
	if g.Drawn > 0 {
		first++
	}
	describe := func(r program.Ref, text string) map[string]any {
		av := g.Aval(r)
		return map[string]any{"text": text, "dtype": av.DType.String(), "shape": av.Shape(),
			"device": ir.DeviceName(av.Device),
			"bytes":  av.Layout.Numel * int64(e.devices.caps(av.Device).Storage[av.DType])}
	}
	inputs, nodes = []map[string]any{}, []map[string]any{}
	for i := range g.Inputs {
		inputs = append(inputs, describe(program.InputRef(i), lines[i]))
	}
	for i := range g.Nodes {
		m := describe(program.NodeRef(i), lines[first+i])
		m["op"] = "result" // a further one, as in the text form
		if g.Nodes[i].IsPrim() {
			m["op"] = g.Prim(i).NameFor(g.Attrs(i))
		}
		reads := []int{}
		for _, o := range g.OperandsOf(i) {
			switch {
			case o.Value.IsInput():
				reads = append(reads, -1-o.Value.Index())
			case o.Value.IsNode():
				reads = append(reads, o.Value.Index())
			}
		}
		at := e.profile.place(g.SourceLoc(i))
		m["reads"], m["live"], m["computed_by"] = reads, g.Nodes[i].Live == program.LiveOutside, computedBy[i]
		m["site"], m["scope"], m["backward"] = e.SourceLocString(at.sourceLoc), e.profile.scopeOf(at), at.backward
		nodes = append(nodes, m)
	}
	return inputs, nodes, lines[first+len(g.Nodes):]
}
