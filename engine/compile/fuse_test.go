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
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// groupsOf lists the fusion groups of a plan in order, each as its members.
func groupsOf(p *compile.Plan) (groups [][]int) {
	for _, s := range p.Segments {
		for _, st := range s.Steps {
			if m := p.Members(st.Event); m != nil {
				groups = append(groups, m)
			}
		}
	}
	return groups
}

// cast is the text of a cast to a dtype, which is its attribute.
func cast(dtype string) string {
	numbers := map[string]ir.DType{"f32": ir.F32, "f64": ir.F64, "f16": ir.F16, "bf16": ir.BF16, "i8": ir.I8,
		"u8": ir.U8, "i16": ir.I16, "i32": ir.I32, "i64": ir.I64}
	return fmt.Sprintf("cast{%d}", numbers[dtype])
}

// fusion is a program's text with the members of its groups.
type fusion struct {
	name, text string
	want       [][]int
}

var fusions = []fusion{
	{"broadcast, transposed and cut operands", `input $0 : f32[3,4]
input $1 : f32[4,3]
%0 = add $0 $0[3,4](0,1) : f32[3,4]
%1 = mul %0 $1[3,4](1,3) : f32[3,4]
%2 = sub %1 $1[3,4](1,2)+1 : f32[3,4] live
`, [][]int{{0, 1, 2}}},
	{"several outputs", `input $0 : f32[5]
%0 = mul $0 2.0 : f32[5] live
%1 = add %0 1.0 : f32[5]
%2 = relu %1 : f32[5] live
%3 = neg %1 : f32[5] live
`, [][]int{{0, 1, 2, 3}}},
	{"a value that is read later is stored", `input $0 : f32[3,4]
%0 = mul $0 2.0 : f32[3,4]
%1 = add %0 1.0 : f32[3,4]
%2 = cat{0} %0 $0[2,4] : f32[5,4] live
%3 = cat{0} %1 $0[2,4] : f32[5,4] live
`, [][]int{{0, 1}}},
	{"readers of one value", `input $0 : f32[5]
%0 = mul $0 2.0 : f32[5] live
%1 = add $0 1.0 : f32[5] live
`, [][]int{{0, 1}}},
	{"strangers", `input $0 : f32[5]
input $1 : f32[5]
%0 = mul $0 2.0 : f32[5] live
%1 = add $1 1.0 : f32[5] live
`, nil},
	{"another shape", `input $0 : f32[6]
%0 = mul $0 2.0 : f32[6]
%1 = add %0[2,3](3,1) 1.0 : f32[2,3] live
`, [][]int{{0, 1}}},
	{"views of another shape, draws by the number of an element", `input $0 : f32[2,6]
input $1 : f32[6]
input $2 : f32[24]
%0 = mul $0[2,2,6](6,0,1) $1[2,2,6](0,0,1) : f32[2,2,6]
%1 = dropout %0[24] 7 3 0.5 : f32[24] live
%2 = add %1[4,6] $2[4,6](6,1) : f32[4,6]
%3 = relu %2[24] : f32[24] live
`, [][]int{{0, 1, 2, 3}}},
	{"the shape of a later member", `input $0 : f32[6]
input $1 : f32[2]
%0 = mul $0 2.0 : f32[6]
%1 = add %0[2,3] $1[2,3](1,0) : f32[2,3] live
%2 = neg %1[6] : f32[6] live
`, [][]int{{0, 1, 2}}},
	{"views that share no shape", `input $0 : f32[3]
input $1 : f32[2]
%0 = mul $0[3,2](1,0) 2.0 : f32[3,2]
%1 = add %0[2,3] $1[2,3](1,0) : f32[2,3] live
`, nil},
	{"rows of another shape", `input $0 : f32[6]
%0 = mul $0 2.0 : f32[6]
%1 = neg %0[2,3] : f32[2,3]
%2 = sum{1} %1 : f32[2] live
`, [][]int{{0, 1, 2}}},
	{"a write through a view, with its chain", `input $0 : f32[6]
input $1 : f32[3]
%0 = exp $1 : f32[3]
%1 = sub %0 $0[3](2)+1 : f32[3]
%2 = strided_scatter{[3](2)} $0 %1 1 : f32[6] live
store %2 over $0 base 0 last exclusive
`, [][]int{{0, 1}}},
	{"a write through a view beside a reader of the buffer", `input $0 : f32[6]
input $1 : f32[3]
%0 = add $1 $0[3](1)+3 : f32[3] live
%1 = mul $1 %0 : f32[3]
%2 = strided_scatter{[3](2)} $0 %1 1 : f32[6] live
store %2 over $0 base 0 last exclusive
`, nil},
	{"two parts of one buffer", `input $0 : f32[6]
input $1 : f32[3]
%0 = exp $1 : f32[3]
%1 = strided_scatter{[3](1)} $0 %0 0 : f32[6]
%2 = mul $1 2.0 : f32[3]
%3 = strided_scatter{[3](1)} %1 %2 2 : f32[6] live
store %1 over $0 base 0 exclusive
store %3 over %1 base 0 last exclusive
`, nil},
	{"fills and ranges", `input $0 : f32[9]
%0 = mul $0 2.0 : f32[9]
%1 = fill{7,0,9} 0.5 : f32[9]
%2 = iota{7,0,9} 3.0 0.25 : f32[9]
%3 = add %0 %1 : f32[9]
%4 = mul %3 %2 : f32[9] live
`, [][]int{{0, 1, 2, 3, 4}}},
	{"another element of a member", `input $0 : f32[3,3]
%0 = mul $0 2.0 : f32[3,3]
%1 = add %0[3,3](1,3) %0 : f32[3,3]
%2 = neg %1 : f32[3,3] live
`, [][]int{{1, 2}}},
	{"not across another kernel", `input $0 : f32[4,4]
%0 = mul $0 2.0 : f32[4,4]
%1 = cat{0} $0 $0 : f32[8,4] live
%2 = add %0 1.0 : f32[4,4] live
`, nil},
	{"a product's epilogue is none", `input $0 : f32[3,3]
%0 = matmul{0,0} $0 $0 : f32[3,3]
%1 = relu %0 : f32[3,3] live
%2 = mul $0 2.0 : f32[3,3]
%3 = add %2 %1 : f32[3,3] live
`, [][]int{{2, 3}}},
	{"stores in place, one after the other", `input $0 : f32[4]
%0 = mul $0 0.5 : f32[4]
%1 = add %0 $0 : f32[4] live
store %0 over $0 base 0 exclusive
store %1 over %0 base 0 last exclusive
`, [][]int{{0, 1}}},
	{"a store in place beside a reader of the old version", `input $0 : f32[4]
%0 = neg $0 : f32[4] live
%1 = add $0 %0 : f32[4] live
store %1 over $0 base 0 last exclusive
`, [][]int{{0, 1}}},
	{"a store in place beside a reader of its other elements", `input $0 : f32[3,3]
%0 = neg $0[3,3](1,3) : f32[3,3] live
%1 = add $0 %0 : f32[3,3] live
store %1 over $0 base 0 last exclusive
`, nil},
	{"halves and small integers between members", `input $0 : f32[9]
%0 = mul $0 0.3 : f32[9]
%1 = ` + cast("f16") + ` %0 : f16[9]
%2 = mul %1 %1 : f16[9]
%3 = ` + cast("bf16") + ` %2 : bf16[9]
%4 = add %3 %3 : bf16[9]
%5 = ` + cast("i8") + ` $0 : i8[9]
%6 = mul %5 100 : i8[9]
%7 = ` + cast("f32") + ` %6 : f32[9] live
%8 = ` + cast("u8") + ` %5 : u8[9]
%9 = add %8 200 : u8[9]
%10 = ` + cast("f32") + ` %9 : f32[9] live
%11 = ` + cast("f32") + ` %4 : f32[9] live
`, [][]int{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},
	{"draws", `input $0 : f32[9]
%0 = mul $0 2.0 : f32[9]
%1 = dropout %0 7 3 0.5 : f32[9]
%2 = add %1 $0 : f32[9] live
`, [][]int{{0, 1, 2}}},
	{"noise", `input $0 : f32[2,9]
%0 = random{7,0,rand_normal,2,9} 7 3 : f32[2,9]
%1 = mul %0 0.1 : f32[2,9]
%2 = add $0 %1 : f32[2,9] live
%3 = random{7,0,rand_uniform,18} 7 4 : f32[18] live
%4 = mul %2[18] %3 : f32[18] live
`, [][]int{{0, 1, 2, 3, 4}}},
	{"no more memory than one by one", `input $0 : f32[8,8]
%0 = sum{0} $0[8,8,8](0,8,1) : f32[8,8]
%1 = sum{1} $0[8,8,8](8,0,1) : f32[8,8]
%2 = mul %0[8,8](1,8) %0[8,8](1,8) : f32[8,8]
%3 = add %1[8,8](1,8) %2 : f32[8,8]
%4 = sum{0} %2 : f32[8] live
%5 = sum{0} %3 : f32[8] live
`, nil},
	{"values that die give their buffers", `input $0 : f32[8,8]
%0 = sum{0} $0[8,8,8](0,8,1) : f32[8,8]
%1 = sum{1} $0[8,8,8](8,0,1) : f32[8,8]
%2 = mul %0 %0 : f32[8,8]
%3 = add %1 %2 : f32[8,8]
%4 = cat{0} %2 $0[3,8] : f32[11,8] live
%5 = cat{0} %3 $0[3,8] : f32[11,8] live
`, [][]int{{2, 3}}},
}

// Groups are what the rules say, and the bits are those without the pass.
func TestFusionGroups(t *testing.T) { checkGroups(t, fusions, 1) }

// checkGroups compares the groups of texts with what they should be, and the values and the memory of their plans with
// those of plans without the pass, on an interpreter and on the CPU.
func checkGroups(t *testing.T, texts []fusion, threads int) {
	t.Helper()
	c, err := cpu.New(cpu.Options{Threads: threads})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for _, f := range texts {
		t.Run(f.name, func(t *testing.T) {
			p := program.MustParse(f.text)
			for _, d := range []device.Device{reference.New(), c} {
				with, without := build(t, d, p), build(t, d, p, "fuse")
				assert.Equal(t, f.want, groupsOf(with))
				assert.Empty(t, groupsOf(without))
				assert.Equal(t, run(t, d, without), run(t, d, with))
				assert.LessOrEqual(t, bytesOf(with), bytesOf(without), "memory")
			}
		})
	}
}

// bytesOf is what a plan allocates: a buffer has the bytes of its size class.
func bytesOf(p *compile.Plan) (n int64) {
	for _, s := range p.Slots {
		if s.Kind != compile.External {
			n += device.SizeClass(s.Bytes)
		}
	}
	return n
}

// limited is a device with few storage buffers whose kernels compile slowly, as a GPU is.
type limited struct {
	*reference.Device
	caps device.Caps
}

func (d *limited) Caps() *device.Caps { return &d.caps }

func newLimited(buffers int, costly bool) *limited {
	d := &limited{Device: reference.New()}
	d.caps = *d.Device.Caps()
	d.caps.MaxStorageBuffers, d.caps.CostlyKernels = buffers, costly
	return d
}

// often builds the plan of a program that has run several times.
func often(t *testing.T, d device.Device, p *program.Program) *compile.Plan {
	b := compile.Builder{Program: p, Caps: func(ir.DeviceID) *device.Caps { return d.Caps() }, Lowered: &lower.Memo{},
		Often: true}
	pl, err := b.Build()
	require.NoError(t, err)
	return pl
}

func TestGroupsSplitAtTheDevicesLimits(t *testing.T) {
	var text, last = strings.Builder{}, "$0"
	for i := range 12 {
		fmt.Fprintf(&text, "input $%d : f32[4]\n", i)
	}
	for i := range 11 {
		fmt.Fprintf(&text, "%%%d = add %s $%d : f32[4]\n", i, last, i+1)
		last = fmt.Sprintf("%%%d", i)
	}
	p := program.MustParse(strings.TrimSuffix(text.String(), "\n") + " live\n")
	for buffers, want := range map[int]int{4: 5, 8: 2, 64: 1} {
		d := newLimited(buffers, false)
		pl := build(t, d, p)
		assert.Len(t, groupsOf(pl), want, "%d buffers", buffers)
		for _, st := range pl.Segments[0].Steps {
			assert.LessOrEqual(t, len(st.Bufs), buffers)
		}
		assert.Equal(t, run(t, d, build(t, d, p, "fuse")), run(t, d, pl))
	}
	chain := "input $0 : f32[4]\n%0 = neg $0 : f32[4]\n"
	for i := range 99 {
		chain += fmt.Sprintf("%%%d = neg %%%d : f32[4]\n", i+1, i)
	}
	long := build(t, reference.New(), program.MustParse(strings.TrimSuffix(chain, "\n")+" live\n"))
	assert.Equal(t, 4, long.Kernels, "at most 32 members")
}

// A group that is full ends where a chain of the program ends, so no kernel stores a chain's value for the next one.
func TestAFullGroupEndsBetweenChains(t *testing.T) {
	text := "input $0 : f32[5]\n"
	for k := range 5 {
		at := 9 * k
		text += fmt.Sprintf("%%%d = mul $0 %d.0 : f32[5]\n", at, k+2)
		for j := range 7 {
			text += fmt.Sprintf("%%%d = add %%%d 0.5 : f32[5]\n", at+j+1, at+j)
		}
		text += fmt.Sprintf("%%%d = relu %%%d : f32[5] live\n", at+8, at+7)
	}
	var want [][]int
	for i := range 45 {
		if i%27 == 0 {
			want = append(want, nil)
		}
		want[i/27] = append(want[i/27], i)
	}
	checkGroups(t, []fusion{{"five chains of nine", text, want}}, 1)
}

func TestSlowCompilersFuseWhatRunsOften(t *testing.T) {
	p := program.MustParse(fusions[0].text)
	d := newLimited(64, true)
	first, later := build(t, d, p), often(t, d, p)
	assert.Empty(t, groupsOf(first))
	assert.Equal(t, 1, first.Fusible)
	assert.Equal(t, fusions[0].want, groupsOf(later))
	assert.Zero(t, later.Fusible)
	assert.Equal(t, run(t, d, first), run(t, d, later))
}

func TestRegionsFuseAtTheFirstRunOnSlowCompilers(t *testing.T) {
	text := strings.ReplaceAll(fusions[0].text, " : f32[3,4]\n%", " : f32[3,4] region 1\n%")
	text = strings.ReplaceAll(text, " live", " region 1 live")
	d := newLimited(64, true)
	assert.Equal(t, fusions[0].want, groupsOf(build(t, d, program.MustParse(text))), "%s", text)
	half := strings.Replace(text, " region 1 live", " live", 1)
	assert.Empty(t, groupsOf(build(t, d, program.MustParse(half))), "a member outside of the region")
}

// Between 1024 and 2048 every eighth number is a bfloat16.
func TestRegionsRoundHalvesAtTheirEnds(t *testing.T) {
	text := "input $0 : f32[4]\n%0 = " + cast("bf16") + ` $0 : bf16[4]
%1 = add %0 1024 : bf16[4] region 1
%2 = sub %1 1024 : bf16[4] region 1
%3 = ` + cast("f32") + " %2 : f32[4] live\n"
	exact, rounded := []float32{-4, -1, 2, 5}, []float32{-4, 0, 0, 8}
	for _, c := range []struct {
		name, from, to string
		off            []string
		want           []float32
	}{
		{"one region", "", "", nil, exact},
		{"no region", " region 1", "", nil, rounded},
		{"two regions", "%1 1024 : bf16[4] region 1", "%1 1024 : bf16[4] region 2", nil, rounded},
		{"a value that goes into a region", "%0 1024 : bf16[4] region 1", "%0 1024 : bf16[4]", nil, rounded},
		{"a value that leaves a region", "%1 1024 : bf16[4] region 1", "%1 1024 : bf16[4]", nil, rounded},
		{"a value that is held", "%0 1024 : bf16[4] region 1", "%0 1024 : bf16[4] region 1 live", nil, exact},
		{"a conversion to bfloat16", "%1 = add %0 1024 : bf16[4] region 1\n%2 = sub %1",
			"%1 = add $0 1024 : f32[4] region 1\n%2 = " + cast("bf16") + " %1 : bf16[4] region 1\n%3 = sub %2", nil, rounded},
		{"without fusion", "", "", []string{"fuse"}, rounded},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(text, c.from, c.to)
			last := strings.Count(text, "=") - 1
			text = strings.ReplaceAll(text, "%3 = "+cast("f32")+" %2", fmt.Sprintf("%%%d = %s %%%d", last, cast("f32"), last-1))
			p := program.MustParse(text)
			d, err := cpu.New(cpu.Options{Threads: 1})
			require.NoError(t, err)
			defer d.Close()
			for _, d := range []device.Device{reference.New(), d} {
				bytes := run(t, d, build(t, d, p, c.off...))[last]
				var got []float32
				for k := 0; k < len(bytes); k += 4 {
					got = append(got, math.Float32frombits(binary.LittleEndian.Uint32(bytes[k:])))
				}
				assert.Equal(t, c.want, got, "%s", text)
			}
		})
	}
}

