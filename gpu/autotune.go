package gpu

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

const (
	// autotuneBytes bounds the scratch operands of a timed product.
	autotuneBytes = 2 << 30
	// autotuneRounds is the number of samples of a tile that count; autotuneTime ends the rounds on a slow device
	// early.
	autotuneRounds = 5
	autotuneTime   = 2 * time.Second
	// sampleTime and sampleWall are the least duration of a sample in seconds: by timestamps, and by the host's clock,
	// which also counts a submission and its wait. A sample repeats the product at most sampleMost times.
	sampleTime, sampleWall, sampleMost = 200e-6, 2e-3, 50
	// rampTime is the seconds for which the table's tile runs first, at most rampMost times, until the device's clock
	// is up.
	rampTime, rampMost = 20e-3, 2000
	// maxLaunch is the seconds of a launch from which a product is not timed: another tile could take many times as
	// long.
	maxLaunch = 0.25
	// dropRatio: after the first samples, candidates slower than dropRatio times the best are dropped.
	dropRatio = 2.0
	// patternElements is the number of random numbers that fill the operands, repeated.
	patternElements = 1 << 18
)

// errTooLarge says that a product is not timed, since its operands do not fit.
var errTooLarge = errors.New("no room for scratch operands")

// candidate is a tile that is timed.
type candidate struct {
	p       *program
	samples []float64
}

// timeCandidates times g launched with params in each tile, in turns. It returns the median seconds of a launch,
// infinity for a tile that the device refuses. The pipelines of the fastest stay in the cache.
func (d *Device) timeCandidates(g *launch.Gemm, params []uint64, trials []gpucode.GemmTile) ([]float64, error) {
	l := g.Layout()
	step := device.Step{Op: g}
	for i, v := range params {
		if l.Params[i].Kind == loopir.Offset {
			v &= 3 // what decides on vectors
		}
		step.Params = append(step.Params, device.Const(int64(v)))
	}
	kernels, procs := maps.Clone(d.kernels), maps.Clone(d.procs)
	bind := &device.Binding{}
	list := make([]*candidate, len(trials))
	times := slices.Repeat([]float64{math.Inf(1)}, len(trials))
	defer func() {
		d.tune.trial, d.kernels, d.procs = nil, kernels, procs
		kept := list[fastest(times)].pipelines()
		for _, r := range list {
			if r != nil {
				r.p.Release()
			}
		}
		for _, b := range bind.Bufs {
			d.Free(b)
		}
		d.dropTrials(kept)
	}()
	if err := d.scratchOperands(bind, g, step.Constants()); err != nil {
		return nil, err
	}
	for i := range bind.Bufs {
		step.Bufs = append(step.Bufs, i)
	}
	for i := range trials {
		d.tune.trial = &trials[i]
		p, err := d.Build([]device.Step{step}, len(bind.Bufs))
		switch {
		case d.lost != nil || i == 0 && err != nil: // the first is the table's tile
			return nil, err
		case err == nil:
			list[i] = &candidate{p: p.(*program)}
		}
	}
	if err := d.rounds(list, bind); err != nil {
		return nil, err
	}
	for i, r := range list {
		if r != nil && len(r.samples) > 0 {
			times[i] = median(r.samples)
		}
	}
	return times, nil
}

// fastest is the index of the least time, the first among equals.
func fastest(times []float64) int { return slices.Index(times, slices.Min(times)) }

// median is the median of some times.
func median(s []float64) float64 {
	s = slices.Sorted(slices.Values(s))
	return s[len(s)/2]
}

// rounds samples the candidates. All but the first, the table's tile, may be nil. One launch of each warms up, since a
// driver may compile in it. One more launch decides how many launches make a sample, and which tiles are dropped.
func (d *Device) rounds(list []*candidate, bind *device.Binding) error {
	list = slices.DeleteFunc(slices.Clone(list), func(r *candidate) bool { return r == nil })
	for _, r := range list {
		if _, err := d.sample(r.p, bind, 1); err != nil {
			return err
		}
		if r != list[0] {
			continue
		}
		s, err := d.sample(r.p, bind, 1)
		if r.samples = []float64{s}; err != nil || s > maxLaunch {
			return err
		}
		if _, err := d.sample(r.p, bind, launches(s, rampTime, rampMost)); err != nil {
			return err
		}
	}
	target := sampleWall
	if d.feat.Timestamps {
		target = sampleTime
	}
	reps, begin := 1, d.now()
	for round := range 1 + autotuneRounds {
		least := math.Inf(1)
		for _, r := range list {
			s, err := d.sample(r.p, bind, reps)
			if err != nil {
				return err
			}
			if round <= 1 {
				r.samples = r.samples[:0]
			}
			r.samples, least = append(r.samples, s), min(least, s)
		}
		if round == 0 {
			reps = launches(least, target, sampleMost)
			list = slices.DeleteFunc(list, func(r *candidate) bool { return r.samples[0] > dropRatio*least })
		}
		if d.now().Sub(begin) > autotuneTime {
			break
		}
	}
	return nil
}

