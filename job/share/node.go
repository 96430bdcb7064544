package share

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onNode runs f on a thread whose new pages come from a NUMA node, if that has some. Without a node (negative), or
// where the process may not choose (containers), they come from wherever the thread runs.
func onNode(node int, f func()) {
	var mask unix.CPUSet // a set of nodes has the same form
	if mask.Set(node); node < 0 || !mask.IsSet(node) {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.SetMemPolicy(unix.MPOL_PREFERRED, &mask) == nil {
		defer func() { _ = unix.SetMemPolicy(unix.MPOL_DEFAULT, nil) }()
	}
	f()
}
