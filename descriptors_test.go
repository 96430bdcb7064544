package goccl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/testutil"
)

// descriptors counts the descriptors that communicators hold besides the bootstrap's.
func (k *rank) descriptors() error {
	const comms = 4
	before := testutil.Held()
	for range comms {
		c, err := k.comm(k.boot)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
	}
	if err := k.boot.Barrier(context.Background()); err != nil {
		return err
	}
	// Each communicator has its arena; the process has its fd server.
	held := testutil.Held()
	each := float64(held.Descriptors-before.Descriptors) / comms
	if each > 1.5 {
		return fmt.Errorf("%.2f descriptors for each communicator of %d ranks\n%s", each, k.Size, held.Detail)
	}
	return k.boot.Barrier(context.Background())
}

// TestDescriptorsOfCommunicators: their number does not grow with the number of ranks.
func TestDescriptorsOfCommunicators(t *testing.T) {
	startJob(t, task{Do: "descriptors", Size: 8, Victim: -1}).await("done", everyone(8), time.Minute)
}
