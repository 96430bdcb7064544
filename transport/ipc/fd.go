package ipc

import (
	"context"
	"time"

	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/internal/setting"
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

// fetchFD fetches the descriptor of a ticket; the caller closes it. Without a deadline in ctx, the set-up timeout
// applies, because a stopped process never answers.
func fetchFD(ctx context.Context, ticket []byte) (int, error) {
	t, err := fdshare.ParseTicket(ticket)
	if err != nil {
		return -1, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		env, err := setting.Read("GOCCL_TIMEOUT")
		if err != nil {
			return -1, err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, env.TimeoutOr(30*time.Second))
		defer cancel()
	}
	return fdshare.Fetch(ctx, t)
}
