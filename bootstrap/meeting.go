package bootstrap

import (
	"errors"
	"fmt"
)

// meeting is how a rank finds the root and proves itself.
type meeting struct {
	secret  []byte
	targets []target
	iface   string       // filter of the interface to use here, "" = environment or the route's
	address *rootAddress // rank 0 serves the root there
	known   bool         // the root listened before anybody could know of it
	maker   origin       // of the id; the root is there
	attempt attempt      // at an address
	weak    bool         // the secret can be derived by others
}

// noRoot is the error of a rank that has not been let in, with who is to blame for that.
func (m *meeting) noRoot(rank int, err error) error {
	missing := errors.Is(err, ErrTimeout) || errors.Is(err, ErrPeerDead)
	switch {
	case missing && m.address != nil && rank != 0:
		return &blame{0, fmt.Errorf("no way to rank 0, which listens at %v: it has not come, has died, or has failed, which its own error explains: %w", m.address, err)}
	case missing && m.maker != (origin{}):
		return fmt.Errorf("no way to the root, which is in the process that made the UniqueID, %v: %w", m.maker, err)
	}
	return fmt.Errorf("no way to the root: %w", err)
}
