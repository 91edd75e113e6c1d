package saved

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/composite"
	"github.com/torchlette/torchlette/ir"
)

// example is a program of two dims, a constant, numbers, and a step of each kind of argument.
const example = `{"format": "torchlette program", "version": 1,
"dims": [{"name": "n", "min": 1, "max": 8}, {"name": "t"}],
"constants": [{"name": "w", "kind": "parameter", "dtype": "float32", "shape": [3], "requires_grad": true}],
"numbers": [{"name": "group.0.lr", "dtype": "float32", "value": 0.5}, {"name": "step", "dtype": "float64", "value": 0}],
"functions": {"step": {
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", "t", 3]}],
  "formulas": [["a", "step + 1"], ["b", "1 - group.0.lr**a"], ["c", "sqrt(b) > 0"]],
  "supplied": ["b"], "guards": [{"formula": "c", "want": 1}], "writes": [{"number": "step", "formula": "a"}],
  "steps": [
    {"op": "mul", "args": {"self": "%0", "other": "%1"}, "out": [{"dtype": "float32", "shape": ["n", "t", 3]}]},
    {"op": "dropout", "args": {"input": "%2", "p": 0.5, "train": true},
     "out": [{"dtype": "float32", "shape": ["n", "t", 3]}], "at": "model.py:7"},
    {"op": "reshape", "args": {"self": "%3", "shape": ["=n*t//2*2", -1]},
     "out": [{"dtype": "float32", "shape": ["n*t", 3]}]},
    {"op": "add", "args": {"self": "%4", "other": "=float:1.0/sqrt(t)", "alpha": "$0"},
     "out": [{"dtype": "float32", "shape": ["n*t", 3]}]},
    {"op": "mul", "mode": "in_place", "no_grad": true, "args": {"self": "%1", "other": 2}, "out": []}],
  "outputs": [{"name": "y", "value": "%5"}], "state": ["w"]}}}`

func parsed(t *testing.T, text string) (*Program, *Function) {
	t.Helper()
	p, err := Parse([]byte(text))
	require.Nil(t, err, "%v", err)
	return p, p.Functions["step"]
}

func TestAProgramIsReadWhole(t *testing.T) {
	p, f := parsed(t, example)
	assert.Equal(t, []Dim{{"n", 1, 8}, {"t", 0, -1}}, p.Dims)
	assert.Equal(t, 6, f.Values)
	assert.Equal(t, []int{0, 4, 1, 2, 3, -1}, f.LastUse)
	assert.Equal(t, IntTrain, f.Steps[1].Ints[0].Kind)
	assert.Equal(t, `%4: float32[n*t, 3] = reshape(self=%3, shape=[=n*t//2*2, -1])`,
		strings.Replace(p.StepText(f, 2), "[n*t//2*2", "[=n*t//2*2", 1))
	assert.Contains(t, p.Listing(), "mul_(self=w, other=2)")
	assert.Contains(t, p.Listing(), "alpha=b)")
	assert.Equal(t, "a parameter", p.OriginText(f, 1))
	assert.Equal(t, "made by step 1: dropout", p.OriginText(f, 3))
}

func TestSlotsOfACall(t *testing.T) {
	_, f := parsed(t, example)
	n, err := f.Steps[2].Ints[1].At([]int64{3, 5}, 0, false)
	require.Nil(t, err)
	assert.EqualValues(t, 14, n)
	for evaluation, want := range map[bool]int64{false: 1, true: 0} {
		n, _ = f.Steps[1].Ints[0].At(nil, 0, evaluation)
		assert.Equal(t, want, n, "evaluation: %v", evaluation)
	}
	_, bits, _ := f.Steps[3].Scalars[0].At([]int64{3, 4}, []float64{0.75})
	assert.EqualValues(t, 0x3FE0000000000000, bits, "1/sqrt(4)")
	_, bits, _ = f.Steps[3].Scalars[1].At([]int64{3, 4}, []float64{0.75})
	assert.EqualValues(t, 0x3FE8000000000000, bits)
}

