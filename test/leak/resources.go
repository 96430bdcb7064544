package leak

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Resources are resources that a process holds and must free.
type Resources struct {
	Descriptors, Goroutines, Mappings int
	Detail                            string // a description of them
}

func (r Resources) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d shared mappings", r.Descriptors, r.Goroutines, r.Mappings)
}

// More reports whether any count is larger than before.
func (r Resources) More(than Resources) bool {
	return r.Descriptors > than.Descriptors || r.Goroutines > than.Goroutines || r.Mappings > than.Mappings
}

// Held counts the resources that this process holds now.
func Held() Resources {
	r := Resources{Goroutines: runtime.NumGoroutine()}
	var detail strings.Builder
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, e := range entries {
			if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // except the one of ReadDir itself
				r.Descriptors++
				fmt.Fprintf(&detail, "fd %s %s\n", e.Name(), link)
			}
		}
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		for line := range bytes.Lines(maps) {
			if bytes.Contains(line, []byte("memfd:")) || bytes.Contains(line, []byte("/dev/shm")) {
				r.Mappings++
				detail.Write(line)
			}
		}
	}
	stacks := make([]byte, 1<<20)
	detail.Write(stacks[:runtime.Stack(stacks, true)])
	r.Detail = detail.String()
	return r
}

// Settled waits up to half a minute until this process holds no more than base.
func Settled(base Resources) Resources {
	r := Held()
	for end := time.Now().Add(30 * time.Second); r.More(base) && time.Now().Before(end); r = Held() {
		time.Sleep(10 * time.Millisecond)
	}
	return r
}
