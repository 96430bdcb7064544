package wait

import "golang.org/x/sys/unix"

// schedYield lets other threads run on this core. It is a raw system call, invisible to the Go scheduler, because it
// does not block.
func schedYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
