package engine

import (
	"strconv"
	"strings"
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
)

// explain describes a tensor: binding, versions, pending work.
func (e *Engine) explain(h uint64) (map[string]any, *ir.Error) {
	x, err := e.session.Handle(h)
	if err != nil {
		return nil, err
	}
	b := e.session.Base(x.Base)
	n := e.graph.Node(b.Value)
	av := ir.AvalOf(b.Aval)
	m := map[string]any{"binding": b.Binding.String(), "binding_version": b.BindingVersion,
		"logical_version":   b.LogicalVersion,
		"commits_scheduled": b.Scheduled, "commits_executed": b.Committed, "computed": n.Op == ir.OpLeaf && n.Store != 0,
		"lost": n.Op == ir.OpLeaf && n.Store == 0 && av.Device != ir.Meta,
		"site": e.SourceLocString(x.SourceLoc), "dtype": ir.ElementType(av.DType, x.Layout).String(),
		"device": ir.DeviceName(av.Device),
		"shape":  ir.LayoutOf(x.Layout).Shape,
		"stride": ir.LayoutOf(x.Layout).Stride, "offset": x.Offset, "base": x.Base, "pins": b.Pins, "init_token": b.InitTok}
	switch p := op.Of(n); {
	case p != nil:
		m["op"] = p.NameFor(ir.AttrOf(n.Attr))
		m["op_site"] = e.SourceLocString(n.SourceLoc)
	case n.Op == ir.OpLeaf && n.Store != 0:
		m["storage_version"] = e.runtime.Storage(n.Store).Version
		m["bytes"] = e.runtime.Storage(n.Store).Bytes
	}
	if b.Loc != 0 {
		l := e.session.Loc(b.Loc)
		m["loc"] = map[string]any{"role": l.Role.String(), "version": l.Version, "logical": l.Logical,
			"has_value": l.HasValue}
	}
	e.explainWindow(m, b.Value, n)
	return m, nil
}

// explainProgram is explain with "program": the text form of the window that computed the tensor, or would compute it.
// A comment at each node names the line that recorded it.
func (e *Engine) explainProgram(h uint64) (map[string]any, *ir.Error) {
	m, err := e.explain(h)
	if err != nil {
		return nil, err
	}
	x, _ := e.session.Handle(h)
	value := e.session.Newest(x.Base)
	if n := e.graph.Node(value); n.Op == ir.OpLeaf {
		if n.Store != 0 {
			if p := e.planner.numbered(e.runtime.Storage(n.Store).Plan); p != nil {
				m["program"] = e.programText(p.Program)
			}
		}
		return m, nil
	}
	defer e.planner.done()
	if w, ok := e.planner.pending(value, e.session.PendingEffects()); ok {
		m["program"] = e.programText(&w.Program)
	}
	return m, nil
}

// programText is the text form of a program, and of the bodies of its loops behind it.
func (e *Engine) programText(g *program.Program) string {
	var b strings.Builder
	b.WriteString(e.commented(g))
	for _, id := range g.Bodies() {
		b.WriteString("body " + strconv.FormatInt(id, 10) + "\n")
		for line := range strings.Lines(e.commented(op.BodyOf(id).(*program.Program))) {
			b.WriteString("  " + line)
		}
	}
	return b.String()
}

// commented is the text form of a program with a comment at each node, which names the line that recorded it.
func (e *Engine) commented(g *program.Program) string {
	return g.Format(func(i int) string { return e.SourceLocString(g.SourceLoc(i)) })
}

