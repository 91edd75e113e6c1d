package cpu

// #include "conv8.h"
// #include "conv_last.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/launch"
)

// NewWindow implements device.Host.
func (d *Device) NewWindow() device.Window { return &buffer{} }

// Set implements device.Window.
func (b *buffer) Set(p unsafe.Pointer, n int64) { b.p, b.size = p, n }

// packKey names an operand of a product: the constant, the byte where the operand begins in it, its sizes and strides.
// winograd says that they are n bytes of weights of a convolution (see packWinograd).
type packKey struct {
	of           string
	at           int64
	typ          C.int32_t
	k, n, bk, bn int64
	winograd     bool
}

// Pack implements device.Host. It packs the second operand of float32 and float64 products, and the first of those that
// are better computed as their transpose. A product of one row reads a narrow second operand where it lies. For
// convolutions whose channels come last, and those of 8-bit elements, it makes Winograd factors of the weights where
// the kernels use them.
func (d *Device) Pack(p device.Program, bind *device.Binding, constants device.Constants) error {
	x := p.(*program)
	steps := unsafe.Slice(x.prog.step, x.steps)
	for i := range steps {
		s := &steps[i]
		slots, at := unsafe.Slice(s.slot, s.nbuf), 1
		switch {
		case s.kind != C.TLK_STEP_GEMM && s.kind < C.TLK_STEP_CONV8:
			continue
		case s.kind == C.TLK_STEP_GEMM && (s.gemm.nn != 0 || constants.Key(int(slots[1])) == ""):
			at = 0
		}
		slot := int(slots[at])
		if constants.Key(slot) == "" {
			continue
		}
		pack := d.packWinograd
		if s.kind == C.TLK_STEP_GEMM {
			pack = func(s *C.tl_step, bind *device.Binding, from *packSource) (bool, error) {
				return d.packOperand(s, at, bind, from)
			}
		}
		packed, err := pack(s, bind, &packSource{constants, slot})
		if err != nil {
			return err
		}
		if packed {
			constants.Replaced(slot)
		}
	}
	return nil
}

// Packed implements device.Host.
func (d *Device) Packed() int64 { return d.packedBytes }

// ReturnUnused implements device.Host.
func (d *Device) ReturnUnused() {
	d.trim()
	C.tl_return_unused()
}

// packSource is a constant that is packed.
type packSource struct {
	constants device.Constants
	slot      int
}

// A transposed operand of more than cachedBytes is read once, in place, by products of rowsInPlace rows: the product is
// computed as its transpose (see run in gemm_driver.h). That beats a pack, which these rows read several times.
const cachedBytes = 1 << 20

var rowsInPlace = [2]C.int64_t{24, 64}

// reads reports a product of m rows that reads its second operand in place.
func reads(m, n, k, bk C.int64_t, typ ir.DType) bool {
	return bk == 1 && m >= rowsInPlace[0] && m <= rowsInPlace[1] && int64(n*k)*int64(typ.Size()) > cachedBytes
}

// parameters returns the numbers that step s gets in a run: its constants, with the binding's offsets and numbers
// added where they differ from run to run.
func parameters(s *C.tl_step, bind *device.Binding) []C.int64_t {
	par := slices.Clone(unsafe.Slice(s.par, s.npar))
	for _, y := range unsafe.Slice(s.dyn, s.ndyn) {
		if y.scalar >= 0 {
			par[y.par] = y.bits + C.int64_t(bind.Scalars[y.scalar])
		} else {
			par[y.par] = y.bits + C.int64_t(bind.Offsets[y.offset])
		}
	}
	return par
}

