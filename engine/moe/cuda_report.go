package moe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/collective"
)

// watchReports polls for what kernels report.
func (e *cudaEngine) watchReports() {
	t := time.NewTicker(reportEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := e.err(); err != nil {
				e.b.Abort(err)
			}
		case <-e.stop:
			return
		}
	}
}

// err is what a kernel has reported. Kernels run later than they are enqueued, so the operation is the latest that can
// have failed.
func (e *cudaEngine) err() error {
	status := e.words.reported.Load()
	op := "moe"
	if p := e.name.Load(); p != nil {
		op = *p
	}
	peer := int(int32(e.words.peer.Load()))
	if peer >= e.b.size {
		peer = -1
	}
	var err error
	switch status {
	case statusTimeout:
		err = fmt.Errorf("%w: a kernel waited %v for data of rank %d; the latest operation enqueued here is the one named",
			collective.ErrTimeout, e.b.cfg.OpTimeout, peer)
	case statusInvalid:
		err = fmt.Errorf("%w: more rows come, of rank %d among others, than RecvRows, %d", collective.ErrInvalidArgument,
			peer, e.words.detail.Load())
	case statusMismatch:
		err = fmt.Errorf("%w: rank %d calls an operation of another shape", collective.ErrMismatch, peer)
	default:
		return nil
	}
	return e.b.error(op, e.seq.Load(), peer, err)
}

func (e *cudaEngine) wake() { e.words.abort.CompareAndSwap(0, statusAborted) }

func (e *cudaEngine) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return e.order.Wait(ctx)
}

func (e *cudaEngine) close() error {
	close(e.stop)
	e.watch.Wait()
	return e.free()
}

func (e *cudaEngine) free() error {
	var errs []error
	if e.order != nil && e.order != e.b.cfg.Order {
		errs = append(errs, e.order.Close())
	}
	if e.abort != nil {
		errs = append(errs, e.abort.Close())
	}
	if e.state != nil {
		errs = append(errs, e.state.Close())
	}
	if e.module != nil {
		errs = append(errs, e.module.Close())
	}
	return errors.Join(errs...)
}
