package gpucode

import (
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// A kernel with few rows and a long inner space is split: Parts workgroups share a row. Each stage with accumulators
// ends a pass, whose partial accumulators go to scratch memory. The next passes join them in the order of the parts, so
// that the result does not depend on which workgroup ends first. A kernel without accumulators stays one pass.

// pass is a range of stages that one program runs.
type pass struct {
	from, to int
	accs     int  // accumulators of the stages before
	split    bool // the inner space is divided between Parts workgroups
	turn     int  // the number of the pass among the turns of a scan
}

// Passes lists the passes of k with the options o. A kernel that is not split has one.
func (o Options) Passes(k *loopir.Kernel) []pass {
	if o.Turns > 1 {
		list := make([]pass, o.Turns)
		for i := range list {
			list[i] = pass{to: len(k.Stages), turn: i}
		}
		return list
	}
	if o.Parts <= 1 || k.Inner == 0 {
		return []pass{{to: len(k.Stages)}}
	}
	var list []pass
	var p pass
	accs := 0
	for s := range k.Stages {
		p.split = p.split || k.Stages[s].OverInner
		accs += len(k.Stages[s].Accs)
		if p.to = s + 1; p.to == len(k.Stages) || len(k.Stages[s].Accs) > 0 {
			list = append(list, p)
			p = pass{from: s + 1, accs: accs}
		}
	}
	return list
}

// splits reports that k may be split. Where k writes what it reads, each element depends on itself only and one part
// has it. Ordered kernels have stages that read what other lanes wrote, so they are not split.
func splits(k *loopir.Kernel) bool { return !hasPrefix(k) && !ordered(k) }

// accumulates reports a kernel whose parts pass results on.
func accumulates(k *loopir.Kernel) bool {
	return slices.ContainsFunc(k.Stages, func(s loopir.Stage) bool { return len(s.Accs) > 0 })
}

func hasPrefix(k *loopir.Kernel) bool {
	return slices.ContainsFunc(k.Stages, func(s loopir.Stage) bool { return s.Prefix })
}

// scratchWords counts the words of a row's partial accumulators.
func scratchWords(k *loopir.Kernel) uint64 {
	n := 0
	for s := range k.Stages {
		for _, a := range k.Stages[s].Accs {
			n += words(k.Exprs[a.Val].Type)
			if a.Idx >= 0 {
				n += words(k.Exprs[a.Idx].Type)
			}
		}
	}
	return uint64(n)
}

// words is the number of 32-bit words of a value in scratch memory.
func words(t ir.DType) int {
	if t == ir.I64 {
		return 2
	}
	return 1
}

// divide sets this workgroup's range of inner indices and returns the number of its group of rows.
func (g *gen) divide(ps pass) *gpuir.Node {
	g.from, g.to = gpuir.NInt(0), g.inner
	if g.o.Turns > 1 || g.o.Parts > 1 && accumulates(g.k) {
		g.p.Bufs = append(g.p.Bufs, gpuir.Buf{Type: ir.U32, Access: loopir.ReadWrite, Vec: 1, Scratch: true})
	}
	if !ps.split || g.o.Parts <= 1 {
		return gpuir.NGroup()
	}
	parts := gpuir.NInt(g.o.Parts)
	g.p.Repeat = int64(g.o.Parts)
	g.part = g.let(gpuir.NRem(gpuir.NGroup(), parts))
	chunk := g.let(gpuir.NDiv(gpuir.NAdd(g.inner, gpuir.NInt(g.o.Parts-1)), parts))
	least := func(x *gpuir.Node) *gpuir.Node { return g.let(gpuir.N(loopir.OpMin, ir.I32, g.inner, x)) }
	g.from = least(gpuir.NMul(g.part, chunk))
	g.to = least(gpuir.NAdd(g.from, chunk))
	return g.let(gpuir.NDiv(gpuir.NGroup(), parts))
}

// partial is where the parts of an accumulator are in scratch memory.
type partial struct {
	number      int // of the accumulator
	acc         loopir.Acc
	word, iWord int // of the value and of the index, among the words of a row
}

// partials lists the accumulators of the kernel.
func (g *gen) partials() []partial {
	var list []partial
	next := 0
	take := func(e int) int {
		if e < 0 {
			return -1
		}
		next += words(g.k.Exprs[e].Type)
		return next - words(g.k.Exprs[e].Type)
	}
	for s := range g.k.Stages {
		for _, a := range g.k.Stages[s].Accs {
			list = append(list, partial{number: len(list), acc: a, word: take(a.Val), iWord: take(a.Idx)})
		}
	}
	return list
}

// place is the scratch word of part `part` of this row.
func (g *gen) place(word int, part, rows *gpuir.Node) *gpuir.Node {
	at := gpuir.NAdd(gpuir.NInt(word*max(g.o.Parts, 1)), part)
	return g.let(gpuir.NAdd(gpuir.NMul(at, rows), g.outer))
}

// joinPartials joins the partial accumulators that pass ps uses.
func (g *gen) joinPartials(ps pass, rows *gpuir.Node) {
	if ps.accs == 0 {
		return
	}
	used := make([]bool, ps.accs)
	for s := ps.from; s < ps.to; s++ {
		for i, u := range g.k.Uses(&g.k.Stages[s]) {
			if e := g.k.Exprs[i]; u && (e.Op == loopir.OpAcc || e.Op == loopir.OpAccIdx) && e.Imm < uint64(ps.accs) {
				used[e.Imm] = true
			}
		}
	}
	var list []partial
	var stage loopir.Stage
	for _, p := range g.partials()[:ps.accs] {
		if used[p.number] {
			list, stage.Accs = append(list, p), append(stage.Accs, p.acc)
		}
	}
	accs := g.accums(&stage, false)
	g.loop(g.lane, gpuir.NInt(g.o.Parts), gpuir.NInt(g.o.Lanes), func(part *gpuir.Node) {
		for i := range accs {
			v := g.fetch(list[i].word, accs[i].val.Type, part, rows)
			var idx *gpuir.Node
			if accs[i].i >= 0 {
				idx = g.fetch(list[i].iWord, accs[i].idx.Type, part, rows)
			}
			g.merge(&accs[i], v, idx)
		}
	})
	g.join(accs)
	for i, p := range list {
		g.acc[p.number], g.accIdx[p.number] = accs[i].val, accs[i].idx
	}
}

// fetch reads a value of dtype t from scratch memory.
func (g *gen) fetch(word int, t ir.DType, part, rows *gpuir.Node) *gpuir.Node {
	scratch := len(g.p.Bufs) - 1
	load := func(w int) *gpuir.Node {
		return g.let(gpuir.NLoad(scratch, ir.U32, 1, g.place(w, part, rows)))
	}
	switch x := load(word); t {
	case ir.Bool:
		return g.let(gpuir.N(loopir.OpCast, ir.Bool, x))
	case ir.I64:
		high := gpuir.N(loopir.OpShl, ir.I64, gpuir.N(loopir.OpCast, ir.I64, load(word+1)), gpuir.NConst(ir.I64, 32))
		return g.let(gpuir.N(loopir.OpOr, ir.I64, gpuir.N(loopir.OpCast, ir.I64, x), high))
	case ir.U32:
		return x
	default:
		return g.let(gpuir.N(loopir.OpBitcast, t, x))
	}
}

// storePartials stores the accumulators of the pass's last stage for the next passes.
func (g *gen) storePartials(ps pass, rows *gpuir.Node) {
	accs := len(g.k.Stages[ps.to-1].Accs)
	if g.part == nil || accs == 0 || ps.to == len(g.k.Stages) {
		return
	}
	guard := g.active
	if g.o.Lanes > 1 {
		guard = g.let(gpuir.NAnd(guard, gpuir.N(loopir.OpEq, ir.Bool, g.lane, gpuir.NInt(0))))
	}
	body := g.nested(func() {
		for _, p := range g.partials()[ps.accs : ps.accs+accs] {
			g.storePart(p.word, g.acc[p.number], rows)
			if p.iWord >= 0 {
				g.storePart(p.iWord, g.accIdx[p.number], rows)
			}
		}
	})
	g.emit(gpuir.Stmt{Op: gpuir.SIf, A: guard, Body: body})
}

// storePart writes x to scratch memory as this part's value.
func (g *gen) storePart(word int, x, rows *gpuir.Node) {
	put := func(w int, v *gpuir.Node) {
		g.emit(gpuir.Stmt{Op: gpuir.SStore, Ref: len(g.p.Bufs) - 1, A: g.place(w, g.part, rows), B: g.let(v)})
	}
	switch x.Type {
	case ir.U32:
		put(word, x)
	case ir.Bool:
		put(word, gpuir.N(loopir.OpCast, ir.U32, x))
	case ir.I64:
		put(word, gpuir.N(loopir.OpCast, ir.U32, x))
		put(word+1, gpuir.N(loopir.OpCast, ir.U32, gpuir.N(loopir.OpShr, ir.I64, x, gpuir.NConst(ir.I64, 32))))
	default:
		put(word, gpuir.N(loopir.OpBitcast, ir.U32, x))
	}
}