func TestANormWithoutRunningStatisticsHasNoEvaluation(t *testing.T) {
	step := `{"op": "batch_norm", "args": {"input": "%%0", "weight": null, "bias": null, "running_mean": %s,
	  "running_var": %s, "training": true, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": true},
	  "out": [{"dtype": "float32", "shape": [2, 3]}]}`
	inputs := `[{"name": "x", "dtype": "float32", "shape": [2, 3]}, {"name": "m", "dtype": "float32", "shape": [3]}]`
	for stats, want := range map[string]int64{"null": 1, `"%1"`: 0} {
		_, f := parsed(t, `{"format": "torchlette program", "version": 1, "functions": {"step": {"inputs": `+inputs+
			`, "steps": [`+fmt.Sprintf(step, stats, stats)+`], "outputs": [{"name": "y", "value": "%2"}]}}}`)
		n, err := f.Steps[0].Ints[0].At(nil, 0, true)
		require.Nil(t, err)
		assert.Equal(t, want, n, "running statistics: %s", stats)
	}
}

func TestNumbersOfARun(t *testing.T) {
	p, f := parsed(t, example)
	supplied, after, fits := f.Compute(p, []float64{0.5, 1})
	assert.True(t, fits)
	assert.Equal(t, []float64{0.75}, supplied)
	assert.Equal(t, []float64{0.5, 2}, after)
	_, _, fits = f.Compute(p, []float64{1, 1})
	assert.False(t, fits, "a guard does not hold")
}

func TestDimsAreBound(t *testing.T) {
	p, f := parsed(t, example)
	for name, c := range map[string]struct {
		dtype ir.DType
		shape []int64
		code  ir.Code
	}{
		"fits":         {ir.F32, []int64{2, 5, 3}, ir.OK},
		"out of range": {ir.F32, []int64{9, 5, 3}, ir.ErrValue},
		"other size":   {ir.F32, []int64{2, 5, 4}, ir.ErrValue},
		"other rank":   {ir.F32, []int64{2, 5}, ir.ErrValue},
		"other dtype":  {ir.F64, []int64{2, 5, 3}, ir.ErrType},
	} {
		b := Bind(p)
		err := b.Input(&f.Inputs[0], c.dtype, c.shape)
		var sizes []int64
		if err == nil {
			sizes, err = b.Sizes(f.Inputs)
		}
		if c.code == ir.OK {
			assert.Nil(t, err, name)
			assert.Equal(t, []int64{2, 5}, sizes)
		} else if assert.NotNil(t, err, name) {
			assert.Equal(t, c.code, err.Code, name)
		}
	}
}

// A dim that no input has as a size by itself follows from an affine size.
func TestDimsAreSolved(t *testing.T) {
	for text, c := range map[string]struct {
		got  int64
		want int64
		msg  string
	}{
		"2*n":       {got: 8, want: 4},
		"3*n - 2":   {got: 13, want: 5},
		"n + 1":     {got: 3, want: 2},
		"2*n + 2*n": {got: 9, msg: "dim 0 is 9, want 2*n + 2*n = 8"},
		"2*n + 1":   {got: 40, msg: "dim 0 is 40, want 2*n + 1 where n is from 1 to 8"},
		"0*n":       {got: 0, msg: "no input has n as a size, or an affine function of it"},
		"4 - n":     {got: 2, msg: "an affine function"},
		"n*n":       {got: 5, msg: "dim 0 is 5, want n*n = 25"},
	} {
		p := &Program{Dims: []Dim{{Name: "n", Min: 1, Max: 8}}}
		x, err := parseExpr(text, map[string]int{"n": 0})
		require.Nil(t, err, text)
		inputs := []Value{{Name: "x", DType: ir.F32, Shape: []*Expr{x}}}
		b := Bind(p)
		require.Nil(t, b.Input(&inputs[0], ir.F32, []int64{c.got}), text)
		sizes, err := b.Sizes(inputs)
		if c.msg != "" {
			if assert.NotNil(t, err, text) {
				assert.Contains(t, err.Msg, c.msg)
			}
			continue
		}
		require.Nil(t, err, text)
		assert.Equal(t, []int64{c.want}, sizes, text)
	}
}

