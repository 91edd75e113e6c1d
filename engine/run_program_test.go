package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// exportFunction records f on placeholders like args. It returns the steps as text, and the found constants.
func (r *rig) exportFunction(f func(x ...T) []T, known []T, args ...T) (exportedText, []Out, *ir.Error) {
	outs := make([]Out, len(args))
	require.Nil(r.t, r.e.BeginExport(handles(args), handles(known), outs))
	var x []T
	for _, o := range outs {
		x = append(x, T(o.Handle))
	}
	text, constants, err := r.e.EndExport(true, handles(f(x...)))
	var t exportedText
	if err == nil {
		require.NoError(r.t, json.Unmarshal(text, &t))
	}
	return t, constants, err
}

func handles(list []T) (hs []uint64) {
	for _, x := range list {
		hs = append(hs, uint64(x))
	}
	return hs
}

// program makes a program of recorded steps; inputs and constants are float32 vectors of n elements.
func (r *rig) savedProgram(t exportedText, n int64, inputs, constants int) *saved.Program {
	describe := func(prefix string, count int, kind string) (list []map[string]any) {
		for i := range count {
			v := map[string]any{"name": prefix + string(rune('0'+i)), "dtype": "float32", "shape": []int64{n}}
			if kind != "" {
				v["kind"] = kind
			}
			list = append(list, v)
		}
		return list
	}
	var outputs []map[string]string
	for _, id := range t.Outputs {
		outputs = append(outputs, map[string]string{"name": id, "value": id})
	}
	text, err := json.Marshal(map[string]any{"format": "torchlette program", "version": 1,
		"constants": describe("c", constants, "buffer"), "functions": map[string]any{
			"forward": map[string]any{"inputs": describe("x", inputs, ""), "steps": t.Steps, "outputs": outputs}}})
	require.NoError(r.t, err)
	p, x := saved.Parse(text)
	require.Nil(r.t, x, "%v", x)
	return p
}

func (r *rig) runProgram(p *saved.Program, constants []T, inputs ...T) ([]T, *ir.Error) {
	outs, err := r.e.RunProgram(&ProgramRun{Program: p, Function: p.Functions["forward"], Constants: handles(constants),
		Inputs: handles(inputs)})
	var list []T
	for _, o := range outs {
		list = append(list, T(o.Handle))
	}
	return list, err
}

// TestAProgramDoesWhatTheFunctionDid: cached traces, deferred calls, writes in place and through views, numbers.
func TestAProgramDoesWhatTheFunctionDid(t *testing.T) {
	r := newRig(t)
	state, x := r.floats(nil, 1, 2), r.floats(nil, 3, 4)
	deferred, _ := r.deferrable("mul", x, x)
	older := r.do("neg", x)
	text, found, err := r.exportFunction(func(a ...T) []T {
		host := r.floats(nil, 10, 20)
		y := r.keep(deferred, a[0], a[0])
		r.inplace("add", r.do("detach", state), y)
		z := r.do("add", r.do("mul", y, older), host)
		return []T{z, a[0], state, r.do("mul", z, 2.0)}
	}, []T{state}, x)
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []bool{false, true, false, false}, text.Changed, "the state alone")
	assert.Len(t, found, 2, "the older tensor, and that of host data")
	assert.Equal(t, []float32{1, 2}, r.read(state), "the write is undone")

	constants := []T{state}
	for _, o := range found {
		constants = append(constants, T(o.Handle))
	}
	p := r.savedProgram(text, 2, 1, 3)
	live := r.e.session.LiveHandles()
	outs, err := r.runProgram(p, constants, r.floats(nil, 2, 3))
	require.Nil(t, err, "%v", err)
	assert.Equal(t, []float32{-2, -16}, r.read(outs[0]))
	assert.Equal(t, []float32{2, 3}, r.read(outs[1]))
	assert.Equal(t, []float32{5, 11}, r.read(outs[2]))
	assert.Equal(t, []float32{-4, -32}, r.read(outs[3]))
	assert.Equal(t, []float32{5, 11}, r.read(state))
	assert.Equal(t, live+1+len(outs), r.e.session.LiveHandles(), "the run left its argument and its results")
}

