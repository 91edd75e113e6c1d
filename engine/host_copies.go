package engine

import (
	"slices"
	"time"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/runtime"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
)

// maxHostCopies bounds the copies under way. The oldest is dropped for a new one: its tensor is read as others are.
const maxHostCopies = 8

// hostCopies are copies of elements to the host that are under way, of tensors that will be read.
type hostCopies struct {
	list   []hostCopy
	wanted wanted
}

// wanted are dense elements of a value that the window which computes it copies.
type wanted struct {
	value  uint32 // 0: none
	dtype  ir.DType
	off, n int64
	read   device.PendingRead // the copy; nil: none was made yet
}

// want replaces what is wanted.
func (c *hostCopies) want(w wanted) {
	if c.wanted.read != nil {
		c.wanted.read.Drop()
	}
	c.wanted = w
}

// hostCopy is the copy of one version of a tensor.
type hostCopy struct {
	handle  uint64
	version uint64 // Seq of the base's newest node
	read    device.PendingRead
	windows uint64 // failures.noted when it began: a fault in its error word is of one of these windows
}

// find returns the place of a copy of this version of a tensor, -1 for none.
func (c *hostCopies) find(handle, version uint64) int {
	return slices.IndexFunc(c.list, func(x hostCopy) bool { return x.handle == handle && x.version == version })
}

func (c *hostCopies) add(x hostCopy) {
	if len(c.list) == maxHostCopies {
		c.list[0].read.Drop()
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, x)
}

// forget drops the copies of a tensor that nothing names any more.
func (c *hostCopies) forget(handle uint64) {
	c.list = slices.DeleteFunc(c.list, func(x hostCopy) bool {
		if x.handle != handle {
			return false
		}
		x.read.Drop()
		return true
	})
}

// CopyToHost computes h together with everything pending, in one window, and begins the copy of its elements to the
// host, without waiting. A later Read of this version of h waits for that copy, and not for work submitted after it. On
// devices that do not work on meanwhile, the value is computed and the read copies. It reports pending when slice has
// passed; call it again.
func (e *Engine) CopyToHost(h uint64, slice time.Duration) (pending bool, err *ir.Error) {
	return e.hereOrJob("copy_to_host", h, slice, e.heavy, func(bool) *ir.Error { return e.copyToHost(h) })
}

func (e *Engine) copyToHost(h uint64) *ir.Error {
	if e.backward.open > 0 || e.captures.tracing {
		return nil // the value is not known yet
	}
	hv, err := e.session.Handle(h)
	if err != nil {
		return err
	}
	if av := e.session.AvalOf(hv.Base); av.Device == ir.Meta || ir.LayoutOf(hv.Layout).Hidden != nil {
		return nil // a read says why it has no elements
	}
	if e.copies.find(h, e.graph.Node(e.session.Newest(hv.Base)).Seq) >= 0 {
		return e.flush()
	}
	if err := e.prepareRead(h, forAll|forCopy); err != nil {
		return err
	}
	defer e.read.drop(e.graph)
	hv, _ = e.session.Handle(h)
	version := e.graph.Node(e.session.Newest(hv.Base)).Seq
	if e.copies.find(h, version) >= 0 {
		return nil
	}
	value, off := e.readPlace(h)
	n, av := e.graph.Node(value), e.session.AvalOf(hv.Base)
	read, x := e.runtime.StartRead(n.Store, av.DType, off, ir.LayoutOf(hv.Layout).Whole().Numel)
	if x != nil {
		return e.failures.fail(x)
	}
	if read != nil {
		e.copies.add(hostCopy{handle: h, version: version, read: read, windows: e.failures.noted})
	}
	return nil
}

// copyBehind lets the window that is about to run copy the wanted elements, where its plan p computes them.
func (e *Engine) copyBehind(p *compile.Plan, nodes []uint32) {
	w := &e.copies.wanted
	for _, r := range p.Results {
		if w.value != 0 && nodes[r.Local] == w.value {
			e.runtime.CopyBehind(r.Slot, w.dtype, w.off, w.n)
			return
		}
	}
}

// keepCopy takes the copy that the window has made.
func (e *Engine) keepCopy() {
	if read := e.runtime.TakeCopy(); read != nil {
		e.copies.wanted.read = read
	}
}

// addWanted makes the copy of the wanted elements, where a window has made one, the copy of h.
func (e *Engine) addWanted(h uint64) {
	w := &e.copies.wanted
	if w.read == nil {
		return
	}
	hv, _ := e.session.Handle(h)
	version := e.graph.Node(e.session.Newest(hv.Base)).Seq
	e.copies.add(hostCopy{handle: h, version: version, read: w.read, windows: e.failures.noted})
	w.read = nil
	e.read.drop(e.graph)
}

// readPlace is the value that has the dense elements of h, after prepareRead, and where they begin in it.
func (e *Engine) readPlace(h uint64) (value uint32, off int64) {
	if e.read.handle == h {
		return e.read.value, 0
	}
	hv, _ := e.session.Handle(h)
	return e.session.Newest(hv.Base), hv.Offset
}

// readCopied is readNow of copy number i.
func (e *Engine) readCopied(i int, dst []byte, slice time.Duration) *ir.Error {
	if err := e.failures.raise(); err != nil {
		return err
	}
	c := e.copies.list[i]
	t0 := time.Now()
	x := c.read.Finish(dst, runtime.Within(slice))
	e.windows.waited(t0)
	if x != nil && asError(x).Code == ir.ErrInterrupted {
		return errBusyDevice
	}
	e.copies.list = slices.Delete(e.copies.list, i, i+1)
	if x != nil {
		return e.failures.fail(x)
	}
	e.stats.reads++
	return e.takeKnownFault(c.windows)
}