func TestExpressions(t *testing.T) {
	names := map[string]int{"n": 0, "m": 1}
	for text, want := range map[string]int64{
		"n + 2*m": 17, "(n - 10)//4": -1, "-n*m": -35, "n//2*2": 6, " ( n ) ": 7, "n - m - 1": 1,
	} {
		x, err := parseExpr(text, names)
		require.Nil(t, err, text)
		n, err := x.Int([]int64{7, 5})
		assert.Nil(t, err, text)
		assert.Equal(t, want, n, text)
	}
	for text, want := range map[string]float64{
		"2**-1": 0.5, "n/2": 3.5, "sqrt(n + 2)": 3, "-2**2": -4, "n >= m": 1, "n != 7": 0, "1e-3*n": 0.007, "n//2": 3,
	} {
		x, err := parseExpr(text, names)
		require.Nil(t, err, text)
		assert.Equal(t, want, x.Float([]float64{7, 5}), text)
	}
	for _, text := range []string{"", "n +", "(n", "n)", "k", "sqrt n", "n n", "1.2.3", "$", "n**",
		strings.Repeat("-", 200) + "n", strings.Repeat("(", 100) + "n", strings.Repeat("n+", 4000) + "n"} {
		_, err := parseExpr(text, names)
		assert.NotNil(t, err, text)
	}
	for _, text := range []string{"n*4611686018427387904", "n//(m - 5)", "n/2", "9223372036854775807 + n",
		"-9223372036854775807 - n", "sqrt(n)"} {
		x, err := parseExpr(text, names)
		require.Nil(t, err, text)
		_, err = x.Int([]int64{7, 5})
		assert.NotNil(t, err, text)
	}
}

// TestWrongStepsAreRefused: each change of the text gives an error that says what is wrong.
func TestWrongStepsAreRefused(t *testing.T) {
	for _, c := range []struct{ old, changed, want string }{
		{`"version": 1`, `"version": 2`, "version 2 is unknown"},
		{`"torchlette program"`, `"another"`, "format is"},
		{`"op": "mul", "args"`, `"op": "mull", "args"`, `operator "mull" is unknown`},
		{`"self": "%0", "other": "%1"`, `"self": "%2", "other": "%1"`, "before the step"},
		{`"self": "%0", "other": "%1"`, `"self": "%0"`, "argument other is missing"},
		{`"self": "%0", "other": "%1"`, `"self": "%0", "other": [1]`, "want a number"},
		{`"self": "%0", "other": "%1"`, `"self": "%0", "other": null`, "argument other is wrong"},
		{`"self": "%0", "other": "%1"`, `"self": "%0", "other": 1, "more": 1`, `an argument "more"`},
		{`"train": true`, `"train": 1`, "want true or false"},
		{`"p": 0.5`, `"p": null`, "want a number"},
		{`"p": 0.5`, `"p": "=k"`, `"k" has no meaning`},
		{`"p": 0.5`, `"p": "$1"`, "a number that the function supplies"},
		{`["=n*t//2*2", -1]`, `"=n"`, "want a list"},
		{`["=n*t//2*2", -1]`, `["=n*", -1]`, "an integer or an expression"},
		{`"mode": "in_place"`, `"mode": "twice"`, `its mode is "twice"`},
		{`"op": "dropout"`, `"mode": "in_place", "op": "dropout"`, "has no in-place form"},
		{`"out": []`, `"out": [{"dtype": "float32", "shape": []}]`, "which is not what the operator gives"},
		{`"dtype": "float32", "shape": ["n*t", 3]}]},
    {"op": "add"`, `"dtype": "float33", "shape": ["n*t", 3]}]},
    {"op": "add"`, `the dtype "float33"`},
		{`"no_grad": true`, `"autocast": ["float32", ""]`, "autocast to"},
		{`"value": "%5"`, `"value": "%6"`, "want %number of a value"},
		{`"state": ["w"]`, `"state": ["v"]`, "which is no constant"},
		{`"min": 1, "max": 8`, `"min": 9, "max": 8`, "the range 9 to 8"},
		{`{"name": "t"}`, `{"name": "n"}`, "that no other dim has"},
		{`"kind": "parameter"`, `"kind": "thing"`, `the kind "thing"`},
		{`"float32", "shape": [3], "requires_grad"`, `"int64", "shape": [3], "requires_grad"`, "requires a gradient"},
		{`"shape": [3], "requires_grad"`, `"shape": [-3], "requires_grad"`, "negative or too large"},
		{`"dtype": "float32", "value": 0.5`, `"dtype": "int64", "value": 0.5`, "no dtype of a number"},
		{`["a", "step + 1"]`, `["a", "b + 1"]`, `"b" has no meaning`},
		{`["a", "step + 1"]`, `["step", "step + 1"]`, "a formula has the name"},
		{`"supplied": ["b"]`, `"supplied": ["step"]`, "is no formula"},
		{`"formula": "c"`, `"formula": "d"`, "is no formula"},
		{`"number": "step"`, `"number": "a"`, "is no number of the program"},
		{`"steps": [`, `"steps": 3, "x": [`, "no JSON of the expected form"},
		{`{"format"`, `{"python": ` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `, "format"`, "nested more than"},
	} {
		require.Contains(t, example, c.old)
		_, err := Parse([]byte(strings.Replace(example, c.old, c.changed, 1)))
		if assert.NotNil(t, err, c.changed) {
			assert.Contains(t, err.Msg, c.want)
		}
	}
}

