package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/cmd/goccl/internal/links"
)

// Each adapter has a verdict.
func TestAdapters(t *testing.T) {
	s := Source{NICs: func(context.Context) []links.NIC {
		return []links.NIC{{Net: "tcp", Name: "eth0", Speed: 12.5, Micros: 20, GBps: 3, DeviceMem: true},
			{Net: "ib", Error: "no libibverbs"}}
	}}
	var r report
	s.adapters(t.Context(), &r)
	fs := r.findings
	if len(fs) != 2 || fs[0].Status != OK || fs[0].Name != "tcp eth0" ||
		!strings.Contains(fs[0].Detail, "20.0 µs for 8 bytes, 3 GB/s (the adapter says 12.5;") ||
		!strings.Contains(fs[0].Detail, "GPU memory") || fs[1].Status != Fail || fs[1].Fix == "" || fs[1].Name != "ib" {
		t.Errorf("%+v", fs)
	}
}

// Pairs that do what their link promises share a line; each of the others has its own, with a fix.
func TestPairs(t *testing.T) {
	s := source(t, "4xpcie")
	m := machine(t, "4xpcie")
	for i := range m.GPUs {
		m.GPUs[i].PCIeGBps = 31.5
	}
	bus := func(i int) string { return m.GPUs[i].BusID }
	verdict := func(a, b int, link string, micros, gbps float64, failure string) links.Verdict {
		return links.Verdict{A: a, B: b, BusA: bus(a), BusB: bus(b), Link: link, Micros: micros, GBps: gbps, Error: failure}
	}
	found := []links.Verdict{
		verdict(0, 1, "PCIe", 5, 25, ""), verdict(0, 2, "host memory", 9, 24, ""), verdict(0, 3, "host memory", 8, 22, ""),
		verdict(1, 2, "host memory", 8, 3, ""), verdict(1, 3, "host memory", 500, 22, ""),
		verdict(2, 3, "", 0, 0, "it hangs"),
	}
	s.Links = func(_ context.Context, n int) ([]links.Verdict, error) {
		if n != 4 {
			t.Errorf("%d GPUs", n)
		}
		return found, errors.New("time is over")
	}
	r := report{area: "gpu"}
	s.pairs(t.Context(), &r, m, 4)
	want := []struct {
		name   string
		status Status
		detail string
	}{
		{"link 1-2", Warn, "host memory, all data right both ways; 8.0 µs for 8 bytes, 3 GB/s each way of 31.5"},
		{"link 1-3", Warn, "500.0 µs"},
		{"link 2-3", Fail, "it hangs"},
		{"link 0-1", OK, "PCIe, all data right both ways; at most 5.0 µs for 8 bytes, 25 GB/s each way of 31.5"},
		{"2 links", OK, "host memory, all data right both ways; at most 9.0 µs for 8 bytes, 22 to 24 GB/s each way of 31.5"},
		{"links", Warn, "time is over"},
	}
	if len(r.findings) != len(want) {
		t.Fatalf("%+v", r.findings)
	}
	for i, w := range want {
		f := r.findings[i]
		if f.Name != w.name || f.Status != w.status || !strings.Contains(f.Detail, w.detail) ||
			(f.Fix == "") != (f.Status == OK) {
			t.Errorf("%+v; want %+v", f, w)
		}
	}
}
