package engine

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/engine/simplify"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// constant is a constant of a session: a tensor of its program, or what constant folding computes of others. A folded
// one is computed when a plan packs or binds it, and freed once plans read only packs of it. A tensor stays, but its
// memory may be pages of a file, which then leave memory.
type constant struct {
	key     string // names its elements among the constants of the session
	store   uint32 // its memory; 0: a folded constant that is not in memory
	folded  *folding
	readers int   // plans that read it where it lies
	bytes   int64 // of its memory, if there are readers
}

// folding computes constants of others.
type folding struct {
	g        *program.Program
	from, to []*constant // the inputs and the results of g
}

// given are the constants of values that the program reads. Those of its tensors are the same for plans of all shapes.
func (s *InferenceSession) given(values []uint32) (list []*constant) {
	tensors := map[uint32]uint64{} // by value: its handle
	if p, ok := s.program.(*savedSession); ok {
		for _, h := range p.constants {
			if v, err := s.e.session.Resolve(h); err == nil {
				tensors[v.Value] = h
			}
		}
	}
	for _, id := range values {
		h := tensors[id]
		c := s.tensors[h]
		if c == nil {
			s.unnamed++
			c = &constant{key: fmt.Sprint("value ", s.unnamed)}
		}
		if c.store = s.e.graph.Node(id).Store; h != 0 {
			if s.tensors == nil {
				s.tensors = map[uint64]*constant{}
			}
			s.tensors[h] = c
		}
		list = append(list, c)
	}
	return list
}

// split takes out of g what only constants decide. Parts that share no operator are computed one by one, when they are
// needed.
func (s *InferenceSession) split(g *program.Program, constants []*constant) (*program.Program, []*constant) {
	fixed, rest, kept := simplify.Split(g, s.arguments())
	if fixed == nil {
		return g, constants
	}
	made := make([]*constant, len(fixed.Results))
	for _, p := range simplify.Parts(fixed) {
		f := &folding{g: p.Program}
		names := p.Program.String()
		for _, i := range p.Inputs {
			f.from = append(f.from, constants[kept[i]-s.arguments()])
			names += "\n" + f.from[len(f.from)-1].key
		}
		sum := sha256.Sum256([]byte(names))
		for k, result := range p.Results {
			c := &constant{key: fmt.Sprintf("%x %d", sum, k), folded: f}
			if known := s.folded[c.key]; known != nil {
				c = known
			}
			f.to = append(f.to, c)
			made[result] = c
		}
	}
	return rest, append(slices.Clone(constants), made...)
}

// load puts a constant in memory.
func (s *InferenceSession) load(c *constant) *ir.Error {
	if c.store != 0 {
		return s.restore(c.store)
	}
	f := c.folded
	for _, from := range f.from {
		if err := s.load(from); err != nil {
			return err
		}
	}
	stores, err := s.e.runOnce(f.g, f.from, s.stop)
	if err != nil {
		return err
	}
	for k, to := range f.to {
		if to.store == 0 {
			to.store = stores[k]
			s.loaded = append(s.loaded, to)
		} else {
			s.e.runtime.Discard(stores[k])
		}
	}
	for _, from := range f.from {
		if from.folded == nil {
			s.unload(from)
		}
	}
	return nil
}

// unloadUnread takes out of memory what no plan reads where it lies: of the constants that a program reads, and of
// those that folding made.
func (s *InferenceSession) unloadUnread(given []*constant) {
	for _, c := range slices.Concat(given, s.loaded) {
		s.unload(c)
	}
	if s.loaded != nil {
		s.e.runtime.ReturnUnused()
	}
	s.loaded = nil
}

// unload takes a constant that no plan reads where it lies out of memory.
func (s *InferenceSession) unload(c *constant) {
	switch {
	case c.readers > 0 || c.store == 0:
	case c.folded == nil:
		s.unloadPages(c.store)
	default:
		s.e.runtime.Discard(c.store)
		if c.store = 0; s.folded[c.key] == c {
			delete(s.folded, c.key)
		}
	}
}

// unloadPages takes a tensor of the program out of memory, if it is as it is in a file.
func (s *InferenceSession) unloadPages(store uint32) {
	s.e.runtime.Unload(store, s.options.Sole && s.e.runtime.Storage(store).Refs == 1)
}

// restore puts a tensor of the program in memory.
func (s *InferenceSession) restore(store uint32) *ir.Error {
	if err := s.e.runtime.Restore(store); err != nil {
		return asError(err)
	}
	return nil
}

// weights counts the memory of weights that the session's plans read: packs, and constants where they lie.
func (s *InferenceSession) weights() (packs, inPlace int64) {
	seen := map[*constant]bool{}
	for _, f := range s.shapes {
		for _, c := range f.reads {
			if !seen[c] {
				seen[c] = true
				inPlace += c.bytes
			}
		}
	}
	if s.own {
		packs = s.x.Packed(ir.CPU)
	}
	return packs, inPlace
}

// hold notes what a new plan reads where it lies.
func (s *InferenceSession) hold(f *frozenShape) {
	for _, c := range f.reads {
		c.bytes = s.e.runtime.Storage(c.store).Bytes
		if c.readers++; c.folded != nil {
			if s.folded == nil {
				s.folded = map[string]*constant{}
			}
			s.folded[c.key] = c
		}
	}
}

// planConstants are the constants of a plan that is frozen. It implements runtime.Constants.
type planConstants struct {
	s    *InferenceSession
	list []*constant
}

// Key implements runtime.Constants.
func (p planConstants) Key(i int) string { return p.list[i].key }

// Load implements runtime.Constants.
func (p planConstants) Load(i int) (device.Buffer, error) {
	c := p.list[i]
	if err := p.s.load(c); err != nil {
		return nil, err
	}
	return p.s.e.runtime.Storage(c.store).Buf, nil
}

// Unload implements runtime.Constants.
func (p planConstants) Unload(i int) { p.s.unload(p.list[i]) }
