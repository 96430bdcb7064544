// Package openfiles explains errors that mean that no more files can be opened.
//
// # Lifetime and threads
//
// The package keeps no state. Functions may be called from any goroutine.
package openfiles

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Exhausted reports whether err means that this process, or the whole host, is at its limit of open files.
func Exhausted(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// Explain adds to such an error which limit was reached and how to raise it, once. It returns other errors unchanged.
func Explain(err error) error {
	var done *explained
	if !Exhausted(err) || errors.As(err, &done) {
		return err
	}
	if errors.Is(err, unix.ENFILE) {
		return &explained{err, "the host's limit of open files is reached: raise fs.file-max (sysctl)"}
	}
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return &explained{err, "raise this process's limit of open files (ulimit -n)"}
	}
	return &explained{err, fmt.Sprintf("this process may have %d open files: raise the limit (ulimit -n; hard limit %d)",
		r.Cur, r.Max)}
}

type explained struct {
	err  error
	more string
}

func (e *explained) Error() string { return e.err.Error() + ": " + e.more }
func (e *explained) Unwrap() error { return e.err }

// Shortage distinguishes a lasting shortage of open files from a momentary one. The zero value is ready; only one
// goroutine may use it.
type Shortage struct{ since time.Time }

// patience is the time after which a shortage counts as lasting.
const patience = time.Second

// Lasts records the result of an attempt to open a file, and reports whether all attempts for one second have failed
// because of the limit.
func (s *Shortage) Lasts(err error) bool {
	switch {
	case !Exhausted(err):
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
	default:
		return time.Since(s.since) >= patience
	}
	return false
}
