package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
)

// world makes n ranks in this process, each on its own host device.
func world(t testing.TB, n int, cfg Config) []Handle {
	t.Helper()
	devs := make([]Handle, n)
	for i := range devs {
		h, err := openDevice(device.Host, i)
		if err != nil {
			t.Fatal(err)
		}
		devs[i] = h
	}
	all, err := startAll(devs, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if err := CommWait(h); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = CommAbort(h) })
	}
	return all
}

func deviceOf(index int) (*Device, error) {
	h, err := openDevice(device.Host, index)
	if err != nil {
		return nil, err
	}
	return Find[*Device](h)
}

// floats allocates n elements as C would.
func floats(t testing.TB, n int) (uintptr, []float32) {
	t.Helper()
	d, err := deviceOf(0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Alloc(d, uint64(4*n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Free(p) })
	return p, unsafe.Slice((*float32)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

func allReduce(c Handle, send, recv uintptr, n int) Request {
	return Request{Comm: c, Collective: uint32(collective.AllReduce), Type: uint32(datatype.Float32), Send: send,
		Recv: recv, Count: uint64(n)}
}

func TestHandles(t *testing.T) {
	tab := table[int]{kind: 0x0c99, name: "thing"}
	h, err := tab.add(func(Handle) int { return 7 })
	if err != nil {
		t.Fatal(err)
	}
	if v, err := tab.get(h); v != 7 || err != nil {
		t.Error(v, err)
	}
	if int64(h) <= 0 {
		t.Errorf("%#x is no positive number", uint64(h))
	}
	for _, bad := range []Handle{0, h + 1, h ^ 1<<16, h ^ 1<<50, 0x7fff12345678} {
		if _, err := tab.get(bad); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%#x: %v", uint64(bad), err)
		}
		if tab.remove(bad) {
			t.Errorf("%#x was removed", uint64(bad))
		}
	}
	if !tab.remove(h) || tab.remove(h) {
		t.Error("removed twice, or never")
	}
	if _, err := tab.get(h); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "destroyed") {
		t.Error(err)
	}
	again, err := tab.add(func(Handle) int { return 8 })
	if err != nil || again == h || again.index() != h.index() {
		t.Errorf("%#x after %#x: %v", uint64(again), uint64(h), err)
	}
	for range maxHandles - 1 {
		if _, err := tab.add(func(Handle) int { return 0 }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tab.add(func(Handle) int { return 0 }); !errors.Is(err, ErrInvalidUsage) {
		t.Error("one too many: ", err)
	}
}

func TestHandlesAtOnce(t *testing.T) {
	tab := table[*int]{kind: 0x0c98, name: "thing"}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 2000 {
				h, err := tab.add(func(Handle) *int { return &i })
				if err != nil {
					t.Error(err)
					return
				}
				if v, err := tab.get(h); err != nil || *v != i {
					t.Error(v, err)
				}
				if !tab.remove(h) {
					t.Error("somebody else's")
				}
			}
		})
	}
	wg.Wait()
	if len(tab.all()) != 0 {
		t.Error("some are left")
	}
}

