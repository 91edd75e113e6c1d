package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recalled calls f three times and reports whether the last calls were replayed.
func recalled(r *rig, f func(i int)) bool {
	for i := range 2 {
		f(i)
	}
	before := r.stat("rules_recalled")
	f(2)
	return r.stat("rules_recalled") > before
}

func TestTheThirdLikeCallReplaysItsTrace(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name string
		f    func(x, y T) T
		want func(x, y float32) float32
	}{
		{"one primitive", func(x, y T) T { return r.do("add", x, y) }, func(x, y float32) float32 { return x + y }},
		{"a constant", func(x, y T) T { return r.do("mul", r.do("add", x, y, 3.0), 2.0) },
			func(x, y float32) float32 { return 2 * (x + 3*y) }},
		{"views", func(x, y T) T {
			return r.do("add", r.do("unsqueeze", x, 0), r.do("select", r.do("stack", []T{y, y}), 0, 1))
		},
			func(x, y float32) float32 { return x + y }},
		{"one operand twice, then two", func(x, y T) T { return r.do("sub", x, y) },
			func(x, y float32) float32 { return x - y }},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.True(t, recalled(r, func(i int) {
				v := float32(i + 1)
				x, y := r.floats(nil, v, v), r.floats(nil, 10*v, 10*v)
				if i < 2 {
					c.f(x, x)
				}
				assert.Equal(t, c.want(v, 10*v), r.read(c.f(x, y))[0])
			}))
		})
	}
}

func TestACachedVJPDeliversToTheRightOperands(t *testing.T) {
	r := newRig(t)
	assert.True(t, recalled(r, func(i int) {
		v := float32(i + 2)
		x, y := r.grad(r.floats(nil, v)), r.grad(r.floats(nil, 5*v))
		require.Nil(t, r.backward(r.do("sum", r.do("div", r.do("view", x, []int64{1}), y)), 0))
		assert.InDelta(t, 1/(5*v), r.gradOf(x)[0], 1e-6)
		assert.InDelta(t, -v/(25*v*v), r.gradOf(y)[0], 1e-6)
	}))
}

func TestAReplayDrawsAnew(t *testing.T) {
	r := newRig(t)
	seen := map[float32]bool{}
	assert.True(t, recalled(r, func(int) { seen[r.read(r.do("rand_like", r.floats(nil, 0)))[0]] = true }))
	assert.Len(t, seen, 3, "each call has numbers of its own")
}

func TestNumbersThatARuleOnlyPassesOnAreNoPartOfItsKey(t *testing.T) {
	r := newRig(t)
	want := float32(1)
	p := r.floats(nil, 1)
	assert.True(t, recalled(r, func(i int) {
		lr := 0.25 * float64(i+1)
		_, err := r.call(0, "_sgd_step", p, r.floats(nil, 1), nil, lr, 0.0, 0.0, 0.0, true, false, false)
		require.Nil(t, err)
		want -= float32(lr)
		assert.Equal(t, want, r.read(p)[0])
	}))
}

func TestARuleThatFailsLeavesNoTrace(t *testing.T) {
	r := newRig(t)
	for range 4 {
		_, err := r.call(0, "add", r.floats(nil, 1, 2), r.floats(nil, 1, 2, 3))
		require.NotNil(t, err)
	}
	assert.Equal(t, int64(0), r.stat("rules_recalled"))
	assert.Equal(t, []float32{3}, r.read(r.do("add", r.floats(nil, 1), r.floats(nil, 2))))
}
