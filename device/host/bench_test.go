package host_test

import (
	"context"
	"testing"

	"github.com/goccl/goccl/device/host"
)

// Measure an empty kernel on an idle stream: the overhead of a stream for the smallest collective.
func BenchmarkLaunchSynchronize(b *testing.B) {
	d := open(b, 0)
	s := stream(b, d)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Launch("empty", 1, func(*host.Block) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if err := s.Synchronize(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLaunchSynchronous(b *testing.B) {
	d := open(b, 0)
	w, err := d.WrapStream(0)
	if err != nil {
		b.Fatal(err)
	}
	s := w.(*host.Stream)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Launch("empty", 1, func(*host.Block) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// A full queue: the cost of one launch among many.
func BenchmarkLaunchPipelined(b *testing.B) {
	d := open(b, 0)
	s := stream(b, d)
	ctx := context.Background()
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Launch("empty", 1, func(*host.Block) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if n++; n%1000 == 0 {
			_ = s.Synchronize(ctx)
		}
	}
	_ = s.Synchronize(ctx)
}

func BenchmarkLaunchFourBlocks(b *testing.B) {
	d := open(b, 0)
	s := stream(b, d)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Launch("empty", 4, func(b *host.Block) error { return b.Barrier() })
		if err := s.Synchronize(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
