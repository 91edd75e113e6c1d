package gpu

import "github.com/torchlette/torchlette/kernels/device"

// joinedCopy has the records of a run. The records of its binding's HostCopy follow them.
type joinedCopy struct {
	d       *Device
	records []Record
	want    *device.HostCopy // nil: there is no copy
	rb      readback
	width   int64
	skip    int64 // bytes before the first element
}

// joinCopy adds the copy that bind asks for to the records of a run of p. Where host-visible memory is missing there is
// no copy: a later read says why.
func (d *Device) joinCopy(p *program, bind *device.Binding, records []Record) joinedCopy {
	c := joinedCopy{d: d, records: records}
	w := bind.Copy
	if w == nil {
		return c
	}
	buf, width, err := d.element(bind.Bufs[w.Slot], w.DType, w.Off, w.N, "read")
	if err != nil || w.N == 0 || w.N*width > maxStageBytes/2 {
		return c
	}
	checked := d.faults.unread()
	if p.checks {
		checked = d.faults.ran + 1 // with this run
	}
	at, bytes := words(w.Off, w.N, width)
	d.joined = append(d.joined[:0], records...)
	rb, joined, err := d.prepareReadback(d.joined, buf.handle, at, bytes, checked)
	if err != nil {
		return c
	}
	c.records, d.joined = joined, joined
	c.want, c.rb, c.width, c.skip = w, rb, width, w.Off*width-at
	return c
}

// end begins the read of the copy after the submission, or after an error gives its memory back.
func (c *joinedCopy) end(err error) {
	d := c.d
	switch {
	case c.want == nil:
	case err != nil:
		d.reads.put(d.ctx, c.rb.handle, c.rb.class)
	case d.mapReadback(&c.rb) == nil:
		d.stats.reads++
		c.want.Read = d.newAheadRead(c.rb, c.want.DType, c.width, c.skip)
	}
}
