package executor

// A transfer within a host is over with its op, which is more than a flush promises. One to another host is over when
// its outbox has given it to the link.

// flush records what has been posted on the op's links, once. It reports whether that was now.
func (b *block) flush(in *instr) bool {
	if b.flushes {
		return false
	}
	b.flushes, b.until = true, b.until[:0]
	for _, l := range in.links {
		n := uint64(0)
		if o := b.outbox(l); o != nil {
			n = o.posted.Load()
		}
		b.until = append(b.until, n)
	}
	return true
}

// flushed reports whether the sources of what flush has recorded may be reused.
func (b *block) flushed(in *instr) bool { return b.unflushed(in) < 0 }

// unflushed returns a peer that the recorded posts to have not left, or -1.
func (b *block) unflushed(in *instr) int {
	for i, l := range in.links {
		if o := b.outbox(l); o != nil && o.given.Load() < b.until[i] {
			return o.peer
		}
	}
	return -1
}

// outbox returns the outbox behind a link of this rank, or nil if it stays on this host.
func (b *block) outbox(link int) *outbox {
	h := b.r.h
	if h.far == nil {
		return nil
	}
	return h.x.e.ports.out[h.x.program.peer[link]]
}
