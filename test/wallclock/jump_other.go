//go:build !amd64

package wallclock

import (
	"errors"
	"time"
)

// Jump returns an error: only amd64 has it.
func Jump(time.Duration) error {
	return errors.New("the wall clock of one process can be moved on amd64 only")
}
