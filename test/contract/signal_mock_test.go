package contract_test

import (
	"bytes"
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

// TestOnMockSignals runs the kernels of a put by their parameters, since the mock driver runs none: the data and the
// signal must be where the receiver's wait looks for them.
func TestOnMockSignals(t *testing.T) {
	const n, size, medium, large = 4, 16 << 20, 256 << 10, 8 << 20
	comms := commtest.OnMock(t, n, nil)
	mem := make([]device.Ptr, n)
	for r, c := range comms {
		a, err := c.Device().Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		mem[r] = a.Ptr()
	}
	windows, errs := flat(comms, func(r int) device.Ptr { return mem[r] }, func(int) int64 { return size })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	id := goccl.SignalID{Context: 3, Index: 5}
	from, to := comms[1], comms[2]
	putting, waiting := commtest.MockStream(t, from), commtest.MockStream(t, to)
	stored := uint64(0)
	for round, length := range []int64{8, 1001, medium, large, 0, large} {
		src := mem[1].Add(size / 2)
		data := pattern(int(length), byte(round))
		if err := from.Device().CopyIn(src, data); err != nil {
			t.Fatal(err)
		}
		puts := noted(t, func() error { return from.PutSignal(windows[1], 100, src, length, 2, id, putting) })
		switch {
		case length == large:
			stored++
			runStore(t, puts, stored)
		case len(puts) != 1 || length == medium != (puts[0].Grid > 1):
			t.Fatalf("%d bytes: %v", length, puts)
		default:
			runPut(t, puts[0])
		}
		if got := device.Bytes(mem[2].Add(100), length); !bytes.Equal(got, data) {
			t.Errorf("%d bytes did not arrive", length)
		}
		waits := noted(t, func() error {
			return to.WaitSignal([]goccl.SignalWait{{Peer: 3, ID: id, Count: 9}, {Peer: 1, ID: id, Count: 1}}, waiting)
		})
		if len(waits) != 1 || !strings.Contains(waits[0].Kernel, "wait_signal") || waits[0].Block < 2 {
			t.Fatalf("a wait: %v", waits)
		}
		apart := device.Ptr(binary.NativeEndian.Uint64(waits[0].Params[24:])) * 8
		p := waits[0].Params[32:] // behind the ticket, the abort block, the number and the distance of the two words
		if other := read(p, 0) + read(p, apart); other != 0 {
			t.Errorf("rank 3 has signalled %d times", other)
		}
		if came := read(p[24:], 0) + read(p[24:], apart); came != uint64(round+1) {
			t.Errorf("%d signals have come, want %d", came, round+1)
		}
	}
}

// pattern is n bytes of a seed.
func pattern(n int, seed byte) []byte {
	return bytes.Repeat([]byte{seed + 1, seed ^ 0x55, seed}, n/3+1)[:n]
}

// read is the word some bytes behind the address in b.
func read(b []byte, behind device.Ptr) uint64 {
	return binary.NativeEndian.Uint64(device.Bytes(device.Ptr(binary.NativeEndian.Uint64(b))+behind, 8))
}

// runStore expects a copy and then a store of the number of such signals, both of which the mock driver does.
func runStore(t *testing.T, calls []mockcuda.Call, stored uint64) {
	t.Helper()
	for _, want := range []mockcuda.CallKind{mockcuda.Copy, mockcuda.WriteValue, mockcuda.RecordEvent} {
		i := slices.IndexFunc(calls, func(c mockcuda.Call) bool {
			return c.Kind != mockcuda.WaitValue && c.Kind != mockcuda.WaitEvent
		})
		if i < 0 || calls[i].Kind != want || want == mockcuda.WriteValue && calls[i].B != stored {
			t.Fatalf("want %v of %d: %v", want, stored, calls)
		}
		calls = calls[i+1:]
	}
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
	copy(device.Bytes(field(1), int64(field(3))), device.Bytes(field(2), int64(field(3))))
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

// Only the first stream stores signals of a counter, and none that is captured: the others signal by a kernel.
func TestOnMockStores(t *testing.T) {
	const size = 8 << 20
	c := commtest.OnMock(t, 2, nil)
	mem := make([]device.Ptr, 2)
	for r := range mem {
		a, err := c[r].Device().Alloc(2 * size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		mem[r] = a.Ptr()
	}
	windows, errs := flat(c, func(r int) device.Ptr { return mem[r] }, func(int) int64 { return 2 * size })
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	first, second := commtest.MockStream(t, c[0]), commtest.MockStream(t, c[0])
	put := func(s *cuda.Stream, index int) func() error {
		return func() error {
			return c[0].PutSignal(windows[0], 0, mem[0].Add(size), size, 1, goccl.SignalID{Index: index}, s)
		}
	}
	kinds := func(calls []mockcuda.Call) (kinds []mockcuda.CallKind) {
		for _, c := range calls {
			if c.Kind != mockcuda.WaitEvent && c.Kind != mockcuda.WaitValue {
				kinds = append(kinds, c.Kind)
			}
		}
		return kinds
	}
	stored := []mockcuda.CallKind{mockcuda.Copy, mockcuda.WriteValue, mockcuda.RecordEvent}
	for i, k := range []struct {
		stream *cuda.Stream
		index  int
		want   []mockcuda.CallKind
	}{{first, 0, stored}, {second, 0, []mockcuda.CallKind{mockcuda.Copy, mockcuda.Launch}}, {second, 1, stored},
		{first, 0, stored}} {
		if got := kinds(noted(t, put(k.stream, k.index))); !slices.Equal(got, k.want) {
			t.Errorf("put %d: %v, want %v", i, got, k.want)
		}
	}
	x, nodes, err := commtest.CaptureNodes(first, cuda.CaptureThreadLocal, put(first, 0))
	if err != nil || nodes != 2 {
		t.Errorf("a graph of a put has %d nodes, %v", nodes, err)
	}
	if x != nil {
		_ = x.Close()
	}
}
