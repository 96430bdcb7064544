package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/test/commtest"
)

// extentsOf returns the bytes that a request of count bytes accesses, by the table of collective.Request.
func extentsOf(c collective.Collective, count int64, rank, n int) (send, recv int64) {
	all := count * int64(n)
	root := rank == n-1
	switch c {
	case collective.AllGather, collective.Gather:
		send, recv = count, all
	case collective.ReduceScatter, collective.Scatter:
		send, recv = all, count
	case collective.AllToAll:
		send, recv = all, all
	default:
		send, recv = count, count
	}
	if !root && (c == collective.Reduce || c == collective.Gather) || c == collective.Send {
		recv = 0
	}
	if !root && (c == collective.Broadcast || c == collective.Scatter) || c == collective.Recv {
		send = 0
	}
	return send, recv
}

// A buffer of the device that is shorter than count is refused at the call, with its address and lengths. A buffer of
// the exact length is accepted, and the communicator stays usable.
func TestShortBuffers(t *testing.T) {
	const n, count = 3, 64 << 10
	open := func(r int) (device.Device, error) { return host.Open(r) }
	comms := commtest.New(t, n, open, nil)
	for c := collective.AllReduce; c < collective.Barrier; c++ {
		if c == collective.AllToAllV || c == collective.AllToAllVDevice || c == collective.Send || c == collective.Recv {
			continue
		}
		for _, short := range []string{"send", "recv", ""} {
			var ranks sync.WaitGroup
			for r, comm := range comms {
				ranks.Go(func() {
					if err := shortBuffer(comm, c, short, count, r, n); err != nil {
						t.Errorf("%v, rank %d, short %q: %v", c, r, short, err)
					}
				})
			}
			ranks.Wait()
		}
	}
}

// The same for displacements beyond the buffer, and for messages.
func TestShortParts(t *testing.T) {
	comm := commtest.New(t, 1, func(r int) (device.Device, error) { return host.Open(r) }, nil)[0]
	mem, err := comm.Device().Alloc(8192)
	if err != nil {
		t.Fatal(err)
	}
	s, err := comm.Device().NewStream()
	if err != nil {
		t.Fatal(err)
	}
	v := func(sendAt, recvAt int64) collective.Request {
		return collective.Request{Collective: collective.AllToAllV, Send: mem.Ptr(), Recv: mem.Ptr().Add(4096),
			Type: datatype.Int8, Stream: s,
			SendCounts: []int64{4}, SendDispls: []int64{sendAt}, RecvCounts: []int64{4}, RecvDispls: []int64{recvAt}}
	}
	send := collective.Request{Collective: collective.Send, Send: mem.Ptr().Add(4096), Count: 4097, Type: datatype.Int8,
		Stream: s}
	recv := collective.Request{Collective: collective.Recv, Recv: mem.Ptr().Add(4096), Count: 4097, Type: datatype.Int8,
		Stream: s}
	for want, reqs := range map[string][]collective.Request{"the send buffer": {v(8189, 0)},
		"the recv buffer": {v(0, 4093)}, "takes 4097 bytes": {send, recv}} {
		if err := comm.Submit(reqs...); !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an invalid argument, %s", err, want)
		}
	}
	if err := errors.Join(comm.Submit(v(8188-4096, 4092)), comm.Synchronize(t.Context(), s)); err != nil {
		t.Error(err)
	}
}

// Buffers overlap as in place or not at all. An operation that overwrote elements before it sends them would be wrong
// in silence.
func TestOverlappingBuffers(t *testing.T) {
	comms := commtest.New(t, 2, func(r int) (device.Device, error) { return host.Open(r) }, nil)
	const count, root = 8, 1 // of a byte each; rank 1 calls
	mem, err := comms[1].Device().Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	for c, inPlace := range map[collective.Collective]int{ // where recv begins after send
		collective.AllReduce: 0, collective.Reduce: 0, collective.Broadcast: 0, collective.AllToAll: 0,
		collective.AllGather: -count, collective.Gather: -count, collective.ReduceScatter: count, collective.Scatter: count} {
		send, recv := (&collective.Request{Collective: c, Count: count, Type: datatype.Int8, Root: root}).Extents(1, 2)
		for at := -24; at <= 24; at++ {
			r := collective.Request{Collective: c, Send: mem.Ptr().Add(24), Recv: mem.Ptr().Add(24 + int64(at)), Count: count,
				Type: datatype.Int8, Root: root}
			want := at == inPlace || at >= int(send) || -at >= int(recv)
			if err := r.Validate(1, 2); (err == nil) != want {
				t.Errorf("%v, recv %d bytes after send: %v", c, at, err)
			}
			if !want && !errors.Is(comms[1].Submit(r), goccl.ErrInvalidArgument) {
				t.Errorf("%v, recv %d bytes after send: not refused", c, at)
			}
		}
	}
}