// TestACallIsWrittenAsItIsRead: the named arguments of a flat call give the flat call again.
func TestACallIsWrittenAsItIsRead(t *testing.T) {
	_, f := parsed(t, example)
	for i := range f.Steps {
		s := &f.Steps[i]
		c := Flat{In: s.In, Scalars: s.Scalars}
		for _, n := range s.Ints {
			c.Ints = append(c.Ints, n.Value)
		}
		args, err := Unflatten(s.Sig, &c)
		require.Nil(t, err)
		for k, a := range args {
			assert.Equal(t, s.Args[k].Name, a.Name)
			if _, number := a.Value.(Ref); number {
				assert.Equal(t, s.Args[k].Value, a.Value)
			}
		}
		if len(c.Ints)+len(c.In) > 0 {
			_, err = Unflatten(s.Sig, &Flat{})
			assert.NotNil(t, err, s.Op)
		}
	}
	args, err := Unflatten(f.Steps[1].Sig, &Flat{In: []Operand{{OperandValue, 4}}, Ints: []int64{1},
		Scalars: []Scalar{{Kind: op.ScalarFloat, Bits: 0x3FE0000000000000}}})
	require.Nil(t, err)
	assert.Equal(t, []Arg{{"input", Ref(4)}, {"p", 0.5}, {"train", true}}, args)
}

// TestArchivesOfOtherKindsAreRefused: compressed entries, two of one name, entries outside of the file.
func TestArchivesOfOtherKindsAreRefused(t *testing.T) {
	good := exampleFile()
	dir := bytes.Index(good, []byte{0x50, 0x4b, 1, 2})
	second := dir + bytes.Index(good[dir+4:], []byte{0x50, 0x4b, 1, 2}) + 4
	for name, c := range map[string]struct {
		at   int
		data []byte
		want string
	}{
		"compressed":      {dir + 10, []byte{8}, "compressed"},
		"encrypted":       {dir + 8, []byte{1}, "compressed or encrypted"},
		"of another size": {dir + 20, []byte{1, 2}, "compressed"},
		"outside":         {dir + 42, []byte{0, 0, 0, 0x7F}, "outside of the file"},
		"no header":       {dir + 42, []byte{7}, "outside of the file"},
		"no directory":    {len(good) - 22, []byte{0}, "no zip"},
		"a long one":      {len(good) - 10, []byte{0xFF, 0xFF, 0xFF, 0x7F}, "a directory of"},
		"no text":         {dir + 46, []byte("q"), "no entry program.json"},
		"no weights":      {second + 46, []byte("q"), "no entry weights.safetensors"},
		"zip64":           {dir + 20, bytes.Repeat([]byte{0xFF}, 8), "has no size"},
	} {
		b := bytes.Clone(good)
		copy(b[c.at:], c.data)
		_, err := Open(bytes.NewReader(b), int64(len(b)))
		if assert.NotNil(t, err, name) {
			assert.Contains(t, err.Msg, c.want, name)
		}
	}
}

