package gpucode

import (
	"fmt"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/launch"
)

// AttentionOptions is a tile configuration. A workgroup of RowThreads x Lanes threads computes Rows x Cols scores at a
// time, Rows/RowThreads x Cols/Lanes of them in each thread.
type AttentionOptions struct {
	Rows, Cols        int
	RowThreads, Lanes int
	// Width and WidthV are the columns of q and k, and of v, padded to multiples of 4*Lanes.
	Width, WidthV int
	// Single: both operands of the stream use the same workgroup memory, one after the other.
	Single bool
	// Chunk and ChunkRows, where not 0: operands come in chunks, of Chunk columns for the scores and of ChunkRows rows
	// of the stream for the results.
	Chunk, ChunkRows int
	// Double: chunks alternate between two areas, so that a stage needs one barrier and not two.
	Double bool
	// Vec: 16-byte accesses. They require contiguous columns, and widths, strides and offsets that are multiples of
	// four.
	Vec bool
	// Exact: the operands are as wide as the tiles.
	Exact bool
	// Unroll is the number of steps, of four columns or keys each, in the text of an inner loop. UnrollRows, where not
	// 0, is that number for the loops over keys.
	Unroll, UnrollRows int
	// Parts, where not 0: a workgroup works one query, whose keys so many workgroups share. See attention_query.go.
	Parts int
	// KeyLanes, where not 0: so many threads share a key of a single query, within subgroups of Subgroup threads. A
	// thread works on Unroll keys at a time. See attention_query_lanes.go.
	KeyLanes, Subgroup int
	// I64: the device has 64-bit integers, in which the number of a new row comes; set with launch.Attention.Append only.
	I64               bool
	MaxWorkgroupBytes int
}

func (o *AttentionOptions) threads() int { return o.RowThreads * o.Lanes }
func (o *AttentionOptions) tm() int      { return o.Rows / o.RowThreads }
func (o *AttentionOptions) tn() int      { return o.Cols / o.Lanes }

// attentionCandidate is a tile configuration and the launches that it is for.
type attentionCandidate struct {
	AttentionOptions
	// few: only for launches of fewer workgroups than the device runs at once.
	few bool
	// queries, where not 0, is the most queries of a launch that it is for.
	queries uint64
}

// attentionTiles lists the tiles of each pass in order of preference.
//
// Measured on an H200, causal, float32, in TFLOP/s (forward; dq; dk with dv):
//
//	batch, heads, length, width   tile                                         forward  dq    dk dv
//	1, 16, 4096, 128              64x64 in chunks                              30.1     33.7  32.4
//	                              the same, one area, two barriers a stage     28.5     32.4  31.8
//	                              largest tile in workgroup memory as a whole  25.4     22.1  22.5
//	4, 12, 1024, 64               64x64 in chunks                              26.2     30.2  30.9
//	                              64x48; 32x32 for the gradients               24.9     25.9  25.5
//	                              loops of four steps, forward                 32.8, against 26.0
//	1, 8, 2048, 256               one area                                     28.8     15.5  16.8
//	                              two areas, chunks of 8 rows                  16.6     16.6  15.0
//	1, 12, 512, 64                64x64 in chunks                              10.3     11.7  12.0
//	                              32x64, which has more workgroups             15.4     18.7  18.8
//
// Loops of one step reach 22 to 25 everywhere. 8x4 scores a thread, in half the threads, reach 21.5, 14.8, 12.1.
var attentionTiles = [4][]attentionCandidate{
	launch.AttentionForward: {
		{AttentionOptions: fewRowsAttention, queries: 8},
		{AttentionOptions: fewGroupsAttention, few: true},
		{AttentionOptions: chunkedForward},
		{AttentionOptions: wideAttention},
		{AttentionOptions: AttentionOptions{Rows: 64, Cols: 48, RowThreads: 16, Lanes: 8, Single: true, Unroll: 2}},
		{AttentionOptions: AttentionOptions{Rows: 32, Cols: 32, RowThreads: 8, Lanes: 16, Single: true, Unroll: 4}},
		{AttentionOptions: AttentionOptions{Rows: 32, Cols: 32, RowThreads: 16, Lanes: 8, Single: true, Unroll: 4}},
		{AttentionOptions: AttentionOptions{Rows: 16, Cols: 16, RowThreads: 8, Lanes: 16, Single: true, Unroll: 4}},
	},
	launch.AttentionGradQ:    gradientTiles,
	launch.AttentionGradKV:   gradientTiles,
	launch.AttentionGradMask: wholeGradientTiles,
}

// fewRowsAttention has a row for each thread of a column of them, fewGroupsAttention half the rows of the tiles below.
var (
	fewRowsAttention   = AttentionOptions{Rows: 8, Cols: 64, RowThreads: 8, Lanes: 16, Single: true, Unroll: 4}
	fewGroupsAttention = AttentionOptions{Rows: 32, Cols: 64, RowThreads: 8, Lanes: 16, Single: true, Unroll: 4}
)

