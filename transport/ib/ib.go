package ib

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/transport"
)

// ErrNotBuiltIn means that this build has no InfiniBand transport.
var ErrNotBuiltIn = errors.New("InfiniBand is not built in")

// Open makes a link through adapter n (0…7). It always fails with ErrNotBuiltIn.
func Open(n int) (transport.Link, error) {
	return nil, fmt.Errorf("transport/ib: adapter %d: %w: use ipc on one host and ethernet between hosts", n, ErrNotBuiltIn)
}
