package cudawire

// RecordMark identifies the phases that are enqueued so far, and tells whether the latest was captured into a graph.
func (w *Wire) RecordMark() (mark uint64, captured bool) { return w.launcher.Order.Mark() }

// RecordPassed returns the mark that the GPU has reached, and whether all phases have ended. ok is false if that is not
// known now. Any goroutine but the proxy may call it: it calls the driver.
func (w *Wire) RecordPassed() (mark uint64, all, ok bool) { return w.launcher.Passed() }
