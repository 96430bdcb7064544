package cudawire

// RecordMark identifies the phases that are enqueued so far.
func (w *Wire) RecordMark() uint64 { return w.launcher.Order.Mark() }

// RecordPassed returns the mark that the GPU has reached, and whether all phases have ended. ok is false if that is not
// known now. Any goroutine but the proxy may call it: it calls the driver.
func (w *Wire) RecordPassed() (mark uint64, all, ok bool) { return w.launcher.Passed() }
