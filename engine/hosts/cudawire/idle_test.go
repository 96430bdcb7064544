package cudawire

import (
	"testing"
	"time"

	"github.com/goccl/goccl/engine/hosts/wire"
)

// A driver that answers only when the kernels have ended, as while another thread loads a module, does not keep the
// proxy from what the kernels wait for.
func TestDriverBlocks(t *testing.T) {
	hold := make(chan struct{})
	ended = func() (bool, error) {
		<-hold
		return true, nil
	}
	all := ranks(t, 2, newMemNet(13), nil)
	ended = nil
	released := false
	release := func() {
		if !released {
			released = true
			close(hold)
		}
	}
	t.Cleanup(release) // before the wires are closed
	if !mock {
		t.Skip("the emulation has the time of the post in hand")
	}
	all[0].kernel.delay = 20 * time.Millisecond
	for _, w := range all {
		w.captured.Store(false)
	}
	p, q := all[0].memory(t, 64), all[1].memory(t, 64)
	for range 3 {
		must(t, all[0].Run(all[0].stream, someOp, &wire.Phase{Sends: []wire.Part{{Peer: 1, Ptr: p, Bytes: 64}}}))
		must(t, all[1].Run(all[1].stream, someOp, &wire.Phase{Recvs: []wire.Part{{Peer: 0, Ptr: q, Bytes: 64}}}))
		arrived := make(chan struct{})
		go func() { all[1].kernel.done.Wait(); close(arrived) }()
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			release()
			t.Fatal("the proxy waits for the driver")
		}
	}
}
