package goccl_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/driver/mockcuda"
	"github.com/goccl/goccl/internal/test/commtest"
)

// noted returns what call enqueues, but for the queries of captures.
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
	const n, size, large = 4, 1 << 20, 256 << 10
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
	for round, length := range []int64{8, 1001, large, 0} {
		src := mem[1].Add(size / 2)
		data := pattern(int(length), byte(round))
		if err := from.Device().CopyIn(src, data); err != nil {
			t.Fatal(err)
		}
		puts := noted(t, func() error { return from.PutSignal(windows[1], 100, src, length, 2, id, putting) })
		if k := len(puts); k != 1 && (length != large || k != 2 || puts[0].Kind != mockcuda.Copy) {
			t.Fatalf("%d bytes: %v", length, puts)
		}
		runPut(t, puts[len(puts)-1])
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

// runPut does what kernels/onesided/onesided.cuh does.
func runPut(t *testing.T, c mockcuda.Call) {
	t.Helper()
	if c.Kind != mockcuda.Launch || !strings.Contains(c.Kernel, "put_signal") || c.Grid != 1 {
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
