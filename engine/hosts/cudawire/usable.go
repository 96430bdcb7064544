package cudawire

import (
	"cmp"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// usable returns an error if the wire has failed, or a peer of the phase is not connected or is gone.
func (w *Wire) usable(p *wire.Phase) error {
	err := w.Err()
	for _, parts := range [...][]wire.Part{p.Sends, p.Recvs} {
		for i := range parts {
			err = cmp.Or(err, w.check(parts[i].Peer))
		}
	}
	for i := range p.Reduces {
		r := &p.Reduces[i]
		for _, q := range r.Peers {
			if _, here := r.At(q, w.rank); !here {
				err = cmp.Or(err, w.check(q))
			}
		}
	}
	return err
}

// checkAll is check for all of the peers except this rank.
func (w *Wire) checkAll(peers []int) (err error) {
	for _, q := range peers {
		if q != w.rank {
			err = cmp.Or(err, w.check(q))
		}
	}
	return err
}

// check returns an error if a peer is not connected or is gone.
func (w *Wire) check(peer int) error {
	l := w.by[peer].Load()
	if l == nil {
		return fmt.Errorf("%w: rank %d is not connected", collective.ErrInvalidUsage, peer)
	}
	select {
	case <-l.peer.Failed():
		return w.broken(l)
	default:
		return nil
	}
}