// maps writes a random program of elementwise nodes in several dtypes, with views and stores.
func maps(r *rand.Rand, rows int) string {
	m := &mapWriter{r: r, shape: fmt.Sprintf("[%d,5]", rows), version: "$1",
		views: []string{"", "", "", fmt.Sprintf("[%d,5](1,%d)", rows, rows), fmt.Sprintf("[%d,5](0,1)", rows)}}
	m.values = map[string][]string{"f32": {"$0"}}
	for range 4 + r.Intn(24) {
		m.node()
	}
	if n := len(m.stores); n > 0 {
		m.stores[n-1] += " last"
		m.lines[m.written] += " live"
	}
	text := "input $0 : f32" + m.shape + "\ninput $1 : f32" + m.shape + "\n" + strings.Join(m.lines, "\n") + "\n"
	for _, s := range m.stores {
		text += s + " exclusive\n"
	}
	return text
}

type mapWriter struct {
	r             *rand.Rand
	shape         string
	views         []string
	values        map[string][]string // by dtype
	lines, stores []string
	version       string // of the base that is written
	written       int    // the node that makes it
}

func pickOf[T any](r *rand.Rand, list []T) T { return list[r.Intn(len(list))] }

func (m *mapWriter) node() {
	dtypes := []string{"f32", "f32", "f16", "bf16", "i8", "u8", "i16", "i32", "i64"}
	d := pickOf(m.r, dtypes)
	for len(m.values[d]) == 0 {
		d = pickOf(m.r, dtypes)
	}
	x, y, view := pickOf(m.r, m.values[d]), pickOf(m.r, m.values[d]), pickOf(m.r, m.views)
	live := pickOf(m.r, []string{"", "", " live"})
	work, to := "", d
	switch m.r.Intn(8) {
	case 0, 1:
		work = pickOf(m.r, []string{"add", "sub", "mul"}) + " " + x + view + " " + y
	case 2:
		work = "mul " + x + " 3"
	case 3:
		to = pickOf(m.r, dtypes)
		work = cast(to) + " " + x + view
	case 4:
		work = "relu " + x
	case 5:
		x, to = pickOf(m.r, m.values["f32"]), "f32"
		work = fmt.Sprintf("dropout %s %d 1 0.25", x, m.r.Intn(99))
	case 7:
		draw := pickOf(m.r, []string{"rand_uniform", "rand_normal"})
		work, to = fmt.Sprintf("random{7,0,%s,%s} %d 1", draw, strings.Trim(m.shape, "[]"), m.r.Intn(99)), "f32"
	case 6:
		to, live = "f32", ""
		work = "add " + m.version + " " + pickOf(m.r, m.values["f32"])
	}
	name := fmt.Sprintf("%%%d", len(m.lines))
	if strings.HasPrefix(work, "add "+m.version+" ") {
		m.stores = append(m.stores, fmt.Sprintf("store %s over %s base 0", name, m.version))
		m.version, m.written = name, len(m.lines)
	} else {
		m.values[to] = append(m.values[to], name)
	}
	m.lines = append(m.lines, fmt.Sprintf("%s = %s : %s%s%s", name, work, to, m.shape, live))
}

