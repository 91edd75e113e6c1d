package composite

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
)

func TestOneCastPolicyAnOperator(t *testing.T) {
	for i, lists := range autocastNames {
		seen := map[string]bool{}
		for policy, names := range lists {
			for _, n := range strings.Fields(names) {
				assert.False(t, seen[n], "%s is in two lists of device %d", n, i)
				seen[n] = true
			}
			for _, d := range defsNamed(names) {
				assert.Equal(t, policy, d.Autocast[i], "%s on device %d", d.Parsed.Full, i)
			}
		}
	}
	assert.Equal(t, [2]op.CastPolicy{}, op.DefNamed("relu").Autocast)
}

// A name in a list that no operator has would have no effect, and no other test would notice.
func TestListsNameOperators(t *testing.T) {
	assert.Panics(t, func() { defsNamed("relu no_such_operator") })
	assert.Len(t, defsNamed("max"), 3, "all overloads")
}

// PyTorch returns the operand itself from conversions that convert nothing, and a new view from a view function.
func TestViewFunctionsReturnAnotherTensor(t *testing.T) {
	for name, want := range map[string]bool{"view": true, "detach": true, "split.sizes": true, "float": false,
		"contiguous": false, "flatten": false} {
		assert.Equal(t, want, op.DefNamed(name).NewView, name)
	}
	for _, d := range op.Defs() {
		reads := d.Parsed.Full == "as_strided" || d.Parsed.Full == "view_as_complex"
		assert.Equal(t, reads, d.ReadsOffset, d.Parsed.Full)
	}
}

func TestGradFnsAreNamedByOverloadAndRank(t *testing.T) {
	pow, linear := op.DefNamed("pow").GradFn, op.DefNamed("linear").GradFn
	assert.Equal(t, "PowBackward1", pow.Tensors)
	assert.NotNil(t, linear.Choose)
	assert.Equal(t, "LogSoftmaxBackward0", op.GradFnName("log_softmax"))
	assert.Equal(t, "Atan2Backward0", op.GradFnName("atan2"))
	assert.Empty(t, op.DefNamed("exp").GradFn.Name, "named after the operator")
}
