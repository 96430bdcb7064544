package verdict_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("GOCCL_VERDICT_AFTER", "300ms"); err != nil {
		panic(err)
	}
	commtest.Main(m, map[string]func(*commtest.Process) error{
		"wait": waits, "busy": busy, "differ": differ, "order": order, "circle": circle, "slow": slow, "skewed": skewed,
		"splits": splits,
	})
}

// rank is one rank of a job with a communicator, memory and a stream.
type rank struct {
	*commtest.Process
	c   *goccl.Comm
	mem device.Allocation
	s   device.Stream
}

// with makes a rank, runs f and frees all.
func with(k *commtest.Process, f func(r *rank) error) (err error) {
	r := &rank{Process: k}
	if r.c, err = k.Comm(k.Boot); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.c.Close()) }()
	if r.mem, err = k.Device.Alloc(4096); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.mem.Close()) }()
	if r.s, err = k.Device.NewStream(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.s.Close()) }()
	for range 3 {
		if err := r.sum(100); err != nil {
			return err
		}
	}
	if err := r.c.Synchronize(context.Background(), r.s); err != nil {
		return err
	}
	return f(r)
}

func (r *rank) sum(count int64) error {
	return r.c.AllReduce(r.mem.Ptr(), r.mem.Ptr(), count, datatype.Int32, datatype.Sum, r.s)
}

// say reports a verdict as JSON.
func (r *rank) say(v *goccl.Verdict) { r.sayAs("verdict", v) }

func (r *rank) sayAs(event string, v *goccl.Verdict) {
	b, _ := json.Marshal(v)
	r.Say(event, errors.New(string(b)))
}

// await reports the first verdict of one of the kinds.
func (r *rank) await(event string, kinds ...fault.VerdictKind) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		v := r.c.Verdict()
		if v == nil {
			continue
		}
		for _, k := range kinds {
			if v.Kind == k {
				r.sayAs(event, v)
				return nil
			}
		}
	}
	return fmt.Errorf("the verdict is %v, want one of %v; the records: %+v", r.c.Verdict(), kinds, r.c.Records())
}

// verdicts returns what the ranks said.
func verdicts(t *testing.T, j *commtest.Job, event string, ranks []int) map[int]*goccl.Verdict {
	t.Helper()
	out := map[int]*goccl.Verdict{}
	for r, rep := range j.Await(event, ranks, time.Minute) {
		v := new(goccl.Verdict)
		if err := json.Unmarshal([]byte(rep.Text), v); err != nil {
			t.Fatalf("rank %d: %v: %s", r, err, rep.Text)
		}
		out[r] = v
	}
	return out
}
