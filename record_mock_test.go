package goccl_test

import (
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/test/commtest"
	"github.com/goccl/goccl/record"
)

// On a GPU the end of an operation is found out by looking at the GPU's progress.
func TestOnMockRecordsAreSampled(t *testing.T) {
	t.Setenv("GOCCL_VERDICT_AFTER", "400ms")
	c := commtest.OnMock(t, 4, nil)[1]
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
		if ended == 3 && r.Engine == record.EngineOnGPU {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", r)
		}
	}
}
