package gpu

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/tile"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// pipeline is a compiled kernel.
type pipeline struct {
	Pipeline
	module *wgsl.Module
	proc   *kir.Proc
	name   string
	words  int // size of the parameter block, in words
}

// variantKey names a form of a kernel without printing it.
type variantKey struct {
	key       string
	kernel    tile.Options
	gemm      tile.GemmOptions
	attention tile.AttentionOptions
	sort      tile.SortOptions
	pass      int
	// Of a merged program: the number of members, 0 for none, and which buffers they
	// share, a bit a buffer of the kernel.
	members int
	shared  uint64
}

// program is a built list of steps.
type program struct {
	dev   *Device
	steps []step
	slots int
	// records has one entry a step, after the copy to the uniform buffer where there is one;
	// words is the parameter memory that the records point into. Its first uniformWords
	// are the content of the uniform buffer, and stale says that the buffer has another.
	records      []Record
	words        []uint32
	uniform      *Buffer
	uniformWords int
	stale        bool
	last         []*Buffer
	epoch        uint64 // of the group cache when groups were last looked up
	checks       bool
	timed, waves int // dispatches; and waves of them, which barriers part
	// scratch
	bufs    []*Buffer
	changed []bool
}

// step is a device step made ready, or several of one form merged to one dispatch: its
// Bufs and Params are then those of [kir.Merge], without the numbers of workgroups.
type step struct {
	device.Step
	index    int           // in the list given to Build
	indices  []int         // likewise of the members
	variants [2]variantKey // of the forms
	groups   uint64        // workgroups of form 0, before merging
	members  []device.Step // that were merged, nil for one step
	shared   []bool        // by buffer of the kernel: the members have one slot there
	ends     [2][]uint64   // of the forms: workgroups of the members up to each
	record   int
	forms    [2]*pipeline // aligned: run-time offsets are multiples of four; and not
	form     int
	grid     [2][3]uint32
	word     int // of its parameter block in program.words
	group    *group
	patches  [2][]patch     // words that vary from run to run
	offsets  []device.Param // run-time offsets that decide the form
	window   window
	// pass is the program, of those of the kernel, that this dispatch runs; there are passes.
	// They hand results on in scratch memory number handover.
	pass, passes, handover int
	reach                  []int64 // per binding: elements reached, not counting run-time offsets; -1 unknown
}

// patch is a parameter word computed at run time.
type patch struct {
	word   int // in the step's block
	param  device.Param
	high   bool
	signed bool
}