// shortBuffer makes one call on every rank with a buffer that is one page too short, if this rank has such a buffer.
func shortBuffer(comm *goccl.Comm, c collective.Collective, short string, count int64, rank, n int) error {
	send, recv := extentsOf(c, count, rank, n)
	bad := short == "send" && send > 0 || short == "recv" && recv > 0
	if short != "" && !bad {
		return nil // this rank has none; a call would wait for the ranks that refuse
	}
	if short != "" {
		// Only ranks with the short buffer make the call; the others would have nothing to refuse.
		*map[string]*int64{"send": &send, "recv": &recv}[short] -= 4096
	}
	dev := comm.Device()
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	var at [2]device.Ptr
	for i, size := range []int64{send, recv} {
		mem, err := dev.Alloc(max(size, 4096))
		if err != nil {
			return err
		}
		defer func() { _ = mem.Close() }()
		at[i] = mem.Ptr()
	}
	err = comm.Submit(collective.Request{Collective: c, Send: at[0], Recv: at[1], Count: count, Type: datatype.Int8,
		Root: n - 1, Stream: s})
	if bad {
		where := at[0]
		if short == "recv" {
			where = at[1]
		}
		if !errors.Is(err, goccl.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), short+fmt.Sprintf(" buffer at %#x", uintptr(where))) ||
			!strings.Contains(err.Error(), "bytes") {
			return fmt.Errorf("not refused, or not with address and length: %w", errors.Join(err))
		}
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return errors.Join(err, comm.Synchronize(ctx, s))
}

// blamed returns the rank that err blames, -1 for none, and -2 if err is not an error of a communicator.
func blamed(err error) int {
	var ge *goccl.Error
	if !errors.As(err, &ge) {
		return -2
	}
	return ge.Peer
}

// Memory that is unknown to every device and not mapped ends in an error on every rank. The first rank that accesses it
// reports the address. All other ranks blame the owner.
func TestUnmappedBuffer(t *testing.T) {
	hole, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(hole) }()
	at := device.Ptr(uintptr(unsafe.Pointer(&hole[0])))
	for _, size := range []int64{64, 1 << 20} { // bytes
		var found atomic.Bool
		comms := commtest.New(t, 3, func(r int) (device.Device, error) { return host.Open(r) }, nil)
		var ranks sync.WaitGroup
		for r, comm := range comms {
			ranks.Go(func() {
				mem, err := comm.Device().Alloc(size)
				if err != nil {
					t.Error(err)
					return
				}
				s, err := comm.Device().NewStream()
				if err != nil {
					t.Error(err)
					return
				}
				recv := mem.Ptr()
				if r == 1 {
					recv = at
				}
				err = comm.AllReduce(mem.Ptr(), recv, size/4, datatype.Float32, datatype.Sum, s)
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				err = errors.Join(err, comm.Synchronize(ctx, s))
				var fault *host.PanicError
				inHole := false
				if errors.As(err, &fault) {
					a, ok := fault.Addr()
					inHole = ok && a >= uintptr(at) && a < uintptr(at)+1<<20 && strings.Contains(err.Error(), fmt.Sprintf("%#x", a))
				}
				if inHole {
					found.Store(true)
				}
				if whom := blamed(comm.AsyncError()); err != nil && (r == 1 && whom != -1 || r != 1 && whom != 1) {
					t.Errorf("%d bytes, rank %d blames rank %d: %v", size, r, whom, comm.AsyncError())
				}
				// a small operation completes elsewhere before that rank stores its result
				if ctx.Err() != nil || err == nil && (r == 1 || size > 64) {
					t.Errorf("%d bytes, rank %d: %v; want an error", size, r, err)
				}
			})
		}
		ranks.Wait()
		if !found.Load() {
			t.Errorf("%d bytes: nobody names an address in the buffer", size)
		}
	}
}
