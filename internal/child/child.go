// Package child starts processes that end with this one.
package child

import (
	"cmp"
	"os/exec"
	"runtime"
	"syscall"
)

// calls are functions for one thread that lives as long as this process. The kernel kills a child with Pdeathsig when
// the thread that started it ends, and Go ends threads: one whose goroutine returns while locked to it.
var calls = newThread()

func newThread() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
}

// Start starts cmd. The kernel kills the child when this process ends, however it ends.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = cmp.Or(cmd.SysProcAttr, &syscall.SysProcAttr{})
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	calls <- func() { started <- cmd.Start() }
	return <-started
}
