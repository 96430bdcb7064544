package executor

import "golang.org/x/sys/unix"

// schedYield lets other threads run on this core. It is a raw system call: it does not block, so the Go scheduler need
// not be told.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
