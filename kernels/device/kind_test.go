package device_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/gpu/wgpu"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
	"github.com/torchlette/torchlette/kernels/reference"
)

// lookup is a launch of a kind that no other file knows: y[i] = table[x[offset + n-1 - i]], or minus that. An index
// outside the table is a data error and counts as 0. A kind is a declaration, a reference, and code for each device.
type lookup struct{ Negate bool }

// The numbers of lookup's buffers and parameters.
const (
	lookupTable, lookupX, lookupY             = 0, 1, 2
	lookupSize, lookupEntries, lookupBeginsAt = 0, 1, 2
)

func (*lookup) Label() string { return "lookup_float32" }

func (*lookup) Buffers() []loopir.Buf {
	return []loopir.Buf{{Type: ir.F32, Access: loopir.Read}, {Type: ir.I32, Access: loopir.Read},
		{Type: ir.F32, Access: loopir.Write}}
}

func (*lookup) Parameters() []loopir.Param {
	return []loopir.Param{{Kind: loopir.Size, Type: ir.I64}, {Kind: loopir.Size, Type: ir.I64},
		{Kind: loopir.Offset, Type: ir.I64}}
}

func (l *lookup) Key() string { return fmt.Sprintf("lookup%+v", *l) }

func (*lookup) Cost(params []uint64, width *loopir.Widths) loopir.Cost {
	n := int64(params[lookupSize])
	return loopir.Cost{Bytes: n*int64(width[ir.I32]) + 2*n*int64(width[ir.F32])}
}

// Interpret is the reference.
func (l *lookup) Interpret(params []uint64, bufs [][]byte) (fault loopir.Fault, err error) {
	if err := launch.CheckArguments(l, params, bufs); err != nil {
		return fault, err
	}
	for i := range int64(params[lookupSize]) {
		from := int64(params[lookupBeginsAt]) + int64(params[lookupSize]) - 1 - i
		if err := loopir.Inside(ir.I32, bufs[lookupX], from); err != nil {
			return fault, err
		}
		at := int64(int32(loopir.LoadBits(ir.I32, bufs[lookupX], from)))
		if at < 0 || at >= int64(params[lookupEntries]) {
			if !fault.Failed {
				fault = loopir.Fault{Failed: true, Elem: at}
			}
			at = 0
		}
		v := ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, bufs[lookupTable], at))
		if l.Negate {
			v = -v
		}
		if err := loopir.Inside(ir.F32, bufs[lookupY], i); err != nil {
			return fault, err
		}
		loopir.StoreBits(ir.F32, bufs[lookupY], i, ir.EncodeFloat(ir.F32, v))
	}
	return fault, nil
}

// CPUCode implements cpu.Generator.
func (l *lookup) CPUCode([]uint64) (cpu.Code, error) {
	flip := uint32(0)
	if l.Negate {
		flip = 1 << 31
	}
	return func(params []uint64, bufs [][]byte) (fault loopir.Fault, err error) {
		n, word := int(params[lookupSize]), binary.LittleEndian
		x := bufs[lookupX][4*params[lookupBeginsAt]:]
		for i := range n {
			at := word.Uint32(x[4*(n-1-i):])
			if uint64(at) >= params[lookupEntries] {
				fault, at = loopir.Fault{Failed: true, Elem: int64(int32(at))}, 0
			}
			word.PutUint32(bufs[lookupY][4*i:], word.Uint32(bufs[lookupTable][4*at:])^flip)
		}
		return fault, nil
	}, nil
}

// lookupForm is the options of lookup's GPU code.
type lookupForm struct{ Threads int }

// GPUOptions implements gpu.Generator.
func (*lookup) GPUOptions(_ []uint64, caps gpucode.Caps) any {
	return lookupForm{min(64, caps.MaxThreads)}
}

