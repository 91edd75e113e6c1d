package runtime

import (
	"math"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// Pool keeps a device's free buffers by size class. A device runs its calls in order, so a buffer can be reused while
// its last user still runs. Only freeing a buffer waits for that user.
//
// Invariant: pooled + live bytes <= peak, the high-water mark of live bytes since the last reset. A miss that would
// break it evicts first.
type Pool struct {
	dev  device.Device
	free map[int64][]freeBuffer
	// at is the index of a free buffer in its list. It is nil on synchronous devices, where the buffer returned last is
	// the best choice.
	at      map[device.Buffer]int
	done    device.Fence // the last fence known to have completed
	Live    int64        // bytes handed out
	Pooled  int64        // bytes in free buffers
	Peak    int64
	Count   int // buffers handed out
	Hits    int64
	Misses  int64
	timeout time.Duration
	// Limit, if not 0, bounds the live bytes: Acquire then fails like a full device.
	Limit int64
}

// freeBuffer is a buffer with the fence of its last user.
type freeBuffer struct {
	device.Buffer
	fence device.Fence
}

// NewPool makes an empty pool on d.
func NewPool(d device.Device, timeout time.Duration) *Pool {
	p := &Pool{dev: d, free: map[int64][]freeBuffer{}, timeout: timeout}
	if d.Caps().Async {
		p.at = map[device.Buffer]int{}
	}
	return p
}

// Acquire returns a buffer of at least bytes.
func (p *Pool) Acquire(bytes int64) (device.Buffer, error) {
	c := device.SizeClass(max(bytes, 1))
	if err := p.Fits(c); err != nil {
		return nil, err
	}
	if b := p.take(c); b != nil {
		return b, nil
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

// Fits returns an error where more bytes would exceed the limit.
func (p *Pool) Fits(bytes int64) error {
	if p.Limit > 0 && p.Live+bytes > p.Limit {
		return ir.Errorf(ir.ErrOutOfMemory, "the memory limit of %d bytes", p.Limit)
	}
	return nil
}

// Reacquire takes b, which was handed out before for as many bytes, if it is free.
func (p *Pool) Reacquire(b device.Buffer, bytes int64) bool {
	c := device.SizeClass(max(bytes, 1))
	i, ok := p.at[b]
	if !ok || i >= len(p.free[c]) || p.free[c][i].Buffer != b || p.Fits(c) != nil {
		return false
	}
	p.remove(c, i)
	p.Hits++
	p.handOut(c)
	return true
}

// remove removes entry i from a free list.
func (p *Pool) remove(c int64, i int) device.Buffer {
	f := p.free[c]
	b, last := f[i].Buffer, f[len(f)-1]
	f[i] = last
	p.free[c] = f[:len(f)-1]
	if p.at != nil {
		p.at[last.Buffer] = i
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

// makeRoom evicts free buffers until c more bytes keep the invariant.
func (p *Pool) makeRoom(c int64) error {
	limit := max(p.Peak, p.Live+c)
	for p.Live+p.Pooled+c > limit && p.Pooled > 0 {
		if err := p.evictOne(p.Live + p.Pooled + c - limit); err != nil {
			return err
		}
	}
	return nil
}

// evictOne frees a buffer whose last user has ended: one of the smallest class that has the bytes wanted, else one of
// the largest class. If no user has ended, it only waits for the first that will; the caller calls again.
func (p *Pool) evictOne(want int64) error {
	if f := p.dev.Submitted(); p.dev.Done(f) {
		p.done = f
	}
	class, at := int64(-1), 0
	next := device.Fence(math.MaxUint64)
	for c, list := range p.free {
		for i := range list {
			if f := list[i].fence; f > p.done {
				next = min(next, f)
			} else if fits := class >= want; c > class && !fits || c < class && fits && c >= want {
				class, at = c, i
			}
		}
	}
	if class >= 0 {
		p.dev.Free(p.remove(class, at))
		return nil
	}
	if err := p.dev.Wait(next, p.timeout, nil); err != nil {
		return err
	}
	p.done = next
	return nil
}

// Release takes a buffer back.
func (p *Pool) Release(b device.Buffer, bytes int64) {
	c := device.SizeClass(max(bytes, 1))
	p.Live -= c
	p.Count--
	p.Pooled += c
	if p.at != nil {
		p.at[b] = len(p.free[c])
	}
	p.free[c] = append(p.free[c], freeBuffer{b, p.dev.Submitted()})
}

// Discard frees a buffer that was handed out, and that no work uses.
func (p *Pool) Discard(b device.Buffer, bytes int64) {
	p.Live -= device.SizeClass(max(bytes, 1))
	p.Count--
	p.dev.Free(b)
}

// Trim waits for the last users of the free buffers and frees all of them.
func (p *Pool) Trim() error {
	for p.Pooled > 0 {
		if err := p.evictOne(p.Pooled); err != nil {
			return err
		}
	}
	return nil
}

// ResetPeak restarts the high-water mark.
func (p *Pool) ResetPeak() { p.Peak = p.Live }

// outOfMemory returns the error of a failed allocation.
func outOfMemory(d device.Device, bytes int64, p *Pool, cause error) *ir.Error {
	return ir.Errorf(ir.ErrOutOfMemory, "out of memory on %s: got a request of %d bytes with %d in use, want less (%v)",
		d.Caps().Name, bytes, p.Live, cause)
}
