package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

var root = filepath.Join("..", "..")

func TestOutputsAreCurrent(t *testing.T) {
	stale, err := generate(root, true)
	require.NoError(t, err)
	assert.Empty(t, stale, "run go generate ./engine/op/composite")
}

func TestOutputsAreByteStable(t *testing.T) {
	a, err := outputs(root, op.Defs())
	require.NoError(t, err)
	b, err := outputs(root, op.Defs())
	require.NoError(t, err)
	assert.Equal(t, a, b)
}

// One new entry appears in every output: nothing else must be edited for an operator.
func TestOneEntryReachesEveryOutput(t *testing.T) {
	d := op.Def{
		Sig:   "dummy(Tensor self, int[]? dim=None, *, str(up|down)? way=None) -> (Tensor values, Tensor indices)",
		Doc:   "A dummy.",
		Where: op.Function | op.Method, Aliases: []string{"puppet"}, InPlace: true, ID: 9999,
		Samples: []op.Sample{{Args: "T(3)", Kwargs: "way='up'"}},
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			if x.DType() == ir.Bool {
				panic(ir.Errorf(ir.ErrRuntime, "dummy: no bools"))
			}
			return a.Ret(x, x)
		},
	}
	s, err := op.ParseSig(d.Sig)
	require.NoError(t, err)
	d.Parsed = s
	wants := map[string][]string{
		"python/csrc/ops_table.inc": {`{"way", TL_P_STR, TL_P_OPT | TL_P_KWONLY, "None", w9999_2}`, `{"puppet", NULL}`,
			"9999, TL_W_FUNCTION | TL_W_METHOD, TL_F_INPLACE"},
		"python/torchlette/_C.pyi": {"class _dummy(NamedTuple)",
			"def puppet_(self, dim: Sequence[builtins.int] | builtins.int | None = None, *, way: Literal['up', 'down'] | None " +
				"= None)"},
		"docs/operators/others.md":  {"| `dummy` |", "puppet | FM | I | float, int | yes | A dummy. |"},
		"python/tests/ops/ops.json": {`"full": "dummy"`, `"kwargs": "way='up'"`},
	}
	out, err := outputs(root, append(append([]*op.Def{}, op.Defs()...), &d))
	require.NoError(t, err)
	for path, texts := range wants {
		for _, w := range texts {
			assert.Contains(t, string(out[path]), w, path)
		}
	}
}

// docs/primitives.md says what the operands and attributes of each node are.
func TestEveryPrimitiveHasAForm(t *testing.T) {
	for _, p := range op.Prims() {
		assert.Contains(t, p.Form, " -> ", "%s: its entry in the table of forms of engine/op/prim", p.Name)
		if p.Variants != nil {
			assert.Contains(t, p.Form, "variant", "%s", p.Name)
		}
	}
}