// GPUProgram implements gpu.Generator.
func (l *lookup) GPUProgram(options any) (*gpuir.Program, error) {
	threads := options.(lookupForm).Threads
	p := &gpuir.Program{Name: l.Label(), Params: l.Parameters(), Workgroup: threads, Checks: true,
		Groups: []gpuir.GroupFactor{{Params: []int{lookupSize}, Per: int64(threads)}}}
	for _, b := range l.Buffers() {
		p.Bufs = append(p.Bufs, gpuir.Buf{Type: b.Type, Access: b.Access, Vec: 1})
	}
	let := func(v *gpuir.Node) (gpuir.Stmt, *gpuir.Node) {
		s := gpuir.Stmt{Op: gpuir.SLet, Var: p.NewVar(v.Type, 1), A: v}
		return s, p.NVar(s.Var)
	}
	n, entries := gpuir.NParam(lookupSize, ir.I32), gpuir.NParam(lookupEntries, ir.I32)
	thread, i := let(gpuir.NAdd(gpuir.NMul(gpuir.NGroup(), gpuir.NInt(threads)), gpuir.NLocal()))
	from := gpuir.NAdd(gpuir.NParam(lookupBeginsAt, ir.I32), gpuir.NSub(gpuir.NSub(n, gpuir.NInt(1)), i))
	load, index := let(gpuir.NLoad(lookupX, ir.I32, 1, from))
	test, inside := let(gpuir.NAnd(gpuir.N(loopir.OpLe, ir.Bool, gpuir.NInt(0), index), gpuir.NLt(index, entries)))
	entry := gpuir.NLoad(lookupTable, ir.F32, 1, gpuir.N(loopir.OpSelect, ir.I32, inside, index, gpuir.NInt(0)))
	if l.Negate {
		entry = gpuir.N(loopir.OpNeg, ir.F32, entry)
	}
	p.Body = []gpuir.Stmt{thread, {Op: gpuir.SIf, A: gpuir.NLt(i, n), Body: []gpuir.Stmt{
		load, test,
		{Op: gpuir.SFault, A: gpuir.N(loopir.OpNot, ir.Bool, inside), B: index},
		{Op: gpuir.SStore, Ref: lookupY, A: i, B: entry},
	}}}
	return p, nil
}

var (
	_ cpu.Generator = (*lookup)(nil)
	_ gpu.Generator = (*lookup)(nil)
)

// devices opens one device of each kind.
func devices(t *testing.T) map[string]device.Device {
	t.Helper()
	list := map[string]device.Device{"interp": reference.New()}
	c, err := cpu.New(cpu.Options{})
	require.NoError(t, err)
	list["cpu"] = c
	software := fake.New()
	software.Kind = gpu.Software
	for name, driver := range map[string]gpu.Driver{"fake": software, "wgpu": &wgpu.Driver{}} {
		if found, err := gpu.Adapters(driver); err != nil || len(found) == 0 {
			continue
		}
		d, err := gpu.Open(driver, gpu.Options{AllowSoftware: true, CacheDir: "-"})
		require.NoError(t, err)
		list[name] = d
	}
	for _, d := range list {
		t.Cleanup(d.Close)
	}
	return list
}

