package runtime

import (
	"slices"

	"github.com/torchlette/torchlette/kernels/device"
)

// constantSlots are the slots of constants while a plan is frozen. It implements device.Constants.
type constantSlots struct {
	f      *Frozen
	of     Constants
	input  map[int]int           // by slot: its constant
	loaded map[int]device.Buffer // by slot
	reads  map[int]int           // by slot: operands of steps that are no packs; nil: nothing is packed
}

// countReads counts the operands in each slot.
func (c *constantSlots) countReads() {
	c.reads = map[int]int{}
	for i := range c.f.Plan.Segments {
		s := &c.f.Plan.Segments[i]
		for k := range s.Steps {
			for _, slot := range s.Steps[k].Bufs {
				c.reads[slot]++
			}
		}
		if s.Transfer {
			c.reads[s.From]++
		}
		if s.Repeat != nil && s.Repeat.Flag >= 0 {
			c.reads[s.Repeat.Flag]++
		}
	}
}

// Key implements device.Constants.
func (c *constantSlots) Key(slot int) string {
	if i, ok := c.input[slot]; ok {
		return c.of.Key(i)
	}
	return ""
}

// Load implements device.Constants.
func (c *constantSlots) Load(slot int) (device.Buffer, error) {
	if b := c.loaded[slot]; b != nil {
		return b, nil
	}
	b, err := c.of.Load(c.input[slot])
	if err == nil {
		c.loaded[slot] = b
	}
	return b, err
}

// Replaced implements device.Constants.
func (c *constantSlots) Replaced(slot int) {
	if c.reads[slot]--; c.reads[slot] == 0 {
		delete(c.loaded, slot)
		c.of.Unload(c.input[slot])
	}
}

// bind binds the constants that steps read in place. Without memory are those that only packs stand for.
func (c *constantSlots) bind() error {
	for slot, i := range c.input {
		h, host := c.f.x.Devices[c.f.Plan.Slots[slot].Dev].Dev.(device.Host)
		if host && c.reads != nil && c.reads[slot] == 0 {
			c.f.bind.Bufs[slot] = h.NewWindow()
			continue
		}
		b, err := c.Load(slot)
		if err != nil {
			return err
		}
		c.f.bind.Bufs[slot] = b
		c.f.InPlace = append(c.f.InPlace, i)
	}
	slices.Sort(c.f.InPlace)
	return nil
}
