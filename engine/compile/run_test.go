package compile_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// build plans a program on one device, without the passes named off.
func build(t *testing.T, d device.Device, p *program.Program, off ...string) *compile.Plan {
	t.Helper()
	pl, err := tryBuild(d, p, compile.Debug{Off: off})
	require.NoError(t, err, "%s", p)
	return pl
}

// tryBuild returns a panic as an error: a pass that others need was left out.
func tryBuild(d device.Device, p *program.Program, debug compile.Debug) (pl *compile.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	b := compile.Builder{Program: p, Caps: func(ir.DeviceID) *device.Caps { return d.Caps() }, Lowered: &lower.Memo{},
		Debug: debug, Sections: 1 << 20,
		TileFuser: func(ir.DeviceID) device.TileFuser {
			c, _ := d.(device.TileFuser)
			return c
		}}
	return b.Build()
}

// run runs a plan on small whole numbers and returns the bits of what it stores, by node.
func run(t *testing.T, d device.Device, pl *compile.Plan) map[int][]byte {
	t.Helper()
	x := runtime.New()
	place := x.AddDevice(ir.CPU, d)
	p := pl.Program
	require.NoError(t, x.Prepare(pl))
	defer x.ReleasePlan(pl)
	var ext []uint32
	for i := range p.Inputs {
		av := ir.AvalOf(p.Inputs[i].Aval)
		st, err := x.Allocate(ir.CPU, max(av.Bytes(), 1))
		require.NoError(t, err)
		data := make([]byte, av.Bytes())
		for k := 0; k+4 <= len(data) && av.DType == ir.F32; k += 4 {
			binary.LittleEndian.PutUint32(data[k:], math.Float32bits(float32((i*7+k/4*3)%11-4)))
		}
		require.NoError(t, d.Upload(x.Storage(st).Buf, av.DType, 0, data))
		ext = append(ext, st)
	}
	res, err := x.Run(pl, ext, p.Offsets, p.Scalars, nil)
	require.NoError(t, err)
	require.NoError(t, d.Wait(d.Submitted(), x.Timeout, nil))
	out := map[int][]byte{}
	for k, r := range pl.Results {
		av := ir.AvalOf(p.Nodes[r.Local].Aval)
		b := make([]byte, av.Bytes())
		require.NoError(t, place.Dev.Read(x.Storage(res[k]).Buf, av.DType, 0, b))
		out[r.Local] = b
	}
	return out
}

// earning is a program on which a pass shows its effect.
type earning struct {
	pass, text string
	// seen tells the plan with the pass from the plan without it.
	seen func(p *compile.Plan) bool
}

