package compile

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// pass is one step of planning. It fills its own side table and reads those of earlier passes. No pass changes the
// program.
type pass struct {
	name string
	run  func(*Builder) error
	// requires lists the passes that must run before; reason says why.
	requires []string
	reason   string
	// note says what the pass's table holds for a node; "" for nothing.
	note func(b *Builder, i int) string
	// optional: without it a plan is larger or slower, and its results are the same.
	optional bool
}

// passes are all passes in the order in which they run.
var passes = []pass{
	{
		name: "uses", run: (*Builder).countUses, note: (*Builder).noteUses,
		reason: "every other pass asks who reads a value, and when for the last time",
	}, {
		name: "inplace", run: (*Builder).storeInPlace, note: (*Builder).noteInPlace, optional: true,
		requires: []string{"uses"},
		reason:   "a store may write over the version before when nothing reads that later",
	}, {
		name: "donate", run: (*Builder).donate, note: (*Builder).noteDonated, optional: true,
		requires: []string{"uses", "inplace"},
		reason:   "a value that a store has placed is donated to nobody",
	}, {
		name: "write_through", run: (*Builder).writeThrough, note: (*Builder).noteThrough, optional: true,
		requires: []string{"uses", "inplace", "donate"},
		reason:   "only a store that is in place has a view to write through, and a donated buffer is taken",
	}, {
		name: "fuse_epilogue", run: (*Builder).fuseEpilogues, note: (*Builder).noteEpilogue, optional: true,
		requires: []string{"uses", "inplace", "donate", "write_through"},
		reason:   "a value that has a place already is written there by its own node",
	}, {
		name: "fuse_bias_grad", run: (*Builder).fuseBiasGrads, note: (*Builder).noteColumnSum, optional: true,
		requires: []string{"inplace", "fuse_epilogue"},
		reason:   "a sum that is added to a gradient in place is made there, not beside a product",
	}, {
		name: "fuse_norm", run: (*Builder).fuseNorms, note: (*Builder).noteNorm, optional: true,
		requires: []string{"uses", "inplace", "donate", "write_through", "fuse_epilogue", "fuse_bias_grad"},
		reason: "a product reads what its norm reads later than recorded, so which buffers are written must be decided, " +
			"and so must what else the product binds",
	}, {
		name: "fuse_append", run: (*Builder).fuseAppends, note: (*Builder).noteAppend, optional: true,
		requires: []string{"uses", "inplace", "donate", "write_through"},
		reason:   "attention stores rows in place, later than recorded, so which buffers are written must be decided",
	}, {
		name: "fuse", run: (*Builder).fuse, note: (*Builder).noteFused, optional: true,
		requires: []string{"uses", "inplace", "donate", "write_through", "fuse_epilogue", "fuse_bias_grad", "fuse_norm",
			"fuse_append"},
		reason: "a group moves reads to its last member, so which buffers are written, and by whom, must be decided",
	}, {
		name: "lower", run: (*Builder).lowerNodes, note: (*Builder).noteSteps,
		requires: []string{"uses", "write_through", "fuse_epilogue", "fuse_bias_grad", "fuse_norm", "fuse_append", "fuse"},
		reason:   "which node makes which values, and where, must be decided",
	}, {
		name: "tiles", run: (*Builder).findTiles, note: (*Builder).noteTiles, optional: true,
		requires: []string{"lower"},
		reason:   "devices say of steps which ones they work tile by tile",
	}, {
		name: "sections", run: (*Builder).findSections, note: (*Builder).noteSections, optional: true,
		requires: []string{"lower", "tiles"},
		reason:   "a section ends where no tile group is under way",
	}, {
		name: "memory", run: (*Builder).assignMemory, note: (*Builder).noteMemory,
		requires: []string{"lower", "tiles", "sections"},
		reason:   "temporaries that live within a tile need no buffer, and those of other sections have other buffers",
	},
}

func init() {
	if err := checkOrder(passes); err != nil {
		panic("BUG: " + err.Error())
	}
}

// checkOrder reports a pass that runs before one that it requires, or that runs twice.
func checkOrder(list []pass) error {
	ran := map[string]bool{}
	for _, p := range list {
		if ran[p.name] {
			return fmt.Errorf("pass %s runs twice", p.name)
		}
		for _, r := range p.requires {
			if !ran[r] {
				return fmt.Errorf("pass %s runs before %s, which it requires: %s", p.name, r, p.reason)
			}
		}
		ran[p.name] = true
	}
	return nil
}

// PassNames lists the passes in order; with optional, only the optional ones.
func PassNames(optional bool) []string {
	var names []string
	for _, p := range passes {
		if p.optional || !optional {
			names = append(names, p.name)
		}
	}
	return names
}

// SessionPasses are what a session does before its first run. TORCHLETTE_DISABLE leaves them out by name, as it does
// optional passes.
var SessionPasses = []string{"fold_numbers", "find_attention", "find_norms", "move_cats", "fold_pads", "keep_integers",
	"keep_quantized", "fold_scales", "fold_shifts", "channels_last", "fold_constants", "pack_weights",
	"map_constants"}

// Debug says what planning prints and leaves out.
type Debug struct {
	// Dump names the pass before and after which the program is printed to Out; "all" stands for every pass.
	Dump string
	Out  io.Writer
	// Off names optional passes that do not run.
	Off []string
}