func TestResults(t *testing.T) {
	wrapped := func(err error) error {
		return &goccl.Error{Op: "all_reduce", Peer: -1, Err: fmt.Errorf("%w: why", err)}
	}
	for _, c := range []struct {
		err  error
		want Result
	}{
		{nil, Success},
		{wrapped(goccl.ErrPeerDead), PeerDead},
		{wrapped(fmt.Errorf("%w after %w", goccl.ErrAborted, goccl.ErrPeerDead)), PeerDead},
		{wrapped(goccl.ErrTimeout), Timeout},
		{wrapped(goccl.ErrMismatch), Mismatch},
		{wrapped(goccl.ErrInvalidArgument), InvalidArgument},
		{wrapped(goccl.ErrAborted), Aborted},
		{wrapped(goccl.ErrUnsupported), Unsupported},
		{&bootstrap.Error{Op: "Init", Err: bootstrap.ErrTimeout}, Timeout},
		{&bootstrap.Error{Op: "Init", Err: bootstrap.ErrAuth}, SystemError},
		{device.ErrOutOfMemory, OutOfMemory},
		{Recovered("boom"), InternalError},
		{fmt.Errorf("%w", Recovered(goccl.ErrPeerDead)), InternalError},
		{errors.New("something else"), InternalError},
	} {
		if got := ResultOf(c.err); got != c.want {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
	}
}

// A call must not allocate in addition to the engine.
func TestSubmitAllocatesNothing(t *testing.T) {
	h := world(t, 1, Config{})[0]
	send, x := floats(t, 16)
	recv, y := floats(t, 16)
	c, inner, err := usable(h, stateRevoked)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.stream(0)
	if err != nil {
		t.Fatal(err)
	}
	x[3] = 4
	direct := make([]collective.Request, 1)
	engine := testing.AllocsPerRun(200, func() {
		direct[0] = collective.Request{Collective: collective.AllReduce, Send: device.Ptr(send), Recv: device.Ptr(recv),
			Count: 16, Type: datatype.Float32, Stream: s}
		if err := inner.Submit(direct...); err != nil {
			t.Fatal(err)
		}
	})
	reqs := []Request{allReduce(h, send, recv, 16)}
	all := testing.AllocsPerRun(200, func() {
		if err := Submit(reqs); err != nil {
			t.Fatal(err)
		}
	})
	if y[3] != 4 {
		t.Errorf("the result is %v", y[3])
	}
	if all > engine && commtest.Slowness == 1 { // under the race detector, a sync.Pool drops objects at random
		t.Errorf("%v allocations a call, of which the engine's are %v", all, engine)
	}
}

func BenchmarkTranslate(b *testing.B) {
	h := world(b, 1, Config{})[0]
	send, _ := floats(b, 16)
	c, _, err := usable(h, stateRevoked)
	if err != nil {
		b.Fatal(err)
	}
	q := allReduce(h, send, send, 16)
	var r collective.Request
	b.ReportAllocs()
	for b.Loop() {
		if err := c.translate(&q, &r); err != nil {
			b.Fatal(err)
		}
		if _, err := c.stream(0); err != nil {
			b.Fatal(err)
		}
	}
}

func TestGroupsOfSeveralCommunicators(t *testing.T) {
	a, b := world(t, 3, Config{}), world(t, 3, Config{})
	for range 20 {
		var reqs []Request
		type result struct {
			v    []float32
			want float32
		}
		var results []result
		for r := range 3 {
			p, x := floats(t, 1)
			x[0] = float32(r + 1)
			// The second all-reduce reduces the result of the first, which belongs to another communicator on the same
			// stream: 3 × 6.
			reqs = append(reqs, allReduce(a[r], p, p, 1), allReduce(b[r], p, p, 1))
			results = append(results, result{x, 18})
		}
		if err := Submit(reqs); err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.v[0] != r.want {
				t.Fatalf("rank %d has %v, want %v", i, r.v[0], r.want)
			}
		}
	}
}

// Counts in the device's memory are read when the work runs, here after a group of other work.
func TestDeviceCounts(t *testing.T) {
	c := world(t, 2, Config{})
	d, err := deviceOf(0)
	if err != nil {
		t.Fatal(err)
	}
	p, x := floats(t, 64)
	at := func(i int) uintptr { return p + uintptr(4*i) }
	var reqs []Request
	for r := range c {
		x[32*r], x[32*r+1], x[32*r+2] = float32(10*r), float32(10*r+1), float32(10*r+2)
		h, err := Alloc(d, 8*8)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = Free(h) })
		list := func(i int) unsafe.Pointer {
			a := h + uintptr(16*i)
			return *(*unsafe.Pointer)(unsafe.Pointer(&a))
		}
		// rank 0 gets one from each, rank 1 two
		for i, v := range [4][2]int64{{1, 2}, {0, 1}, {int64(1 + r), int64(1 + r)}, {0, int64(1 + r)}} {
			*(*[2]int64)(list(i)) = v
		}
		reqs = append(reqs, Request{Comm: c[r], Collective: uint32(collective.AllToAllVDevice),
			Type: uint32(datatype.Float32), Send: at(32 * r), Recv: at(32*r + 8),
			SendCounts: list(0), SendDispls: list(1), RecvCounts: list(2), RecvDispls: list(3)})
	}
	if err := Submit(reqs); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(x[8:10], x[40:44]), "[0 10] [1 2 11 12]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	reqs[0].RecvDispls = nil
	if err := Check(&reqs[0]); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "RecvDispls") {
		t.Errorf("without an array: %v", err)
	}
}