// packWinograd makes the factors of the weights of step s, a convolution, if it is computed by Winograd's filtering.
func (d *Device) packWinograd(s *C.tl_step, bind *device.Binding, source *packSource) (packed bool, err error) {
	par := parameters(s, bind)
	offset := launch.LastOffsets + 1
	if s.kind < C.TLK_STEP_CONV_LAST {
		if (s.kind-C.TLK_STEP_CONV8)&conv8Shifted != 0 {
			return false, nil
		}
		offset = launch.ConvOffsets + 1
	}
	pack := func(from, to unsafe.Pointer) int64 {
		if s.kind < C.TLK_STEP_CONV_LAST {
			return int64(C.tl_conv8_pack(d.isa, first(par), (*C.char)(from), (*C.char)(to)))
		}
		return int64(C.tl_winograd_pack(s.kind-C.TLK_STEP_CONV_LAST, first(par), (*C.char)(from), (*C.char)(to)))
	}
	n := pack(nil, nil)
	if n == 0 {
		return false, nil
	}
	to, err := d.pack(packKey{at: 4 * int64(par[offset]), n: n, winograd: true}, source, pack)
	s.winograd = (*C.char)(to)
	return err == nil, err
}

// packOperand packs operand at of the product of step s, if it is to be packed.
func (d *Device) packOperand(s *C.tl_step, at int, bind *device.Binding, source *packSource) (packed bool, err error) {
	g, par := s.gemm, parameters(s, bind)
	n, stride, offset, steps := par[g.N], [2]C.int64_t{par[g.bk], par[g.bn]}, par[g.bo], &g.bb
	if at == 0 {
		n, stride, offset, steps = par[g.M], [2]C.int64_t{par[g.ak], par[g.am]}, par[g.ao], &g.ab
		if g.nn != 0 {
			stride[0] = par[g.akd[g.nk-1]]
		}
	}
	one := par[g.M] < 1 || par[g.M] == 1 && (at == 0 || C.tl_gemm_row(g, d.isa, first(par)) == 0) ||
		par[g.N] <= 1 || par[g.K] <= 0
	for i := range g.nbatch {
		one = one || par[g.batch[i]] != 1 && par[steps[i]] != 0
	}
	typ := ir.DType(g._type)
	switch {
	case one, typ != ir.F32 && typ != ir.F64:
		return false, nil
	case at == 0 && C.tl_gemm_turns(g, d.isa, first(par)) == 0:
		return false, nil
	case at == 1 && reads(par[g.M], par[g.N], par[g.K], par[g.bk], typ):
		return false, nil
	}
	key := packKey{typ: g._type, k: int64(par[g.K]), n: int64(n), bk: int64(stride[0]), bn: int64(stride[1]),
		at: int64(offset) * int64(typ.Size())}
	to, err := d.pack(key, source, func(from, to unsafe.Pointer) int64 {
		if to != nil {
			from = unsafe.Add(from, key.at)
		}
		return int64(C.tl_gemm_pack(d.isa, key.typ, C.int64_t(key.k), C.int64_t(key.n), C.int64_t(key.bk),
			C.int64_t(key.bn), (*C.char)(from), (*C.char)(to)))
	})
	if at == 0 {
		g.apack = (*C.char)(to)
	} else {
		g.pack = (*C.char)(to)
	}
	return err == nil, err
}

// pack returns the pack of an operand of source. If there is none it makes it: write returns the bytes of the pack and,
// unless to is nil, packs the constant at from.
func (d *Device) pack(key packKey, source *packSource, write func(from, to unsafe.Pointer) int64) (to unsafe.Pointer,
	err error) {
	key.of = source.constants.Key(source.slot)
	if to = d.packs[key]; to != nil {
		return to, nil
	}
	from, err := source.constants.Load(source.slot)
	if err != nil {
		return nil, err
	}
	bytes := write(nil, nil)
	if to = C.tl_alloc(C.int64_t(bytes)); to == nil {
		return nil, outOfMemory(bytes)
	}
	write(from.(*buffer).p, to)
	if d.packs == nil {
		d.packs = map[packKey]unsafe.Pointer{}
	}
	d.packs[key], d.packedBytes = to, d.packedBytes+bytes
	return to, nil
}
