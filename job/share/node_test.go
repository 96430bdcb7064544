package share

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// policy returns the memory policy of the calling thread.
func policy(t *testing.T) int {
	var mode int32
	if _, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, 0, 0, 0); errno != 0 {
		t.Skip("get_mempolicy: ", errno)
	}
	return int(mode)
}

// The policy holds while f runs, and no longer.
func TestOnNode(t *testing.T) {
	if _, err := os.Stat("/sys/devices/system/node/node0"); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, node := range []int{0, -1, 5000} {
		inside := -1
		onNode(node, func() { inside = policy(t) })
		if want := map[int]int{0: unix.MPOL_PREFERRED}[node]; inside != want {
			t.Errorf("node %d: policy %d inside, want %d", node, inside, want)
		}
		if after := policy(t); after != 0 {
			t.Errorf("node %d: policy %d afterwards", node, after)
		}
	}
}
