package nvlink

import (
	"context"

	"github.com/goccl/goccl/job/share"
)

// Suspend frees the arena. No rank has work.
func (e *Engine) Suspend() error {
	e.tokens.leave(false)
	a := e.arena
	e.arena = nil
	return a.Close()
}

// Resume makes a new arena, whose flags are 0. So all counts of sent and received slots restart at 0. The ticket keeps
// its value, because the host does not reset its number of launches. Resume is collective.
func (e *Engine) Resume(ctx context.Context) (err error) {
	if err := e.dev.CopyIn(e.launcher.State.Ptr(), zeros[:]); err != nil {
		return err
	}
	// The exchange of the arenas ends when all ranks have come, so no rank's kernel can write before.
	if size := e.layout().arenaBytes(); e.gpu.Link == HostMemory {
		e.arena, err = share.NewHostArena(ctx, e.boot, e.dev, size, e.dev.Node())
	} else {
		e.arena, err = share.NewArena(ctx, e.boot, e.dev, size)
	}
	if err != nil {
		return err
	}
	e.fillConstants()
	return nil
}

// zeros is the state up to the ticket.
var zeros [stateTicket]byte

func (e *Engine) layout() layout { return layout{e.size, !e.table.noLL128, e.stage} }

// Memory returns the bytes of the arena, and of the state.
func (e *Engine) Memory() (suspendable, persistent int64) { return e.layout().arenaBytes(), stateBytes }
