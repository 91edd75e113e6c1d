package lazy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// alias is a view in the model of the next test: the positions of its elements.
type alias struct {
	hd     uint64
	shape  []int64
	places []int
}

// A write through any alias is visible through every other, and values computed earlier keep their elements. Random
// programs are compared with a model of one array and lists of positions.
func TestAliasesShareTheirElements(t *testing.T) {
	for seed := range uint64(60) {
		rnd, r := rand.New(rand.NewPCG(seed, 1)), newRig(t)
		array := make([]float64, 12)
		for i := range array {
			array[i] = float64(i + 1)
		}
		root := alias{r.tensor([]int64{3, 4}, array...), []int64{3, 4}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
		views := []alias{root}
		type copied struct {
			hd   uint64
			want []float64
		}
		var copies []copied
		gather := func(v alias) (out []float64) {
			for _, p := range v.places {
				out = append(out, array[p])
			}
			return out
		}
		for range 25 {
			v := views[rnd.IntN(len(views))]
			switch k := rnd.IntN(6); {
			case k == 0:
				k := float64(rnd.IntN(3) + 2)
				r.mulIn(v.hd, k)
				for _, p := range v.places {
					array[p] *= k
				}
			case k == 1:
				want := gather(v)
				for i := range want {
					want[i] *= 2
				}
				copies = append(copies, copied{r.mul(v.hd, 2), want})
			case k == 2 && len(v.shape) == 2:
				n := alias{shape: []int64{v.shape[1], v.shape[0]}}
				for j := range v.shape[1] {
					for i := range v.shape[0] {
						n.places = append(n.places, v.places[i*v.shape[1]+j])
					}
				}
				n.hd = r.do(func(x ...op.Val) op.Val { return prim.Transpose(r, x[0], 0, 1) }, v.hd)
				views = append(views, n)
			case k == 3 && len(v.shape) == 2:
				i := rnd.Int64N(v.shape[0])
				row := v.places[i*v.shape[1] : (i+1)*v.shape[1]]
				hd := r.do(func(x ...op.Val) op.Val { return prim.Select(r, x[0], 0, i) }, v.hd)
				views = append(views, alias{hd, v.shape[1:], row})
			case k == 4 && len(v.shape) == 1 && v.shape[0] > 1:
				to := 1 + rnd.Int64N(v.shape[0]-1)
				views = append(views, alias{r.slice(v.hd, 0, to), []int64{to}, v.places[:to]})
			case k == 5 && len(views) > 1: // dropping an alias changes no other
				i := rnd.IntN(len(views))
				r.Release(views[i].hd)
				views = slices.Delete(views, i, i+1)
			}
			for _, v := range views {
				require.Equal(t, gather(v), r.read(v.hd), "seed %d", seed)
			}
		}
		var all []uint64
		for _, c := range copies {
			require.Equal(t, c.want, r.read(c.hd), "seed %d: a copy", seed)
			all = append(all, c.hd)
		}
		for _, v := range views {
			all = append(all, v.hd)
		}
		r.settled(all...)
	}
}

// The first store makes a loc of a base. Loads and stores of it are logged in order, each store with its commit.
func TestTheLogIsInProgramOrder(t *testing.T) {
	r := newRig(t)
	x, other := r.vector(1, 2), r.vector(3, 4)
	hx, err := r.Handle(x)
	require.Nil(t, err)
	b := r.Base(hx.Base)
	r.mul(x, 2)
	require.Equal(t, SSA, b.Binding)
	require.Empty(t, r.log(), "reads of a value need no order")
	before := b.Value
	r.mulIn(x, 2)
	require.Equal(t, PendingLoc, b.Binding)
	require.Equal(t, "pending_loc", b.Binding.String())
	r.mulIn(x, 2)
	r.mul(x, 1)
	r.mul(x, 1) // consecutive loads are one entry: only stores change versions
	r.Seed(5)
	r.RNG()
	r.mul(x, 1)
	require.Nil(t, r.copySelf(x))
	r.mulIn(other, 2)
	var kinds []EffectKind
	for _, e := range r.log() {
		kinds = append(kinds, e.Kind)
	}
	// mulIn resolves its operand first, which is a load if the operand is already a loc.
	require.Equal(t, []EffectKind{StoreSemantic, Commit, Load, StoreSemantic, Commit, Load, Draw, Load, Commit,
		StoreSemantic, Commit}, kinds)
	first, second := r.log()[0], r.log()[3]
	require.Equal(t, []uint32{before, first.Value}, []uint32{first.Prev, second.Prev}, "each knows the version before")
	require.Equal(t, first.Loc, second.Loc)
	require.NotEqual(t, first.Loc, r.log()[9].Loc)
	require.Equal(t, first.Mut, r.log()[1].Mut, "a store and its commit are one mutation")
	gen, commits := r.Commit(hx.Base)
	require.Equal(t, []uint64{uint64(b.Gen), 3}, []uint64{uint64(gen), commits})
	require.EqualValues(t, 2, r.Loc(b.Loc).Logical)
	require.Equal(t, "tensor_state", r.Loc(b.Loc).Role.String())
	base := hx.Base
	r.Release(x)
	for _, e := range r.log() {
		if e.Base == base {
			require.Contains(t, []EffectKind{Dropped, Load}, e.Kind, "nobody can observe a store to it")
		}
	}
	gen, _ = r.Commit(base)
	require.NotEqual(t, first.Gen, gen, "what was saved of it cannot be modified any more")
}

func TestDrawsAreCountedInProgramOrder(t *testing.T) {
	r := newRig(t)
	r.Seed(9)
	seed, first := r.RNG()
	_, second := r.RNG()
	require.Equal(t, []uint64{9, 1, 2}, []uint64{seed.Bits(), first.Bits(), second.Bits()})
	state := r.RNGState()
	r.RNG()
	r.SetRNGState(state)
	_, again := r.RNG()
	require.EqualValues(t, 3, again.Bits())
	require.Zero(t, r.Vmap(2<<2|VmapRefuses))
	refused := func() (err *ir.Error) {
		defer func() { err, _ = recover().(*ir.Error) }()
		r.RNG()
		return nil
	}()
	require.Contains(t, refused.Msg, "vmap: called random operation while in randomness error mode.")
}

// fenceAround refuses writes to one base.
type fenceAround uint32

// Refuse implements Fence.
func (f fenceAround) Refuse(base uint32, rebinding bool) *ir.Error {
	if base == uint32(f) {
		return ir.Errorf(ir.ErrRuntime, "fenced %v", rebinding)
	}
	return nil
}

func TestWritesThatPyTorchRefuses(t *testing.T) {
	r := newRig(t)
	x, plain := r.leaf(1, 2), r.vector(1, 2)
	view := r.slice(x, 0, 1)
	overlap := r.do(func(x ...op.Val) op.Val { return prim.Expand(r, prim.Slice(r, x[0], 0, 0, 1, 1), []int64{3}) }, plain)
	same := func(x op.Val) op.Val { return x }
	for want, hd := range map[string]uint64{
		"a leaf Variable that requires grad is being used in an in-place operation.":           x,
		"a view of a leaf Variable that requires grad is being used in an in-place operation.": view,
		"more than one element of the written-to tensor refers to a single memory location":    overlap,
	} {
		require.Contains(t, r.write(hd, same).Msg, want)
	}
	require.Contains(t, r.copySelf(x).Msg, "a leaf Variable")
	r.Taping(false) // no_grad
	r.mulIn(x, 2)
	r.mulIn(view, 2)
	require.Equal(t, []float64{4, 4}, r.read(x))
	r.Taping(true)

	// A fence refuses writes by base.
	h, _ := r.Handle(plain)
	base := h.Base
	r.SetFence(fenceAround(base))
	require.Equal(t, "fenced false", r.write(plain, same).Msg)
	require.Equal(t, "fenced true", r.SetData(plain, x).Msg)
	mark := r.Births()
	fresh := r.vector(1)
	require.Greater(t, r.Births(), mark)
	r.mulIn(fresh, 2)
	r.SetFence(nil)
	r.mulIn(plain, 2)
	r.settled(x, plain, view, overlap, fresh)
}

// tensor.data = other makes the handle an alias with its own place on the tape.
func TestSetDataMakesAnAlias(t *testing.T) {
	r := newRig(t)
	x, y := r.leaf(1, 2), r.vector(3, 4)
	view := r.slice(x, 0, 1)
	require.Nil(t, r.SetData(x, y))
	require.Nil(t, r.SetData(x, y), "again: it is one already")
	require.Equal(t, []float64{3, 4}, r.read(x))
	require.Equal(t, []float64{1}, r.read(view), "its views stay with the old values")
	r.mulIn(y, 10)
	require.Equal(t, []float64{30, 40}, r.read(x))
	h, _ := r.Handle(x)
	require.True(t, r.RequiresGrad(h))
	z := r.mul(x, 2)
	r.backward(z, false)
	require.Equal(t, []float64{2, 2}, r.grad(x))
	r.settled(x, y, view, z)
}

func TestRecordingRefusesWhatNoDeviceCanDo(t *testing.T) {
	r := newRig(t)
	x := r.resolve(r.vector(1, 2, 3))
	indices := r.graph().AddLeaf(ir.InternAval(ir.I64, ir.CPU, ir.DenseLayout([]int64{2})).ID, 1, 0)
	i := op.Val{Kind: op.Tensor, Value: indices, Aval: r.graph().Node(indices).Aval, Layout: ir.DenseLayout([]int64{2}).ID}
	y := prim.ToDevice(r, prim.Cast(r, x, ir.F32), 1)
	for _, tc := range []struct {
		code ir.Code
		want string
		f    func()
	}{
		{ir.ErrRuntime, "Expected all tensors to be on the same device, but found at least two devices, cpu and wgpu:0!",
			func() { prim.Add(r, x, y) }},
		{ir.ErrType, "float64 is not supported on device wgpu:0", func() { prim.Cast(r, y, ir.F64) }},
		{ir.ErrIndex, "index 7 is out of bounds for dimension 0 with size 3", func() {
			r.d.indexRange[indices] = [2]int64{0, 7}
			prim.IndexSelect(r, x, i, 0)
		}},
		{ir.ErrIndex, "index -1 is out of bounds", func() {
			r.d.indexRange[indices] = [2]int64{-1, 2}
			prim.IndexSelect(r, x, i, 0)
		}},
	} {
		err := func() (err *ir.Error) {
			defer func() { err, _ = recover().(*ir.Error) }()
			tc.f()
			return nil
		}()
		require.NotNil(t, err, tc.want)
		require.Equal(t, tc.code, err.Code)
		require.Contains(t, err.Msg, tc.want)
	}
	r.d.indexRange[indices] = [2]int64{0, 2}
	require.Equal(t, []int64{2}, prim.IndexSelect(r, x, i, 0).Shape())
	r.Deterministic = true
	sum := prim.ScatterAdd(r, x, i, prim.Slice(r, x, 0, 0, 2, 1), 0)
	attr := ir.AttrOf(r.graph().Node(sum.Value).Attr)
	require.Equal(t, op.Deterministic, attr[len(attr)-1], "an unordered primitive says so")
}
