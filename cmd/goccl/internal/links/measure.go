package links

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/topo"
)

const (
	small      = 8
	odd        = 100_003   // bytes of a message that is neither aligned nor whole packets
	large      = 128 << 20 // bytes
	smallTimes = 500
	largeTimes = 16
	opTimeout  = 5 * time.Second
)

// member is one end of a pair.
type member struct {
	dev        device.Device
	engine     collective.Engine
	stream     device.Stream
	send, recv device.Ptr
	rank       int
	seq        uint64
}

// Measure examines the pair of two GPUs in this process. It does not end before the GPUs' kernels.
func Measure(ctx context.Context, a, b int) (v Verdict) {
	v = Verdict{A: a, B: b}
	var ends [2]member
	boots := bootstrap.NewLocalGroup(2)
	fail := func(err error) Verdict {
		v.Error = err.Error()
		return v
	}
	for r, ordinal := range []int{a, b} {
		dev, err := cuda.Open(ordinal)
		if err != nil {
			return fail(err)
		}
		defer func() { _ = dev.Close() }()
		ends[r].dev, ends[r].rank = dev, r
		if r == 0 {
			v.BusA = dev.Properties().BusID
		} else {
			v.BusB = dev.Properties().BusID
		}
	}
	err := both(func(r int) error {
		e, err := nvlink.New(ctx, nvlink.Config{Job: collective.Job{Bootstrap: boots[r], Device: ends[r].dev,
			OpTimeout: opTimeout}})
		if err != nil {
			return err
		}
		ends[r].engine = e
		if r == 0 {
			pairs, _ := e.Links()
			v.Link, v.Reason = pairs[0].Kind.String(), pairs[0].Reason
		}
		return nil
	})
	for r := range ends {
		if e := ends[r].engine; e != nil {
			defer func() { _ = e.Close() }()
		}
	}
	if err != nil {
		return fail(err)
	}
	if v.Micros, v.GBps, err = examine(ctx, &ends, large); err != nil {
		return fail(err)
	}
	return v
}

// both runs f for both ends at once.
func both(f func(r int) error) error {
	c := make(chan error, 1)
	go func() { c <- f(1) }()
	return errors.Join(f(0), <-c)
}

func examine(ctx context.Context, ends *[2]member, large int64) (micros, gbps float64, err error) {
	for r := range ends {
		m := &ends[r]
		if m.stream, err = m.dev.NewStream(); err != nil {
			return 0, 0, err
		}
		s, err := m.dev.Alloc(large)
		if err != nil {
			return 0, 0, err
		}
		d, err := m.dev.Alloc(large)
		if err != nil {
			return 0, 0, err
		}
		m.send, m.recv = s.Ptr(), d.Ptr()
		if err := m.dev.CopyIn(m.send, pattern(r, large)); err != nil {
			return 0, 0, err
		}
	}
	for _, n := range []int64{small, odd, large} {
		if _, err := exchange(ctx, ends, n, 1); err != nil {
			return 0, 0, err
		}
		for r := range ends {
			if err := ends[r].compare(n); err != nil {
				return 0, 0, err
			}
		}
	}
	t, err := exchange(ctx, ends, small, smallTimes)
	if err != nil {
		return 0, 0, err
	}
	micros = t.Seconds() * 1e6 / smallTimes
	if t, err = exchange(ctx, ends, large, largeTimes); err != nil {
		return 0, 0, err
	}
	return micros, largeTimes * float64(large) / t.Seconds() / 1e9, nil
}

// exchange sends n bytes both ways, several times, and returns how long that took.
func exchange(ctx context.Context, ends *[2]member, n int64, times int) (time.Duration, error) {
	start := time.Now()
	err := both(func(r int) error {
		m := &ends[r]
		for range times {
			m.seq += 2
			request := collective.Request{Send: m.send, Recv: m.recv, Count: n, Type: datatype.Uint8, Peer: 1 - r,
				Stream: m.stream}
			send, recv := request, request
			send.Collective, recv.Collective = collective.Send, collective.Recv
			if err := m.engine.Enqueue(m.seq, []collective.Request{send, recv}); err != nil {
				return err
			}
		}
		return errors.Join(m.stream.Synchronize(ctx), m.engine.Err())
	})
	return time.Since(start), err
}

// compare checks the first n bytes that have come from the other end, and clears them.
func (m *member) compare(n int64) error {
	got := make([]byte, n)
	if err := m.dev.CopyOut(got, m.recv); err != nil {
		return err
	}
	want := pattern(1-m.rank, n)
	if !bytes.Equal(got, want) {
		at := 0
		for got[at] == want[at] {
			at++
		}
		return fmt.Errorf("wrong data: byte %d of %d that end %d received is %#x, end %d sent %#x", at, n, m.rank, got[at],
			1-m.rank, want[at])
	}
	return m.dev.CopyIn(m.recv, make([]byte, n))
}

// pattern is what end r sends: every 8 bytes differ.
func pattern(r int, n int64) []byte {
	out := make([]byte, 0, n+8)
	for i := uint64(1); int64(len(out)) < n; i++ {
		out = binary.LittleEndian.AppendUint64(out, (i*2+uint64(r))*0x9e3779b97f4a7c15)
	}
	return out[:n]
}

// Verdict is what one pair of GPUs really does. A and B are numbers of CUDA.
type Verdict struct {
	A, B int
	// BusA and BusB are the PCI addresses.
	BusA, BusB string
	// Link is the link kind that goccl uses, like "NVLink", and Reason why it is no better.
	Link, Reason string
	// Micros is the time of an exchange of 8 bytes, both ways at once, with its launch.
	Micros float64
	// GBps is the bandwidth of large messages in each direction, both ways at once.
	GBps float64
	// Error is why the pair cannot be used; "" if all data was right.
	Error string
}

func (v *Verdict) Pair() string { return fmt.Sprintf("%d-%d", v.A, v.B) }

// Promise is the bandwidth in each direction that the link of a verdict promises, in GB/s; 0 if it is not known.
func (v *Verdict) Promise(m *topo.Machine) float64 {
	if m == nil {
		return 0
	}
	a, okA := m.GPU(v.BusA)
	b, okB := m.GPU(v.BusB)
	if !okA || !okB {
		return 0
	}
	if v.Link == "NVLink" {
		l, _ := m.Link(a.Index, b.Index)
		perLink := 25.0
		if major, _, _ := strings.Cut(a.Compute, "."); len(major) > 1 { // 10.0 and later
			perLink = 50
		}
		return perLink * float64(l.NVLinks)
	}
	return min(a.PCIeGBps, b.PCIeGBps)
}
