package engine

import (
	"math"
	"sync/atomic"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/ir"
)

// net is the safety net: it runs what is pending when that is much, in a loop that never reads.
type net struct {
	at      int   // pending nodes from which it runs
	budget  int64 // bytes of memory; it runs when half of that is pending
	running bool
}

const (
	autoFlushNodes = 16384
	defaultBytes   = 8 << 30
)

// due reports that much is pending.
func (n *net) due(g *ir.Graph, s *lazy.Session) bool {
	return len(g.Pending) >= n.at || s.PendingBytes() > n.budget/2
}

// after sets the next threshold, with pending nodes left after a window.
func (n *net) after(pending int) {
	n.at = autoFlushNodes
	if pending > autoFlushNodes/2 {
		n.at = pending + autoFlushNodes/2
	}
}

// prefix gives the pending nodes up to the threshold. Those past it, of which there are some when calls come in
// batches, wait: where a loop's windows are cut must not depend on the batches.
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

// cut shortens pending to end before the last node recorded at the line of the first, so that a loop's windows are
// alike.
func cut(g *ir.Graph, pending []ir.PendingRef) []ir.PendingRef {
	first := g.Node(pending[0].ID).SourceLoc
	for i := len(pending) - 1; i >= minWindow; i-- {
		if g.Node(pending[i].ID).SourceLoc == first {
			return pending[:i]
		}
	}
	return pending
}

// minWindow nodes are the least that are cut off.
const minWindow = 64

// recorded ends what a call has recorded: the safety net runs what is pending when that is much.
func (e *Engine) recorded() {
	e.tape.From = autograd.Source{}
	e.session.Drain()
	if !e.net.due(e.graph, e.session) {
		return
	}
	if atomic.LoadInt32(&e.cfg.State.Defer) != 0 {
		atomic.StoreInt32(&e.cfg.State.Due, 1)
		return
	}
	e.autoFlush(threadID())
}

// autoFlush runs what is pending for thread owner, when that is much and nothing is in the way.
func (e *Engine) autoFlush(owner int64) {
	pending := e.net.prefix(e.graph)
	if len(e.graph.Pending) == 0 {
		e.session.SetPendingBytes(0)
		return
	}
	if len(pending) < autoFlushNodes*3/4 && e.session.PendingBytes() <= e.net.budget/2 {
		e.net.after(len(e.graph.Pending))
		return
	}
	if e.backward.open > 0 || e.failures.poison != nil || !e.waiter.tryAcquire(owner) {
		e.net.at = len(e.graph.Pending) + autoFlushNodes/4
		return
	}
	defer e.waiter.release()
	e.net.running = true
	defer func() { e.net.running = false }()
	e.failures.raiseLater(e.runNet(pending))
}

// runNet runs pending nodes, and the effects that were recorded up to the last of them, within both locks.
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
