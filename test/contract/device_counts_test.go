package contract_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// The stream computes counts, mixed with all-to-all-v with host counts and groups of other work, without any wait in
// between.
func TestHostDeviceCounts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		comms := commtest.New(t, n, commtest.Host, nil)
		for range 4 {
			seed := rand.Uint64()
			x := drawExchanges(n, 9, []int64{40, 3000, 60_000}[seed%3], seed)
			exchangeAll(t, comms, x, seed, (*exchangeRank).eager)
		}
	}
}

func TestGPUDeviceCounts(t *testing.T) {
	n, open := commtest.GPUs(t)
	comms := commtest.New(t, n, open, nil)
	for _, most := range []int64{40, 3000, 60_000, 600_000} {
		seed := rand.Uint64()
		exchangeAll(t, comms, drawExchanges(n, 30, most, seed), seed, (*exchangeRank).eager)
	}
}

// A graph reads its counts anew each time.
func TestGPUDeviceCountsInGraph(t *testing.T) {
	comms := commtest.TwoGPUs(t)
	for _, most := range []int64{40, 60_000} {
		seed := rand.Uint64()
		x := drawExchanges(len(comms), 50, most, seed)
		for i := range x.types { // the graph's
			x.types[i] = datatype.Uint8
		}
		exchangeAll(t, comms, x, seed, (*exchangeRank).replayed)
	}
}

// uneven makes rank 0 send rank 1 one element more than rank 1 expects.
func uneven(comms []*goccl.Comm, op string, t *testing.T) error {
	var memory []device.Ptr
	for _, c := range comms {
		memory = append(memory, commtest.Scratch(t, c))
	}
	return commtest.Each(len(comms), func(r int) error {
		c, n := comms[r], int64(len(comms))
		var list []byte
		for i := range 4 {
			for p := range n {
				v := p * 1000 // displacements
				if i%2 == 0 {
					v = 900
				}
				if i == 0 && r == 0 && p == 1 {
					v++
				}
				list = binary.NativeEndian.AppendUint64(list, uint64(v))
			}
		}
		m := memory[r]
		if err := c.Device().CopyIn(m, list); err != nil {
			return err
		}
		s, err := c.Device().NewStream()
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		d := goccl.DeviceCounts{SendCounts: m, SendDispls: m.Add(8 * n), RecvCounts: m.Add(16 * n), RecvDispls: m.Add(24 * n)}
		if err := c.AllToAllVDevice(m.Add(64<<10), m.Add(512<<10), d, datatype.Int8, s); err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
		defer stop()
		err = c.Synchronize(ctx, s)
		for end := time.Now().Add(commtest.Soon); err == nil && r < 2 &&
			time.Now().Before(end); time.Sleep(time.Millisecond) {
			err = c.AsyncError() // a GPU's kernel ends before the host has read its report
		}
		if r > 1 {
			return nil // may or may not be complete by then
		}
		return commtest.Blames(err, goccl.ErrMismatch, op, 1-r)
	})
}

// Both ranks of a pair whose counts differ get an error that names the other, and the FIFOs stay consistent.
func TestDeviceCountsThatDiffer(t *testing.T) {
	commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		if n < 2 {
			t.Skip("one rank")
		}
		if err := uneven(commtest.New(t, n, open, nil), "all_to_all_v_device", t); err != nil {
			t.Error(err)
		}
	})
}

// Checked mode compares the parameters that the host knows at the call: the operation and the type.
func TestDeviceCountsChecked(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.Check = true })
	var memory [2]device.Ptr
	for r := range memory {
		memory[r] = commtest.Scratch(t, comms[r])
	}
	counts := func(m device.Ptr) goccl.DeviceCounts {
		return goccl.DeviceCounts{SendCounts: m, SendDispls: m.Add(64), RecvCounts: m.Add(128), RecvDispls: m.Add(192)}
	}
	if err := commtest.Each(2, func(r int) error {
		m := memory[r]
		var err error
		if r == 0 {
			err = comms[r].AllToAllVDevice(m.Add(4096), m.Add(8192), counts(m), datatype.Int8, nil)
		} else {
			err = comms[r].AllToAllV(m, []int64{0, 0}, []int64{0, 0}, m, []int64{0, 0}, []int64{0, 0}, datatype.Int8, nil)
		}
		if !strings.Contains(fmt.Sprint(err), "all_to_all_v_device of int8") {
			return fmt.Errorf("rank %d: %v", r, err)
		}
		return commtest.Blames(err, goccl.ErrMismatch, []string{"all_to_all_v_device", "all_to_all_v"}[r], 1-r)
	}); err != nil {
		t.Error(err)
	}
	if err := conformance.Run(comms, conformance.Case{Collective: collective.AllToAllVDevice, Type: datatype.Int8,
		Count: 1000}); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
}

