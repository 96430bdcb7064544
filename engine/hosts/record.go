package hosts

// marker is an engine or a wire on a GPU: what it has enqueued, and what of that has ended.
type marker interface {
	RecordMark() uint64
	RecordPassed() (mark uint64, all, ok bool)
}

// RecordMark identifies the work that is enqueued so far, on GPUs. Requests run one after the other, in the order of
// the calls, so a sum of the marks of both parts stands for one place in that order, of what was enqueued and of what
// has ended.
func (e *Engine) RecordMark() uint64 {
	local, wire := e.markers()
	if wire == nil {
		return 0
	}
	return local.RecordMark() + wire.RecordMark()
}

// RecordPassed returns the mark that the GPU has reached, and whether all work has ended. ok is false if that is not
// known now, as on the host device. Any goroutine may call it.
func (e *Engine) RecordPassed() (mark uint64, all, ok bool) {
	local, wire := e.markers()
	if wire == nil {
		return 0, false, false
	}
	a, allA, okA := local.RecordPassed()
	b, allB, okB := wire.RecordPassed()
	return a + b, allA && allB, okA && okB
}

func (e *Engine) markers() (local, wire marker) {
	local, ok := e.local.(marker)
	if wire, _ = e.wire.(marker); !ok {
		return nil, nil
	}
	return local, wire
}
