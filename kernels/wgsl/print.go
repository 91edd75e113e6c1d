package wgsl

import (
	"fmt"
	"strings"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// Print makes the module of p.
func Print(p *gpuir.Program, o Options) (*Module, error) {
	if err := gpuir.Verify(p); err != nil {
		return nil, fmt.Errorf("wgsl: %s: %w", p.Name, err)
	}
	w := &writer{p: p, o: o, helpers: map[string]bool{}}
	if err := w.planBuffers(); err != nil {
		return nil, err
	}
	w.block(p.Body, 1)
	if w.err != nil {
		return nil, w.err
	}
	m := &Module{Entry: "main", Immediates: o.Immediates, Workgroup: p.Workgroup, SharedBytes: p.SharedBytes()}
	m.Text = w.module(m)
	return m, nil
}

// writer collects the body and the helper functions that it needs.
type writer struct {
	p       *gpuir.Program
	o       Options
	bufs    []bufForm
	body    strings.Builder
	helpers map[string]bool
	funcs   []string // helper texts in the order of first need
	err     error
}

// bufForm is how a buffer is declared.
type bufForm struct {
	elem   string // element type of the array
	packed bool   // two 16-bit floats in a word
	atomic bool
	words  bool // the bits of floats are exchanged, where no native atomic does the operation
	vec    int
}

// planBuffers decides each buffer's form from how the program stores to it.
func (w *writer) planBuffers() error {
	narrow := make([]bool, len(w.p.Bufs)) // stored element by element
	words := make([]bool, len(w.p.Bufs))
	walk(w.p.Body, func(s *gpuir.Stmt) {
		if s.Op == gpuir.SStore && s.B.Width == 1 {
			narrow[s.Ref] = true
		}
		if s.Op == gpuir.SAtomic && (s.Mode != loopir.Add || !w.o.F32Atomics) {
			words[s.Ref] = true
		}
	})
	for i, b := range w.p.Bufs {
		f := bufForm{vec: b.Vec, atomic: b.Access == loopir.Atomic, words: words[i] && b.Type == ir.F32}
		half := b.Type == ir.F16 || b.Type == ir.BF16
		f.packed = half && (f.atomic || b.Type == ir.BF16 || !w.o.F16)
		if f.packed && narrow[i] {
			// Threads own halves of a word: one must not overwrite the other's.
			f.atomic = true
		}
		if f.atomic && b.Vec == 4 {
			return fmt.Errorf("wgsl: %s: buffer %d: atomics on vectors", w.p.Name, i)
		}
		f.elem = w.elem(b.Type, f)
		w.bufs = append(w.bufs, f)
	}
	return nil
}

func (w *writer) elem(t ir.DType, f bufForm) string {
	if f.packed {
		switch {
		case f.atomic:
			return "atomic<u32>"
		case f.vec == 4:
			return "vec2<u32>"
		}
		return "u32"
	}
	s := map[ir.DType]string{ir.Bool: "u32", ir.I32: "i32", ir.U32: "u32", ir.F16: "f16", ir.F32: "f32", ir.I64: "i32",
		ir.U8: "i32", ir.I8: "i32", ir.I16: "i32", ir.U16: "i32"}[t]
	if t == ir.I64 && w.o.I64 {
		s = "i64"
		if f.atomic {
			return "atomic<u32>" // two words for an element; the carry is added by hand
		}
	}
	if f.atomic {
		if f.words {
			s = "u32"
		}
		return "atomic<" + s + ">"
	}
	if f.vec == 4 {
		return "vec4<" + s + ">"
	}
	return s
}

// walk visits every statement.
func walk(body []gpuir.Stmt, f func(*gpuir.Stmt)) {
	for i := range body {
		f(&body[i])
		walk(body[i].Body, f)
		walk(body[i].Else, f)
	}
}

func (w *writer) fail(format string, args ...any) string {
	if w.err == nil {
		w.err = fmt.Errorf("wgsl: %s: "+format, append([]any{w.p.Name}, args...)...)
	}
	return "0"
}

// module writes the whole text and fills in the binding layout of m.
func (w *writer) module(m *Module) string {
	var t strings.Builder
	if w.o.F16 && w.usesF16() {
		t.WriteString("enable f16;\n")
	}
	for i, b := range w.p.Bufs {
		mode, readOnly, kind, buf := "read_write", false, BindStorage, i
		if b.Scratch {
			kind, buf = BindScratch, -1
		}
		if b.Access == loopir.Read {
			mode, readOnly = "read", true
		}
		fmt.Fprintf(&t, "@group(0) @binding(%d) var<storage, %s> b%d: array<%s>;\n", len(m.Bindings), mode, i, w.bufs[i].elem)
		m.Bindings = append(m.Bindings, Binding{Kind: kind, Buf: buf, ReadOnly: readOnly})
	}
	if w.p.Checks {
		fmt.Fprintf(&t, "@group(0) @binding(%d) var<storage, read_write> fault: array<atomic<u32>, 4>;\n", len(m.Bindings))
		m.Bindings = append(m.Bindings, Binding{Kind: BindError, Buf: -1})
	}
	fields := w.words(m)
	if len(m.Words) > 0 {
		fmt.Fprintf(&t, "struct Params {\n%s}\n", fields)
		if w.o.Immediates {
			t.WriteString("var<immediate> P: Params;\n")
		} else {
			fmt.Fprintf(&t, "@group(0) @binding(%d) var<uniform> P: Params;\n", len(m.Bindings))
			m.Bindings = append(m.Bindings, Binding{Kind: BindParams, Buf: -1})
		}
	}
	for i, s := range w.p.Shared {
		fmt.Fprintf(&t, "var<workgroup> s%d: array<%s, %d>;\n", i, typeName(sharedType(s.Type), s.Vec), s.Len)
	}
	for _, f := range w.funcs {
		t.WriteString(f)
	}
	fmt.Fprintf(&t, "@compute @workgroup_size(%d)\n", w.p.Workgroup)
	t.WriteString("fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) local: u32) {\n")
	fmt.Fprintf(&t, "  let gid = i32(wg.y * %du + wg.x);\n  let lid = i32(local);\n", gpuir.GridFold)
	t.WriteString(w.body.String())
	t.WriteString("}\n")
	return t.String()
}

func (w *writer) usesF16() bool {
	for i, b := range w.p.Bufs {
		if b.Type == ir.F16 && !w.bufs[i].packed {
			return true
		}
	}
	return false
}

// words lays out the parameter block.
func (w *writer) words(m *Module) string {
	var t strings.Builder
	for i, p := range w.p.Params {
		m.Words = append(m.Words, Word{Param: i, Signed: p.Kind != loopir.Scalar})
		switch {
		case p.Kind != loopir.Scalar:
			fmt.Fprintf(&t, "  p%d: i32,\n", i)
		case p.Type == ir.I64:
			fmt.Fprintf(&t, "  p%d: u32,\n  p%dh: u32,\n", i, i)
			m.Words = append(m.Words, Word{Param: i, High: true})
		case p.Type == ir.F64:
			w.fail("parameter %d is float64", i)
		default:
			fmt.Fprintf(&t, "  p%d: %s,\n", i, typeName(sharedType(p.Type), 1))
		}
	}
	if w.p.Checks {
		t.WriteString("  event: u32,\n")
		m.Words = append(m.Words, Word{Param: -1})
	}
	return t.String()
}

// sharedType is the type in which memory other than local variables holds t.
func sharedType(t ir.DType) ir.DType {
	if t == ir.Bool {
		return ir.U32
	}
	return t
}

func typeName(t ir.DType, width int) string {
	s := map[ir.DType]string{ir.Bool: "bool", ir.I32: "i32", ir.I64: "i64", ir.U32: "u32", ir.F32: "f32"}[t]
	if width == 4 {
		return "vec4<" + s + ">"
	}
	return s
}

func (w *writer) line(depth int, format string, args ...any) {
	for range depth {
		w.body.WriteString("  ")
	}
	fmt.Fprintf(&w.body, format+"\n", args...)
}

func (w *writer) block(body []gpuir.Stmt, depth int) {
	for i := range body {
		w.stmt(&body[i], depth)
	}
}

func (w *writer) stmt(s *gpuir.Stmt, d int) {
	switch s.Op {
	case gpuir.SLet:
		w.line(d, "let v%d = %s;", s.Var, w.expr(s.A))
	case gpuir.SVar:
		w.line(d, "var v%d: %s = %s;", s.Var, typeName(s.A.Type, s.A.Width), w.expr(s.A))
	case gpuir.SAssign:
		w.line(d, "v%d = %s;", s.Var, w.expr(s.A))
	case gpuir.SFor:
		w.line(d, "for (var v%d: i32 = %s; v%d < %s; v%d += %s) {", s.Var, w.expr(s.A), s.Var, w.expr(s.B), s.Var,
			w.expr(s.C))
		w.block(s.Body, d+1)
		w.line(d, "}")
	case gpuir.SIf:
		w.line(d, "if (%s) {", w.expr(s.A))
		w.block(s.Body, d+1)
		if len(s.Else) > 0 {
			w.line(d, "} else {")
			w.block(s.Else, d+1)
		}
		w.line(d, "}")
	case gpuir.SBarrier:
		if s.Ref != 0 {
			w.line(d, "storageBarrier();")
		}
		w.line(d, "workgroupBarrier();")
	case gpuir.SUniform:
		at := w.expr(s.A)
		v := fmt.Sprintf("workgroupUniformLoad(&s%d[%s])", s.Ref, at)
		if w.p.Shared[s.Ref].Vec > 1 {
			v = fmt.Sprintf("workgroupUniformLoad(&s%d[%s >> 2u])[%s & 3i]", s.Ref, at, at)
		}
		if w.p.Shared[s.Ref].Type == ir.Bool {
			v = "(" + v + " != 0u)"
		}
		w.line(d, "let v%d = %s;", s.Var, v)
	case gpuir.SStore:
		w.store(s, d)
	case gpuir.SAtomic:
		w.atomic(s, d)
	case gpuir.SSharedSet:
		v := w.expr(s.B)
		if s.B.Type == ir.Bool {
			v = "u32(" + v + ")"
		}
		to := w.sharedPlace(s.Ref, w.expr(s.A), s.B.Width)
		if s.C != nil {
			to = fmt.Sprintf("s%d[%s][%s]", s.Ref, w.expr(s.A), w.expr(s.C))
		}
		w.line(d, "%s = %s;", to, v)
	case gpuir.SFault:
		w.fault(s, d)
	}
}

// fault: the first writer takes word 0. A weak exchange may fail spuriously, hence the loop.
func (w *writer) fault(s *gpuir.Stmt, d int) {
	w.line(d, "if (%s) {", w.expr(s.A))
	e := w.expr(s.B)
	lo, hi := "bitcast<u32>("+e+")", "bitcast<u32>("+e+" >> 31u)"
	switch {
	case s.C != nil:
		hi = "bitcast<u32>(" + w.expr(s.C) + ")"
	case s.B.Type == ir.U32:
		lo, hi = e, "0u"
	case s.B.Type == ir.I64:
		lo, hi = "u32("+e+")", "u32("+e+" >> 32u)"
	}
	w.line(d+1, "loop {")
	w.line(d+2, "let r = atomicCompareExchangeWeak(&fault[0], 0u, P.event + 1u);")
	w.line(d+2, "if (r.exchanged) {")
	w.line(d+3, "atomicStore(&fault[1], %s);", lo)
	w.line(d+3, "atomicStore(&fault[2], %s);", hi)
	w.line(d+2, "}")
	w.line(d+2, "if (r.exchanged || r.old_value != 0u) { break; }")
	w.line(d+1, "}")
	w.line(d, "}")
}

func (w *writer) store(s *gpuir.Stmt, d int) {
	b, f := w.p.Bufs[s.Ref], w.bufs[s.Ref]
	v := w.expr(s.B)
	at := w.expr(s.A)
	wide := s.B.Width == 4
	switch {
	case f.packed && wide:
		h := w.halfBits(b.Type)
		w.line(d, "{")
		w.line(d+1, "let x = %s;", v)
		w.line(d+1, "b%d[%s] = vec2<u32>(%s(x.x) | (%s(x.y) << 16u), %s(x.z) | (%s(x.w) << 16u));", s.Ref, at, h, h, h, h)
		w.line(d, "}")
		return
	case f.packed:
		w.line(d, "{")
		w.line(d+1, "let at = %s;", at)
		w.line(d+1, "let shift = 16u * u32(at & 1i);")
		w.line(d+1, "let bits = %s(%s) << shift;", w.halfBits(b.Type), v)
		w.line(d+1, "atomicAnd(&b%d[at >> 1u], 0xffff0000u >> shift);", s.Ref)
		w.line(d+1, "atomicOr(&b%d[at >> 1u], bits);", s.Ref)
		w.line(d, "}")
		return
	}
	switch b.Type {
	case ir.Bool:
		v = fmt.Sprintf("%s(%s)", typeName(ir.U32, s.B.Width), v)
	case ir.F16:
		v = "f16(" + v + ")"
		if wide {
			v = "vec4<f16>(" + w.expr(s.B) + ")"
		}
	case ir.I64:
		if w.o.I64 && s.B.Type == ir.I32 {
			v = "i64(" + v + ")"
		}
	}
	w.line(d, "%s = %s;", w.place(s.Ref, at, wide), v)
}

// place is the memory of element, or vector, at.
func (w *writer) place(buf int, at string, wide bool) string {
	if w.bufs[buf].vec == 4 && !wide {
		return fmt.Sprintf("b%d[%s >> 2u][%s & 3i]", buf, at, at)
	}
	return fmt.Sprintf("b%d[%s]", buf, at)
}

// sharedPlace is an element or a vector of a workgroup array.
func (w *writer) sharedPlace(array int, at string, width int) string {
	if w.p.Shared[array].Vec > width {
		return fmt.Sprintf("s%d[%s >> 2u][%s & 3i]", array, at, at)
	}
	return fmt.Sprintf("s%d[%s]", array, at)
}

// atomic combines an element with a value: natively where WGSL can, else by exchanging its word.
func (w *writer) atomic(s *gpuir.Stmt, d int) {
	b := w.p.Bufs[s.Ref]
	at, v := w.expr(s.A), w.expr(s.B)
	name := fmt.Sprintf("b%d", s.Ref)
	combined := func(old string) string {
		return w.operation(&gpuir.Node{Op: s.Mode.Op(), Type: s.B.Type, Width: 1, Args: []*gpuir.Node{s.B, s.B}},
			[]string{old, "x"})
	}
	switch {
	case w.bufs[s.Ref].packed:
		h := w.halfBits(b.Type)
		w.line(d, "{")
		w.line(d+1, "let at = %s;", at)
		w.line(d+1, "let x = %s;", v)
		w.line(d+1, "let shift = 16u * u32(at & 1i);")
		half := fmt.Sprintf("%s(%s)", h, combined(w.halfValue(b.Type, "old", "at")))
		w.exchange(d+1, name+"[at >> 1u]", fmt.Sprintf("(old & (0xffff0000u >> shift)) | (%s << shift)", half))
		w.line(d, "}")
	case w.bufs[s.Ref].words:
		w.line(d, "{")
		w.line(d+1, "let at = %s;", at)
		w.line(d+1, "let x = %s;", v)
		w.exchange(d+1, name+"[at]", fmt.Sprintf("bitcast<u32>(%s)", combined("bitcast<f32>(old)")))
		w.line(d, "}")
	case b.Type == ir.I64 && w.o.I64 && s.Mode != loopir.Add:
		w.fail("only sums of 64-bit integers are atomic")
	case b.Type == ir.I64 && w.o.I64:
		// Each addition carries into the high word once, so the sum is right when all are done.
		w.line(d, "{")
		w.line(d+1, "let at = 2i * (%s);", at)
		w.line(d+1, "let x = i64(%s);", v)
		w.line(d+1, "let lo = u32(x);")
		w.line(d+1, "let old = atomicAdd(&%s[at], lo);", name)
		w.line(d+1, "atomicAdd(&%s[at + 1i], u32(x >> 32u) + u32(old + lo < lo));", name)
		w.line(d, "}")
	case s.Mode == loopir.Multiply:
		w.line(d, "{")
		w.line(d+1, "let at = %s;", at)
		w.line(d+1, "let x = %s;", v)
		w.exchange(d+1, name+"[at]", "old * x")
		w.line(d, "}")
	default:
		native := map[loopir.StoreMode]string{loopir.Add: "atomicAdd", loopir.Maximize: "atomicMax",
			loopir.Minimize: "atomicMin"}[s.Mode]
		w.line(d, "%s(&%s[%s], %s);", native, name, at, v)
	}
}

// exchange replaces a word by a function of its old value.
func (w *writer) exchange(d int, place, value string) {
	w.line(d, "var old = atomicLoad(&%s);", place)
	w.line(d, "loop {")
	w.line(d+1, "let r = atomicCompareExchangeWeak(&%s, old, %s);", place, value)
	w.line(d+1, "if (r.exchanged) { break; }")
	w.line(d+1, "old = r.old_value;")
	w.line(d, "}")
}
