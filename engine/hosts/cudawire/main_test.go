package cudawire

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/transport"
)

// mock is set without a GPU: the mock driver runs no kernels, so that the tests emulate them.
var mock bool

// notes is the mock driver's trace.
var notes *mockcuda.Trace

func TestMain(m *testing.M) {
	is, cleanup, err := mockcuda.Setup()
	if mock = is; err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	dir := ""
	if mock {
		if dir, err = os.MkdirTemp("", "goccl-cudawire-"); err == nil {
			notes, err = mockcuda.NewTrace(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	code := m.Run()
	cleanup()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// ended, if it is not nil, is Config.ended of the ranks.
var ended func() (bool, error)

// rank is a rank of this process. Each rank counts as a separate host.
type rank struct {
	*Wire
	stream *cuda.Stream
	kernel *emulator // nil on a GPU
	arena  device.Allocation
	used   int64
}

// apart is a bootstrap that says that each rank is on a separate host.
type apart struct{ bootstrap.Bootstrap }

func (a apart) Hosts() []int {
	hosts := make([]int, a.WorldSize())
	for r := range hosts {
		hosts[r] = r
	}
	return hosts
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ranks are n ranks that are connected with each other. shape, if it is not nil, changes the geometry.
func ranks(t testing.TB, n int, net transport.Net, shape func(*geometry)) []*rank {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip(err)
	}
	gpus, err := cuda.Count()
	must(t, err)
	boots := bootstrap.NewLocalGroup(n)
	all := make([]*rank, n)
	for r := range n {
		dev, err := cuda.Open(r % gpus)
		must(t, err)
		w, err := New(Config{Job: collective.Job{Bootstrap: apart{boots[r]}, Device: dev, Timeout: 20 * time.Second,
			OpTimeout: time.Minute}, Net: net, ended: ended})
		must(t, err)
		if shape != nil {
			shape(&w.geo)
			must(t, w.reshape())
		}
		s, err := dev.NewStream()
		must(t, err)
		all[r] = &rank{Wire: w, stream: s.(*cuda.Stream)}
		if mock {
			all[r].kernel = emulate(t, w)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			_ = dev.Close()
			_ = boots[r].Close()
		})
	}
	errs := make(chan error, n)
	for r, w := range all {
		var peers []int
		for q := range n {
			if q != r {
				peers = append(peers, q)
			}
		}
		go func() { errs <- w.Connect(context.Background(), peers) }()
	}
	for range n {
		must(t, <-errs)
	}
	return all
}

// reshape applies a changed geometry, before there are links.
func (w *Wire) reshape() error {
	h := &w.build.head
	h.lanes, h.slots, h.slotBytes = uint32(w.geo.lanes), uint32(w.geo.slots), uint32(w.geo.slotBytes)
	h.least, w.build.geometry = uint32(w.geo.least), w.geo
	return nil
}

const arenaBytes = 48 << 20

// memory is a part of the rank's arena, until reset.
func (r *rank) memory(t testing.TB, n int64) device.Ptr {
	t.Helper()
	if r.arena == nil {
		var err error
		r.arena, err = r.dev.Alloc(arenaBytes)
		must(t, err)
	}
	p := r.arena.Ptr().Add(r.used)
	if r.used += (n + 255) &^ 255; r.used > arenaBytes {
		t.Fatal("the arena is full")
	}
	return p
}

func (r *rank) reset() { r.used = 0 }

func (r *rank) fill(t testing.TB, p device.Ptr, b []byte) {
	t.Helper()
	if len(b) > 0 {
		must(t, r.dev.CopyIn(p, b))
	}
}

func (r *rank) read(t testing.TB, p device.Ptr, n int64) []byte {
	t.Helper()
	b := make([]byte, n)
	if n > 0 {
		must(t, r.dev.CopyOut(b, p))
	}
	return b
}

// wait waits until the rank's phases have ended.
func (r *rank) wait(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(t, r.stream.Synchronize(ctx))
	if r.kernel != nil {
		r.kernel.done.Wait()
	}
	must(t, r.Err())
}

var someOp = wire.Op{Name: "send", Seq: 1}
