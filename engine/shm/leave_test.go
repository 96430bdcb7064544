package shm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
)

// TestBuffersMayGoWithTheirRank aborts one rank during large requests and frees its buffers as soon as its own work has
// ended. Its peers in the same process must not access them any more, and must end with an error that names the rank.
func TestBuffersMayGoWithTheirRank(t *testing.T) {
	const n, bytes = 4, 32 << 20
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		boots := bootstrap.NewLocalGroup(n)
		ends := make([]*end, n)
		each(t, n, func(r int) (err error) {
			ends[r], err = open(boots[r], bytes)
			return err
		})
		each(t, n, func(r int) error {
			e := ends[r]
			req := []collective.Request{{Collective: collective.AllReduce, Send: e.mem[0].Ptr(), Recv: e.mem[1].Ptr(),
				Count: bytes / 4, Type: datatype.Float32, Stream: e.stream}}
			if round%2 == 1 {
				req[0].Collective, req[0].Count = collective.AllToAll, bytes/4/n
			}
			for e.seq < 50 {
				e.seq++
				if err := e.engine.Enqueue(e.seq, req); err != nil {
					break
				}
			}
			if r == 1 {
				time.Sleep(time.Duration(5+3*round) * time.Millisecond)
				e.engine.Abort(&collective.Error{Op: "test", Rank: r, Peer: -1, Err: collective.ErrAborted})
			}
			err := e.stream.Synchronize(context.Background())
			for _, m := range e.mem {
				_ = m.Close()
			}
			var panicked *host.PanicError
			if !errors.Is(err, collective.ErrAborted) || errors.As(err, &panicked) {
				return err
			}
			return nil
		})
		each(t, n, func(r int) error { return ends[r].close() })
	}
}

// TestAPanicEndsThePeersToo gives one rank a buffer that is not mapped: the others must not wait for it.
func TestAPanicEndsThePeersToo(t *testing.T) {
	const n, bytes = 3, 1 << 20
	boots := bootstrap.NewLocalGroup(n)
	each(t, n, func(r int) error {
		e, err := open(boots[r], bytes)
		if err != nil {
			return err
		}
		var send device.Ptr
		if send = e.mem[0].Ptr(); r == 2 {
			send = 1 << 12 // the first page but one is never mapped
		}
		e.seq++
		reqs := []collective.Request{{Collective: collective.AllReduce, Send: send, Recv: e.mem[1].Ptr(), Count: 64,
			Type: datatype.Float32, Stream: e.stream}}
		if err := e.engine.Enqueue(e.seq, reqs); err != nil {
			return err
		}
		err = e.stream.Synchronize(context.Background())
		var panicked *host.PanicError
		var ae *collective.Error
		switch {
		case r == 2 && !errors.As(err, &panicked):
			return errors.Join(errors.New("want the panic"), err)
		case r != 2 && (!errors.Is(err, collective.ErrAborted) || !errors.As(err, &ae) || ae.Peer != 2):
			return errors.Join(errors.New("want an error that names rank 2"), err)
		case e.engine.Err() == nil:
			return errors.New("the engine has no error")
		}
		return e.close()
	})
}