// TestGradientsAreSteps: a walk of autograd and what is done with gradients belong to a program.
func TestGradientsAreSteps(t *testing.T) {
	r := newRig(t)
	w, x := r.grad(r.floats(nil, 1, 2)), r.floats(nil, 3, 4)
	text, _, err := r.exportFunction(func(a ...T) []T {
		require.Nil(t, r.e.SetGrad(uint64(w), 0))
		loss := r.do("sum", r.do("mul", r.do("mul", w, w), a[0]))
		require.Nil(t, r.backward(loss, AccumulateGrad))
		var g Out
		has, err := r.e.Grad(uint64(w), &g)
		require.Nil(t, err)
		require.True(t, has)
		return []T{r.do("mul", T(g.Handle), 0.5)}
	}, []T{w}, x)
	require.Nil(t, err, "%v", err)
	has, err := r.e.Grad(uint64(w), &Out{})
	require.Nil(t, err)
	assert.False(t, has, "the export is undone")
	p := r.savedProgram(text, 2, 1, 1)
	for range 2 {
		outs, err := r.runProgram(p, []T{w}, r.floats(nil, 5, 6))
		require.Nil(t, err, "%v", err)
		assert.Equal(t, []float32{5, 12}, r.read(outs[0]))
	}
}

func TestWhatNoStepCanSayFailsTheExport(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 3, 4)
	id, err := r.captureFunction(func(a ...T) T { return r.do("neg", a[0]) }, x)
	require.Nil(t, err)
	for name, f := range map[string]func(a ...T) []T{
		"step 0 (neg): a tensor was made by something other": func(a ...T) []T {
			y, ok := r.callCaptured(id, a[0])
			require.True(t, ok)
			return []T{r.do("neg", y)}
		},
		"result 0: a tensor was made by something other": func(a ...T) []T {
			y, _ := r.callCaptured(id, a[0])
			return []T{y}
		},
		"an assignment to .data": func(a ...T) []T {
			y := r.do("neg", a[0])
			require.Nil(t, r.e.SetData(uint64(y), uint64(a[0])))
			return []T{y}
		},
		"another thread": func(a ...T) []T {
			r.e.Thread(1)
			r.e.Thread(0)
			return a
		},
	} {
		_, _, err := r.exportFunction(f, nil, x)
		if assert.NotNil(t, err, name) {
			assert.Contains(t, err.Msg, name)
		}
	}
	_, _, err = r.e.EndExport(true, nil)
	require.NotNil(t, err)
}

// TestAFailedStepIsNamedWithItsNeighbours and leaves no tensors behind.
func TestAFailedStepIsNamedWithItsNeighbours(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 3, 4)
	text, _, err := r.exportFunction(func(a ...T) []T {
		y := r.do("exp", a[0])
		return []T{r.do("sin", r.do("add", y, y))}
	}, nil, x)
	require.Nil(t, err)
	p := r.savedProgram(text, 2, 1, 0)
	p.Functions["forward"].Steps[0].ID = p.Functions["forward"].Steps[2].ID
	p.Functions["forward"].Steps[1].Ints = nil
	p.Functions["forward"].Steps[1].Scalars = nil
	live := r.e.session.LiveHandles()
	_, err = r.runProgram(p, nil, x)
	require.NotNil(t, err)
	for _, part := range []string{`in step 1 of "forward"`, "add(self=%1", "operand %1: float32[2], made by step 0: exp",
		"goes to step 2: sin"} {
		assert.True(t, strings.Contains(err.Msg, part), "%s lacks %s", err.Msg, part)
	}
	assert.Equal(t, live, r.e.session.LiveHandles())
}
