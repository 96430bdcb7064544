//go:build cgo && linux

package ncclabi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/driver"
)

// A real library on real GPUs: GOCCL_TEST_NCCL names it, else libnccl.so.2 of the loader's path. Skips where either is
// missing.
func TestRealLibrary(t *testing.T) {
	if err := driver.Load(); err != nil {
		t.Skip(err)
	}
	n, err := driver.DeviceCount()
	if err != nil || n == 0 {
		t.Skip("no GPU", err)
	}
	path := os.Getenv("GOCCL_TEST_NCCL")
	if path == "" {
		path = "libnccl.so.2"
	}
	l, err := Open(path)
	if err != nil {
		t.Skip(err)
	}
	t.Logf("%s %s, %d GPUs", path, l.VersionString(), n)
	const count, f32, sum = 1 << 20, 7, 0
	ctxs := make([]uintptr, n)
	buf, streams := make([]uintptr, n), make([]driver.Stream, n)
	for i := range n {
		ctx, err := driver.RetainPrimary(i)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = driver.ReleasePrimary(i) }()
		ctxs[i] = uintptr(ctx)
		if buf[i], err = ctx.MemAlloc(4 * count); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ctx.MemFree(buf[i]) }()
		if streams[i], err = ctx.NewStream(0); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ctx.DestroyStream(streams[i]) }()
		data := bytes.Repeat(binary.NativeEndian.AppendUint32(nil, math.Float32bits(float32(i+1))), count)
		if err := ctx.CopyIn(buf[i], data, streams[i]); err != nil {
			t.Fatal(err)
		}
	}
	id, err := l.UniqueID()
	if err != nil {
		t.Fatal(err)
	}
	comms, errs := make([]*Comm, n), make([]error, n)
	var ranks sync.WaitGroup
	for i := range n {
		ranks.Go(func() { comms[i], errs[i] = l.InitRank(ctxs[i], n, id, i) })
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if err := l.Group(ctxs[0], func() error {
		for i, c := range comms {
			if err := c.Enqueue(AllReduce, &Call{Send: buf[i], Recv: buf[i], Count: count, Type: f32, Op: sum,
				Stream: uintptr(streams[i])}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(60 * time.Second)
	for i := range n {
		for {
			done, err := driver.Context(ctxs[i]).StreamDone(streams[i])
			if err != nil {
				t.Fatal(err)
			}
			if done {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the all-reduce does not end")
			}
			time.Sleep(time.Millisecond)
		}
		last := make([]byte, 4)
		if err := driver.Context(ctxs[i]).CopyOut(last, buf[i]+4*(count-1), streams[i]); err != nil {
			t.Fatal(err)
		}
		if got, want := math.Float32frombits(binary.LittleEndian.Uint32(last)), float32(n*(n+1)/2); got != want {
			t.Errorf("GPU %d: %v, want %v", i, got, want)
		}
	}
	for _, c := range comms {
		if err := c.AsyncError(); err != nil {
			t.Error(err)
		}
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	}
}
