//go:build cgo && linux

package ncclabi

import (
	"encoding/binary"
	"errors"
	"math"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const stream = 0x51

func mock(t *testing.T) *Library {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	so := filepath.Join(t.TempDir(), "libnccl.so.2")
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-shared", "-fPIC", "-o", so, "testdata/mocknccl.c",
		"-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := Open(so)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Host memory outside the Go heap, as device memory would be.
func buffer(t *testing.T) (uintptr, []float32) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	p := unsafe.Pointer(unsafe.SliceData(b))
	return uintptr(p), unsafe.Slice((*float32)(p), 1024)
}

func TestOneRank(t *testing.T) {
	l := mock(t)
	if v, err := l.Version(); err != nil || v != 22809 || l.VersionString() != "2.28.9" {
		t.Errorf("version %d %s %v", v, l.VersionString(), err)
	}
	id, err := l.UniqueID()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.InitRank(0, 1, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	ps, s := buffer(t)
	pr, r := buffer(t)
	x := &Call{Send: ps, Recv: pr, Count: 1024, Type: 7, Stream: stream}
	with := func(op int) *Call {
		y := *x
		y.Op = op
		return &y
	}
	for i, do := range []func() error{
		func() error { return c.Enqueue(AllReduce, x) },
		func() error { return c.Enqueue(AllGather, x) },
		func() error { return c.Enqueue(ReduceScatter, with(2)) },
		func() error { return c.Enqueue(AlltoAll, x) },
		func() error { return c.Enqueue(Broadcast, x) },
		func() error { return c.Enqueue(Reduce, with(3)) },
		func() error { return c.Enqueue(Gather, x) },
		func() error {
			return l.Group(0, func() error { return errors.Join(c.Enqueue(Send, x), c.Enqueue(Recv, x)) })
		},
	} {
		for k := range s {
			s[k] = float32(1000*i + k)
		}
		if err := do(); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
		if r[0] != s[0] || r[1023] != s[1023] {
			t.Errorf("call %d copied %v … %v", i, r[0], r[1023])
		}
	}
	var half [8]byte
	binary.LittleEndian.PutUint32(half[:], math.Float32bits(0.5))
	op, err := c.PreMulSum(half, x.Type)
	if err != nil {
		t.Fatal(err)
	}
	s[3], x.Op = 6, op
	if err := c.Enqueue(AllReduce, x); err != nil || r[3] != 3 {
		t.Errorf("premulsum: %v %v", r[3], err)
	}
	if err := errors.Join(c.DestroyOp(op), c.AsyncError(), c.Destroy(), c.Destroy()); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	l := mock(t)
	id, _ := l.UniqueID()
	c, err := l.InitRank(0, 1, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Destroy() }()
	var e *Error
	if err := c.Enqueue(AllReduce, &Call{Count: 1, Type: 99, Stream: stream}); !errors.As(err, &e) ||
		e.Call != "ncclAllReduce" ||
		e.Result != InvalidArgument || e.Text != "invalid argument" || e.Last != "type" {
		t.Errorf("got %v", err)
	}
	if err := c.Enqueue(Scatter, &Call{Type: 7, Stream: stream}); !errors.Is(err, ErrMissing) ||
		l.Has(Scatter) {
		t.Errorf("a function that is not there: %v", err)
	}
	if !l.Has(AlltoAll) {
		t.Error("Has(AlltoAll) is false")
	}
	id[5]++
	if _, err := l.InitRank(0, 1, id, 0); !errors.As(err, &e) {
		t.Errorf("another id: %v", err)
	}
	want := errors.New("mine")
	if err := l.Group(0, func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Group: %v", err)
	}
	if _, err := Open("/nonexistent/libnccl.so.2"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Open: %v", err)
	}
	if _, err := Open("libc.so.6"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("libc is no NCCL: %v", err)
	}
}

func TestManyRanksInOneProcess(t *testing.T) {
	l := mock(t)
	id, _ := l.UniqueID()
	var wg sync.WaitGroup
	for rank := range 4 {
		wg.Go(func() {
			c, err := l.InitRank(0, 4, id, rank)
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Destroy(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestCallsAllocateNothing(t *testing.T) {
	l := mock(t)
	id, _ := l.UniqueID()
	c, err := l.InitRank(0, 1, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Destroy() }()
	ps, _ := buffer(t)
	if n := testing.AllocsPerRun(100, func() {
		if err := c.Enqueue(AllReduce, &Call{Send: ps, Recv: ps, Count: 16, Type: 7, Stream: stream}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
