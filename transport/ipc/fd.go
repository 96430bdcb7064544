package ipc

import (
	"context"

	"github.com/goccl/goccl/internal/fdshare"
)

// offerFD makes a descriptor available to holders of the ticket until revoke.
func offerFD(fd int) (ticket []byte, revoke func(), err error) {
	s, err := fdshare.Shared()
	if err != nil {
		return nil, nil, err
	}
	t, revoke, err := s.Offer(fd)
	return t[:], revoke, err
}

// fetchFD gets the descriptor that a ticket names; the caller closes it.
func fetchFD(ctx context.Context, ticket []byte) (int, error) {
	t, err := fdshare.ParseTicket(ticket)
	if err != nil {
		return -1, err
	}
	return fdshare.Fetch(ctx, t)
}
