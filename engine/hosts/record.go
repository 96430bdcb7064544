package hosts

// marker is an engine or a wire on a GPU. It tells how much of its work is enqueued, and how much of it has ended.
type marker interface {
	RecordMark() (mark uint64, captured bool)
	RecordPassed() (mark uint64, all, ok bool)
}

// RecordMark identifies the work that is enqueued so far, on GPUs, and tells whether the latest was captured into a
// graph. Work of both parts is ordered, so the sum of their marks identifies a point in the sequence, for enqueued and
// for completed work.
func (e *Engine) RecordMark() (mark uint64, captured bool) {
	local, wire := e.markers()
	if wire == nil {
		return 0, false
	}
	a, _ := local.RecordMark()
	b, _ := wire.RecordMark()
	if o, ok := e.order.(*CUDAOrder); ok {
		_, captured = o.Mark()
	}
	return a + b, captured
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