// chunkedAttention holds 4x4 scores a thread. So does wideAttention, for heads so wide that two areas of chunks do not
// fit.
var (
	chunkedAttention = AttentionOptions{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16,
		Double: true, Unroll: 2}
	chunkedForward = AttentionOptions{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16,
		Double: true, Unroll: 4}
	wideAttention = AttentionOptions{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Unroll: 4,
		UnrollRows: 2}
)

var gradientTiles = append([]attentionCandidate{
	{AttentionOptions: AttentionOptions{Rows: 32, Cols: 32, RowThreads: 8, Lanes: 16, Unroll: 4}, few: true},
	{AttentionOptions: chunkedAttention},
	{AttentionOptions: wideAttention},
}, wholeGradientTiles...)

var wholeGradientTiles = []attentionCandidate{
	{AttentionOptions: AttentionOptions{Rows: 32, Cols: 32, RowThreads: 8, Lanes: 16, Unroll: 4}},
	{AttentionOptions: AttentionOptions{Rows: 32, Cols: 32, RowThreads: 16, Lanes: 8, Unroll: 4}},
	{AttentionOptions: AttentionOptions{Rows: 32, Cols: 16, RowThreads: 8, Lanes: 16, Single: true, Unroll: 8}},
	{AttentionOptions: AttentionOptions{Rows: 32, Cols: 16, RowThreads: 16, Lanes: 8, Single: true, Unroll: 8}},
	{AttentionOptions: AttentionOptions{Rows: 16, Cols: 16, RowThreads: 8, Lanes: 16, Single: true, Unroll: 4}},
	{AttentionOptions: AttentionOptions{Rows: 8, Cols: 16, RowThreads: 8, Lanes: 16, Single: true, Unroll: 4}},
	{AttentionOptions: AttentionOptions{Rows: 8, Cols: 8, RowThreads: 8, Lanes: 8, Single: true, Unroll: 4}},
}

// rolledAttention is for devices where compiling is slow. smallAttention is for devices with the least workgroup memory
// that WebGPU allows: it holds heads of 256 columns.
var (
	rolledAttention = AttentionOptions{Rows: 8, Cols: 8, RowThreads: 4, Lanes: 4, Single: true, Unroll: 1}
	smallAttention  = AttentionOptions{Rows: 4, Cols: 4, RowThreads: 4, Lanes: 4, Single: true, Unroll: 1}
)

// ChooseAttention picks the tile for a launched with params: the first that fits the device's workgroup memory and does
// not widen heads beyond multiples of 32; where all widen them, the first that fits.
func ChooseAttention(a *launch.Attention, params []uint64, caps Caps) AttentionOptions {
	return chooseAttention(a, params, caps, attentionTiles[a.Pass])
}

// BriefAttention is a tile with a short text, which compiles soon, and with the bits of ChooseAttention's. Blocks
// change the bits of the forward pass only, so that one keeps its tile. Texts, and the time to compile them on an H100:
//
//	pass           of ChooseAttention   brief
//	forward        88 KB, 695 ms        41 KB, 346 ms
//	dq             78 KB, 709 ms        the smallest tiles without chunks
//	dk with dv     98 KB, 916 ms        likewise
func BriefAttention(a *launch.Attention, params []uint64, caps Caps) AttentionOptions {
	list := wholeGradientTiles
	if a.Pass == launch.AttentionForward {
		list = attentionTiles[a.Pass]
	}
	o := chooseAttention(a, params, caps, list)
	if o.KeyLanes == 0 { // else blocks of keys depend on it
		o.Unroll, o.UnrollRows = 1, 0
	}
	return o
}

func chooseAttention(a *launch.Attention, params []uint64, caps Caps, list []attentionCandidate) AttentionOptions {
	caps = caps.withDefaults()
	if o, ok := chooseQuery(a, params, caps); ok {
		return o
	}
	l := a.Layout()
	if caps.Software {
		list = []attentionCandidate{{AttentionOptions: rolledAttention}}
	}
	groups := params[l.Batch] * params[l.Heads] * ceil(params[l.Queries], 64)
	vec := attentionVectors(a, params, &l)
	fit := func(o AttentionOptions) AttentionOptions {
		o.Width, o.WidthV = padded(params[l.Width], 4*o.Lanes), padded(params[l.WidthV], 4*o.Lanes)
		o.Vec, o.MaxWorkgroupBytes = vec, caps.MaxWorkgroupBytes
		o.Exact = uint64(o.Width) == params[l.Width] && uint64(o.WidthV) == params[l.WidthV]
		return o
	}
	for _, strict := range []bool{true, false} {
		for _, c := range list {
			o := fit(c.AttentionOptions)
			lean := o.Width <= padded(params[l.Width], 32) && o.WidthV <= padded(params[l.WidthV], 32)
			fits := o.threads() <= caps.MaxThreads && o.sharedBytes(a) <= caps.MaxWorkgroupBytes && o.check(a) == nil
			if fits && (lean || !strict) && !(c.few && groups >= uint64(caps.Units)) &&
				(c.queries == 0 || params[l.Queries] <= c.queries) {
				return o
			}
		}
	}
	return fit(smallAttention)
}

