package nvlink

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// rig is all GPUs of the machine as ranks of this process.
type rig struct {
	t       *testing.T
	devs    []*cuda.Device
	engines []*Engine
	streams []*cuda.Stream
	send    []device.Allocation
	recv    []device.Allocation
}

func newRig(t *testing.T, bytes int64) *rig {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: ", err)
	}
	n, err := cuda.Count()
	if err != nil {
		t.Fatal(err)
	}
	if n < 2 {
		t.Skip("needs two GPUs")
	}
	r := &rig{t: t, devs: make([]*cuda.Device, n), engines: make([]*Engine, n), streams: make([]*cuda.Stream, n), send: make([]device.Allocation, n), recv: make([]device.Allocation, n)}
	boots := bootstrap.NewLocalGroup(n)
	r.each(func(i int) error {
		d, err := cuda.Open(i)
		if err != nil {
			return err
		}
		r.devs[i] = d
		if r.engines[i], err = New(context.Background(), Config{Bootstrap: boots[i], Device: d, OpTimeout: 10 * time.Second}); err != nil {
			return err
		}
		s, err := d.NewStream()
		if err != nil {
			return err
		}
		r.streams[i] = s.(*cuda.Stream)
		if r.send[i], err = d.Alloc(bytes); err != nil {
			return err
		}
		r.recv[i], err = d.Alloc(bytes)
		return err
	})
	t.Cleanup(func() {
		r.each(func(i int) error { return r.engines[i].Close() })
		for i := range n {
			_ = boots[i].Close()
			_ = r.devs[i].Close()
		}
	})
	return r
}

// each runs f for every rank at once and fails the test on any error.
func (r *rig) each(f func(i int) error) {
	r.t.Helper()
	errs := make([]error, len(r.devs))
	var wg sync.WaitGroup
	for i := range r.devs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = f(i)
		}()
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			r.t.Fatalf("rank %d: %v", i, err)
		}
	}
}

// graphTime is the time of one call in µs when ops of them are replayed from a graph: the median over replays of the slowest rank.
func (r *rig) graphTime(ops int, req func(i int) algorithm.Request) float64 {
	return r.batchTime(ops, func(i int) []algorithm.Request { return []algorithm.Request{req(i)} })
}

// requests is rank i's part of a collective in floats; bytes is the whole buffer, as nccl-tests counts it.
func (r *rig) requests(c algorithm.Collective, i int, bytes int64) []algorithm.Request {
	n := len(r.devs)
	q := algorithm.Request{Collective: c, Send: r.send[i].Ptr(), Recv: r.recv[i].Ptr(), Count: bytes / 4, Type: datatype.Float32}
	switch c {
	case algorithm.Send:
		in := q
		q.Peer, in.Collective, in.Peer = (i+1)%n, algorithm.Recv, (i+n-1)%n
		return []algorithm.Request{q, in}
	case algorithm.AllToAll:
		q.Count /= int64(n)
	case algorithm.AllToAllV:
		for p := range int64(n) {
			q.SendCounts, q.SendDispls = append(q.SendCounts, q.Count/int64(n)), append(q.SendDispls, p*q.Count/int64(n))
			q.RecvCounts, q.RecvDispls = append(q.RecvCounts, q.Count/int64(n)), append(q.RecvDispls, p*q.Count/int64(n))
		}
	}
	return []algorithm.Request{q}
}

