package exec

import (
	"time"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/plan"
)

// Pool keeps a device's free buffers by size class.
//
// Invariant: pooled + live bytes <= peak, the high-water mark of live bytes since
// the last reset. A miss that would break it evicts first, then waits for the fence.
type Pool struct {
	dev  device.Device
	free map[int64][]device.Buffer
	// at is the place of a free buffer in its list; nil where runs end before the next begins:
	// the last buffer to come back is then the best.
	at      map[device.Buffer]int
	pending []pendingBuffer // in order of fences
	// done is the last fence known to have completed, asked the last that Release asked for.
	done, asked device.Fence
	Live        int64 // bytes handed out
	Pooled      int64 // bytes kept, pending ones included
	Peak        int64
	Count       int // buffers handed out
	Hits        int64
	Misses      int64
	timeout     time.Duration
	// Limit, when not 0, bounds the live bytes: beyond it Acquire fails as a full device would.
	Limit int64
}

type pendingBuffer struct {
	b     device.Buffer
	class int64
	fence device.Fence
}

// NewPool makes an empty pool on d.
func NewPool(d device.Device, timeout time.Duration) *Pool {
	p := &Pool{dev: d, free: map[int64][]device.Buffer{}, timeout: timeout}
	if d.Caps().Async {
		p.at = map[device.Buffer]int{}
	}
	return p
}

// Acquire gives a buffer of at least bytes.
func (p *Pool) Acquire(bytes int64) (device.Buffer, error) {
	c := plan.SizeClass(max(bytes, 1))
	if p.Limit > 0 && p.Live+c > p.Limit {
		return nil, ir.Errorf(ir.ErrOutOfMemory, "the memory limit of %d bytes", p.Limit)
	}
	if b := p.take(c); b != nil {
		return b, nil
	}
	p.collect()
	if b := p.take(c); b != nil {
		return b, nil
	}
	// Waiting is cheaper than new memory once a window's worth is in flight.
	if n := len(p.pending); n > 0 && p.Live+p.Pooled+c > p.Peak {
		for i := range p.pending {
			if p.pending[i].class == c {
				if err := p.dev.Wait(p.pending[i].fence, p.timeout, nil); err != nil {
					return nil, err
				}
				p.collect()
				if b := p.take(c); b != nil {
					return b, nil
				}
				break
			}
		}
	}
	p.Misses++
	if err := p.makeRoom(c); err != nil {
		return nil, err
	}
	b, err := p.dev.Alloc(c)
	if err != nil {
		if e := p.Trim(); e != nil {
			return nil, e
		}
		if b, err = p.dev.Alloc(c); err != nil {
			return nil, err
		}
	}
	p.handOut(c)
	return b, nil
}

// Reacquire gives b, which was handed out for as many bytes before, if it is free.
func (p *Pool) Reacquire(b device.Buffer, bytes int64) bool {
	c := plan.SizeClass(max(bytes, 1))
	i, ok := p.at[b]
	if !ok || i >= len(p.free[c]) || p.free[c][i] != b || p.Limit > 0 && p.Live+c > p.Limit {
		return false
	}
	p.remove(c, i)
	p.Hits++
	p.handOut(c)
	return true
}

// enter puts a buffer into its free list.
func (p *Pool) enter(c int64, b device.Buffer) {
	if p.at != nil {
		p.at[b] = len(p.free[c])
	}
	p.free[c] = append(p.free[c], b)
}

// remove takes entry i out of a free list.
func (p *Pool) remove(c int64, i int) device.Buffer {
	f := p.free[c]
	b, last := f[i], f[len(f)-1]
	f[i] = last
	p.free[c] = f[:len(f)-1]
	if p.at != nil {
		p.at[last] = i
		delete(p.at, b)
	}
	p.Pooled -= c
	return b
}

func (p *Pool) take(c int64) device.Buffer {
	n := len(p.free[c])
	if n == 0 {
		return nil
	}
	b := p.remove(c, n-1)
	p.Hits++
	p.handOut(c)
	return b
}

func (p *Pool) handOut(c int64) {
	p.Live += c
	p.Count++
	p.Peak = max(p.Peak, p.Live)
}

// makeRoom evicts free buffers, and then waits for pending ones, until c more bytes
// keep the invariant.
func (p *Pool) makeRoom(c int64) error {
	limit := max(p.Peak, p.Live+c)
	for p.Live+p.Pooled+c > limit && p.Pooled > 0 {
		if p.evictOne() {
			continue
		}
		if len(p.pending) == 0 {
			return nil
		}
		if err := p.dev.Wait(p.pending[0].fence, p.timeout, nil); err != nil {
			return err
		}
		p.collect()
	}
	return nil
}

// evictOne frees one buffer of the largest class that has any.
func (p *Pool) evictOne() bool {
	best := int64(-1)
	for c, f := range p.free {
		if len(f) > 0 && c > best {
			best = c
		}
	}
	if best < 0 {
		return false
	}
	p.dev.Free(p.remove(best, len(p.free[best])-1))
	return true
}

// Release takes a buffer back; it can be acquired again when what was submitted so
// far has completed.
func (p *Pool) Release(b device.Buffer, bytes int64) {
	c := plan.SizeClass(max(bytes, 1))
	p.Live -= c
	p.Count--
	p.Pooled += c
	f := p.dev.Submitted()
	if f <= p.done || f != p.asked && p.passed(f) {
		p.enter(c, b)
		return
	}
	p.asked = f
	p.pending = append(p.pending, pendingBuffer{b, c, f})
}

// passed reports that f has completed. Asking polls the device.
func (p *Pool) passed(f device.Fence) bool {
	if f > p.done && p.dev.Done(f) {
		p.done = f
	}
	return f <= p.done
}

// collect moves buffers whose fence has passed to the free lists.
func (p *Pool) collect() {
	n := 0
	for n < len(p.pending) && p.passed(p.pending[n].fence) {
		q := p.pending[n]
		p.enter(q.class, q.b)
		n++
	}
	if n > 0 {
		p.pending = append(p.pending[:0], p.pending[n:]...)
	}
}

// Trim waits for the pending buffers and frees every one.
func (p *Pool) Trim() error {
	if n := len(p.pending); n > 0 {
		if err := p.dev.Wait(p.pending[n-1].fence, p.timeout, nil); err != nil {
			return err
		}
	}
	p.collect()
	for p.evictOne() {
	}
	return nil
}

// ResetPeak starts the high-water mark anew.
func (p *Pool) ResetPeak() { p.Peak = p.Live }

// outOfMemory is the text of an allocation failure.
func outOfMemory(d device.Device, bytes int64, p *Pool, cause error) *ir.Error {
	return ir.Errorf(ir.ErrOutOfMemory, "out of memory on %s: got a request of %d bytes with %d in use, want less (%v)", d.Caps().Name, bytes, p.Live, cause)
}