var earnings = []earning{
	{"uses", `input $0 : f32[2,3]
%0 = extremum_dim{max_dim,1} $0 : f32[2] live
%1 = result{1} %0 : i64[2] live
`, func(p *compile.Plan) bool { return len(p.Results) == 2 }},
	{"inplace", `input $0 : f32[4]
%0 = add $0 1.0 : f32[4] live
store %0 over $0 base 0 last exclusive
`, func(p *compile.Plan) bool { return p.InPlace == 1 && p.Outputs == 0 }},
	{"donate", `input $0 : f32[6]
%0 = mul $0 2.0 : f32[6]
%1 = strided_scatter{[3](2)} %0 $0[3] 0 : f32[6] live
`, func(p *compile.Plan) bool { return p.Temps == 0 && p.Outputs == 1 }},
	{"donate", `input $0 : f32[512,512]
%0 = mul $0 2.0 : f32[512,512]
%1 = softmax{0,0} %0 : f32[512,512] live
`, func(p *compile.Plan) bool { return p.Temps == 0 }},
	{"write_through", `input $0 : f32[6]
%0 = mul $0[3](2)+1 2.0 : f32[3]
%1 = strided_scatter{[3](2)} $0 %0 1 : f32[6] live
store %1 over $0 base 0 last exclusive
`, func(p *compile.Plan) bool { return p.Through == 1 && p.Kernels == 1 }},
	{"fuse_epilogue", `input $0 : f32[3,4]
input $1 : f32[4,2]
input $2 : f32[3,2]
%0 = matmul{0,0} $0 $1 : f32[3,2]
%1 = add %0 $2 : f32[3,2] live
`, func(p *compile.Plan) bool { return p.Kernels == 1 }},
	{"fuse_bias_grad", `input $0 : f32[3,2]
input $1 : f32[3,4]
%0 = matmul{0,0} $0[2,3](1,2) $1 : f32[2,4] live
%1 = sum{0} $1 : f32[4] live
`, func(p *compile.Plan) bool { return p.Kernels == 1 }},
	{"fuse_norm", `input $0 : f32[2,4]
input $1 : f32[4,3]
%0 = layer_norm{1,0,0,0} $0 1.0 : f32[2,4]
%1 = matmul{0} %0 $1 : f32[2,3] live
`, func(p *compile.Plan) bool { return p.Kernels == 1 }},
	{"fuse_append", `input $0 : f32[1,1,4,2]
input $1 : f32[1,1,4,2]
input $2 : f32[1,1,1,2]
input $3 : i64[1]
%0 = scatter{2,0,-2} $0 $3[1,1,1,2](1,1,1,0) $2 : f32[1,1,4,2] live
%1 = scatter{2,0,-2} $1 $3[1,1,1,2](1,1,1,0) $2 : f32[1,1,4,2] live
%2 = attention{0,0,0} $2 %0 %1 1.0 : f32[1,1,1,2] live
store %0 over $0 base 0 last exclusive
store %1 over $1 base 1 last exclusive
`, func(p *compile.Plan) bool { return p.Kernels == 1 }},
	{"lower", `input $0 : f32[4]
%0 = mul $0 2.0 : f32[4] live
`, func(p *compile.Plan) bool { return len(p.Segments) == 1 && len(p.Segments[0].Steps) == 1 }},
	{"fuse", `input $0 : f32[3,4]
input $1 : f32[4]
%0 = mul $0 $1[3,4](0,1) : f32[3,4]
%1 = relu %0 : f32[3,4] live
%2 = add %1 %0 : f32[3,4] live
`, func(p *compile.Plan) bool { return p.Kernels == 1 && p.Temps == 0 }},
	{"tiles", chainOf(40), func(p *compile.Plan) bool { return p.Temps == 0 }},
	{"sections", savedChain(12), func(p *compile.Plan) bool { return p.Most > 0 && len(p.Segments) > 8 }},
	{"memory", `input $0 : f32[5]
%0 = mul $0 2.0 : f32[5]
%1 = cat{0} %0 %0 : f32[10]
%2 = mul %1[5] 3.0 : f32[5]
%3 = cat{0} %2 %2 : f32[10]
%4 = sum{0} %3 : f32[] live
`, func(p *compile.Plan) bool { return p.Temps == 2 }},
}

// chainOf is a chain of n nodes, more than a fusion group has.
func chainOf(n int) string {
	text := "input $0 : f32[20000]\n%0 = mul $0 2.0 : f32[20000]\n"
	for i := 1; i < n; i++ {
		text += fmt.Sprintf("%%%d = add %%%d 1.0 : f32[20000]\n", i, i-1)
	}
	return strings.TrimSuffix(text, "\n") + " live\n"
}

func TestEachPassDoesWhatNoOtherDoes(t *testing.T) {
	shown := map[string]bool{}
	for _, c := range earnings {
		shown[c.pass] = true
		t.Run(c.pass, func(t *testing.T) {
			var d device.Device = reference.New()
			if c.pass == "tiles" {
				var err error
				d, err = cpu.New(cpu.Options{Threads: 1})
				require.NoError(t, err)
			}
			p := program.MustParse(c.text)
			with := build(t, d, p)
			assert.True(t, c.seen(with), "the pass has no effect")
			without, err := tryBuild(d, p, compile.Debug{Off: []string{c.pass}})
			if err != nil {
				assert.NotContains(t, compile.PassNames(true), c.pass, "optional, and Build fails without: %v", err)
				return
			}
			assert.False(t, c.seen(without), "the effect is there without the pass")
			if (&compile.Debug{Off: []string{c.pass}}).Check() == nil {
				assert.Equal(t, run(t, d, without), run(t, d, with))
			}
		})
	}
	for _, name := range compile.PassNames(false) {
		assert.True(t, shown[name], "no program shows what %s does", name)
	}
}

