package gpu

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// variantKey identifies a variant of a launch's code without printing it.
type variantKey struct {
	key     string
	options any // of its code
	pass    int
	// Of a merged program: the number of members, 0 for none, and a bit for each buffer of the kernel that the members
	// share.
	members int
	shared  uint64
}

// program is a built list of steps.
type program struct {
	dev   *Device
	steps []step
	slots int
	// records has an entry for each step, after the copy to the uniform buffer where there is one. words is the
	// parameter memory that the records point into. Its first uniformWords are the content of the uniform buffer;
	// stale: the buffer has another content.
	records      []Record
	words        []uint32
	uniform      *Buffer
	uniformWords int
	stale        bool
	last         []*Buffer
	epoch        uint64 // epoch of the group cache when groups were last looked up
	checks       bool
	brief        bool // see brief
	timed, waves int  // dispatches, and waves of them, which barriers separate
	multiPass    int  // number of steps that pass results from pass to pass
	// Scratch of a run.
	bufs    []*Buffer
	changed []bool
}

// step is a device step made ready, or several steps of one variant merged into a dispatch. Bufs and Params of a merged
// step are those of [gpuir.Merge], without the numbers of workgroups.
type step struct {
	device.Step
	code      code           // nil where the step is no dispatch
	move      move           // makes the record where the step is no dispatch
	buffers   []loopir.Buf   // declared by Op
	params    []loopir.Param // declared by Op
	checks    bool           // it may write the error word
	index     int            // in the list given to Build
	indices   []int          // of the members in that list
	variants  [2]variantKey  // of the code: 0 where run-time offsets are multiples of four, 1 where they are not
	groups    uint64         // workgroups of variant 0 before merging
	members   []device.Step  // the merged steps, nil for one step
	shared    []bool         // by buffer of the kernel: the members have one slot there
	ends      [2][]uint64    // by variant: workgroups of the members up to each
	record    int
	pipelines [2]*pipeline // by variant; built at its first use
	variant   int
	grid      [2][3]uint32
	word      int // first word of its parameter block in program.words
	group     *group
	patches   [2][]patch     // words that vary from run to run
	offsets   []device.Param // run-time offsets that decide the variant
	window    window
	// pass is the pass that this dispatch runs, of passes. The passes of a launch leave results in scratch memory
	// number passScratch.
	pass, passes, passScratch int
	reach                     []span // by buffer
}

// patch is a parameter word computed for each run.
type patch struct {
	word   int // in the step's block
	param  device.Param
	high   bool
	signed bool
}

// building is a program whose pipelines are not all made. It implements device.Compilation.
type building struct {
	p       *program
	kernels []*kernel // of the steps; nil where the step is no dispatch
	wanted  []*kernel // those that were not made
}

// Build implements device.Device.
func (d *Device) Build(steps []device.Step, slots int) (device.Program, error) {
	d.brief.on = d.feat.Threads && d.caps.CostlyKernels
	b, err := d.begin(steps, slots)
	d.brief.on = false
	if err != nil {
		return nil, err
	}
	d.compileAll(b.wanted)
	return b.Program()
}

// Compile implements device.Compiler.
func (d *Device) Compile(steps []device.Step, slots int) (device.Compilation, error) {
	b, err := d.begin(steps, slots)
	if err != nil {
		return nil, err
	}
	if d.feat.Threads {
		d.compileBeside(b.wanted)
	} else {
		d.compileAll(b.wanted)
	}
	return b, nil
}

// begin decides everything about a program but its pipelines.
func (d *Device) begin(steps []device.Step, slots int) (*building, error) {
	if d.lost != nil {
		return nil, d.lost
	}
	p := &program{dev: d, slots: slots, last: make([]*Buffer, slots), changed: make([]bool, slots), epoch: math.MaxUint64}
	d.brief.chosen = false
	list := make([]step, 0, len(steps))
	for i := range steps {
		parts, err := d.prepare(p, i, steps[i])
		if err != nil {
			return nil, err
		}
		list = append(list, parts...)
	}
	p.steps, p.waves = d.schedule(list, slots)
	p.brief = d.brief.chosen
	b := &building{p: p, kernels: make([]*kernel, len(p.steps))}
	for i := range p.steps {
		if s := &p.steps[i]; s.launches() {
			k, err := d.request(s, 0)
			if err != nil {
				return nil, err
			}
			if b.kernels[i] = k; !k.ended() && !slices.Contains(b.wanted, k) {
				b.wanted = append(b.wanted, k)
			}
		}
	}
	return b, nil
}

// Brief implements device.BriefProgram.
func (p *program) Brief() bool { return p.brief }

// Done implements device.Compilation.
func (b *building) Done() bool {
	return !slices.ContainsFunc(b.wanted, func(k *kernel) bool { return !k.ended() })
}

