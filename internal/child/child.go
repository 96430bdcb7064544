// Package child starts processes that end with this one.
package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter runs functions on one thread that lives as long as this process. The kernel kills a child with Pdeathsig when
// the thread that started it ends, and Go ends threads: one whose goroutine returns while locked to it.
var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// Start starts cmd. The kernel kills the child when this process ends, however it ends.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}
