package op

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// withTables runs f on copies of the tables.
func withTables(f func()) {
	d, p := defs, prims
	dn, pn := defByName, primByName
	defer func() { defs, prims, defByName, primByName = d, p, dn, pn }()
	defs, prims, defByName, primByName = []*Def{nil}, []*Prim{nil}, map[string]*Def{}, map[string]*Prim{}
	f()
}

func TestIncompleteEntriesAreBugs(t *testing.T) {
	infer := func(_ []Val, _ []int64, out []OutSpec) ([]OutSpec, error) { return out, nil }
	rule := func(*VJPCall) []Val { return nil }
	withTables(func() {
		Register(Def{Sig: "f(Tensor self) -> Tensor"})
		require.Equal(t, Function|Method, Defs()[0].Where, "the default places")
		require.PanicsWithValue(t, "BUG: operator registered twice: f", func() { Register(Def{Sig: "f(int n) -> Tensor"}) })
		require.Panics(t, func() { Register(Def{Sig: "g(Tensr self) -> Tensor"}) })
		Register(Def{Sig: "f.dim(Tensor self, int dim) -> Tensor", Where: Hidden})
		require.Len(t, Defs(), 2, "an overload is another operator")

		id := RegisterPrim(Prim{Name: "p", Infer: infer, VJP: rule})
		require.EqualValues(t, 1, id)
		for name, p := range map[string]Prim{
			"registered twice": {Name: "p", Infer: infer, VJP: rule},
			"no inference":     {Name: "q", VJP: rule},
			"no rule, no word": {Name: "q", Infer: infer},
			"both":             {Name: "q", Infer: infer, VJP: rule, NoVJP: "it has one"},
		} {
			require.Panics(t, func() { RegisterPrim(p) }, name)
		}
		require.Len(t, Prims(), 1)
		require.False(t, Prims()[0].MayFail())
		require.True(t, (&Prim{IndexInput: 1}).MayFail())
	})
}

// A binding built from another table must be told apart by the hash: another signature, another order, one more.
func TestHashTellsTablesApart(t *testing.T) {
	const a, b = "a(Tensor self) -> Tensor", "b(Tensor self) -> Tensor"
	seen := map[uint32]int{}
	for i, sigs := range [][]string{{}, {a}, {b}, {a, b}, {b, a}, {"a(Tensor self, int n=0) -> Tensor"}} {
		withTables(func() {
			for _, s := range sigs {
				Register(Def{Sig: s})
			}
			h := Hash()
			require.NotContains(t, seen, h)
			seen[h] = i
			require.Equal(t, h, Hash())
		})
	}
}
