package moe

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
)

// err is what a kernel has reported. Kernels run later than they are enqueued, so the operation is the latest that can
// have failed.
func (e *cudaEngine) err() error {
	return e.launcher.Reported(func(status uint32, w *abort.Block) error {
		op := "moe"
		if p := e.name.Load(); p != nil {
			op = *p
		}
		peer := int(int32(w.Peer.Load()))
		if peer >= e.b.size {
			peer = -1
		}
		return e.b.error(op, e.seq.Load(), peer, e.reported(status, peer, w.Detail.Load()))
	})
}

// reported is the cause that a kernel has reported. detail of Invalid is RecvRows.
func (e *cudaEngine) reported(status uint32, peer int, detail uint64) error {
	switch status {
	case abort.Timeout:
		return fmt.Errorf("%w: a kernel waited %v for data of rank %d; the latest operation enqueued here is the one named",
			collective.ErrTimeout, e.b.cfg.OpTimeout, peer)
	case abort.Invalid:
		return fmt.Errorf("%w: more rows come, of rank %d among others, than RecvRows, %d", collective.ErrInvalidArgument,
			peer, detail)
	}
	if peer < 0 {
		return errOtherMask
	}
	return fmt.Errorf("%w: rank %d calls an operation of another shape", collective.ErrMismatch, peer)
}

func (e *cudaEngine) leave(error) { e.launcher.Raise() }

func (e *cudaEngine) exit(int) fault.Exit { return 0 }

func (e *cudaEngine) wait() error { return e.launcher.Quiesce() }

func (e *cudaEngine) close() error { return e.launcher.Free() }
