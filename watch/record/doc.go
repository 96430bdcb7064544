// Package record is the flight recorder: for each communicator of this process, a ring of its last operations.
//
// # The life of a record
//
//  1. The communicator numbers an operation and writes its entry: Recorder.Enqueued.
//  2. The engine stamps the start and the end: Recorder.Started, Recorder.Ended. An engine whose work runs on a GPU
//     does not see them; it leaves a mark (Recorder.Marked), and the monitor, at each look, stamps the operations
//     that have ended. Of rapid operations only some read the clock (pace.go).
//  3. Readers copy the ring: Process of this process, ReadFile of another one.
//
// The rings lie in one memory file of the process (layout.go), named goccl-records. Others can read it through
// /proc/PID/fd while the process runs, hangs or is stopped. With GOCCL_RECORD_DIR it is a file there, which remains
// when the process crashes or is killed.
//
// # Lifetime and threads
//
// All methods of a nil *Recorder do nothing: recording is off, or its memory could not be had. Enqueued is called by
// one goroutine at a time; so are Started and Ended. No method that is on an operation's way takes a lock or allocates.
// Readers run at any time: an entry that changes while it is copied is left out. Close must follow the engine's Close,
// because it unmaps the ring.
package record
