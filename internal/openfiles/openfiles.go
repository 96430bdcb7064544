// Package openfiles explains errors that say that no more files can be opened.
//
// # Lifetime and threads
//
// Nothing is kept. Functions may be called from any goroutine.
package openfiles

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Exhausted reports whether err says that this process, or the whole host, has no room for another open file.
func Exhausted(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// Explain adds to such an error which limit was met and how to raise it, once. Other errors stay as they are.
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
	return &explained{err, fmt.Sprintf("this process may have %d open files: raise the limit (ulimit -n; hard limit %d)", r.Cur, r.Max)}
}

type explained struct {
	err  error
	more string
}

func (e *explained) Error() string { return e.err.Error() + ": " + e.more }
func (e *explained) Unwrap() error { return e.err }

// Shortage tells a lasting lack of room for open files from one of a moment, when others are about to close theirs. The zero value is ready; it is
// for one goroutine.
type Shortage struct{ since time.Time }

// patience is how long a shortage must last.
const patience = time.Second

// Lasts notes the outcome of an attempt to open something, and reports whether all attempts for a second have failed for want of room.
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