// batchTime is graphTime for requests that go together.
func (r *rig) batchTime(ops int, req func(i int) []algorithm.Request) float64 {
	execs := make([]*cuda.Exec, len(r.devs))
	r.each(func(i int) error {
		s := r.streams[i]
		if err := s.BeginCapture(cuda.CaptureRelaxed); err != nil {
			return err
		}
		for range ops {
			q := req(i)
			for k := range q {
				q[k].Stream = s
			}
			if err := r.engines[i].Enqueue(1, q); err != nil {
				return err
			}
		}
		g, err := s.EndCapture()
		if err != nil {
			return err
		}
		defer func() { _ = g.Close() }()
		execs[i], err = g.Instantiate()
		return err
	})
	const replays = 7
	times := make([][replays]float64, len(r.devs))
	r.each(func(i int) error {
		s := r.streams[i]
		defer func() { _ = execs[i].Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for k := range replays + 2 {
			// The first launch absorbs the ranks' skew; the second is timed.
			if err := execs[i].Launch(s); err != nil {
				return err
			}
			a, err := s.Record()
			if err != nil {
				return err
			}
			if err := execs[i].Launch(s); err != nil {
				return err
			}
			b, err := s.Record()
			if err != nil {
				return err
			}
			if err := s.Synchronize(ctx); err != nil {
				return err
			}
			if err := r.engines[i].Err(); err != nil {
				return err
			}
			sec, err := b.Since(a)
			if err != nil {
				return err
			}
			_ = a.Close()
			_ = b.Close()
			if k >= 2 {
				times[i][k-2] = sec * 1e6 / float64(ops)
			}
		}
		return nil
	})
	slowest := make([]float64, replays)
	for k := range replays {
		for i := range times {
			slowest[k] = max(slowest[k], times[i][k])
		}
	}
	slices.Sort(slowest)
	return slowest[replays/2]
}

// TestGPUSweep times every variant over sizes and thread counts, in graphs: the raw material of the selection table. It runs only when
// GOCCL_SWEEP names a file for the result.
func TestGPUSweep(t *testing.T) {
	out := os.Getenv("GOCCL_SWEEP")
	if out == "" {
		t.Skip("set GOCCL_SWEEP to a file")
	}
	r := newRig(t, 256<<20)
	n := int64(len(r.devs))
	type point struct {
		Collective, Variant string
		Bytes               int64
		Micros              float64
	}
	var points []point
	for _, c := range []algorithm.Collective{algorithm.AllReduce, algorithm.AllGather, algorithm.ReduceScatter} {
		for bytes := int64(1 << 10); bytes <= 64<<20; bytes *= 4 {
			best, bestName := 1e9, ""
			for _, name := range []string{"one_shot_ll", "one_shot_ll128", "two_shot_ll", "two_shot_ll128"} {
				v, err := parseVariant(name)
				if err != nil {
					t.Fatal(err)
				}
				if c != algorithm.AllReduce && v.twoShot || bytes > 4<<20 && v.protocol == ll || bytes > 1<<20 && c == algorithm.AllReduce && !v.twoShot {
					continue
				}
				for _, threads := range []int{64, 128, 256, 512} {
					full := fmt.Sprintf("%s/%d", name, threads)
					for _, e := range r.engines {
						if err := e.table.force(c.String() + ":" + full); err != nil {
							t.Fatal(err)
						}
					}
					count := bytes / 4
					if c != algorithm.AllReduce {
						count /= n
					}
					ops := int(max(2, min(200, (256<<20)/bytes)))
					us := r.graphTime(ops, func(i int) algorithm.Request {
						return algorithm.Request{Collective: c, Send: r.send[i].Ptr(), Recv: r.recv[i].Ptr(), Count: count, Type: datatype.Float32}
					})
					points = append(points, point{c.String(), full, bytes, us})
					if us < best {
						best, bestName = us, full
					}
				}
			}
			t.Logf("%-14v %9d B  %8.2f us  %s", c, bytes, best, bestName)
		}
	}
	for _, c := range []algorithm.Collective{algorithm.Send, algorithm.AllToAll, algorithm.AllToAllV, algorithm.Broadcast, algorithm.Reduce} {
		for bytes := int64(1 << 10); bytes <= 64<<20; bytes *= 4 {
			ops := int(max(2, min(200, (256<<20)/bytes)))
			us := r.batchTime(ops, func(i int) []algorithm.Request { return r.requests(c, i, bytes) })
			points = append(points, point{c.String(), "", bytes, us})
			t.Logf("%-14v %9d B  %8.2f us  %6.1f GB/s", c, bytes, us, float64(bytes)/us/1e3)
		}
	}
	data, err := json.MarshalIndent(points, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
