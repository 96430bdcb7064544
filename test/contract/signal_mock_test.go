package contract_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
)

// noted returns the driver calls that call makes, without the queries of captures.
func noted(t *testing.T, call func() error) (calls []mockcuda.Call) {
	t.Helper()
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	trace.Start()
	err = call()
	all, terr := trace.Stop()
	if err := errors.Join(err, terr); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Kind != mockcuda.CaptureQuery {
			calls = append(calls, c)
		}
	}
	return calls
}

// putters makes n ranks on the mock driver with windows of size bytes. The rest of each rank's memory is for sources.
func putters(t *testing.T, n int, size int64) (c []*goccl.Comm, w []*goccl.FlatWindow, mem []device.Ptr) {
	t.Helper()
	c = commtest.OnMock(t, n, nil)
	for _, c := range c {
		a, err := c.Device().Alloc(2 * size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		mem = append(mem, a.Ptr())
	}
	w, errs := flat(c, func(r int) device.Ptr { return mem[r] }, func(int) int64 { return size })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return c, w, mem
}

// TestOnMockSignals runs the kernels of a put by their parameters, since the mock driver runs none: the data and the
// signal must be where the receiver's wait looks for them.
func TestOnMockSignals(t *testing.T) {
	const n, size, medium, large = 4, 8<<20 + 4096, 256 << 10, 8 << 20
	comms, windows, mem := putters(t, n, size)
	id := goccl.SignalID{Context: 3, Index: 5}
	from, to := comms[1], comms[2]
	putting, waiting := commtest.MockStream(t, from), commtest.MockStream(t, to)
	copies := uint64(0)
	for round, length := range []int64{8, 1001, medium, large, 0, large + 13} {
		src := mem[1].Add(size)
		data := pattern(int(length), byte(round))
		if err := from.Device().CopyIn(src, data); err != nil {
			t.Fatal(err)
		}
		puts := noted(t, func() error { return from.PutSignal(windows[1], 100, src, length, 2, id, putting) })
		if length >= large {
			copies++
			puts = beside(t, puts, putting, copies)
		}
		if len(puts) != 1 || (length >= medium) != (puts[0].Grid > 1) {
			t.Fatalf("%d bytes: %v", length, puts)
		}
		runPut(t, puts[0])
		if got := device.Bytes(mem[2].Add(100), length); !bytes.Equal(got, data) {
			t.Errorf("%d bytes did not arrive", length)
		}
		waits := noted(t, func() error {
			return to.WaitSignal([]goccl.SignalWait{{Peer: 3, ID: id, Count: 9}, {Peer: 1, ID: id, Count: 1}}, waiting)
		})
		if len(waits) != 1 || !strings.Contains(waits[0].Kernel, "wait_signal") || waits[0].Block < 2 {
			t.Fatalf("a wait: %v", waits)
		}
		p := waits[0].Params[24:] // behind the ticket, the abort block and the number
		if other := read(p); other != 0 {
			t.Errorf("rank 3 has signalled %d times", other)
		}
		if came := read(p[24:]); came != uint64(round+1) {
			t.Errorf("%d signals have come, want %d", came, round+1)
		}
	}
}

// pattern is n bytes of a seed.
func pattern(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed + 1, seed ^ 0x55, seed}, n/3+1)[:n]
}

// read is the word at the address in b.
func read(b []byte) uint64 {
	return binary.NativeEndian.Uint64(device.Bytes(device.Ptr(binary.NativeEndian.Uint64(b)), 8))
}

// kinds are the kinds of calls.
func kinds(calls []mockcuda.Call) (all []mockcuda.CallKind) {
	for _, c := range calls {
		all = append(all, c.Kind)
	}
	return all
}