func padded(n uint64, to int) int { return (int(n) + to - 1) / to * to }

// attentionVectors reports that all operands allow 16-byte accesses.
func attentionVectors(a *launch.Attention, params []uint64, l *launch.AttentionLayout) bool {
	if params[l.Width]%4 != 0 || params[l.WidthV]%4 != 0 {
		return false
	}
	operands := []launch.AttentionOperand{l.Q, l.K, l.V}
	if a.Pass != launch.AttentionForward {
		operands = append(operands, l.G)
	}
	if a.Append {
		operands = append(operands, l.NewK, l.NewV)
	}
	for _, o := range operands {
		p := params[o.Param:]
		if p[0]%4 != 0 || p[1]%4 != 0 || p[2]%4 != 0 || p[3] != 1 || p[4]%4 != 0 {
			return false
		}
	}
	return true
}

// areaVectors is the number of vectors of one area of chunks.
func (o *AttentionOptions) areaVectors() int {
	return max((o.Rows+o.Cols)*(o.Chunk+pad), o.ChunkRows*(max(o.Width, o.WidthV)+pad)) / 4
}

func (o *AttentionOptions) areas() int {
	if o.Double {
		return 2
	}
	return 1
}

func (o *AttentionOptions) sharedBytes(a *launch.Attention) int {
	if o.Parts > 0 {
		return o.queryBytes()
	}
	if o.Chunk > 0 {
		n := 16*o.areaVectors()*o.areas() + 4*o.Rows*(o.Cols+pad)
		if a.Pass == launch.AttentionForward {
			n += 4 * o.Rows * o.Lanes
		}
		return n
	}
	row, rowV := 4*(o.Width+pad), 4*(o.WidthV+pad)
	stream := row + rowV
	if o.Single {
		stream = max(row, rowV)
	}
	n := o.Cols*stream + o.Rows*(row+4*(o.Cols+pad))
	if a.Pass == launch.AttentionForward {
		return n + o.Rows*4*o.Lanes
	}
	return n + o.Rows*rowV
}

func (o *AttentionOptions) check(a *launch.Attention) error {
	if o.Rows <= 0 || o.Cols <= 0 || o.RowThreads <= 0 || o.Lanes <= 0 || o.Unroll <= 0 {
		return fmt.Errorf("gpucode: attention: incomplete tile %+v", *o)
	}
	divides := func(n int) bool { return n%(4*o.threads()) == 0 }
	switch {
	case !a.Type.IsFloat() || a.Type == ir.F64:
		return fmt.Errorf("gpucode: attention: dtype %v is not supported", a.Type)
	case o.Parts > 0:
		return o.checkQuery(a)
	case a.Append:
		return fmt.Errorf("gpucode: attention: tiles store no new rows")
	case o.Lanes%4 != 0 || o.RowThreads%2 != 0 || o.Cols%4 != 0 || o.Rows%4 != 0 || o.Rows%o.RowThreads != 0 ||
		o.Cols%o.Lanes != 0 || o.Width%(4*o.Lanes) != 0 || o.WidthV%(4*o.Lanes) != 0:
		return fmt.Errorf("gpucode: attention: tile %+v does not divide into threads and vectors", *o)
	case o.Chunk > 0:
		return o.checkChunks(a)
	case !divides(o.Rows*o.Width) || !divides(o.Rows*o.WidthV) || !divides(o.Cols*o.Width) || !divides(o.Cols*o.WidthV):
		return fmt.Errorf("gpucode: attention: %d threads do not divide the loads of tile %+v", o.threads(), *o)
	case a.Pass == launch.AttentionForward && !o.Single:
		return fmt.Errorf("gpucode: attention: the forward pass needs Single without chunks")
	}
	return nil
}

func (o *AttentionOptions) checkChunks(a *launch.Attention) error {
	divides := func(n int) bool { return n%(4*o.threads()) == 0 }
	switch {
	case a.Pass == launch.AttentionGradMask:
		return fmt.Errorf("gpucode: attention: the mask's gradient takes no chunks")
	case o.Chunk%4 != 0 || o.ChunkRows <= 0 || o.ChunkRows%4 != 0 || o.Cols%o.ChunkRows != 0 || o.Width%o.Chunk != 0 ||
		o.WidthV%o.Chunk != 0:
		return fmt.Errorf("gpucode: attention: tile %+v does not divide into chunks", *o)
	case !divides(o.Rows*o.Chunk) || !divides(o.Cols*o.Chunk) || !divides(o.ChunkRows*o.Width) ||
		!divides(o.ChunkRows*o.WidthV):
		return fmt.Errorf("gpucode: attention: %d threads do not divide the chunks of tile %+v", o.threads(), *o)
	}
	return nil
}
