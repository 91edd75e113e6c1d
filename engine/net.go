package engine

import (
	"math"
	"sync/atomic"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
)

// net is the safety net: it runs pending work when there is much of it, in loops that never read.
type net struct {
	at      int   // it runs at this many pending nodes
	budget  int64 // bytes of memory; it runs when half of them are pending
	running bool
}

const (
	autoFlushNodes = 16384
	defaultBytes   = 8 << 30
)

// due reports that the safety net must run.
func (n *net) due(g *ir.Graph, s *lazy.Session) bool {
	return len(g.Pending) >= n.at || s.PendingBytes() > n.budget/2
}

// after sets the next threshold from the number of nodes left pending by a window.
func (n *net) after(pending int) {
	n.at = autoFlushNodes
	if pending > autoFlushNodes/2 {
		n.at = pending + autoFlushNodes/2
	}
}

// prefix returns the pending nodes up to the threshold. Batches of deferred calls can go past it; the excess waits, so
// that batch sizes do not move the cuts between a loop's windows.
func (n *net) prefix(g *ir.Graph) []ir.PendingRef {
	limit := uint64(math.MaxUint64)
	if len(g.Pending) > n.at {
		limit = g.Pending[n.at-1].Seq
	}
	g.CompactPending()
	k := len(g.Pending)
	for k > 0 && g.Pending[k-1].Seq > limit {
		k--
	}
	return g.Pending[:max(k, min(1, len(g.Pending)))]
}

// cut ends the window where the last iteration of a loop began: before the last nodes in a row that were recorded at
// the line of the first one. So a loop's windows share one plan, and no fusion group of an iteration is divided.
func cut(g *ir.Graph, pending []ir.PendingRef) []ir.PendingRef {
	line := func(i int) uint32 { return g.Node(pending[i].ID).SourceLoc }
	least := max(1, min(minWindow, len(pending)/2))
	for i := len(pending) - 1; i >= least; i-- {
		if line(i) == line(0) && line(i-1) != line(0) {
			return pending[:i]
		}
	}
	return pending
}

// minWindow is the least number of nodes that cut leaves, or half of the nodes if there are few.
const minWindow = 64

// recorded ends a call that records: it runs the safety net if that is due.
func (e *Engine) recorded() {
	e.tape.From = autograd.Source{}
	e.session.Drain()
	if e.session.ExportsDue() && atomic.LoadInt32(&e.cfg.State.Defer) == 0 {
		e.settleHere()
	}
	if !e.net.due(e.graph, e.session) {
		return
	}
	if atomic.LoadInt32(&e.cfg.State.Defer) != 0 {
		atomic.OrInt32(&e.cfg.State.Due, dueNodes)
		return
	}
	e.autoFlush(threadID())
}

// autoFlush runs the pending work for thread owner, if it is due and nothing prevents it.
func (e *Engine) autoFlush(owner int64) {
	pending := e.net.prefix(e.graph)
	if len(e.graph.Pending) == 0 {
		e.session.CountPendingBytes()
		return
	}
	if len(pending) < autoFlushNodes*3/4 && e.session.PendingBytes() <= e.net.budget/2 {
		e.net.after(len(e.graph.Pending))
		return
	}
	if e.backward.open > 0 || e.captures.tracing || e.failures.poison != nil || !e.waiter.tryAcquire(owner) {
		e.net.at = len(e.graph.Pending) + autoFlushNodes/4
		return
	}
	defer e.waiter.release()
	e.net.running = true
	defer func() { e.net.running = false }()
	e.failures.raiseLater(e.runNet(pending))
}

// runNet runs pending nodes, and the effects recorded up to the last of them, within both locks.
func (e *Engine) runNet(pending []ir.PendingRef) *ir.Error {
	if e.waiter.held != nil {
		if err := e.force(nil, 0); err != nil {
			return err
		}
		if pending = e.net.prefix(e.graph); len(pending) == 0 {
			return nil
		}
	}
	pending = cut(e.graph, pending)
	values := make([]uint32, 0, len(pending))
	for _, p := range pending {
		values = append(values, p.ID)
	}
	last := pending[len(pending)-1].Seq
	return e.force(values, e.session.ReadyEffects(e.session.PendingEffects(), last, last))
}