func TestPreMulSum(t *testing.T) {
	c := world(t, 2, Config{})
	var half [4]byte
	binary.LittleEndian.PutUint32(half[:], math.Float32bits(0.5))
	var ops []uint32
	for range 5 {
		op, err := OpCreate(c[0], uint32(datatype.Float32), unsafe.Pointer(&half), true)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	if err := OpDestroy(c[0], ops[2]); err != nil {
		t.Fatal(err)
	}
	op, err := OpCreate(c[0], uint32(datatype.Float32), unsafe.Pointer(&half), true)
	if err != nil || op != ops[2] {
		t.Errorf("%#x is not used again but %#x: %v", ops[2], op, err)
	}
	if err := OpDestroy(c[1], op); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("destroyed as an operator of another communicator: %v", err)
	}
	p, x := floats(t, 1)
	x[0] = 8
	q, r := allReduce(c[0], p, p, 1), allReduce(c[1], p, p, 1)
	q.Op = op
	if err := Check(&q); err != nil {
		t.Fatal(err)
	}
	if q.Op != uint32(datatype.PreMulSum) || uint32(q.Scalar) != math.Float32bits(0.5) {
		t.Errorf("Check left operator %#x and factor %#x", q.Op, q.Scalar)
	}
	r.Op = op
	if err := Check(&r); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("another communicator's operator: %v", err)
	}
}

func TestSplitJoinsAndLeaves(t *testing.T) {
	c := world(t, 3, Config{Timeout: time.Hour})
	kids := make([]Handle, 3)
	for r, h := range c {
		color := 0
		if r == 1 {
			color = goccl.NoColor
		}
		k, err := CommSplitStart(object[Open](t, h), color, -r, nil)
		if err != nil {
			t.Fatal(err)
		}
		kids[r] = k
	}
	if kids[1] != 0 {
		t.Errorf("a rank without color got %#x", uint64(kids[1]))
	}
	if err := CommWait(c[1]); err != nil {
		t.Error(err)
	}
	for _, r := range []int{0, 2} {
		if err := CommWait(kids[r]); err != nil {
			t.Fatal(err)
		}
		info, err := CommInfoGet(kids[r])
		if want := map[int]int{0: 1, 2: 0}[r]; err != nil || int(info.Rank) != want || info.Size != 2 {
			t.Errorf("rank %d: %+v %v", r, info, err)
		}
		if c, err := comms.get(kids[r]); err != nil || c.cfg.Timeout != time.Hour {
			t.Errorf("rank %d does not have its parent's timeout: %v", r, err)
		}
	}
	for _, h := range []Handle{kids[2], kids[0], c[2], c[0], c[1]} { // one thread waits for none of its other ranks
		if err := CommDestroy(h); err != nil {
			t.Error(err)
		}
	}
	local.mu.Lock()
	defer local.mu.Unlock()
	if len(local.count) != 0 {
		t.Errorf("jobs are left: %v", local.count)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("GOCCL_DEVICE", "toaster")
	if _, err := DeviceCurrent(0); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "toaster") {
		t.Error(err)
	}
	t.Setenv("GOCCL_TIMEOUT", "90s")
	if c, err := (Config{}).withDefaults(time.Second); err != nil || c.Timeout != 90*time.Second {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := (Config{Timeout: time.Minute}).withDefaults(time.Second); err != nil || c.Timeout != time.Minute {
		t.Errorf("%+v %v", c, err)
	}
	t.Setenv("GOCCL_TIMEOUT", "soon")
	if _, err := (Config{}).withDefaults(time.Second); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}