// lookupSteps makes y = lookup(table, 2*x) + 1 of n elements. Loop kernels run before and after the lookup, which takes
// its offset at run time. Slots: table, x, indices, looked up, y.
func lookupSteps(op *lookup, n, entries int64) []device.Step {
	b := loopir.NewBuilder("double", 1, 0)
	x, out := b.Linear(b.Buf(ir.I32, loopir.Read), -1), b.Linear(b.Buf(ir.I32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(b.Load(x), b.Load(x)))
	double := b.Kernel()
	b = loopir.NewBuilder("increment", 1, 0)
	x, out = b.Linear(b.Buf(ir.F32, loopir.Read), -1), b.Linear(b.Buf(ir.F32, loopir.Write), -1)
	b.Map()
	b.Store(out, b.Add(b.Load(x), b.Float(ir.F32, 1)))
	return []device.Step{
		{Op: double, Bufs: []int{1, 2}, Params: []device.Param{device.Const(n + 8)}},
		{Op: op, Bufs: []int{0, 2, 3}, Event: 7,
			Params: []device.Param{device.Const(n), device.Const(entries), device.OffsetOf(0)}},
		{Op: b.Kernel(), Bufs: []int{3, 4}, Params: []device.Param{device.Const(n)}},
	}
}

// TestANewKindOfLaunchIsOneType: the kind above runs on every device, between launches that it depends on and launches
// that depend on it, with run-time offsets, data errors, times and costs, though no other file names it.
func TestANewKindOfLaunchIsOneType(t *testing.T) {
	const n, entries, room = 200, 64, 208
	word := binary.LittleEndian
	table, x := make([]byte, 4*entries), make([]byte, 4*room)
	for i := range entries {
		word.PutUint32(table[4*i:], math.Float32bits(float32(i)/4))
	}
	for i := range room {
		word.PutUint32(x[4*i:], uint32(i%(entries/2)))
	}
	word.PutUint32(x, entries) // outside the table
	for name, d := range devices(t) {
		for _, negate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s negate=%v", name, negate), func(t *testing.T) {
				steps := lookupSteps(&lookup{negate}, n, entries)
				p, err := d.Build(steps, 5)
				require.NoError(t, err)
				defer p.Release()
				bind := &device.Binding{Offsets: make([]int64, 1)}
				for i, bytes := range []int{4 * entries, 4 * room, 4 * room, 4 * n, 4 * n} {
					b, err := d.Alloc(int64(bytes))
					require.NoError(t, err)
					defer d.Free(b)
					bind.Bufs = append(bind.Bufs, b)
					if i < 2 {
						require.NoError(t, d.Upload(b, []ir.DType{ir.F32, ir.I32}[i], 0, [][]byte{table, x}[i]))
					}
				}
				for _, offset := range []int64{4, 3, 0} {
					bind.Offsets[0] = offset
					f, err := d.Run(p, bind)
					require.NoError(t, err)
					require.NoError(t, d.Wait(f, time.Minute, nil))
					got := make([]byte, 4*n)
					require.NoError(t, d.Read(bind.Bufs[4], ir.F32, 0, got))
					for i := range n {
						at := (int(offset) + n - 1 - i) % (entries / 2) * 2
						want := float32(at) / 4
						if negate {
							want = -want
						}
						require.Equal(t, want+1, math.Float32frombits(word.Uint32(got[4*i:])), "element %d from %d", i, offset)
					}
					fault, failed, err := d.TakeFault()
					require.NoError(t, err)
					require.Equal(t, offset == 0, failed, "the index outside the table is at 0")
					if failed {
						require.Equal(t, device.Fault{Event: 7, Element: 2 * entries}, fault)
					}
				}
				bind.Offsets[0] = 4
				requireTimes(t, d, p, bind, steps)
			})
		}
	}
}

// requireTimes: a profile has every step once, in order.
func requireTimes(t *testing.T, d device.Device, p device.Program, bind *device.Binding, steps []device.Step) {
	t.Helper()
	prof, ok := d.(device.Profiler)
	if !ok || prof.Profile(true) != nil {
		return // this device takes no times
	}
	defer func() { require.NoError(t, prof.Profile(false)) }()
	_, err := d.Run(p, bind)
	require.NoError(t, err)
	times := prof.Profiles()
	require.Len(t, times, len(steps))
	for i, s := range times {
		require.Equal(t, i, s.Step)
		require.Nil(t, s.Op)
		require.GreaterOrEqual(t, s.Duration, time.Duration(0))
	}
	width := &loopir.Widths{ir.I32: 4, ir.F32: 4}
	require.Equal(t, loopir.Cost{Bytes: 200 * 12}, steps[1].Op.Cost(steps[1].Constants(), width))
}

// TestALaunchWithoutCodeIsRefused: the reference runs a launch that no other device has code for, and the error names
// it.
func TestALaunchWithoutCodeIsRefused(t *testing.T) {
	type reference struct{ launch.Op } // hides the generators' methods
	for name, d := range devices(t) {
		steps := lookupSteps(&lookup{}, 8, 4)
		steps[1].Op = reference{steps[1].Op}
		p, err := d.Build(steps, 5)
		if name == "interp" {
			require.NoError(t, err)
			p.Release()
			continue
		}
		var e *ir.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, ir.ErrKernelExecution, e.Code)
		require.Contains(t, e.Msg, "no code for a launch")
	}
}
