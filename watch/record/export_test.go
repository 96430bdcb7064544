package record

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Copy is the contents of this process's file.
func Copy(pid int) ([]byte, error) {
	own.mu.Lock()
	fd := own.file.Fd()
	own.mu.Unlock()
	f, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// Decode decodes the contents of a file.
func Decode(mem []byte) (*Process, error) { return decode(bytes.NewReader(mem)) }

// Ticks is the recorder's clock.
var Ticks = ticks

// Hurry makes the recorder's operations rapid.
func Hurry(x *Recorder) {
	x.brief.Store(100000)
	x.skip.Store(strideOfStamps - 1)
}

// Pause ends Hurry.
func Pause(x *Recorder) { x.skip.Store(0) }

// Adopt is what the monitor does about an operation that waits.
func Adopt(x *Recorder, number uint64) { x.adopt(false, number) }

// Lookout is how often the monitor looks; Stride is how many rapid operations share a stamp.
const (
	Lookout = lookEvery
	Stride  = strideOfStamps
)