// Program implements device.Compilation.
func (b *building) Program() (device.Program, error) {
	p := b.p
	if p.dev.lost != nil {
		return nil, p.dev.lost
	}
	for i, k := range b.kernels {
		if k != nil {
			if err := p.dev.setPipeline(&p.steps[i], 0, k); err != nil {
				return nil, err
			}
		}
	}
	if err := p.layout(); err != nil {
		return nil, err
	}
	return p, nil
}

// Release implements device.Program. Pipelines stay in the device's cache.
func (p *program) Release() {
	if p.uniform != nil && p.dev.ctx != nil {
		delete(p.dev.uniforms, p.uniform)
		p.dev.Free(p.uniform)
	}
	*p = program{}
}

// launches reports that the step is a dispatch.
func (s *step) launches() bool { return s.code != nil }

// prepare makes the steps of one step given to Build: one for each window of its tensors and each pass. The passes of a
// launch keep their order and are not merged with other steps, since they share scratch memory.
func (d *Device) prepare(p *program, index int, st device.Step) ([]step, error) {
	for _, b := range st.Bufs {
		if b < 0 || b >= p.slots {
			panic(fmt.Sprintf("BUG: gpu: buffer slot %d of %d", b, p.slots))
		}
	}
	code, move, err := d.generate(st.Op)
	if err != nil {
		return nil, err
	}
	buffers, params := st.Op.Buffers(), st.Op.Parameters()
	if len(st.Bufs) != len(buffers) || len(st.Params) != len(params) {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: gpu: %s: %d parameters and %d buffers, want %d and %d", st.Op.Label(),
			len(st.Params), len(st.Bufs), len(params), len(buffers))
	}
	st.Bufs = slices.Clone(st.Bufs)
	if code == nil {
		return []step{{Step: st, move: move, index: index, buffers: buffers, passes: 1}}, nil
	}
	var list []step
	for _, s := range code.windows(st) {
		s.Params = slices.Clone(s.Params)
		s.code, s.index, s.buffers, s.params = code, index, buffers, params
		programs, err := d.prepareVariants(&s)
		if err != nil {
			return nil, err
		}
		p.checks = p.checks || s.checks
		if s.passes = len(programs); s.passes > 1 && !code.large() {
			s.passScratch = 1 + p.multiPass%(scratchMemories-1)
			p.multiPass++
		}
		for pass, proc := range programs {
			s.pass = pass
			s.variants[0].pass, s.variants[1].pass = pass, pass
			s.groups = workgroups(proc, s.Constants())
			list = append(list, s)
		}
	}
	return list, nil
}

// prepareVariants decides the variants of s and returns the programs of the first.
func (d *Device) prepareVariants(s *step) ([]*gpuir.Program, error) {
	params, unaligned := s.Constants(), s.Constants()
	for i, q := range s.Params {
		if q.Varies() && s.params[i].Kind == loopir.Offset {
			s.offsets = append(s.offsets, q)
			unaligned[i] |= 1
		}
	}
	if s.reach = s.code.reach(&s.Step); s.reach == nil {
		s.reach = slices.Repeat([]span{{hi: -1}}, len(s.Bufs))
	}
	if err := s.code.check(params, s.reach); err != nil {
		return nil, err
	}
	key := s.Op.Key()
	s.variants = [2]variantKey{{key: key, options: s.code.options(params)}, {key: key, options: s.code.options(unaligned)}}
	programs, err := d.programs(s, s.variants[0])
	if err == nil {
		s.checks = programs[0].Checks
		err = d.checkIterations(s, programs, params)
	}
	return programs, err
}

// workgroups is the number of workgroups of a launch of proc.
func workgroups(proc *gpuir.Program, params []uint64) uint64 {
	g := proc.Grid(params)
	return uint64(g[0]) * uint64(g[1]) * uint64(g[2])
}

// writes reports that a step writes its buffer b.
func (s *step) writes(b int) bool { return s.buffers[b].Access != loopir.Read }

// packed gives the values that Pack takes for variant f.
func (s *step) packed(f int) []uint64 { return append(s.Constants(), s.ends[f]...) }

func (s *step) name() string { return s.Op.Label() }

// buildVariant compiles variant f of s: 0 requires that run-time offsets are multiples of four, 1 does not.
func (d *Device) buildVariant(s *step, f int) error {
	k, err := d.request(s, f)
	if err != nil {
		return err
	}
	d.compileAll([]*kernel{k})
	return d.setPipeline(s, f, k)
}

