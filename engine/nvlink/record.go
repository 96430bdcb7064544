package nvlink

// RecordMark identifies the work that is enqueued so far. The caller of Enqueue calls it after Enqueue.
func (e *Engine) RecordMark() uint64 { return e.launcher.Order.Mark() }

// RecordPassed returns the mark that the GPU has reached, and whether all work has ended. ok is false if that is not
// known now. Any goroutine may call it.
func (e *Engine) RecordPassed() (mark uint64, all, ok bool) { return e.launcher.Passed() }