// A store overwrites the version before exactly where nothing can observe it.
func TestStoresInPlace(t *testing.T) {
	const over = "store %0 over $0 base 0 last exclusive\n"
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"alone":          {"%0 = add $0 1.0 : f32[2,3] live\n" + over, 1},
		"held elsewhere": {"%0 = add $0 1.0 : f32[2,3] live\nstore %0 over $0 base 0 last\n", 0},
		"read later":     {"%0 = add $0 1.0 : f32[2,3] live\n%1 = neg $0 : f32[2,3] live\n" + over, 0},
		"read before": {"%0 = neg $0 : f32[2,3] live\n%1 = add $0 1.0 : f32[2,3] live\n" +
			"store %1 over $0 base 0 last exclusive\n", 1},
		"read transposed":     {"%0 = add $0 $0[2,3](1,2) : f32[2,3] live\n" + over, 0},
		"read expanded":       {"%0 = add $0 $0[2,3](3,0) : f32[2,3] live\n" + over, 0},
		"a product":           {"%0 = matmul{0,0} $0 $0[3,3](0,1) : f32[2,3] live\n" + over, 0},
		"the version is gone": {"%0 = add $0 1.0 : f32[2,3] live\nstore %0 base 0 last\n", 0},
		"twice": {"%0 = add $0 1.0 : f32[2,3]\n%1 = mul %0 2.0 : f32[2,3] live\nstore %0 over $0 base 0 exclusive\n" +
			"store %1 over %0 base 0 last exclusive\n", 2},
		"a value from before": {"%0 = neg $1 : f32[2,3] live\n%1 = add $0 1.0 : f32[2,3]\n" +
			"store %1 over $0 base 0 exclusive\nstore %0 over %1 base 0 last exclusive\n", 1},
	} {
		p := program.MustParse("input $0 : f32[2,3]\ninput $1 : f32[2,3]\n" + c.text)
		d := reference.New()
		with := build(t, d, p)
		assert.Equal(t, c.want, with.InPlace, name)
		assert.Equal(t, run(t, d, build(t, d, p, "inplace")), run(t, d, with), name)
	}
}

// scribble makes a random program of maps, transposes, products, sums, scatters and in-place stores.
func scribble(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("input $0 : f32[3,3]\ninput $1 : f32[3,3]\ninput $2 : f32[3,3]\n")
	values := []string{"$0", "$1", "$2"}
	version := "$2" // of the base that is written
	var stores strings.Builder
	var writes []int
	lines := []string{}
	pick := func() string {
		v := values[r.Intn(len(values))]
		if v == "$2" || strings.HasPrefix(v, "!") {
			v = "$0"
		}
		if r.Intn(4) == 0 {
			return v + "[3,3](1,3)"
		}
		return v
	}
	for i := range 2 + r.Intn(12) {
		name := fmt.Sprintf("%%%d", i)
		live := ""
		if r.Intn(4) == 0 {
			live = " live"
		}
		switch r.Intn(7) {
		case 0, 1:
			lines = append(lines, fmt.Sprintf("%s = add %s %s : f32[3,3]%s", name, pick(), pick(), live))
		case 2:
			lines = append(lines, fmt.Sprintf("%s = mul %s %d.5 : f32[3,3]%s", name, pick(), r.Intn(4), live))
		case 3:
			lines = append(lines, fmt.Sprintf("%s = matmul{0,0} %s %s : f32[3,3]%s", name, pick(), pick(), live))
		case 4:
			lines = append(lines, fmt.Sprintf("%s = relu %s : f32[3,3]%s", name, pick(), live))
		case 5:
			row, _, _ := strings.Cut(pick(), "[")
			lines = append(lines, fmt.Sprintf("%s = strided_scatter{[3](3)} %s %s[3]+%d %d : f32[3,3]%s", name, pick(), row,
				r.Intn(6), r.Intn(3), live))
		case 6:
			lines = append(lines, fmt.Sprintf("%s = add %s %s : f32[3,3]", name, version, pick()))
			fmt.Fprintf(&stores, "store %s over %s base 0 exclusive\n", name, version)
			version = name
			writes = append(writes, i)
			continue // reads of it go through version
		}
		values = append(values, name)
	}
	s := stores.String()
	if n := len(writes); n > 0 {
		lines[writes[n-1]] += " live"
		at := strings.LastIndex(s, " exclusive")
		s = s[:at] + " last exclusive\n"
	}
	b.WriteString(strings.Join(lines, "\n") + "\n" + s)
	return b.String()
}

