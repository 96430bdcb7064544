// Package records reads what libgoccl-profiler.so has recorded in the processes of this host (capi/profiler/records.h).
//
// Find looks for memory files of processes below /proc, also for files of goccl's recorder (package record). A File
// stays readable after its process has ended, and reading needs nothing of the process: it may hang or be stopped. A
// process of another user can be read by root only. A File is not for several goroutines at once.
package records
