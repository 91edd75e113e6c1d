package ir

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A new dtype has a row with every fact that other tables are made of; docs/howto/add-a-dtype.md is about the rest.
func TestEveryDTypeIsInEveryTable(t *testing.T) {
	names, scalars := map[string]bool{}, map[string]bool{}
	for d := InvalidDType + 1; d < NumDTypes; d++ {
		assert.NotEmpty(t, d.String())
		assert.False(t, names[d.String()], "%s: the name is taken", d)
		assert.False(t, scalars[d.ScalarType()], "%s: the name %s is taken", d, d.ScalarType())
		names[d.String()], scalars[d.ScalarType()] = true, true
		assert.Positive(t, d.Size(), "%s", d)
		assert.Equal(t, d == Bool, !d.IsInt() && !d.IsInexact(), "%s: bool, integer, float or complex", d)
		assert.Equal(t, d >= NumStored, d.IsComplex(), "%s: complex types are the last ones", d)
		for e := InvalidDType + 1; e < NumDTypes; e++ {
			p := Promote(d, e)
			assert.Equal(t, p, Promote(e, d), "%s with %s", d, e)
			if p == InvalidDType {
				assert.True(t, d == U64 && e.Info().Kind == 'i' || e == U64 && d.Info().Kind == 'i', "%s with %s", d, e)
				continue
			}
			assert.Equal(t, max(d.Category(), e.Category()), p.Category(), "%s with %s is %s", d, e, p)
		}
		assert.Equal(t, d, Promote(d, d))
		if d.IsInt() {
			lo, hi := Limits(d)
			assert.Equal(t, lo, Wrap(d, lo), "%s", d)
			assert.Equal(t, hi, Wrap(d, hi), "%s", d)
			if d.Size() < 8 {
				assert.Equal(t, lo, Wrap(d, hi+1), "%s", d)
			}
		}
		if d.IsComplex() {
			assert.Equal(t, d, d.Real().Complex())
			continue
		}
		assert.InDelta(t, 1, DecodeFloat(d, EncodeFloat(d, 1)), 0, "%s", d)
	}
}
