package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// A pipeline takes 10 to 100 ms to compile, nearly all of it in the driver. So several threads compile the pipelines of
// a program, and Device.Compile does it beside runs.
//
// Threads. Only the device's goroutine (see device.Device) touches the Device. Other goroutines are given kernels: they
// read the fields of the Device that are set once by Open, call Context.CreatePipeline, which is made for several
// threads, and use the compiler, whose lock guards it. A kernel's result is read after its channel done is closed.

// brief is the choice of kernels for a program that a run waits for. It prefers short texts, which compile soon: loops
// of attention are not unrolled, and few launches share a dispatch. Long texts run faster. They give the same bits, and
// replace the short ones when the engine calls Device.Compile.
type brief struct {
	on     bool
	chosen bool // a short text was taken in place of a long one
}

// maxCompiling bounds the goroutines that compile for a program that is waited for. Those that compile beside runs are
// at most a quarter of the processors: the others record and submit.
const maxCompiling = 16

// pipeline is a compiled kernel.
type pipeline struct {
	Pipeline
	module *wgsl.Module
	proc   *gpuir.Program
	name   string
	words  int // size of the parameter block in words
}

// kernel is the pipeline of a variant: to be made, in the making, or made.
type kernel struct {
	name    string
	proc    *gpuir.Program // before merging
	members int            // 0: not merged
	shared  []bool
	trial   bool          // made to be timed
	taken   atomic.Bool   // a goroutine makes it
	done    chan struct{} // closed when pipe or err is set
	pipe    *pipeline
	err     error
}

// statements measures the text.
func (k *kernel) statements() int { return statements(k.proc.Body) * max(1, k.members) }

// ended reports that pipe or err is set.
func (k *kernel) ended() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// text is the pipeline of a WGSL text, which kernels may share.
type text struct {
	done  chan struct{}
	pipe  *pipeline
	err   error
	trial bool // only kernels that are timed use it
}

// compiler makes pipelines.
type compiler struct {
	mu         sync.Mutex
	texts      map[string]*text // by WGSL text
	queue      []*kernel        // to be made beside runs
	workers    int              // goroutines that work on queue; they end when it is empty
	working    sync.WaitGroup
	made, hits int64
}

// compileAll makes the kernels of a list, the longest texts first. It returns when all exist, including those that
// another goroutine has begun.
func (d *Device) compileAll(list []*kernel) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *kernel) int { return cmp.Compare(b.statements(), a.statements()) })
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; int(i) < len(list); i = next.Add(1) - 1 {
			d.makeKernel(list[i])
		}
	}
	n := 1
	if d.feat.Threads {
		n = min(len(list), maxCompiling, runtime.GOMAXPROCS(0))
	}
	for range n - 1 {
		go work() // it ends before this function: each kernel that it takes is waited for
	}
	work()
	for _, k := range list {
		<-k.done
	}
}

// compileBeside compiles kernels in the background.
func (d *Device) compileBeside(list []*kernel) {
	c := &d.compiler
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, list...)
	for most := max(1, runtime.GOMAXPROCS(0)/4); c.workers < min(most, len(c.queue)); c.workers++ {
		c.working.Add(1)
		go d.compileQueue()
	}
}

// compileQueue makes kernels until the queue is empty.
func (d *Device) compileQueue() {
	c := &d.compiler
	defer c.working.Done()
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.workers--
			c.mu.Unlock()
			return
		}
		k := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		d.makeKernel(k)
	}
}

// stopCompiling drops the queue and, with wait, waits for the pipelines in the making.
func (d *Device) stopCompiling(wait bool) {
	c := &d.compiler
	c.mu.Lock()
	c.queue = nil
	c.mu.Unlock()
	if wait {
		c.working.Wait()
	}
}

// makeKernel makes k, unless another goroutine does.
func (d *Device) makeKernel(k *kernel) {
	if k.taken.Swap(true) {
		return
	}
	defer close(k.done)
	defer func() {
		if r := recover(); r != nil {
			k.err = ir.Errorf(ir.ErrInternal, "%s", ir.PanicText(r, false))
		}
	}()
	proc := k.proc
	if k.members > 0 {
		proc = gpuir.Merge(proc, k.members, k.shared)
	}
	k.pipe, k.err = d.pipelineOf(proc.Name, proc, k.trial)
}

