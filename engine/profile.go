package engine

import (
	"sync"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// profile keeps timed events and the scopes that name them. While profiling, a node's source location is the number of
// a place, the pair of a line and a scope.
type profile struct {
	scopes []string // by number; 0: no scope
	byName map[string]uint32
	scope  uint32 // the current scope
	events []profileEvent

	mu     sync.Mutex // guards places, which call sites read without the engine's lock
	places []place
	number map[place]uint32
}

// place is the line and scope that recorded an operation.
type place struct {
	sourceLoc, scope uint32
	backward         bool
}

// placed flags a source location that is an index into profile.places.
const placed = 1 << 31

// profileEvent is one executed step in Info("profile").
type profileEvent struct {
	Op        string `json:"op"`
	Kernel    string `json:"kernel"`
	Device    string `json:"device"`
	Scope     string `json:"scope"`
	Backward  bool   `json:"backward"`
	SourceLoc string `json:"site"`
	Start     int64  `json:"start_ns"` // since the Unix epoch
	Duration  int64  `json:"duration_ns"`
	Flops     int64  `json:"flops"`
	Bytes     int64  `json:"bytes"`
	// Members lists the operations of a fusion group; nil for others.
	Members []fusedNode `json:"members,omitempty"`
	// Epilogue lists the operations that a product or a convolution applies to its result; nil for others.
	Epilogue []fusedNode `json:"epilogue,omitempty"`
	// Prologue lists the norm that a product computes; nil for others.
	Prologue []fusedNode `json:"prologue,omitempty"`
}

// enter changes the scope.
func (p *profile) enter(name string) {
	if p.byName == nil {
		p.byName, p.scopes = map[string]uint32{"": 0}, []string{""}
	}
	id, ok := p.byName[name]
	if !ok {
		id = uint32(len(p.scopes))
		p.scopes = append(p.scopes, name)
		p.byName[name] = id
	}
	p.scope = id
}

// forward returns the place of an operation called at a line.
func (p *profile) forward(sourceLoc uint32) uint32 {
	return p.at(place{sourceLoc: sourceLoc, scope: p.scope})
}

// backward returns the place of the gradient of an operation.
func (p *profile) backward(sourceLoc uint32) uint32 {
	q := p.place(sourceLoc)
	q.backward = true
	return p.at(q)
}

func (p *profile) at(q place) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, ok := p.number[q]
	if !ok {
		if p.number == nil {
			p.number = map[place]uint32{}
		}
		id = uint32(len(p.places)) | placed
		p.places = append(p.places, q)
		p.number[q] = id
	}
	return id
}

func (p *profile) place(sourceLoc uint32) place {
	if sourceLoc&placed != 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.places[sourceLoc&^placed]
	}
	return place{sourceLoc: sourceLoc}
}

// scopeOf returns the name of a place's scope, "" for none.
func (p *profile) scopeOf(q place) string {
	if q.scope == 0 {
		return ""
	}
	return p.scopes[q.scope]
}

// sourceLoc returns the line of a place.
func (p *profile) sourceLoc(id uint32) uint32 { return p.place(id).sourceLoc }

// setProfiling starts or ends profiling. A start drops earlier events.
func (e *Engine) setProfiling(on bool) {
	e.runtime.SetProfiling(on)
	if on {
		e.profile.events = nil
	}
}

// noteTimings names the timed steps of the window that plan ran.
func (e *Engine) noteTimings(w *lazy.Window, plan *compile.Plan) {
	if len(e.runtime.Timings) == 0 {
		return
	}
	p := &e.profile
	for _, t := range e.runtime.Timings {
		ev := profileEvent{Kernel: t.Kernel, Device: t.Device, Start: t.Start.UnixNano(), Duration: int64(t.Duration),
			Flops: t.Flops, Bytes: t.Bytes}
		if i := int(t.Event) - 1; i >= 0 && i < len(w.Nodes) {
			n := e.graph.Node(w.Nodes[i])
			if p := op.Of(n); p != nil {
				ev.Op = p.NameFor(ir.AttrOf(n.Attr))
			}
			ev.Members = e.fusedNodes(plan.Members(t.Event), plan, &w.Program)
			if ev.Members != nil {
				ev.Op = joined(ev.Members)
			}
			ev.Epilogue = e.fusedNodes(plan.Epilogue(t.Event), plan, &w.Program)
			ev.Prologue = e.fusedNodes(plan.Prologue(t.Event), plan, &w.Program)
			q := p.place(w.Program.SourceLoc(i))
			ev.SourceLoc, ev.Scope, ev.Backward = e.SourceLocString(q.sourceLoc), p.scopeOf(q), q.backward
		}
		p.events = append(p.events, ev)
	}
	e.runtime.Timings = e.runtime.Timings[:0]
}

// takeProfile returns the events and forgets them.
func (e *Engine) takeProfile() []profileEvent {
	ev := e.profile.events
	e.profile.events = nil
	if ev == nil {
		ev = []profileEvent{}
	}
	return ev
}
