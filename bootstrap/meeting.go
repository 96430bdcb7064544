package bootstrap

import (
	"errors"
	"fmt"
	"time"
)

// meeting is what a rank needs to find the root and to authenticate.
type meeting struct {
	secret  []byte
	targets []target
	iface   string        // filter for the local interface; "" = from the environment or the route
	address *rootAddress  // rank 0 serves the root there
	gone    time.Duration // how long refusals show that the root, which was up, is gone; 0: it may not be up yet
	maker   origin        // the process that made the id and serves the root
	attempt attempt       // for the address form
	weak    bool          // others can derive the secret
}

// noRoot returns the error of a rank that was not admitted, with the rank to blame.
func (m *meeting) noRoot(rank int, err error) error {
	missing := errors.Is(err, ErrTimeout) || errors.Is(err, ErrPeerDead)
	switch {
	case missing && m.address != nil && rank != 0:
		return &blame{0, fmt.Errorf("no way to rank 0, which listens at %v: it has not come, has died, or has failed, "+
			"which its own error explains: %w", m.address, err)}
	case missing && m.maker != (origin{}):
		return fmt.Errorf("no way to the root, which is in the process that made the UniqueID, %v: %w", m.maker, err)
	}
	return fmt.Errorf("no way to the root: %w", err)
}