// TestLargeEntriesHaveTheirSizesInAField: sizes of 64 bits, in the order of the marks that stand for them.
func TestLargeEntriesHaveTheirSizesInAField(t *testing.T) {
	dir := make([]byte, zipEntrySize)
	for _, at := range []int{20, 24, 42} {
		copy(dir[at:], []byte{0xFF, 0xFF, 0xFF, 0xFF})
	}
	field := []byte{7, 0, 1, 0, 9, 1, 0, 24, 0}
	for _, v := range []byte{5, 5, 3} {
		field = append(field, v, 0, 0, 0, 0, 0, 0, 0)
	}
	dir[28], dir[30] = 1, byte(len(field))
	dir = bytes.Join([][]byte{dir, []byte("x"), field}, nil)
	body := make([]byte, 3+zipLocalSize+5)
	copy(body[3:], []byte{0x50, 0x4b, 3, 4})
	e, err := entry(bytes.NewReader(body), int64(len(body)), dir, "x")
	require.Nil(t, err, "%v", err)
	assert.Equal(t, Extent{3 + zipLocalSize, 5}, e)
	dir[len(dir)-24] = 6
	_, err = entry(bytes.NewReader(body), int64(len(body)), dir, "x")
	assert.NotNil(t, err, "larger than the file")
}

// file makes the zip of a program with weights, as the Python package does.
func file(text string, weights []byte) []byte {
	var b, dir bytes.Buffer
	put := func(to *bytes.Buffer, width int, values ...uint64) {
		for _, v := range values {
			for range width {
				to.WriteByte(byte(v))
				v >>= 8
			}
		}
	}
	for _, e := range []struct {
		name string
		data []byte
	}{{textEntry, []byte(text)}, {weightsEntry, weights}} {
		at, n := uint64(b.Len()), uint64(len(e.data))
		put(&b, 4, zipLocal)
		put(&b, 2, 20, 0, 0, 0, 0)
		put(&b, 4, 0, n, n)
		put(&b, 2, uint64(len(e.name)), 0)
		b.WriteString(e.name)
		b.Write(e.data)
		put(&dir, 4, zipEntry)
		put(&dir, 2, 20, 20, 0, 0, 0, 0)
		put(&dir, 4, 0, n, n)
		put(&dir, 2, uint64(len(e.name)), 0, 0, 0, 0)
		put(&dir, 4, 0, at)
		dir.WriteString(e.name)
	}
	start := uint64(b.Len())
	b.Write(dir.Bytes())
	put(&b, 4, zipEnd)
	put(&b, 2, 0, 0, 2, 2)
	put(&b, 4, uint64(dir.Len()), start)
	put(&b, 2, 0)
	return b.Bytes()
}

func exampleFile() []byte {
	header := `{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}`
	weights := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	return file(example, append(weights, 0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40))
}

func TestAFileIsOpened(t *testing.T) {
	b := exampleFile()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	require.Nil(t, err, "%v", err)
	require.Len(t, f.Data, 1)
	assert.EqualValues(t, 12, f.Data[0].Size)
	assert.Equal(t, []byte{0, 0, 0x80, 0x3F}, b[f.Data[0].Offset:][:4])
}

// TestChangedFilesAreRefusedOrRead: a file from a stranger never panics, and what passes refers to what exists.
func TestChangedFilesAreRefusedOrRead(t *testing.T) {
	b := exampleFile()
	draw := rand.New(rand.NewSource(1))
	refused := 0
	for range 3000 {
		x := bytes.Clone(b)
		for range 1 + draw.Intn(3) {
			x[draw.Intn(len(x))] = byte(draw.Intn(256))
		}
		if draw.Intn(8) == 0 {
			x = x[:draw.Intn(len(x))]
		}
		f, err := Open(bytes.NewReader(x), int64(len(x)))
		if err != nil {
			refused++
			assert.NotEmpty(t, err.Msg)
			continue
		}
		for _, e := range f.Data {
			assert.LessOrEqual(t, e.Offset+e.Size, int64(len(x)))
		}
		f.Listing()
	}
	assert.Greater(t, refused, 1000)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if p, err := Parse(text); err == nil {
			p.Listing()
		}
	})
}

