package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/watch/record"
)

// On a GPU the end of an operation is found out by looking at the GPU's progress, on one host and on two.
func TestOnMockRecordsAreSampled(t *testing.T) {
	commtest.NeedMock(t)
	t.Setenv("GOCCL_VERDICT_AFTER", "400ms")
	for engine, hosts := range map[string][]int{record.EngineOnGPU: {0, 0, 0, 0},
		record.EngineOfHostsOnGPUs: {0, 0, 1, 1}} {
		t.Run(engine, func(t *testing.T) {
			c := commtest.NewOn(t, hosts, func(r int) (device.Device, error) { return cuda.Open(r % 4) }, nil)[1]
			areSampled(t, c, engine)
		})
	}
}

func areSampled(t *testing.T, c *goccl.Comm, engine string) {
	s, p := commtest.MockStream(t, c), commtest.Scratch(t, c)
	for range 3 {
		if err := c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, s); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r := c.Records()
		ended := 0
		for _, o := range r.Operations {
			if o.State == record.Ended && o.Sampled && o.Ended >= o.Enqueued {
				ended++
			}
		}
		if ended == 3 && r.Engine == engine {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", r)
		}
	}
}

// A captured operation does not wait, whatever replays of its graph do, and neither does one behind a long queue.
func TestOnMockCapturedOperationsDoNotWait(t *testing.T) {
	commtest.NeedMock(t)
	t.Setenv("GOCCL_VERDICT_AFTER", "200ms")
	for engine, hosts := range map[string][]int{record.EngineOnGPU: {0, 0, 0, 0},
		record.EngineOfHostsOnGPUs: {0, 0, 1, 1}} {
		t.Run(engine, func(t *testing.T) {
			c := commtest.NewOn(t, hosts, func(r int) (device.Device, error) { return cuda.Open(r % 4) }, nil)[1]
			s, p := commtest.MockStream(t, c), commtest.Scratch(t, c)
			call := func() error { return c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, s) }
			if err := call(); err != nil {
				t.Fatal(err)
			}
			x, err := commtest.Capture(s, cuda.CaptureThreadLocal, func() error { return errors.Join(call(), call()) })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = x.Close() })
			if err := call(); err != nil {
				t.Fatal(err)
			}
			r := c.Records()
			for i, want := range []bool{false, true, true, false} {
				if o := r.Operations[i]; (o.State == record.Captured) != want || want && (o.IsOpen() || o.Ended != 0) {
					t.Errorf("%+v", o)
				}
			}
			if r.Captured != 2 || r.Collectives != 4 {
				t.Errorf("%d of %d are captured", r.Captured, r.Collectives)
			}
		})
	}
}
