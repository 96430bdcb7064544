package goccl_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fdshare"
)

// resources are what a process holds and must give back.
type resources struct {
	fds, goroutines, mappings int
	detail                    string
}

func (r resources) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d shared mappings", r.fds, r.goroutines, r.mappings)
}

func (r resources) more(than resources) bool {
	return r.fds > than.fds || r.goroutines > than.goroutines || r.mappings > than.mappings
}

// held counts what this process holds now.
func held() resources {
	r := resources{goroutines: runtime.NumGoroutine()}
	var detail strings.Builder
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, e := range entries {
			if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // not the one of ReadDir itself
				r.fds++
				fmt.Fprintf(&detail, "fd %s %s\n", e.Name(), link)
			}
		}
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		for line := range bytes.Lines(maps) {
			if bytes.Contains(line, []byte("memfd:")) || bytes.Contains(line, []byte("/dev/shm")) {
				r.mappings++
				detail.Write(line)
			}
		}
	}
	stacks := make([]byte, 1<<20)
	detail.Write(stacks[:runtime.Stack(stacks, true)])
	r.detail = detail.String()
	return r
}

// settled waits up to half a minute for this process to hold no more than base.
func settled(base resources) resources {
	r := held()
	for end := time.Now().Add(30 * time.Second); r.more(base) && time.Now().Before(end); r = held() {
		time.Sleep(10 * time.Millisecond)
	}
	return r
}

// noLeak fails t when, at its end, the process holds more than now.
func noLeak(t *testing.T) {
	t.Helper()
	if _, err := fdshare.Shared(); err != nil { // it lives as long as the process
		t.Fatal(err)
	}
	base := held()
	t.Cleanup(func() {
		if r := settled(base); r.more(base) {
			t.Errorf("left behind: %v, before %v\n%s", r, base, r.detail)
		}
	})
}
