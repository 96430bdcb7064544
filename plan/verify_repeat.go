package plan

// repeats reports whether a packet that is written a second time in a launch may stay: the bytes are the same, the
// first write happens before the second, and a reader that sees the second packet knows all that the first one tells.
// So it makes no difference which of the two a reader sees. An all-gather writes a packet twice when it copies its own
// packet into scratch and then broadcasts it from there to all ranks, itself included.
func (w *walker) repeats(c *cell, value int32, carries *clock) bool {
	if c.flag != int32(w.b.launch) || c.value != value || !w.known(c.write.stamp, false) && !w.usedUp(c.write.inst) {
		return false
	}
	for i, phase := range c.carries.c {
		if carries.c[i] < phase {
			return false
		}
	}
	return true
}

// unread returns the packets of a launch of whose arrival no read is a proof: those that were never read, and those
// that were written twice. For them only the writer's order counts.
func (v *verifier) unread(rank, launch int) map[int32]access {
	out := map[int32]access{}
	if launch < 0 {
		return out
	}
	add := func(a access) {
		if b, found := out[a.comp]; !found || a.t >= b.t {
			out[a.comp] = a
		}
	}
	from := v.cellAt(rank, PacketPlane, 0, launch)
	for i := range v.p.GPUs[rank].ScratchChunks * len(v.shape.atoms) {
		c := &v.cells[from+i]
		if c.flag != int32(launch) {
			continue
		}
		if !c.read {
			add(c.write)
		}
		for _, a := range v.repeated[from+i] {
			add(a)
		}
		delete(v.repeated, from+i)
	}
	return out
}
