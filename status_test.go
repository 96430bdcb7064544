package goccl

import (
	"context"
	"errors"
	"testing"

	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
)

// TestSynchronizeAsks: what a kernel beside the engine's reports is known when its stream has ended.
func TestSynchronizeAsks(t *testing.T) {
	d, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewComm(context.Background(), Config{Bootstrap: bootstrap.NewLocalGroup(1)[0], Device: d})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var gaveUp error
	c.status.AlsoAsk(func() error { return gaveUp })
	for _, want := range []error{nil, ErrTimeout} {
		gaveUp = want
		if err := c.AsyncError(); !errors.Is(err, want) {
			t.Errorf("AsyncError: %v, want %v", err, want)
		}
		if err := c.Synchronize(t.Context(), s); !errors.Is(err, want) {
			t.Errorf("Synchronize: %v, want %v", err, want)
		}
	}
}