// explainWindow adds the window that computed the value, or would compute it.
func (e *Engine) explainWindow(m map[string]any, value uint32, n *ir.Node) {
	if n.Op == ir.OpLeaf {
		if n.Store == 0 {
			return
		}
		st := e.runtime.Storage(n.Store)
		if st.Plan == 0 {
			return // data from the host
		}
		m["window"] = st.Window
		if p := e.planner.numbered(st.Plan); p != nil {
			m["plan"] = e.explainPlan(p, p.Program, nil, 0)
		} else {
			m["plan"] = map[string]any{"number": st.Plan, "evicted": true}
		}
		return
	}
	defer e.planner.done()
	w, ok := e.planner.pending(value, e.session.PendingEffects())
	if !ok {
		return
	}
	pending := map[string]any{"nodes": len(w.Nodes), "reads": len(w.Ext), "stores": len(w.Program.Stores)}
	if p := e.planner.find(); p != nil {
		pending["plan"] = e.explainPlan(p, p.Program, nil, 0)
	} else {
		pending["needs_a_plan"] = e.planner.missReason()
	}
	m["pending"] = pending
}

// explainPlan lists a plan's kernels, with the source locations of a run. Their microseconds are from the last profiled
// run, or the mean of timed runs that took these times together, by segment and step.
func (e *Engine) explainPlan(p *compile.Plan, from *program.Program, took [][]time.Duration,
	timed int64) map[string]any {
	kernels := make([]map[string]any, 0, p.Kernels)
	for i := range p.Segments {
		s := &p.Segments[i]
		if s.Transfer {
			kernels = append(kernels, map[string]any{"name": "transfer", "device": ir.DeviceName(s.Dev),
				"bytes": s.Numel * int64(s.DType.Size()), "node": int(s.Event) - 1, "buffers": []int{s.From, s.To}})
			continue
		}
		caps := e.runtime.Devices[s.Dev].Dev.Caps()
		for j := range s.Steps {
			st := &s.Steps[j]
			cost := st.Op.Cost(st.Constants(), &caps.Storage)
			op := program.PrimName(p.Program.Nodes[st.Event-1].Op)
			members := e.fusedNodes(p.Members(st.Event), p, from)
			if members != nil {
				op = joined(members)
			}
			k := map[string]any{"name": st.Op.Label(), "op": op, "device": ir.DeviceName(s.Dev),
				"flops": cost.Flops, "bytes": cost.Bytes, "node": int(st.Event) - 1, "buffers": st.Bufs}
			if members != nil {
				k["members"] = members
			}
			if nodes := e.fusedNodes(p.Epilogue(st.Event), p, from); nodes != nil {
				k["epilogue"] = nodes
			}
			if nodes := e.fusedNodes(p.Prologue(st.Event), p, from); nodes != nil {
				k["prologue"] = nodes
			}
			switch {
			case timed > 0 && j < len(took[i]):
				k["microseconds"] = float64(took[i][j].Nanoseconds()) / 1e3 / float64(timed)
			case s.Times != nil:
				k["microseconds"] = float64(s.Times[j].Nanoseconds()) / 1e3
			}
			kernels = append(kernels, k)
		}
	}
	return map[string]any{"number": p.Number, "built_because": p.Cause, "runs": p.Runs, "nodes": len(p.Program.Nodes),
		"kernels":       kernels,
		"bytes_written": p.BytesWritten, "microseconds": float64(p.RunTime.Nanoseconds()) / 1e3 / float64(max(p.Runs, 1))}
}

// fusedNode is a node of a fusion group or of an epilogue, as explain and profiles list it.
type fusedNode struct {
	Op        string `json:"op"`
	SourceLoc string `json:"site"`
	Scope     string `json:"scope"` // where it was recorded while profiling
	Backward  bool   `json:"backward"`
}

// fusedNodes describes nodes of p with the source locations of a run; nil for none.
func (e *Engine) fusedNodes(nodes []int, p *compile.Plan, from *program.Program) (list []fusedNode) {
	for _, i := range nodes {
		at := e.profile.place(from.SourceLoc(i))
		list = append(list, fusedNode{Op: p.Program.Prim(i).NameFor(p.Program.Attrs(i)),
			SourceLoc: e.SourceLocString(at.sourceLoc), Scope: e.profile.scopeOf(at), Backward: at.backward})
	}
	return list
}

// joined is the name of a fusion group.
func joined(members []fusedNode) string {
	var names []string
	for _, m := range members {
		names = append(names, m.Op)
	}
	return strings.Join(names, "+")
}