// setPipeline takes the pipeline of variant f of s from a kernel that is done.
func (d *Device) setPipeline(s *step, f int, k *kernel) error {
	pipe, err := d.made(k)
	if err != nil {
		return err
	}
	s.pipelines[f] = pipe
	params := s.packed(f)
	s.grid[f] = pipe.proc.Grid(params)
	if g := s.grid[f]; int64(g[1]) > d.limits.MaxGrid || int64(g[0]) > d.limits.MaxGrid {
		return ir.Errorf(ir.ErrRuntime, "%s: too many workgroups for %s: got %d x %d, want at most %d a side",
			s.name(), d.caps.Name, g[0], g[1], d.limits.MaxGrid)
	}
	if err := pipe.module.Pack(make([]byte, 4*pipe.words), params, d.faults.event(&s.Step)); err != nil {
		return ir.Errorf(ir.ErrRuntime, "%s: a tensor is too large for %s: %v", s.name(), d.caps.Name, err)
	}
	for i, w := range pipe.module.Words {
		if w.Param < 0 || w.Param >= len(s.Params) {
			continue
		}
		q := s.Params[w.Param]
		if q.Varies() {
			s.patches[f] = append(s.patches[f], patch{word: i, param: q, high: w.High, signed: w.Signed})
		}
	}
	return nil
}

// scratchMemories is the number of scratch memories. The first is for products, whose parts are large; reductions use
// the others in turn, so that neighbouring ones can run side by side.
const scratchMemories = 4

// needScratch makes scratch memory number i, or makes it larger. Submissions under way keep the old one.
func (d *Device) needScratch(i int, bytes int64) error {
	old := d.passScratch[i]
	if old != nil && old.bytes >= bytes {
		return nil
	}
	bytes = 1 << bits.Len64(uint64(bytes-1))
	h, err := d.ctx.CreateBuffer(bytes, StorageUsage, false)
	if err != nil {
		return d.wrap(err, "scratch memory")
	}
	if old != nil {
		d.groups.forget(d.ctx, old)
		d.ctx.DestroyBuffer(old.handle)
	}
	d.passScratch[i] = &Buffer{handle: h, bytes: bytes}
	return nil
}

// programs generates the programs of a variant of s, one for each pass.
func (d *Device) programs(s *step, key variantKey) ([]*gpuir.Program, error) {
	key.pass = 0
	if list := d.procs[key]; list != nil {
		return list, nil
	}
	list, err := s.code.programs(key.options)
	if err != nil {
		return nil, ir.Errorf(ir.ErrKernelExecution, "%s: no program for %s: %v", s.name(), d.caps.Name, err)
	}
	d.procs[key] = list
	return list, nil
}

// layout places parameter blocks and makes the records. Blocks of kernels without immediates are in the program's own
// uniform buffer.
func (p *program) layout() error {
	align := int(p.dev.limits.UniformAlign) / 4
	for i := range p.steps {
		if s := &p.steps[i]; s.launches() && !s.pipelines[0].module.Immediates {
			s.word = len(p.words)
			p.words = append(p.words, make([]uint32, (s.pipelines[0].words+align-1)/align*align)...)
		}
	}
	if p.uniformWords = len(p.words); p.uniformWords > 0 {
		if err := p.allocUniform(); err != nil {
			return err
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		s.record = len(p.records)
		p.records = append(p.records, Record{})
		if !s.launches() {
			continue
		}
		p.timed++
		if s.pipelines[0].module.Immediates {
			s.word = len(p.words)
			p.words = append(p.words, make([]uint32, s.pipelines[0].words)...)
		}
		p.setVariant(s, 0)
	}
	return nil
}

// allocUniform makes the uniform buffer and the record that fills it.
func (p *program) allocUniform() error {
	d := p.dev
	n := int64(4 * p.uniformWords)
	h, err := d.ctx.CreateBuffer(n, UniformUsage|CopyDst, false)
	if err != nil {
		return d.wrap(err, "parameter buffer")
	}
	p.uniform = &Buffer{handle: h, bytes: n}
	d.uniforms[p.uniform] = true
	d.stats.buffers++
	d.stats.bytes += n
	p.records = append(p.records, Record{Kind: CopyBuffer, B: h, Z: uint64(n)})
	return nil
}

// setVariant writes the record and the constant words of s for variant f.
func (p *program) setVariant(s *step, f int) {
	pipe := s.pipelines[f]
	s.variant, s.group = f, nil
	// Words that vary are patched before every run; the others are packed here once.
	words := wordBytes(p.words[s.word : s.word+pipe.words])
	if err := pipe.module.Pack(words, s.packed(f), p.dev.faults.event(&s.Step)); err != nil {
		panic("BUG: gpu: " + err.Error())
	}
	r := Record{Kind: Dispatch, A: pipe.Handle, X: uint64(s.grid[f][0]), Y: uint64(s.grid[f][1]), Z: uint64(s.grid[f][2])}
	if pipe.module.Immediates {
		r.Word, r.Words = uint32(s.word), uint32(pipe.words)
	} else {
		r.Dynamic, r.HasDynamic = uint32(4*s.word), 1
		p.stale = true
	}
	p.records[s.record] = r
}
