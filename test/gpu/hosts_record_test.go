package gpu_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/watch/record"
)

// The flight recorder sees GPUs of several hosts get on: no alarm while operations are queued for longer than the time
// of a verdict, and a verdict on a rank that does not call.
func TestGPURecordsAcrossHosts(t *testing.T) {
	t.Setenv("GOCCL_VERDICT_AFTER", "500ms")
	comms := onGPUs(t, []int{0, 1})
	streams, buffers := make([]device.Stream, 2), make([]device.Ptr, 2)
	for r, c := range comms {
		s, err := commtest.GPUStream(c)
		if err != nil {
			t.Fatal(err)
		}
		streams[r], buffers[r] = s, commtest.Scratch(t, c)
	}
	sum := func(r int, count int64) error {
		return comms[r].AllReduce(buffers[r], buffers[r], count, datatype.Int32, datatype.Sum, streams[r])
	}
	sync := func(r int) error {
		ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
		defer stop()
		return comms[r].Synchronize(ctx, streams[r])
	}
	if err := commtest.Each(2, func(r int) error {
		for range 20 { // the queue never runs empty before the end
			for i := range 400 {
				if err := sum(r, []int64{100, 20_000, 250_000}[i%3]); err != nil {
					return err
				}
			}
		}
		return sync(r)
	}); err != nil {
		t.Fatal(err)
	}
	for r, c := range comms {
		if v := c.Verdict(); v != nil {
			t.Errorf("rank %d: an alarm: %+v", r, v)
		}
	}
	if err := sum(0, 100); err != nil {
		t.Fatal(err)
	}
	v := verdictOf(t, comms[0])
	if v.Kind != fault.VerdictMissing || v.Rank != 1 || v.Operation != "all_reduce" {
		t.Errorf("%+v", v)
	}
	if err := errors.Join(sum(1, 100), sync(0), sync(1)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(commtest.Soon); ; time.Sleep(5 * time.Millisecond) {
		ops := comms[0].Records().Operations
		if o := ops[len(ops)-1]; o.State == record.Ended && o.Sampled {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%+v", o)
		}
	}
}

func verdictOf(t *testing.T, c *goccl.Comm) *goccl.Verdict {
	t.Helper()
	for end := time.Now().Add(commtest.Soon); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if v := c.Verdict(); v != nil {
			return v
		}
	}
	t.Fatal("no verdict")
	return nil
}
