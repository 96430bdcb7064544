package cudawire

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// usable returns an error if the wire has failed, or a peer of the phase is not connected or is gone.
func (w *Wire) usable(p *wire.Phase) error {
	if err := w.Err(); err != nil {
		return err
	}
	for i := range p.Sends {
		if err := w.check(p.Sends[i].Peer); err != nil {
			return err
		}
	}
	for i := range p.Recvs {
		if err := w.check(p.Recvs[i].Peer); err != nil {
			return err
		}
	}
	if p.Counted != nil {
		for _, q := range p.Counted.Peers {
			if err := w.check(q); err != nil {
				return err
			}
		}
	}
	for i := range p.Reduces {
		for _, q := range p.Reduces[i].Peers {
			if q != w.rank {
				if err := w.check(q); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