// beside expects a copy on a side stream of s, which the mock driver does, and its number as a mark. It returns the
// launch, which comes last and on s.
func beside(t *testing.T, calls []mockcuda.Call, s *cuda.Stream, copies uint64) []mockcuda.Call {
	t.Helper()
	if want := []mockcuda.CallKind{mockcuda.RecordEvent, mockcuda.WaitEvent, mockcuda.Copy, mockcuda.WriteValue,
		mockcuda.Launch}; !slices.Equal(kinds(calls), want) {
		t.Fatalf("%v, want %v", calls, want)
	}
	for i, c := range calls {
		if on := c.Stream == s.Raw(); on != (i == 0 || i == 4) || i > 1 && i < 4 && c.Stream != calls[1].Stream {
			t.Fatalf("%v on stream %#x", c.Kind, c.Stream)
		}
	}
	p := calls[4].Params
	if mark, n := binary.NativeEndian.Uint64(p[56:]), binary.NativeEndian.Uint64(p[64:]); mark != calls[3].A ||
		n != calls[3].B || n != copies {
		t.Fatalf("%d at %#x is awaited, %d is stored at %#x, want %d", n, mark, calls[3].B, calls[3].A, copies)
	}
	return calls[4:]
}

// runPut does what kernels/onesided/onesided.cuh does.
func runPut(t *testing.T, c mockcuda.Call) {
	t.Helper()
	if c.Kind != mockcuda.Launch || !strings.Contains(c.Kernel, "put_signal") {
		t.Fatalf("not a put: %v", c)
	}
	field := func(i int) device.Ptr { return device.Ptr(binary.NativeEndian.Uint64(c.Params[8*i:])) }
	if sent := field(5); sent != 0 {
		t.Errorf("signals over NVLink are stores, by %#x", sent)
	}
	if abort, peer := field(6), field(9); abort == 0 || peer != 2 {
		t.Errorf("a put to rank %d that polls %#x", peer, abort)
	}
	copy(device.Bytes(field(1), int64(field(3))), device.Bytes(field(2), int64(field(3))))
	if mark := field(7); mark != 0 && read(c.Params[56:]) < uint64(field(8)) {
		t.Error("the signal has to wait for the copy engine")
	}
	word := device.Bytes(field(4), 8)
	binary.NativeEndian.PutUint64(word, binary.NativeEndian.Uint64(word)+1)
}

// A wait on one stream holds no put on another stream back: the peer may need it before it signals.
func TestOnMockSignalsUnordered(t *testing.T) {
	c := commtest.OnMock(t, 2, nil)
	mem := []device.Ptr{commtest.Scratch(t, c[0]), commtest.Scratch(t, c[1])}
	windows, errs := flat(c, func(r int) device.Ptr { return mem[r] }, func(int) int64 { return 1024 })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	waiting, putting := commtest.MockStream(t, c[0]), commtest.MockStream(t, c[0])
	enqueue := func() error {
		return errors.Join(c[0].WaitSignal([]goccl.SignalWait{{Peer: 1, Count: 1}}, waiting),
			c[0].PutSignal(windows[0], 0, mem[0], 64, 1, goccl.SignalID{}, putting))
	}
	for _, call := range noted(t, enqueue) {
		if call.Kind != mockcuda.Launch {
			t.Errorf("%v on stream %#x", call.Kind, call.Stream)
		}
	}
	x, nodes, err := commtest.CaptureNodes(waiting, cuda.CaptureThreadLocal, func() error {
		return errors.Join(c[0].Signal(1, goccl.SignalID{}, waiting),
			c[0].WaitSignal([]goccl.SignalWait{{Peer: 1, Count: 1}}, waiting))
	})
	if err != nil || nodes != 2 {
		t.Errorf("a graph of a signal and a wait has %d nodes, %v", nodes, err)
	}
	if x != nil {
		_ = x.Close()
	}
}

