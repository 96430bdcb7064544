// Package openfiles explains errors that say that no more files can be opened.
//
// # Lifetime and threads
//
// Nothing is kept. All functions may be called from any goroutine.
package openfiles

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Exhausted reports whether err says that this process, or the whole host, has no room for another open file.
func Exhausted(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

// Explain adds to such an error which limit was met and how to raise it. Other errors stay as they are.
func Explain(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		var r unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
			return fmt.Errorf("%w: raise this process's limit of open files (ulimit -n)", err)
		}
		return fmt.Errorf("%w: this process may have %d open files: raise the limit (ulimit -n; hard limit %d)", err, r.Cur, r.Max)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: the host's limit of open files is reached: raise fs.file-max (sysctl)", err)
	}
	return err
}
