package gpu

import "slices"

// maxGroups bounds the number of cached bind groups.
const maxGroups = 8192

// group is a cached bind group.
type group struct {
	handle Handle
	layout Handle
	base   int64     // base of the binding range
	bufs   []*Buffer // nil entries stand for the device's own buffers
	hash   uint64
	used   uint64 // number of the run that last used it
	dead   bool   // released: it names a freed buffer, or was evicted
}

// groupCache finds bind groups by layout and buffers, and evicts the least recently used.
type groupCache struct {
	byHash       map[uint64][]*group
	live         int
	hits, misses int64
	// epoch counts releases: a program looks its groups up again when epoch has changed.
	epoch uint64
}

func (c *groupCache) init() { c.byHash = map[uint64][]*group{} }

func groupHash(layout Handle, base int64, bufs []*Buffer) uint64 {
	// The 64-bit finaliser of SplitMix64 (Steele, Lea and Flood, 2014), chained.
	h := uint64(layout) ^ uint64(base)<<32
	for _, b := range bufs {
		x := h ^ 0x9E3779B97F4A7C15
		if b != nil {
			x += uint64(b.handle)
		}
		x ^= x >> 30
		x *= 0xBF58476D1CE4E5B9
		x ^= x >> 27
		x *= 0x94D049BB133111EB
		h = x ^ x>>31
	}
	return h
}

// find returns the group of layout over bufs, or nil.
func (c *groupCache) find(layout Handle, base int64, bufs []*Buffer, run uint64) (g *group, hash uint64) {
	hash = groupHash(layout, base, bufs)
	for _, g := range c.byHash[hash] {
		if g.layout == layout && g.base == base && slices.Equal(g.bufs, bufs) {
			c.hits++
			g.used = run
			return g, hash
		}
	}
	c.misses++
	return nil, hash
}

func (c *groupCache) add(ctx Context, g *group) {
	if c.live >= maxGroups {
		c.evict(ctx, g.used)
	}
	c.byHash[g.hash] = append(c.byHash[g.hash], g)
	c.live++
	for _, b := range g.bufs {
		if b != nil {
			b.groups = append(b.groups, g)
		}
	}
}

// evict releases the least recently used quarter, except the groups of the current run.
func (c *groupCache) evict(ctx Context, run uint64) {
	all := make([]*group, 0, c.live)
	for _, l := range c.byHash {
		all = append(all, l...)
	}
	slices.SortFunc(all, func(a, b *group) int {
		switch {
		case a.used < b.used:
			return -1
		case a.used > b.used:
			return 1
		}
		return 0
	})
	for _, g := range all[:len(all)/4] {
		if g.used < run {
			c.release(ctx, g, nil)
		}
	}
}

// release drops g. from is a buffer whose list the caller drops itself.
func (c *groupCache) release(ctx Context, g *group, from *Buffer) {
	if g.dead {
		return
	}
	g.dead = true
	c.epoch++
	c.live--
	ctx.ReleaseBindGroup(g.handle)
	same := func(x *group) bool { return x == g }
	if l := slices.DeleteFunc(c.byHash[g.hash], same); len(l) == 0 {
		delete(c.byHash, g.hash)
	} else {
		c.byHash[g.hash] = l
	}
	for _, b := range g.bufs {
		if b != nil && b != from {
			b.groups = slices.DeleteFunc(b.groups, same)
		}
	}
}

// forget drops the groups that name b.
func (c *groupCache) forget(ctx Context, b *Buffer) {
	for _, g := range b.groups {
		c.release(ctx, g, b)
	}
	b.groups = nil
}

func (c *groupCache) close(ctx Context) {
	for _, l := range c.byHash {
		for _, g := range l {
			if !g.dead {
				g.dead = true
				ctx.ReleaseBindGroup(g.handle)
			}
		}
	}
	c.init()
	c.live = 0
}
