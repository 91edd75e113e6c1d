package compile

import (
	"math"
	"slices"
	"time"

	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// SlotKind says where a slot's buffer comes from.
type SlotKind uint8

// The kinds of slot.
const (
	External SlotKind = iota // the storage of input Index of the program
	Output                   // a new storage; Index counts outputs
	Temp                     // from the pool, for the run; Index counts temps
)

// Slot is one buffer of a plan.
type Slot struct {
	Kind  SlotKind
	Index int
	Bytes int64
	Dev   ir.DeviceID
	// Offset is the place of a temporary in the plan's arena, if it has one.
	Offset int64
	// Last has the buffers of the last two runs, the older first. A run that gets one of them can reuse the device's
	// bindings for it. Two, since two windows may be in flight.
	Last [2]device.Buffer
}

// Result is a value that outlives the plan.
type Result struct {
	Local int // number of the node
	Slot  int
}

// Segment is a run of steps on one device, or a transfer between two devices.
type Segment struct {
	Dev     ir.DeviceID
	Steps   []device.Step
	Program device.Program // set by engine/runtime
	// Compiling is the program that a device compiles in the background; set by engine/runtime.
	Compiling device.Compilation
	Times     []time.Duration // of each step when it was last profiled; nil before
	// A transfer copies slot From on device FromDev to slot To on Dev.
	Transfer bool
	FromDev  ir.DeviceID
	From, To int
	DType    ir.DType
	Numel    int64
	FromOff  int    // index into the run-time offsets
	Event    uint32 // like that of a step
	// Repeat is set in two segments without steps: before and after those that run several times.
	Repeat *Repeat
	// Acquires and Releases are the slots that a section is the first and the last to use; see Plan.Most.
	Acquires, Releases []int
}

// runs reports a segment of steps.
func (s *Segment) runs() bool { return !s.Transfer && s.Repeat == nil }

// Repeat is how the segments between Begin and End, in a plan, run while a bool in a slot is true, or Most times.
type Repeat struct {
	Begin, End int
	Flag       int          // slot, -1: none
	Number     int          // counts the repeats of a plan
	Most       int64        // runs at most
	Exact      bool         // see lower.Repeat
	Ahead      int64        // see lower.Repeat
	Moves      []lower.Move // of numbers in Plan.Moving
}

// StepPlace names a step of a plan: the segment, and the step in it.
type StepPlace struct{ Segment, Step int }

// Plan is how to run a program.
type Plan struct {
	// Program is the plan's program, with the numbers of the run for which the plan was made.
	Program  *program.Program
	Segments []Segment
	Slots    []Slot
	Outputs  int
	Temps    int
	Repeats  int
	// Moving are the values that further run-time scalars have before the first run of a repeat: they follow those of
	// Program.
	Moving []device.Param
	// Most is the peak of the buffers' bytes if the plan's segments are sections, each of which acquires its buffers.
	// Without sections it is 0, and all buffers are acquired before the plan runs.
	Most int64
	// Arena is where the temporaries lie in one buffer; see Builder.Arena.
	Arena   Arena
	Results []Result
	// InPlace counts stores that overwrite the previous version. Through counts those of them whose producer writes
	// through a view.
	InPlace, Through int
	Kernels          int
	// Often: it was built as the plan of a program that runs often.
	Often bool
	// Fusible counts the fusion groups that the plan lacks, because the device takes long to compile a kernel.
	Fusible int
	// Brief: a device has chosen kernels that compile soon but run longer.
	Brief bool
	// Next is the plan with these groups, and with kernels that run fast. It replaces this plan when they are compiled.
	Next     *Plan
	fused    map[int][]int // by the last member of a fusion group: its members
	epilogue map[int][]int // by product or convolution: the nodes that it applies to its result
	// prologue is, by product, the node that works the rows of its first operand, and by attention, the nodes that store
	// rows of its operands.
	prologue map[int][]int
	// Overwrites is the first step that writes a buffer that the plan did not make. Before it, a run can be given up
	// and restarted.
	Overwrites   StepPlace
	BytesWritten int64
	Runs         int64
	Number       int64         // counts plans in the order in which they were made
	Cause        string        // the miss reason: why no earlier plan served
	RunTime      time.Duration // of all runs, on the host: on an asynchronous device it is encoding and submitting
	// Slow: the last run took longer than a time slice. The next run is a job from its beginning, since a step that
	// restarts after a pause, such as a product, loses its work.
	Slow bool
	// Tick orders plans by last use.
	Tick uint64
}

// overwritesFrom notes the first of the places that it is called with.
func (p *Plan) overwritesFrom(at StepPlace) {
	if p.Overwrites.Segment == math.MaxInt {
		p.Overwrites = at
	}
}

// noteGroup keeps the members of a fusion group.
func (p *Plan) noteGroup(members []int) {
	if p.fused == nil {
		p.fused = map[int][]int{}
	}
	p.fused[members[len(members)-1]] = members
}

// Members lists the nodes that the steps with this event compute, where they are a fusion group.
func (p *Plan) Members(event uint32) []int { return p.fused[int(event)-1] }

// noteEpilogue keeps the nodes that node i applies to its result.
func (p *Plan) noteEpilogue(i int, nodes []int) {
	if p.epilogue == nil {
		p.epilogue = map[int][]int{}
	}
	p.epilogue[i] = nodes
}

// Epilogue lists the nodes that the steps with this event apply to their result.
func (p *Plan) Epilogue(event uint32) []int { return p.epilogue[int(event)-1] }

// notePrologue keeps the nodes whose work node i does before its own.
func (p *Plan) notePrologue(i int, nodes ...int) {
	if p.prologue == nil {
		p.prologue = map[int][]int{}
	}
	p.prologue[i] = nodes
}

// Prologue lists the nodes whose work the steps with this event do before their own: a norm of the first operand of a
// product, or scatters that store rows of the operands of attention.
func (p *Plan) Prologue(event uint32) []int { return p.prologue[int(event)-1] }

// Cache finds plans by program. It evicts the least recently used plan.
type Cache struct {
	byHash map[uint64][]*Plan
	max    int
	n      int
	tick   uint64
	added  int64
	// OnEvict releases what a plan holds on devices.
	OnEvict func(*Plan)
	// Lowered outlives plans, since the next plan has like nodes.
	Lowered lower.Memo
}

// NewCache makes a cache of at most size plans.
func NewCache(size int, evict func(*Plan)) *Cache {
	return &Cache{byHash: map[uint64][]*Plan{}, max: size, OnEvict: evict}
}

// Find returns the plan of the sealed program, or nil.
func (c *Cache) Find(g *program.Program) *Plan {
	for _, p := range c.byHash[g.Hash] {
		if p.Program.Same(g) {
			c.tick++
			p.Tick = c.tick
			return p
		}
	}
	return nil
}

// Add adds a plan, and evicts the least recently used one beyond the limit.
func (c *Cache) Add(p *Plan) {
	if c.n >= c.max {
		c.evict()
	}
	c.tick++
	c.added++
	p.Tick, p.Number = c.tick, c.added
	c.byHash[p.Program.Hash] = append(c.byHash[p.Program.Hash], p)
	c.n++
}

// Replace puts a plan of the same program in the place of old: it takes over its number, its history and its miss
// reason. What old holds on devices is released.
func (c *Cache) Replace(old, p *Plan) {
	list := c.byHash[old.Program.Hash]
	list[slices.Index(list, old)] = p
	p.Tick, p.Number, p.Cause, p.Runs, p.RunTime = old.Tick, old.Number, old.Cause, old.Runs, old.RunTime
	old.Next = nil
	if c.OnEvict != nil {
		c.OnEvict(old)
	}
}

// Compiling counts the plans whose successor a device still makes kernels for. A successor that has them takes over at
// the next run of its window, if there is one; it is not counted.
func (c *Cache) Compiling() (n int64) {
	for _, list := range c.byHash {
		for _, p := range list {
			if p.Next != nil && p.Next.compiling() {
				n++
			}
		}
	}
	return n
}

func (p *Plan) compiling() bool {
	return slices.ContainsFunc(p.Segments, func(s Segment) bool { return s.Compiling != nil && !s.Compiling.Done() })
}

func (c *Cache) evict() {
	var old *Plan
	for _, list := range c.byHash {
		for _, p := range list {
			if old == nil || p.Tick < old.Tick {
				old = p
			}
		}
	}
	list := c.byHash[old.Program.Hash]
	for i, p := range list {
		if p == old {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(c.byHash, old.Program.Hash)
	} else {
		c.byHash[old.Program.Hash] = list
	}
	c.n--
	if c.OnEvict != nil {
		c.OnEvict(old)
	}
}

// Clear evicts every plan.
func (c *Cache) Clear() {
	c.Lowered = lower.Memo{}
	for c.n > 0 {
		c.evict()
	}
}
