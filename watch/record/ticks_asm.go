//go:build amd64 || arm64

package record

import (
	"runtime"

	"github.com/goccl/goccl/internal/sysfile"
)

// counter reads the processor's counter of time. It costs a tenth of time.Now.
//
//go:noescape
func counter() uint64

// hasCounter reports whether the counter is the same on all processors and has a constant rate: then Linux uses it as
// its own clock.
func hasCounter() bool {
	if runtime.GOARCH == "arm64" {
		return true // the architecture guarantees it
	}
	return sysfile.Host.Read("sys/devices/system/clocksource/clocksource0/current_clocksource") == "tsc"
}
