package nvlink

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
)

// The launch does not depend on the counts, and passes the rings and counters of the messages to the kernel.
func TestDeviceCountsLaunch(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4} { // rank r on GPU r: the mock has four
		engines := mockEngines(t, n)
		e := engines[n-1]
		s, mem := newStream(t, e), memory(t, e, 1<<20)
		at := func(i int64) device.Ptr { return mem.Add(1024 * i) }
		req := collective.Request{Collective: collective.AllToAllVDevice, Send: at(1).Add(3), Recv: at(8),
			Type: datatype.Float16, Stream: s,
			DeviceCounts: collective.DeviceCounts{SendCounts: at(10), SendDispls: at(11), RecvCounts: at(12), RecvDispls: at(13),
				SendElements: 77}}
		calls := launches(noted(t, func() { must(t, e.Enqueue(1, []collective.Request{req})) }))
		if len(calls) != 1 || calls[0].Kernel != "all_to_all_v_device" {
			t.Fatalf("%d ranks: %v", n, names(calls))
		}
		a := argsOf[allToAllVArgs](t, calls[0])
		if a.send != uint64(at(1))+3 || a.recv != uint64(at(8)) || a.counts != [2]uint64{uint64(at(12)), uint64(at(10))} ||
			a.displs != [2]uint64{uint64(at(13)), uint64(at(11))} || a.elementBytes != 2 ||
			a.elements != [2]uint64{1 << 46, 77} {
			t.Errorf("%d ranks: %+v", n, a)
		}
		if a.window != e.p2p.window || a.counters != e.p2p.counters || a.abort != e.p2p.abort || a.rank != uint32(n-1) ||
			a.nranks != uint32(n) || a.width != uint32(e.p2pChannels) {
			t.Errorf("%d ranks: %+v", n, a.p2pHead)
		}
		if a.channels != p2pChannels || calls[0].Grid != uint32(2*n-1)*p2pChannels || calls[0].Block != p2pThreads {
			t.Errorf("%d ranks: %d channels, %d × %d threads", n, a.channels, calls[0].Grid, calls[0].Block)
		}
	}
}

// A kernel's report of mismatched counts becomes an error with the peer and its number.
func TestDeviceCountsMismatch(t *testing.T) {
	for op, want := range []string{"rank 1 sends 4000 bytes here, and this rank's receive count",
		"rank 1 expects 4000 bytes here, and this rank's send count"} {
		e := mockEngines(t, 2)[0]
		s, mem := newStream(t, e), memory(t, e, 4096)
		req := collective.Request{Collective: collective.AllToAllVDevice, Type: datatype.Int8, Stream: s,
			DeviceCounts: collective.DeviceCounts{SendCounts: mem, SendDispls: mem, RecvCounts: mem, RecvDispls: mem}}
		must(t, e.Enqueue(7, []collective.Request{req}))
		w := e.launcher.Abort
		w.Detail.Store(4000)
		w.Peer.Store(1)
		w.Op.Store(uint32(op))
		w.Reported.Store(abort.Mismatch)
		var ae *collective.Error
		if err := e.Err(); !errors.As(err, &ae) || !errors.Is(err, collective.ErrMismatch) || ae.Peer != 1 || ae.Seq != 7 ||
			ae.Op != "all_to_all_v_device" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// A kernel's report of a message outside its buffer becomes an invalid-argument error of this rank. Its peers cannot
// detect that, so the engine reports the failure once. A mismatch is seen on both sides.
func TestDeviceCountsOutside(t *testing.T) {
	for op, want := range []string{"DeviceCounts.RecvCounts and RecvDispls[1] lie outside of recv",
		"DeviceCounts.SendCounts and SendDispls[1] lie outside of send"} {
		e, failures := mockEngines(t, 2)[0], make(chan error, 9)
		e.failed = func(err error) { failures <- err }
		w := e.launcher.Abort
		w.Detail.Store(4000)
		w.Peer.Store(1)
		w.Op.Store(uint32(op))
		w.Reported.Store(abort.Invalid)
		for range 2 {
			if err := e.Err(); !errors.Is(err, collective.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
			}
		}
		if err := <-failures; !errors.Is(err, collective.ErrInvalidArgument) || len(failures) != 0 {
			t.Errorf("OnFailure: %v, and %d more calls", err, len(failures))
		}
	}
}