// With any set of passes, and in any form of the program, the plan computes the same bits.
func TestPassesChangeNoBitOfRandomPrograms(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	names := compile.PassNames(true)
	inPlace := 0
	for range 200 {
		text := scribble(r)
		p, err := program.Parse(text)
		require.NoError(t, err, "%s", text)
		d := reference.New()
		pl := build(t, d, p)
		want := run(t, d, pl)
		inPlace += pl.InPlace
		var off []string
		for _, n := range names {
			if r.Intn(2) == 0 {
				off = append(off, n)
			}
		}
		require.Equal(t, want, run(t, d, build(t, d, program.MustParse(p.String()))), "%s", text)
		require.Equal(t, want, run(t, d, build(t, d, p, off...)), "without %v:\n%s", off, text)
	}
	assert.Positive(t, inPlace, "no store was in place")
}

func TestADumpShowsTheProgramBeforeAndAfter(t *testing.T) {
	p := program.MustParse(`input $0 : f32[4]
%0 = mul $0 2.0 : f32[4]
%1 = add %0 $0 : f32[4] live
store %1 over $0 base 0 last exclusive
`)
	dump := func(pass string) []string {
		var out strings.Builder
		_, err := tryBuild(reference.New(), p, compile.Debug{Dump: pass, Out: &out})
		require.NoError(t, err)
		parts := strings.Split(strings.TrimSpace(out.String()), "\n\n")
		for _, s := range parts {
			q, err := program.Parse(s)
			require.NoError(t, err, "%s", s)
			assert.True(t, q.Same(p), "%s", s)
		}
		return parts
	}
	parts := dump("inplace")
	require.Len(t, parts, 2)
	assert.Contains(t, parts[0], "# before inplace (2 nodes)")
	assert.NotContains(t, parts[0], "in place")
	assert.Contains(t, parts[0], "%0 = mul $0 2.0 : f32[4]  # last read by %1")
	assert.Contains(t, parts[1], "# after inplace")
	assert.Contains(t, parts[1], "live  # in place of $0")
	all := dump("all")
	assert.Len(t, all, 1+len(compile.PassNames(false)))
	last := all[len(all)-1]
	assert.Contains(t, last, "%0 = mul $0 2.0 : f32[4]  # last read by %1; done with %1\n")
	assert.Contains(t, last, "  # in place of $0; fusion group %0 %1; steps: 1; input 0: 16 bytes")
}

// Temporaries share buffers with each other, whatever their sizes, and with outputs that nobody has written yet.
func TestLargeTemporariesShareBuffers(t *testing.T) {
	const n = 64 << 10 // floats
	for name, c := range map[string]struct {
		text string
		want int64 // bytes of temporaries, in floats of a whole tensor
		outs int
	}{
		"a later output": {`input $0 : f32[65536]
%0 = mul $0 2.0 : f32[65536]
%1 = sum{0} %0 : f32[]
%2 = add $0 %1[65536](0) : f32[65536] live
`, 0, 1},
		"an earlier output": {`input $0 : f32[65536]
%0 = add $0 1.0 : f32[65536] live
%1 = mul $0 2.0 : f32[65536]
%2 = sum{0} %1 : f32[] live
`, n, 2},
		"an output while it is written": {`input $0 : f32[65536]
%0 = mul $0 2.0 : f32[65536]
%1 = cat{0} %0 : f32[65536] live
`, n, 1},
		"a larger output": {`input $0 : f32[65536]
%0 = mul $0 2.0 : f32[65536]
%1 = sum{0} %0 : f32[]
%2 = add %1 1.0 : f32[]
%3 = cat{0} $0 $0 : f32[131072]
%4 = add %3 %2[131072](0) : f32[131072] live
`, 2 * n, 1}, // the first one is in the output, or in the last one
		"a smaller one after a larger one": {`input $0 : f32[65536]
%0 = cat{0} $0 $0 : f32[131072]
%1 = sum{0} %0 : f32[]
%2 = mul $0 %1[65536](0) : f32[65536]
%3 = sum{0} %2 : f32[] live
`, 2 * n, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := reference.New()
			p := program.MustParse(c.text)
			pl := build(t, d, p, "fuse", "donate")
			var temps int64
			for i := range pl.Slots {
				if s := &pl.Slots[i]; s.Kind == compile.Temp && s.Bytes > 4 {
					temps += s.Bytes
				}
			}
			assert.Equal(t, 4*c.want, temps)
			assert.Equal(t, c.outs, pl.Outputs)
			assert.Equal(t, run(t, d, build(t, d, p)), run(t, d, pl))
		})
	}
}
