package compile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPassThatRunsTooEarlyIsFoundAtStart(t *testing.T) {
	require.NoError(t, checkOrder(passes))
	for i := range passes {
		assert.NotEmpty(t, passes[i].reason, passes[i].name)
		for j := range i {
			moved := append(append([]pass{}, passes[:j]...), passes[i])
			moved = append(append(moved, passes[j:i]...), passes[i+1:]...)
			needed := false
			for _, r := range passes[i].requires {
				for _, p := range passes[j:i] {
					needed = needed || p.name == r
				}
			}
			if err := checkOrder(moved); needed {
				assert.ErrorContains(t, err, "pass "+passes[i].name+" runs before ")
			}
		}
	}
	assert.ErrorContains(t, checkOrder(append(passes[:1:1], passes[0])), "pass uses runs twice")
}

func TestNamesOfPassesAreChecked(t *testing.T) {
	require.NoError(t, (&Debug{Dump: "all", Off: []string{"donate", "tiles"}}).Check())
	require.NoError(t, (&Debug{Dump: "lower"}).Check())
	assert.ErrorContains(t, (&Debug{Dump: "lowering"}).Check(), `no pass "lowering" to dump: there are all, uses, inplace`)
	err := (&Debug{Off: []string{"donate", "memory"}}).Check()
	assert.ErrorContains(t, err, `pass "memory" cannot be left out: these can: inplace`)
	assert.False(t, strings.HasSuffix(err.Error(), "memory"))
}
