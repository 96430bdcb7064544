package bootstrap

import (
	"os"
	"runtime"
	"time"
)

// settled waits until no more than the given goroutines and descriptors are left, or for 30 s, and returns their
// numbers.
func settled(goroutines, fds int) (int, int) {
	for range 1500 { // 30 s: roots wait for ranks that may still join
		if g, f := runtime.NumGoroutine(), openFDs(); g <= goroutines && f <= fds {
			return g, f
		}
		time.Sleep(20 * time.Millisecond)
		if goroutines == 0 {
			time.Sleep(500 * time.Millisecond)
			break
		}
	}
	return runtime.NumGoroutine(), openFDs()
}

func openFDs() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
