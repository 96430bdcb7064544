package nvlink

import (
	"context"
	"errors"
)

// Suspend frees the arena and unmaps the windows; their addresses stay reserved. An arena whose addresses cannot be
// reserved stays: host memory, and GPUs without virtual memory management. No rank has work.
func (e *Engine) Suspend(ctx context.Context) error {
	err := errors.Join(e.windows.Suspend(ctx), e.pieces.Suspend(ctx))
	if e.arena.Fixed() {
		e.tokens.leave(false)
		err = errors.Join(err, e.arena.Suspend())
	}
	return err
}

// Resume makes the arena anew, at the same addresses, with flags of 0. So all counts of sent and received slots restart
// at 0. The ticket keeps its value, because the host does not reset its number of launches. Resume is collective.
func (e *Engine) Resume(ctx context.Context) error {
	if e.arena.Fixed() {
		if err := e.dev.CopyIn(e.launcher.State.Ptr(), zeros[:]); err != nil {
			return err
		}
		// The exchange of the arenas ends when all ranks have come, so no rank's kernel can write before.
		if err := e.arena.Resume(ctx); err != nil {
			return err
		}
		e.fillConstants()
	}
	if err := e.pieces.Resume(ctx); err != nil {
		return err
	}
	return e.windows.Resume(ctx)
}

// zeros is the state up to the ticket.
var zeros [stateTicket]byte

func (e *Engine) layout() layout { return layout{e.size, !e.table.noLL128, e.stage, e.later} }

// Memory returns the bytes of the arena and the pieces if Suspend frees it, and all others.
func (e *Engine) Memory() (suspendable, persistent int64) {
	arena, state := e.layout().arenaBytes()+e.pieces.Bytes(), e.launcher.State.Size()
	if !e.arena.Fixed() {
		return 0, arena + state
	}
	return arena, state
}