// Check reports names that are no passes, and passes that cannot be left out.
func (d *Debug) Check() error {
	if names := PassNames(false); d.Dump != "" && d.Dump != "all" && !slices.Contains(names, d.Dump) {
		return fmt.Errorf("no pass %q to dump: there are all, %s", d.Dump, strings.Join(names, ", "))
	}
	for _, name := range d.Off {
		if names := append(PassNames(true), SessionPasses...); !slices.Contains(names, name) {
			return fmt.Errorf("pass %q cannot be left out: these can: %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// Builder makes the plan of Program. Caps describes a device. TileFuser finds a device's tile fuser; it may be nil, and
// returns nil for a device without one. Lowered keeps what nodes became, for later plans.
type Builder struct {
	Program   *program.Program
	Caps      func(ir.DeviceID) *device.Caps
	TileFuser func(ir.DeviceID) device.TileFuser
	Lowered   *lower.Memo
	Debug     Debug
	// Often: the program has run several times, so that compiling kernels of its own pays on every device.
	Often bool
	// Fixed: the offsets of all runs are the program's.
	Fixed bool
	// Arena: temporaries are parts of one buffer, at offsets that the plan says, for devices that allow it.
	Arena bool
	// Moving: the inputs lie behind offsets that the program does not have.
	Moving bool
	// Sections: plans on synchronous devices whose buffers have so many bytes are cut into sections; 0: none is.
	Sections int64
	Trap     func(pass string) // for tests: called before each pass

	p     *Plan
	slots links       // by node: the slot of its value, once it has one
	notes []PassNotes // nil: nobody asks what the passes decide

	// The passes' tables.
	uses      useTable
	donations links           // donate: by node, the node that takes its buffer
	through   map[int]through // write_through: by node
	elided    map[int]bool    // write_through: nodes whose work another node does
	epilogues map[int]*epilogue
	folded    links // fuse_epilogue: by node, the node that applies it
	sums      map[int]columnSum
	summed    links          // fuse_bias_grad: by node, the product that computes it
	norms     map[int]int    // fuse_norm: by product, the norm that it computes
	normed    links          // fuse_norm: by norm, the last product that computes it
	appends   map[int][2]int // fuse_append: by attention, the scatters of its keys and of its values
	appended  links          // fuse_append: by scatter, the attention that stores its row
	fused     fuseTable
	lowering  lowering
	tiles     *tileTable
	sections  sectionTable
	memory    memory
}

// Build makes the plan.
func (b *Builder) Build() (p *Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*ir.Error)
			if !ok {
				panic(r)
			}
			err = e
		}
	}()
	b.p = &Plan{Program: b.Program.Clone(), Often: b.Often, Overwrites: StepPlace{Segment: math.MaxInt}}
	b.slots, b.donations = make(links, len(b.Program.Nodes)), make(links, len(b.Program.Nodes))
	b.folded, b.summed = make(links, len(b.Program.Nodes)), make(links, len(b.Program.Nodes))
	b.normed, b.appended = make(links, len(b.Program.Nodes)), make(links, len(b.Program.Nodes))
	b.fused.in = make(links, len(b.Program.Nodes))
	for j := range b.Program.Inputs {
		av := ir.AvalOf(b.Program.Inputs[j].Aval)
		b.slot(Slot{Kind: External, Index: j, Bytes: b.bytes(av), Dev: av.Device})
	}
	for k := range passes {
		if slices.Contains(b.Debug.Off, passes[k].name) {
			if b.notes != nil {
				b.noteAll(&passes[k])
			}
			continue
		}
		if b.Trap != nil {
			b.Trap(passes[k].name)
		}
		if err := b.pass(k); err != nil {
			return nil, err
		}
	}
	return b.p, nil
}

// pass runs pass k, between dumps where Debug asks for them.
func (b *Builder) pass(k int) error {
	p := &passes[k]
	dump := b.Debug.Out != nil && (b.Debug.Dump == "all" || b.Debug.Dump == p.name)
	if dump && (b.Debug.Dump != "all" || k == 0) {
		b.dump("before", k)
	}
	err := p.run(b)
	if dump && err == nil {
		b.dump("after", k+1)
	}
	if b.notes != nil && err == nil {
		b.noteAll(p)
	}
	return err
}

// dump prints the program; beside each node it prints what the tables of the first k passes hold for it.
func (b *Builder) dump(when string, k int) {
	text := b.Program.Format(func(i int) string {
		var notes []string
		for _, p := range passes[:k] {
			if slices.Contains(b.Debug.Off, p.name) {
				continue
			}
			if s := p.note(b, i); s != "" {
				notes = append(notes, s)
			}
		}
		return strings.Join(notes, "; ")
	})
	name := passes[max(k-1, 0)].name
	if when == "before" {
		name = passes[k].name
	}
	fmt.Fprintf(b.Debug.Out, "# %s %s (%d nodes)\n%s\n", when, name, len(b.Program.Nodes), text)
}

// whole reports that operand j of node i is read as a whole buffer, from its beginning.
func (b *Builder) whole(i, j int) bool {
	return b.Program.Whole(i, j) && !(b.Moving && b.Program.OperandsOf(i)[j].Value.IsInput())
}

// links is a table from nodes to numbers that some nodes have: 1 + the number, 0 for none.
type links []int32

func (l links) set(i, to int) { l[i] = int32(to + 1) }

func (l links) has(i int) bool { return l[i] != 0 }

func (l links) at(i int) (to int, ok bool) { return int(l[i]) - 1, l[i] != 0 }
