package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
)

func TestArtifactsAreCurrent(t *testing.T) {
	for _, a := range artifacts {
		have, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(a.path)))
		require.NoError(t, err)
		assert.True(t, string(have) == string(a.write(op.Defs())), "%s is stale: run go generate ./engine/op/comp", a.path)
	}
}

func TestArtifactsAreByteStable(t *testing.T) {
	for _, a := range artifacts {
		assert.Equal(t, string(a.write(op.Defs())), string(a.write(op.Defs())), a.path)
	}
}

// One new entry appears in every artifact: nothing else must be edited for an operator.
func TestOneEntryReachesEveryArtifact(t *testing.T) {
	d := op.Def{
		Sig: "dummy(Tensor self, int[]? dim=None, *, str(up|down)? way=None) -> (Tensor values, Tensor indices)", Doc: "A dummy.",
		Where: op.Function | op.Method, Aliases: []string{"puppet"}, InPlace: true, ID: 9999,
		Samples: []op.Sample{{Args: "T(3)", Kwargs: "way='up'"}},
	}
	s, err := op.ParseSig(d.Sig)
	require.NoError(t, err)
	d.Parsed = s
	wants := map[string][]string{
		"python/csrc/ops_table.inc":    {`{"way", TL_P_STR, TL_P_OPT | TL_P_KWONLY, "None", w9999_2}`, `{"puppet", NULL}`, "9999, TL_W_FUNCTION | TL_W_METHOD, TL_F_INPLACE"},
		"python/torchlette/_C.pyi":     {"class _dummy(NamedTuple)", "def puppet_(self, dim: Sequence[builtins.int] | builtins.int | None = None, *, way: Literal['up', 'down'] | None = None)"},
		"docs/operators.md":            {"| `dummy` |", "puppet | FM | I | A dummy. |"},
		"python/tests/parity/ops.json": {`"full": "dummy"`, `"kwargs": "way='up'"`},
	}
	for _, a := range artifacts {
		text := string(a.write(append(append([]*op.Def{}, op.Defs()...), &d)))
		require.NotEmpty(t, wants[a.path], a.path)
		for _, w := range wants[a.path] {
			assert.Contains(t, text, w, a.path)
		}
	}
}