// Invalid addresses of the arrays are reported at the call; invalid contents when the operation runs.
func TestDeviceCountsArguments(t *testing.T) {
	c := commtest.New(t, 1, commtest.Host, nil)[0]
	m := commtest.Scratch(t, c)
	good := goccl.DeviceCounts{SendCounts: m, SendDispls: m.Add(8), RecvCounts: m.Add(16), RecvDispls: m.Add(24)}
	for name, spoil := range map[string]func(d *goccl.DeviceCounts){
		"SendCounts": func(d *goccl.DeviceCounts) { d.SendCounts = 0 },
		"RecvDispls": func(d *goccl.DeviceCounts) { d.RecvDispls += 4 },
	} {
		d := good
		spoil(&d)
		if err := c.AllToAllVDevice(m, m, d, datatype.Int8, nil); !errors.Is(err, goccl.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.AllToAllVDevice(m.Add(64), m.Add(128), good, datatype.Int8, nil); err != nil { // nothing at all
		t.Error(err)
	}
	absurd := binary.NativeEndian.AppendUint64(nil, 1<<60)
	if err := errors.Join(c.Device().CopyIn(m, absurd), c.Device().CopyIn(m.Add(16), absurd)); err != nil {
		t.Fatal(err)
	}
	if err := c.AllToAllVDevice(m.Add(64), m.Add(128), good, datatype.Int8, nil); !errors.Is(err,
		goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), "SendCounts[0]") {
		t.Errorf("an absurd count: %v", err)
	}
}

// Counts beyond the buffers' lengths access nothing outside of them: the rank itself gets an error, and its peers do
// not wait for it.
func TestDeviceCountsBeyondTheBuffers(t *testing.T) {
	commtest.OnKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		if n < 2 {
			t.Skip("one rank")
		}
		for _, c := range []struct {
			name                string
			array, entry, value int64 // the wrong value of rank 0
		}{{"SendCounts", 0, 1, 501}, {"SendCounts", 0, 0, 1 << 40}, {"SendDispls", 1, 1, 501}, {"SendDispls", 1, 1, -1},
			{"RecvCounts", 2, 1, 501},
			{"RecvDispls", 3, 0, 1 << 62}, {"RecvDispls", 3, 1, math.MinInt64}} {
			t.Run(fmt.Sprintf("%s[%d]=%d", c.name, c.entry, c.value), func(t *testing.T) {
				comms := commtest.New(t, n, open, nil)
				if err := commtest.Each(n,
					func(r int) error { return beyond(t, comms[r], c.array, c.entry, c.value, c.name) }); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// beyond is a rank's part of a call in which each rank sends each 500 of 1000 elements, except for one number of rank
// 0.
func beyond(t *testing.T, c *goccl.Comm, array, entry, value int64, name string) error {
	list := [][]int64{{500, 500}, {0, 500}, {500, 500}, {0, 500}}
	if c.Rank() == 0 {
		list[array][entry] = value
	} else if array == 0 && entry == 1 {
		list[2][0] = value // rank 1 expects as much
	} else if array == 2 && entry == 1 {
		list[0][0] = value
	}
	var raw []byte
	for _, l := range list {
		for _, v := range l {
			raw = binary.NativeEndian.AppendUint64(raw, uint64(v))
		}
	}
	m, dev := commtest.Scratch(t, c), c.Device()
	const guard = 4096
	send, recv := m.Add(64<<10), m.Add(512<<10)
	around := bytes.Repeat([]byte{0xee}, 1000+2*guard)
	if err := errors.Join(dev.CopyIn(m, raw), dev.CopyIn(recv.Add(-guard), around)); err != nil {
		return err
	}
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	d := goccl.DeviceCounts{SendCounts: m, SendDispls: m.Add(16), RecvCounts: m.Add(32), RecvDispls: m.Add(48),
		SendElements: 1000, RecvElements: 1000}
	if c.Rank() == 1 { // only rank 0 knows how long its buffers are
		d.SendElements, d.RecvElements = 0, 0
	}
	if err := c.AllToAllVDevice(send, recv, d, datatype.Int8, s); err != nil {
		if c.Rank() != 0 && errors.Is(err, goccl.ErrAborted) { // rank 0 has ended before this rank had its memory
			return nil
		}
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
	defer stop()
	err = c.Synchronize(ctx, s)
	for end := time.Now().Add(commtest.Soon); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err = c.AsyncError() // a GPU's kernel ends before the host has read its report
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("rank %d waits for ever", c.Rank())
	}
	if c.Rank() == 0 && (!errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), name[:4])) {
		return fmt.Errorf("rank 0: %w: want an invalid argument that names %s", err, name)
	}
	if err == nil {
		return fmt.Errorf("rank %d: no error", c.Rank())
	}
	if c.Rank() != 0 {
		return nil
	}
	if err := dev.CopyOut(around, recv.Add(-guard)); err != nil {
		return err
	}
	for i, b := range around {
		if (i < guard || i >= guard+1000) && b != 0xee {
			return fmt.Errorf("rank 0: byte %d of recv was written", i-guard)
		}
	}
	return nil
}

// A rank that does not call is named at the deadline, whatever the others' counts are.
func TestDeviceCountsWithoutAPeer(t *testing.T) {
	commtest.OnKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		if n < 2 {
			t.Skip("one rank")
		}
		comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 300 * time.Millisecond })
		var all sync.WaitGroup
		for r := range n - 1 {
			m := commtest.Scratch(t, comms[r]) // zeros
			all.Go(func() {
				s, err := comms[r].Device().NewStream()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = s.Close() }()
				if err := comms[r].AllToAllVDevice(m, m, goccl.DeviceCounts{SendCounts: m, SendDispls: m, RecvCounts: m,
					RecvDispls: m}, datatype.Int8, s); err != nil {
					t.Error(err)
					return
				}
				ctx, stop := context.WithTimeout(context.Background(), commtest.Soon)
				defer stop()
				err = comms[r].Synchronize(ctx, s)
				for end := time.Now().Add(commtest.Soon); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
					err = comms[r].AsyncError()
				}
				if !errors.Is(err, goccl.ErrTimeout) && !errors.Is(err, goccl.ErrAborted) {
					t.Errorf("rank %d: %v", r, err)
				}
			})
		}
		all.Wait()
	})
}