// pipelineOf prints and compiles proc, once for each text.
func (d *Device) pipelineOf(name string, proc *gpuir.Program, trial bool) (*pipeline, error) {
	m, err := d.print(name, proc)
	if err != nil {
		return nil, err
	}
	c := &d.compiler
	c.mu.Lock()
	if t := c.texts[m.Text]; t != nil {
		t.trial = t.trial && trial
		c.hits++
		c.mu.Unlock()
		<-t.done
		return t.pipe, t.err
	}
	t := &text{done: make(chan struct{}), trial: trial, err: errors.New("BUG: gpu: a driver has panicked")}
	c.texts[m.Text] = t
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		if t.err == nil {
			c.made++
		} else {
			delete(c.texts, m.Text)
		}
		c.mu.Unlock()
		close(t.done)
	}()
	t.pipe, t.err = d.createPipeline(name, proc, m)
	return t.pipe, t.err
}

// createPipeline compiles the text m of proc.
func (d *Device) createPipeline(name string, proc *gpuir.Program, m *wgsl.Module) (*pipeline, error) {
	// The driver accepts a trusted module that asks for too much, and its dispatch would never end.
	if m.SharedBytes > d.limits.MaxWorkgroupBytes || m.Workgroup > d.limits.MaxWorkgroupSize ||
		m.Workgroup > d.limits.MaxWorkgroupX {
		return nil, ir.Errorf(ir.ErrKernelExecution, "%s: the program exceeds %s: %d bytes of workgroup memory of %d, %d "+
			"threads of %d",
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
		return nil, ir.Errorf(ir.ErrKernelExecution, "%s: too many buffers for %s: got %d, want at most %d",
			name, d.caps.Name, storage, d.limits.MaxStorageBuffers)
	}
	if m.Immediates {
		sh.ImmediateBytes = m.ParamBytes()
	}
	h, err := d.ctx.CreatePipeline(&sh)
	if err != nil {
		return nil, err
	}
	return &pipeline{Pipeline: h, module: m, proc: proc, name: name, words: m.ParamBytes() / 4}, nil
}

// print uses immediates where the parameters fit.
func (d *Device) print(name string, proc *gpuir.Program) (*wgsl.Module, error) {
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

// request returns the kernel of variant f of s, made or not, and sets the members' numbers of workgroups.
func (d *Device) request(s *step, f int) (*kernel, error) {
	key := s.variants[f]
	programs, err := d.programs(s, key)
	if err != nil {
		return nil, err
	}
	if len(programs) != s.passes {
		return nil, ir.Errorf(ir.ErrInternal, "BUG: gpu: %s: %d passes in this form, want %d",
			s.name(), len(programs), s.passes)
	}
	proc := programs[s.pass]
	if len(s.members) > 0 {
		var params [][]uint64
		for i := range s.members {
			params = append(params, s.members[i].Constants())
		}
		s.ends[f] = gpuir.MergedEnds(proc, params)
		key.members = len(s.members)
		for b, one := range s.shared {
			if one {
				key.shared |= 1 << b
			}
		}
	}
	if s.passes > 1 {
		if err := d.needScratch(s.passScratch, s.code.scratch(key.options, s.Constants())); err != nil {
			return nil, err
		}
	}
	if k := d.kernels[key]; k != nil && (!k.ended() || k.err == nil) { // one that failed is tried again
		d.stats.pipelineHits++
		return k, nil
	}
	k := &kernel{name: proc.Name, proc: proc, members: len(s.members), shared: s.shared, trial: d.tune.trial != nil,
		done: make(chan struct{})}
	d.kernels[key] = k
	return k, nil
}

// made is the pipeline of a kernel that is done.
func (d *Device) made(k *kernel) (*pipeline, error) {
	var e *DriverError
	if errors.As(k.err, &e) {
		return nil, d.wrap(k.err, fmt.Sprintf("compilation of kernel %s", k.name))
	}
	return k.pipe, k.err
}
