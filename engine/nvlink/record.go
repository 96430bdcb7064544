package nvlink

// RecordMark identifies the work that is enqueued so far, and tells whether the latest was captured into a graph. The
// caller of Enqueue calls it after Enqueue.
func (e *Engine) RecordMark() (mark uint64, captured bool) { return e.launcher.Order.Mark() }

// RecordPassed returns the mark that the GPU has reached, and whether all work has ended. ok is false if that is not
// known now. Any goroutine may call it.
func (e *Engine) RecordPassed() (mark uint64, all, ok bool) { return e.launcher.Passed() }