// launches is the number of launches, each of these seconds, that last for target seconds: at least 1, at most `most`.
func launches(seconds, target, most float64) int {
	return int(min(most, max(1, math.Ceil(target/max(seconds, 1e-9)))))
}

// sample is the seconds of one launch of p, measured over reps launches in a row.
func (d *Device) sample(p *program, bind *device.Binding, reps int) (float64, error) {
	records, err := d.encode(p, bind)
	if err != nil {
		return 0, err
	}
	first := slices.IndexFunc(records, func(r Record) bool { return r.Kind == Dispatch })
	launches := slices.Repeat(records[first:], reps)
	if !d.feat.Timestamps {
		return d.sampleWall(p, slices.Concat(records[:first], launches), reps)
	}
	f := &d.profile
	if err := f.reserve(d, 2); err != nil {
		return 0, err
	}
	launches[0].Kind, launches[0].C, launches[0].Query = TimedDispatch, f.queries[0], 0
	resolve := Record{Kind: ResolveQuery, A: f.queries[0], B: f.resolve, Z: 2}
	// In parts the pass would end early.
	if _, err := d.send(slices.Concat(records[:first], launches, []Record{resolve}), p.words, 0, unbound); err != nil {
		return 0, err
	}
	p.stale = false
	var ticks float64
	err = d.readMapped(f.resolve, 0, 16, nil, func(mem []byte) {
		ticks = max(0, float64(int64(binary.LittleEndian.Uint64(mem[8:])-binary.LittleEndian.Uint64(mem))))
	})
	return ticks * d.limits.TimestampPeriod / 1e9 / float64(reps), err
}

// sampleWall is the seconds that a submission and the wait for it take.
func (d *Device) sampleWall(p *program, records []Record, reps int) (float64, error) {
	if err := d.waitFor(uint64(d.Submitted()), d.opts.WaitTimeout, nil); err != nil {
		return 0, err
	}
	begin := d.now()
	if _, err := d.send(records, p.words, 0, unbound); err != nil {
		return 0, err
	}
	p.stale = false
	err := d.waitFor(d.submitted, d.opts.WaitTimeout, nil)
	return d.now().Sub(begin).Seconds() / float64(reps), err
}

// scratchOperands allocates the buffers of g launched with params and fills its operands with random numbers.
// Arithmetic on zeros would take less power, and the device would run at a higher clock.
func (d *Device) scratchOperands(bind *device.Binding, g *launch.Gemm, params []uint64) error {
	l, reach, total := g.Layout(), gpucode.GemmReach(g, params), uint64(0)
	width := func(i int) uint64 { return uint64(d.caps.Storage[l.Bufs[i].Type]) }
	for i, n := range reach {
		if n > uint64(d.limits.MaxStorageBinding)/width(i) {
			return errTooLarge
		}
		total += n * width(i)
	}
	if total > autotuneBytes {
		return errTooLarge
	}
	pattern, err := d.Alloc(patternElements * int64(d.caps.Storage[g.Type]))
	if err != nil {
		return err
	}
	defer d.Free(pattern)
	if err := d.Upload(pattern, g.Type, 0, randomElements(g.Type)); err != nil {
		return err
	}
	var records []Record
	for i, n := range reach {
		b, err := d.Alloc(int64(n * width(i)))
		if err != nil {
			return err
		}
		bind.Bufs = append(bind.Bufs, b)
		for at := int64(0); l.Bufs[i].Access == loopir.Read && at < b.Bytes(); at += pattern.Bytes() {
			records = append(records, Record{Kind: CopyBuffer, A: pattern.(*Buffer).handle, B: b.(*Buffer).handle, Y: uint64(at),
				Z: uint64(min(pattern.Bytes(), b.Bytes()-at))})
		}
	}
	return d.submit(records, nil)
}

// randomElements gives patternElements numbers in [-1, 1), or integers in [-8, 7].
func randomElements(t ir.DType) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, patternElements*t.Size())
	for i := range int64(patternElements) {
		v := ir.EncodeInt(t, int64(r.IntN(16))-8)
		if t.IsFloat() {
			v = ir.EncodeFloat(t, 2*r.Float64()-1)
		}
		loopir.StoreBits(t, data, i, v)
	}
	return data
}

// pipelines lists the pipelines of a candidate, which may be nil.
func (r *candidate) pipelines() (list []*pipeline) {
	if r != nil {
		for i := range r.p.steps {
			list = append(list, r.p.steps[i].pipelines[0])
		}
	}
	return list
}

// dropTrials releases the pipelines that were made for timing, except those in kept and those that other kernels use.
func (d *Device) dropTrials(kept []*pipeline) {
	if d.lost != nil {
		return
	}
	c := &d.compiler
	c.mu.Lock()
	defer c.mu.Unlock()
	for code, t := range c.texts {
		switch {
		case !t.trial:
		case slices.Contains(kept, t.pipe):
			t.trial = false
		default:
			d.ctx.ReleasePipeline(t.pipe.Pipeline)
			delete(c.texts, code)
			c.made--
		}
	}
}
