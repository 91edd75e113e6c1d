package loopir

import "encoding/binary"

// Key is a canonical byte string of everything that determines what k does and how it is printed. Name is no part of
// it.
func Key(k *Kernel) string {
	b := make([]byte, 0, 64+12*len(k.Exprs))
	num := func(v int) { b = binary.AppendVarint(b, int64(v)) }
	flag := func(vs ...bool) {
		var x byte
		for i, v := range vs {
			if v {
				x |= 1 << i
			}
		}
		b = append(b, x)
	}
	flag(k.Checks, k.NoVec)
	num(k.Outer)
	num(k.Inner)
	num(len(k.Params))
	for _, p := range k.Params {
		b = append(b, byte(p.Kind), byte(p.Type))
	}
	num(len(k.Bufs))
	for _, x := range k.Bufs {
		b = append(b, byte(x.Type), byte(x.Access))
	}
	num(len(k.Access))
	for _, a := range k.Access {
		num(a.Buf)
		num(a.Offset)
		flag(a.Linear)
		num(len(a.Stride))
		for _, s := range a.Stride {
			num(s)
		}
	}
	num(len(k.Exprs))
	for _, e := range k.Exprs {
		b = append(b, byte(e.Op), byte(e.Type))
		num(e.A)
		num(e.B)
		num(e.C)
		b = binary.AppendUvarint(b, e.Imm)
	}
	num(len(k.Stages))
	for i := range k.Stages {
		b = appendStage(b, &k.Stages[i])
	}
	return string(b)
}

func appendStage(b []byte, s *Stage) []byte {
	num := func(v int) { b = binary.AppendVarint(b, int64(v)) }
	bits := 0
	if s.OverInner {
		bits |= 1
	}
	if s.Prefix {
		bits |= 2
	}
	num(bits)
	num(len(s.Accs))
	for _, a := range s.Accs {
		num(int(a.Op))
		num(a.Val)
		num(a.Idx)
		if a.Unrounded {
			num(1)
		} else {
			num(0)
		}
	}
	num(len(s.Checks))
	for _, c := range s.Checks {
		num(c.Cond)
		num(c.Elem)
	}
	num(len(s.Stores))
	for _, r := range s.Stores {
		num(r.Access)
		num(r.Buf)
		num(r.Index)
		num(r.Val)
		num(int(r.Mode))
		num(r.Guard)
	}
	return b
}

var opNames = [NumOps]string{
	"invalid", "const", "param", "index", "linear", "load", "load_at", "acc", "acc_idx", "acc_run",
	"cast", "bitcast", "narrow",
	"add", "sub", "mul", "div", "rem", "min", "max", "neg", "abs", "fma", "pow", "log_add",
	"eq", "ne", "lt", "le", "select", "and", "or", "xor", "not", "shl", "shr",
	"floor", "ceil", "round", "trunc", "sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "isnan",
	"draw",
}

// String names the operation.
func (o Op) String() string {
	if o < NumOps {
		return opNames[o]
	}
	return "invalid"
}