// Large puts of each stream have one side stream, and their numbers count up. In a graph the side stream joins the
// kernel beside it before another one signals.
func TestOnMockPutsBeside(t *testing.T) {
	const size = 8 << 20
	c, windows, mem := putters(t, 2, size)
	put := func(s *cuda.Stream) func() error {
		return func() error {
			return c[0].PutSignal(windows[0], 0, mem[0].Add(size), size, 1, goccl.SignalID{}, s)
		}
	}
	streams := [2]*cuda.Stream{commtest.MockStream(t, c[0]), commtest.MockStream(t, c[0])}
	sides := [2]uintptr{}
	for round := range uint64(3) {
		for i, s := range streams {
			calls := noted(t, put(s))
			beside(t, calls, s, round+1)
			if side := calls[1].Stream; round == 0 {
				sides[i] = side
			} else if side != sides[i] {
				t.Errorf("stream %d: another side stream", i)
			}
		}
		if sides[0] == sides[1] {
			t.Fatal("two streams have one side stream")
		}
		var x *cuda.Exec
		nodes := 0
		calls := noted(t, func() (err error) {
			x, nodes, err = commtest.CaptureNodes(streams[0], cuda.CaptureThreadLocal, put(streams[0]))
			return err
		})
		if want := []mockcuda.CallKind{mockcuda.RecordEvent, mockcuda.WaitEvent, mockcuda.Copy, mockcuda.Launch,
			mockcuda.RecordEvent, mockcuda.WaitEvent, mockcuda.Launch}; !slices.Equal(kinds(calls), want) || nodes != 3 {
			t.Fatalf("a graph of a put: %d nodes, %v, want %v", nodes, calls, want)
		}
		word := func(i, at int) uint64 { return binary.NativeEndian.Uint64(calls[i].Params[at:]) }
		if word(3, 32) != 0 || word(3, 56) != 0 || calls[3].Grid < 2 || word(6, 32) == 0 || word(6, 24) != 0 ||
			word(6, 56) != 0 || word(3, 24)+calls[2].C != size {
			t.Errorf("a graph: %v", calls)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Ranks that share a GPU copy on the caller's stream: kernels that wait would have too many queues to share.
func TestOnMockPutsOfSharedGPU(t *testing.T) {
	const size = 8 << 20
	c, windows, mem := putters(t, 5, size) // on four GPUs
	s := commtest.MockStream(t, c[0])
	calls := noted(t, func() error {
		return c[0].PutSignal(windows[0], 0, mem[0].Add(size), size, 1, goccl.SignalID{}, s)
	})
	if !slices.Equal(kinds(calls), []mockcuda.CallKind{mockcuda.Copy, mockcuda.Launch}) || calls[0].Stream != s.Raw() {
		t.Errorf("a put: %v", calls)
	}
}

// Drain waits for a copy whose kernel has ended without it, as after an abort: the mock driver's kernels never wait.
func TestOnMockDrainWaitsForCopies(t *testing.T) {
	const size = 8 << 20
	c, windows, mem := putters(t, 2, size)
	s, gate := commtest.MockStream(t, c[0]), commtest.Scratch(t, c[0])
	put := func() error {
		return c[0].PutSignal(windows[0], 0, mem[0].Add(size), size, 1, goccl.SignalID{}, s)
	}
	side, err := c[0].Device().(*cuda.Device).WrapStream(noted(t, put)[1].Stream)
	if err != nil {
		t.Fatal(err)
	}
	data := pattern(size, 7)
	if err := errors.Join(c[0].Device().CopyIn(mem[0].Add(size), data), side.(*cuda.Stream).WaitValue64(gate, 1),
		put()); err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(context.Background())
	stop()
	if err := c[0].Drain(over); err == nil || !strings.Contains(err.Error(), "a copy to a peer has not ended") {
		t.Errorf("before the copy: %v", err)
	}
	if err := errors.Join(c[0].Device().CopyIn(gate, []byte{1}), c[0].Drain(context.Background())); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(device.Bytes(mem[1].Add(4<<20), size/2), data[4<<20:]) {
		t.Error("drained, and the copy has not ended")
	}
}
