package engine

import (
	"encoding/json"
	"unsafe"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
)

// Describe describes the arguments or the results in values, as many as there is room for, and returns their number.
func (s *InferenceSession) Describe(outputs bool, values []SessionValue) int {
	list := s.in
	if outputs {
		list = s.out
	}
	for i := range min(len(list), len(values)) {
		list[i].describe(&values[i])
	}
	return len(list)
}

func (q *SessionPort) describe(v *SessionValue) {
	*v = SessionValue{DType: uint8(q.DType), Rank: int32(len(q.Shape))}
	copy(v.Shape[:], q.Shape)
	copy(v.Name[:MaxSessionName-1], q.Name)
	v.Bytes = uint64(q.DType.Size())
	for _, n := range q.Shape {
		v.Bytes *= uint64(max(n, 0))
	}
}

// latest returns the plan of the last run or, before the first run, the plan of the program's example.
func (s *InferenceSession) latest() (*frozenShape, *ir.Error) {
	if len(s.shapes) > 0 && !s.closed {
		return s.shapes[0], nil
	}
	shapes, err := s.program.example()
	if err != nil {
		return nil, err
	}
	in := make([]SessionValue, len(s.in))
	for i := range in {
		v := &in[i]
		v.DType, v.Rank, v.Bytes = uint8(s.in[i].DType), int32(len(shapes[i])), uint64(s.in[i].DType.Size())
		copy(v.Shape[:], shapes[i])
		copy(v.Name[:], s.in[i].Name)
		for _, n := range shapes[i] {
			v.Bytes *= uint64(n)
		}
	}
	return s.prepare(in)
}

// Info gives a JSON text: "session_ports", "session_memory", or "session_profile".
func (s *InferenceSession) Info(kind string) ([]byte, *ir.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v any
	var err *ir.Error
	switch kind {
	case "session_ports":
		v = map[string]any{"inputs": portList(s.in), "outputs": portList(s.out)}
	case "session_memory":
		v, err = s.memoryPlan()
	case "session_profile":
		v, err = s.profile()
	default:
		err = ir.Errorf(ir.ErrValue, "session: no information %q", kind)
	}
	if err != nil {
		return nil, err
	}
	b, x := json.Marshal(v)
	if x != nil {
		return nil, asError(x)
	}
	return b, nil
}

func portList(list []SessionPort) []map[string]any {
	ports := []map[string]any{}
	for i := range list {
		ports = append(ports, map[string]any{"name": list[i].Name, "dtype": list[i].DType.String(), "shape": list[i].Shape,
			"dims": list[i].Dims})
	}
	return ports
}

// memoryPlan describes the memory of the latest plan.
func (s *InferenceSession) memoryPlan() (map[string]any, *ir.Error) {
	f, err := s.latest()
	if err != nil {
		return nil, err
	}
	p := f.plan.Plan
	bytes := map[compile.SlotKind]int64{}
	for i := range p.Slots {
		if x := &p.Slots[i]; x.Kind != compile.External || x.Index >= len(s.in) {
			bytes[x.Kind] += x.Bytes
		}
	}
	arena, sum, live := p.Arena.Bytes, p.Arena.Sum(), p.Arena.Live()
	parts := []map[string]int64{}
	for _, x := range p.Arena.Parts {
		parts = append(parts, map[string]int64{"offset": x.Offset, "bytes": x.Bytes, "first": x.First, "last": x.Last})
	}
	if !s.own { // the temporaries have buffers of their own
		arena, sum, live = bytes[compile.Temp], bytes[compile.Temp], bytes[compile.Temp]
	}
	packs, inPlace := s.weights()
	shared := arena
	if s.own {
		shared = s.x.ArenaBytes()
	}
	var state int64
	for _, t := range s.state {
		state += 2 * t.bytes()
	}
	return map[string]any{"weight_bytes": packs + inPlace, "pack_bytes": packs, "in_place_bytes": inPlace,
		"state_bytes": state, "peak_bytes": packs + inPlace + state + shared, "arena_bytes": arena,
		"sum_bytes": sum, "live_bytes": live, "parts": parts,
		"constant_bytes": bytes[compile.External], "packed_bytes": f.plan.Packed, "output_bytes": bytes[compile.Output],
		"input_shapes": f.shapes, "kernels": p.Kernels}, nil
}

// profile runs the latest plan once more, on zeros, and lists its steps with their times.
func (s *InferenceSession) profile() ([]map[string]any, *ir.Error) {
	f, err := s.latest()
	if err != nil {
		return nil, err
	}
	var keep [][]uint64
	room := func(bytes uint64) unsafe.Pointer {
		b := make([]uint64, bytes/8+1)
		keep = append(keep, b)
		return unsafe.Pointer(unsafe.SliceData(b))
	}
	for i, shape := range f.shapes {
		s.args[i] = room(uint64(ir.Numel(shape)) * uint64(s.in[i].DType.Size()))
	}
	for k, id := range f.outs[:len(s.out)] {
		av := ir.AvalOf(id)
		s.results[k] = room(uint64(av.Layout.Numel) * uint64(av.DType.Size()))
	}
	steps := []map[string]any{}
	work := func() *ir.Error {
		was := s.x.Profiling
		s.x.SetProfiling(true)
		defer s.x.SetProfiling(was)
		if err := s.run(f); err != nil {
			return err
		}
		g := f.plan.Plan.Program
		for _, t := range s.x.Timings {
			i := int(t.Event) - 1
			step := map[string]any{"op": t.Kernel, "kernel": t.Kernel, "device": t.Device,
				"time_us": float64(t.Duration.Nanoseconds()) / 1e3, "flops": t.Flops, "bytes": t.Bytes}
			if i >= 0 && i < len(g.Nodes) && g.Nodes[i].IsPrim() {
				step["op"], step["shape"] = g.Prim(i).NameFor(g.Attrs(i)), ir.AvalOf(g.Nodes[i].Aval).Shape()
			}
			steps = append(steps, step)
		}
		return nil
	}
	if s.own {
		err = work()
	} else {
		err = s.inEngine(work)
	}
	_ = keep
	return steps, err
}