// compared is a random program, whose plans with the pass fuse and without it gave the same bits.
type compared struct {
	text          string
	program       *program.Program
	on            device.Device
	with, without *compile.Plan
}

// requireNoMoreMemory is for plans without tiles, whose values have no memory.
func (x *compared) requireNoMoreMemory(t *testing.T) {
	t.Helper()
	require.LessOrEqual(t, bytesOf(x.with), bytesOf(x.without), "%s", x.text)
}

// randomPrograms draws programs with write, requires the same bits of each with the pass fuse and without it, and calls
// check. Programs whose number is a multiple of nth run on the reference device, the others on the CPU.
func randomPrograms(t *testing.T, seed int64, programs, nth int, write func(r *rand.Rand, n int) string,
	check func(n int, x compared)) {
	t.Helper()
	c, err := cpu.New(cpu.Options{Threads: 2})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r := rand.New(rand.NewSource(seed))
	for n := range programs {
		x := compared{text: write(r, n), on: c}
		if n%nth == 0 {
			x.on = reference.New()
		}
		x.program, err = program.Parse(x.text)
		require.NoError(t, err, "%s", x.text)
		x.with, x.without = build(t, x.on, x.program), build(t, x.on, x.program, "fuse")
		require.Equal(t, run(t, x.on, x.without), run(t, x.on, x.with), "%s", x.text)
		check(n, x)
	}
}

// Random maps have the bits, and at most the memory, that they have one by one: small ones on the interpreter and the
// CPU, and ones that the CPU works in several tiles.
func TestFusionChangesNoBitOfRandomMaps(t *testing.T) {
	fused, inPlace := 0, 0
	randomPrograms(t, 5, 150, 3, func(r *rand.Rand, n int) string { return maps(r, []int{3, 3, 3001}[n%3]) },
		func(n int, x compared) {
			plain := build(t, x.on, x.program, "fuse", "tiles", "inplace")
			require.Equal(t, run(t, x.on, plain), run(t, x.on, x.with), "%s", x.text)
			require.Equal(t, x.without.InPlace, x.with.InPlace, "%s", x.text)
			if n%3 < 2 {
				x.requireNoMoreMemory(t)
			}
			fused += len(groupsOf(x.with))
			inPlace += x.with.InPlace
		})
	assert.Greater(t, fused, 200)
	assert.Greater(t, inPlace, 20)
}
