package moe

import (
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
)

// The flight recorder has the operations, and names a rank that does not call one.
func TestRecords(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = time.Second })
	ranks := make([]*Rank, 2)
	if err := commtest.Each(2, func(r int) (err error) {
		if ranks[r], err = NewRank(comms[r], size); err == nil {
			err = all(ranks[r], 1, 3)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for r, c := range comms {
		found := map[string]int{}
		for _, o := range c.Records().Operations {
			if strings.HasPrefix(o.Collective, "moe_") {
				found[o.Collective]++
				if o.State != "ended" || o.Started < o.Enqueued || o.Ended < o.Started {
					t.Errorf("rank %d: %+v", r, o)
				}
			}
		}
		if found["moe_notify"] == 0 || found["moe_dispatch"] == 0 || found["moe_combine"] == 0 {
			t.Errorf("rank %d: %v", r, found)
		}
	}
	if err := ranks[0].notify(fixed, 3); !blamed(err, goccl.ErrTimeout, "moe_notify", 1) {
		t.Errorf("%v", err)
	}
	v := comms[0].Verdict()
	if v == nil || v.Kind != fault.VerdictMissing || v.Rank != 1 || v.Operation != "moe_notify" {
		t.Errorf("%+v", v)
	}
}