// TestEveryWordOfTheTextMatters: each leaf of the example, replaced by null, a list or a text, is refused or read.
func TestEveryWordOfTheTextMatters(t *testing.T) {
	var tree any
	require.NoError(t, json.Unmarshal([]byte(example), &tree))
	count := 0
	for _, bad := range []any{nil, []any{1.5}, "%1", map[string]any{}} {
		each(tree, func(set func(any), old any) {
			set(bad)
			text, err := json.Marshal(tree)
			require.NoError(t, err)
			if _, x := Parse(text); x != nil {
				count++
			}
			set(old)
		})
	}
	assert.Greater(t, count, 150)
}

// each calls f for every node below a tree.
func each(tree any, f func(set func(any), old any)) {
	switch v := tree.(type) {
	case map[string]any:
		for k, x := range v {
			each(x, f)
			f(func(y any) { v[k] = y }, x)
		}
	case []any:
		for i, x := range v {
			each(x, f)
			f(func(y any) { v[i] = y }, x)
		}
	}
}

// A body sees the values before its loop, and its own values have numbers that the steps after it have again.
func TestBodiesOfLoops(t *testing.T) {
	p, f := parsed(t, strings.Replace(example, `{"op": "mul", "args"`, `{"op": "engine.loop", "args": {"carries": ["%1"],
  "xs": ["%0"], "length": "=n", "reverse": false, "ends": false}, "out": [{"dtype": "float32", "shape": [3]}],
  "body": {"inputs": [{"dtype": "float32", "shape": [3]}, {"dtype": "float32", "shape": ["t", 3]}], "steps": [
   {"op": "mul", "args": {"self": "%2", "other": "%3"}, "out": [{"dtype": "float32", "shape": [3]}]},
   {"op": "add", "args": {"self": "%4", "other": "%0", "alpha": 1}, "out": [{"dtype": "float32", "shape": [3]}]}],
   "results": ["%4"]}},
  {"op": "mul", "args"`, 1))
	x := &f.Steps[0]
	require.NotNil(t, x.Body)
	assert.Equal(t, 4, x.Body.Values)
	assert.Equal(t, []int{4}, x.Body.Results)
	assert.Equal(t, 3, f.Steps[1].First, "the values of the body are gone")
	var refs []int
	x.Refs(func(id int) { refs = append(refs, id) })
	assert.Equal(t, []int{1, 0, 0}, refs, "operands, and what the body reads from outside")
	assert.Contains(t, p.Listing(), "        %4: float32[3] = mul(self=%2, other=%3)")
	assert.Contains(t, p.BodyText(f, x.Body, 1), "add(self=%4, other=x")
}

// A written file has other numbers and constants, and is read as any other.
func TestAProgramIsWrittenAndRead(t *testing.T) {
	p, _ := parsed(t, example)
	path := filepath.Join(t.TempDir(), "a")
	f, err := os.Create(path)
	require.NoError(t, err)
	data := []byte("twelve bytes")
	require.Nil(t, WriteFile(f, p, []float64{0.25, 3}, func(int) ([]byte, *ir.Error) { return data, nil }))
	info, err := f.Stat()
	require.NoError(t, err)
	q, x := Open(f, info.Size())
	require.Nil(t, x, "%v", x)
	assert.Equal(t, 0.25, q.Numbers[0].Value)
	assert.Equal(t, 3.0, q.Numbers[1].Value)
	b := make([]byte, 12)
	_, err = f.ReadAt(b, q.Data[0].Offset)
	require.NoError(t, err)
	assert.Equal(t, data, b)
	assert.Zero(t, q.Data[0].Offset%4)
	assert.NotNil(t, WriteFile(f, p, []float64{math.NaN(), 3}, nil), "a number that JSON does not have")
	require.NoError(t, f.Close())
	z, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer z.Close()
	for _, e := range z.File {
		r, err := e.Open()
		require.NoError(t, err)
		_, err = io.ReadAll(r)
		assert.NoError(t, err, "the sum of %s", e.Name)
	}
}

// Texts of errors that quote a file are UTF-8: a cut leaves no half of a character.
func TestErrorsThatQuoteAFileAreText(t *testing.T) {
	assert.True(t, utf8.ValidString(cut("a"+strings.Repeat("\u00e9", 60))))
	assert.True(t, utf8.ValidString(wrong("byte %s", "\xc2\"").Msg))
}
