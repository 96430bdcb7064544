package nvrtc

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnavailable says that no libnvrtc could be opened. The error that wraps it lists what was tried.
var ErrUnavailable = errors.New("nvrtc: libnvrtc is not available")

// CompileError is a program that the compiler refused. Error is one line; Log holds the compiler's whole output.
type CompileError struct {
	Name   string // file name given to Compile
	Call   string // the function of libnvrtc that failed
	Code   int    // nvrtcResult
	Reason string // libnvrtc's text for Code
	Log    string
}

// Error is the first diagnostic of the log, or the library's own reason when the log is empty.
func (e *CompileError) Error() string {
	first := ""
	for line := range strings.Lines(e.Log) {
		if strings.Contains(line, "error") {
			first = strings.TrimSpace(line)
			break
		}
	}
	if first == "" {
		return fmt.Sprintf("nvrtc: %s: %s: %s (%d)", e.Name, e.Call, e.Reason, e.Code)
	}
	return fmt.Sprintf("nvrtc: %s: %s", e.Name, first)
}

// Format prints the one-line error for %v and %s, and adds the whole log for %+v.
func (e *CompileError) Format(s fmt.State, verb rune) {
	fmt.Fprint(s, e.Error())
	if verb == 'v' && s.Flag('+') {
		fmt.Fprintf(s, "\n%s", e.Log)
	}
}