// Build implements device.Device.
func (d *Device) Build(steps []device.Step, slots int) (device.Program, error) {
	if d.lost != nil {
		return nil, d.lost
	}
	p := &program{dev: d, slots: slots, last: make([]*Buffer, slots), changed: make([]bool, slots), epoch: math.MaxUint64}
	list := make([]step, 0, len(steps))
	reductions := 0
	for i := range steps {
		for _, s := range d.windows(steps[i]) {
			s.index = i
			passes := d.passes(s)
			if len(passes) > 1 && s.Kind != device.RunGemm {
				for n := range passes {
					passes[n].handover = 1 + reductions%(handovers-1)
				}
				reductions++
			}
			list = append(list, passes...)
		}
	}
	for i := range list {
		s := &list[i]
		s.Bufs = append([]int(nil), s.Bufs...)
		s.Params = append([]device.Param(nil), s.Params...)
		if err := d.prepare(p, s); err != nil {
			return nil, err
		}
	}
	p.steps, p.waves = d.schedule(list, slots)
	for i := range p.steps {
		if s := &p.steps[i]; s.launches() {
			if err := d.buildForm(s, 0); err != nil {
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

// launches reports a step that is a dispatch.
func (s *step) launches() bool {
	return s.Kind == device.RunKernel || s.Kind == device.RunGemm || s.Kind == device.RunAttention || s.Kind == device.RunSort
}

func (d *Device) prepare(p *program, s *step) error {
	for _, b := range s.Bufs {
		if b < 0 || b >= p.slots {
			panic(fmt.Sprintf("BUG: gpu: buffer slot %d of %d", b, p.slots))
		}
	}
	switch s.Kind {
	case device.CopyBytes, device.FillZero:
		return nil
	case device.RunKernel, device.RunGemm, device.RunAttention, device.RunSort:
	default:
		panic(fmt.Sprintf("BUG: gpu: step kind %d", s.Kind))
	}
	params := constants(s.Params)
	unaligned := constants(s.Params)
	for i, q := range s.Params {
		if varies(q) && s.paramKind(i) == kir.Offset {
			s.offsets = append(s.offsets, q)
			unaligned[i] |= 1
		}
	}
	s.reach = s.reaches(params)
	if err := d.checkSizes(s, params); err != nil {
		return err
	}
	p.checks = p.checks || s.checks()
	s.variants = [2]variantKey{d.variant(s, params), d.variant(s, unaligned)}
	proc, err := d.procOf(s, s.variants[0])
	if err != nil {
		return err
	}
	g := proc.Grid(params)
	s.groups = uint64(g[0]) * uint64(g[1]) * uint64(g[2])
	return nil
}

// constants gives parameters without what Run adds.
func constants(list []device.Param) []uint64 {
	params := make([]uint64, len(list))
	for i, q := range list {
		params[i] = q.Bits
	}
	return params
}

// packed gives the values that Pack takes for form f.
func (s *step) packed(f int) []uint64 { return append(constants(s.Params), s.ends[f]...) }

// paramKind says what parameter i of a step is; all of a GEMM's are sizes, strides
// and offsets, of which only offsets vary.
func (s *step) paramKind(i int) kir.ParamKind {
	switch s.Kind {
	case device.RunKernel:
		return s.Kernel.Params[i].Kind
	case device.RunAttention:
		return s.Attention.Layout().Params[i].Kind
	case device.RunSort:
		return s.Sort.Layout().Params[i].Kind
	}
	return kir.Offset
}

func (s *step) name() string {
	switch s.Kind {
	case device.RunKernel:
		return s.Kernel.Name
	case device.RunAttention:
		return fmt.Sprintf("attention_%s", s.Attention.Type)
	case device.RunSort:
		return fmt.Sprintf("sort_%s", s.Sort.Type)
	}
	return fmt.Sprintf("gemm_%s", s.Gemm.Type)
}

// checkSizes refuses launches that 32-bit indices cannot address.
func (d *Device) checkSizes(s *step, params []uint64) error {
	if s.Kind == device.RunSort {
		return d.checkSort(s, params)
	}
	if s.Kind != device.RunKernel {
		return nil
	}
	total := int64(1)
	for _, n := range params[:s.Kernel.Outer+s.Kernel.Inner] {
		if n != 0 && total > math.MaxInt32/int64(n) {
			return ir.Errorf(ir.ErrRuntime, "%s: too many elements for %s: got more than %d", s.name(), d.caps.Name, math.MaxInt32)
		}
		total *= int64(n)
	}
	for _, r := range s.reach {
		if r > math.MaxInt32 {
			return ir.Errorf(ir.ErrRuntime, "%s: a tensor has too many elements for %s: got %d, want at most %d", s.name(), d.caps.Name, r, math.MaxInt32)
		}
	}
	return nil
}

// checkSort refuses operands whose room 32-bit indices cannot address.
func (d *Device) checkSort(s *step, params []uint64) error {
	l := s.Sort.Layout()
	if n := params[l.Outer] * params[l.N] * params[l.Inner]; n > tile.MaxSortElements {
		return ir.Errorf(ir.ErrRuntime, "%s: too many elements for %s: got %d, want at most %d", s.name(), d.caps.Name, n, tile.MaxSortElements)
	}
	return nil
}

// reaches bounds the elements that a kernel touches in each buffer.
func (s *step) reaches(params []uint64) []int64 {
	out := make([]int64, len(s.Bufs))
	if s.Kind != device.RunKernel {
		for i := range out {
			out[i] = -1
		}
		return out
	}
	k := s.Kernel
	for _, a := range k.Access {
		r, base := accessReach(k, &a, params), int64(0)
		if a.Offset >= 0 {
			base = int64(params[a.Offset])
		}
		if r > 0 && out[a.Buf] >= 0 {
			out[a.Buf] = max(out[a.Buf], base+r)
		}
	}
	for _, e := range k.Exprs {
		if e.Op == kir.OpLoadAt {
			out[e.Imm] = -1
		}
	}
	for i := range k.Stages {
		for _, st := range k.Stages[i].Stores {
			if st.Access < 0 {
				out[st.Buf] = -1
			}
		}
	}
	return out
}

func accessReach(k *kir.Kernel, a *kir.Access, params []uint64) int64 {
	n, span := int64(1), int64(1)
	for dim := range k.Outer + k.Inner {
		size := int64(params[dim])
		if dim >= k.Outer {
			size = max(size, 1) // results of empty rows are written
		}
		n *= size
		if a.Linear {
			continue
		}
		stride := int64(0)
		switch s := a.Stride[dim]; {
		case s == kir.Unit:
			stride = 1
		case s >= 0:
			stride = int64(params[s])
		}
		span += max(0, (size-1)*stride)
	}
	if n == 0 {
		return 0
	}
	if a.Linear {
		return n
	}
	return span
}

// varies reports a parameter that a run sets: an offset, or a scalar (a view written
// through takes its offset from one).
func varies(q device.Param) bool { return q.Offset >= 0 || q.Scalar >= 0 }

// buildForm compiles form f of s: 0 counts on run-time offsets that are multiples
// of four, 1 does not.
func (d *Device) buildForm(s *step, f int) error {
	pipe, err := d.compile(s, f)
	if err != nil {
		return err
	}
	s.forms[f] = pipe
	params := s.packed(f)
	s.grid[f] = pipe.proc.Grid(params)
	if g := s.grid[f]; int64(g[1]) > d.limits.MaxGrid || int64(g[0]) > d.limits.MaxGrid {
		return ir.Errorf(ir.ErrRuntime, "%s: too many workgroups for %s: got %d x %d, want at most %d a side", s.name(), d.caps.Name, g[0], g[1], d.limits.MaxGrid)
	}
	if err := pipe.module.Pack(make([]byte, 4*pipe.words), params, s.Event); err != nil {
		return ir.Errorf(ir.ErrRuntime, "%s: a tensor is too large for %s: %v", s.name(), d.caps.Name, err)
	}
	for i, w := range pipe.module.Words {
		if w.Param < 0 || w.Param >= len(s.Params) {
			continue
		}
		q := s.Params[w.Param]
		if varies(q) {
			s.patches[f] = append(s.patches[f], patch{word: i, param: q, high: w.High, signed: w.Signed})
		}
	}
	return nil
}

// handovers is the number of scratch memories: the first is that of products, whose parts are large; reductions
// have the others by turns, so that neighbours run side by side.
const handovers = 4

// passes makes one step of each pass of s. They follow each other in scratch memory: they
// keep their order, and are not merged with others.
func (d *Device) passes(s step) []step {
	s.passes = 1
	switch s.Kind {
	case device.RunKernel:
		s.passes = len(tile.Choose(s.Kernel, constants(s.Params), d.tile).Passes(s.Kernel))
	case device.RunGemm:
		o := d.chooseGemm(s.Gemm, constants(s.Params))
		s.passes = o.Passes(s.Gemm)
	case device.RunSort:
		o := tile.ChooseSort(s.Sort, constants(s.Params), d.tile)
		s.passes = o.Passes()
	}
	list := make([]step, s.passes)
	for i := range list {
		list[i] = s
		list[i].pass = i
	}
	return list
}

// needScratch makes scratch memory number i, in which passes hand partial results on, or makes it larger.
// Submissions under way keep the old one.
func (d *Device) needScratch(i int, bytes int64) error {
	old := d.handover[i]
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
	d.handover[i] = &Buffer{handle: h, bytes: bytes}
	return nil
}

// variant names the form of a step for parameters.
func (d *Device) variant(s *step, params []uint64) variantKey {
	switch s.Kind {
	case device.RunKernel:
		return variantKey{key: kir.Key(s.Kernel), kernel: tile.Choose(s.Kernel, params, d.tile), pass: s.pass}
	case device.RunAttention:
		return variantKey{key: fmt.Sprint(*s.Attention), attention: tile.ChooseAttention(s.Attention, params, d.tile)}
	}
	if s.Kind == device.RunSort {
		return variantKey{key: fmt.Sprint(*s.Sort), sort: tile.ChooseSort(s.Sort, params, d.tile), pass: s.pass}
	}
	return variantKey{key: s.Gemm.Key(), gemm: d.chooseGemm(s.Gemm, params), pass: s.pass}
}

// procOf generates the program of one member of s in a form.
func (d *Device) procOf(s *step, key variantKey) (*kir.Proc, error) {
	if p := d.procs[key]; p != nil {
		return p, nil
	}
	var procs []*kir.Proc
	var err error
	switch s.Kind {
	case device.RunKernel:
		procs, err = tile.FromKernel(s.Kernel, key.kernel)
	case device.RunAttention:
		var p *kir.Proc
		p, err = tile.FromAttention(s.Attention, key.attention)
		procs = []*kir.Proc{p}
	case device.RunSort:
		procs, err = tile.FromSort(s.Sort, key.sort)
	default:
		procs, err = tile.FromGemm(s.Gemm, key.gemm)
	}
	if err == nil && len(procs) != s.passes {
		err = fmt.Errorf("%d passes in this form, want %d", len(procs), s.passes)
	}
	if err != nil {
		return nil, ir.Errorf(ir.ErrKernelExecution, "%s: no program for %s: %v", s.name(), d.caps.Name, err)
	}
	proc := procs[s.pass]
	d.procs[key] = proc
	return proc, nil
}

// compile gives the pipeline of form f of s, and sets the members' numbers of workgroups.
func (d *Device) compile(s *step, f int) (*pipeline, error) {
	key := s.variants[f]
	proc, err := d.procOf(s, key)
	if err != nil {
		return nil, err
	}
	if len(s.members) > 0 {
		var params [][]uint64
		for i := range s.members {
			params = append(params, constants(s.members[i].Params))
		}
		s.ends[f] = kir.MergedEnds(proc, params)
		key.members = len(s.members)
		for b, one := range s.shared {
			if one {
				key.shared |= 1 << b
			}
		}
	}
	if s.passes > 1 {
		bytes := int64(tile.ScratchBytes)
		if s.Kind == device.RunGemm {
			bytes = int64(key.gemm.ScratchBytes(s.Gemm, constants(s.Params)))
		}
		if err := d.needScratch(s.handover, bytes); err != nil {
			return nil, err
		}
	}
	if p := d.kernels[key]; p != nil {
		d.stats.pipelineHits++
		return p, nil
	}
	if len(s.members) > 0 {
		proc = kir.Merge(proc, len(s.members), s.shared)
	}
	p, err := d.pipelineOf(proc.Name, proc)
	if err != nil {
		return nil, err
	}
	d.kernels[key] = p
	return p, nil
}

// pipelineOf prints and compiles proc, once per text.
func (d *Device) pipelineOf(name string, proc *kir.Proc) (*pipeline, error) {
	m, err := d.print(name, proc)
	if err != nil {
		return nil, err
	}
	if p := d.pipelines[m.Text]; p != nil {
		d.stats.pipelineHits++
		return p, nil
	}
	// The driver does not refuse a trusted module that asks for too much: the
	// dispatch would never end.
	if m.SharedBytes > d.limits.MaxWorkgroupBytes || m.Workgroup > d.limits.MaxWorkgroupSize || m.Workgroup > d.limits.MaxWorkgroupX {
		return nil, ir.Errorf(ir.ErrKernelExecution, "%s: the program exceeds %s: %d bytes of workgroup memory of %d, %d threads of %d",
			name, d.caps.Name, m.SharedBytes, d.limits.MaxWorkgroupBytes, m.Workgroup, d.limits.MaxWorkgroupSize)
	}
	sh := Shader{Name: name, Text: m.Text, Entry: m.Entry, Proc: proc, Module: m}
	storage := 0
	for _, b := range m.Bindings {
		switch {
		case b.Kind == wgsl.BindParams:
			sh.Bindings = append(sh.Bindings, UniformDynamic)
			sh.UniformBytes = m.ParamBytes()
			continue
		case b.Kind == wgsl.BindScratch:
			sh.Bindings = append(sh.Bindings, StorageReadWrite)
		case b.Kind == wgsl.BindStorage && b.ReadOnly:
			sh.Bindings = append(sh.Bindings, StorageRead)
		default:
			sh.Bindings = append(sh.Bindings, StorageReadWrite)
		}
		storage++
	}
	if storage > d.limits.MaxStorageBuffers {
		return nil, ir.Errorf(ir.ErrKernelExecution, "%s: too many buffers for %s: got %d, want at most %d", name, d.caps.Name, storage, d.limits.MaxStorageBuffers)
	}
	if m.Immediates {
		sh.ImmediateBytes = m.ParamBytes()
	}
	h, err := d.ctx.CreatePipeline(&sh)
	if err != nil {
		return nil, d.wrap(err, fmt.Sprintf("compilation of kernel %s", name))
	}
	p := &pipeline{Pipeline: h, module: m, proc: proc, name: name, words: m.ParamBytes() / 4}
	d.pipelines[m.Text] = p
	d.stats.pipelines++
	return p, nil
}

// print takes immediates when the parameters fit them.
func (d *Device) print(name string, proc *kir.Proc) (*wgsl.Module, error) {
	m, err := wgsl.Print(proc, d.wgsl)
	if err == nil && m.Immediates && m.ParamBytes() > d.limits.MaxImmediateBytes {
		o := d.wgsl
		o.Immediates = false
		m, err = wgsl.Print(proc, o)
	}
	if err == nil && !m.Immediates && int64(m.ParamBytes()) > d.limits.MaxUniformBinding {
		err = fmt.Errorf("the parameters take %d bytes", m.ParamBytes())
	}
	if err != nil {
		return nil, ir.Errorf(ir.ErrKernelExecution, "%s: no program for %s: %v", name, d.caps.Name, err)
	}
	return m, nil
}

// layout places parameter blocks and makes the records. The blocks of kernels without
// immediates lie together in the program's own uniform buffer.
func (p *program) layout() error {
	align := int(p.dev.limits.UniformAlign) / 4
	for i := range p.steps {
		if s := &p.steps[i]; s.launches() && !s.forms[0].module.Immediates {
			s.word = len(p.words)
			p.words = append(p.words, make([]uint32, (s.forms[0].words+align-1)/align*align)...)
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
		if s.forms[0].module.Immediates {
			s.word = len(p.words)
			p.words = append(p.words, make([]uint32, s.forms[0].words)...)
		}
		p.setForm(s, 0)
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

// setForm writes the record and the constant words of s for form f.
func (p *program) setForm(s *step, f int) {
	pipe := s.forms[f]
	s.form, s.group = f, nil
	// Words that vary are patched before every run; the others were packed once in buildForm.
	if err := pipe.module.Pack(wordBytes(p.words[s.word:s.word+pipe.words]), s.packed(f), s.Event); err != nil {
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
