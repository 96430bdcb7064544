package share

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
)

// buffersRank frees and allocates memory at random, and reads peers' memory through the addresses that peers tell it.
func buffersRank(ctx context.Context, b bootstrap.Bootstrap, open opener) (err error) {
	dev, err := open(b.Rank())
	if err != nil {
		return err
	}
	var use device.Device = dev
	if h, ok := dev.(*host.Device); ok {
		o := &owner{Device: h}
		o.free.Store(1000)
		use = struct {
			device.Device
			regions
		}{h, o}
	}
	s := NewBuffers(b, 4, use)
	stop := make(chan struct{})
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				s.Sweep(always)
			}
		}
	}()
	err = buffersRounds(ctx, b, dev, s)
	close(stop)
	<-swept
	return errors.Join(err, s.Close(), dev.Close())
}

// buffersRounds: in each round the ranks tell each other the addresses of a buffer, if At knows them.
func buffersRounds(ctx context.Context, b bootstrap.Bootstrap, dev device.Device, s *Buffers) error {
	const slots, rounds = 6, 200
	rank, n := b.Rank(), b.WorldSize()
	random := rand.New(rand.NewPCG(uint64(rank), 1))
	gpu, _ := dev.(*cuda.Device)
	var mem [slots]device.Allocation
	at, known := make([]uint64, n), 0
	for round := range rounds {
		i := random.IntN(slots)
		if mem[i] != nil && random.IntN(8) == 0 {
			if err := mem[i].Close(); err != nil {
				return err
			}
			mem[i] = nil
		}
		alloc := dev.Alloc
		if gpu != nil && random.IntN(2) == 0 {
			alloc = gpu.AllocLegacy
		}
		if mem[i] == nil {
			var err error
			if mem[i], err = alloc(64 << 10); err != nil {
				return err
			}
		}
		p := mem[i].Ptr().Add(8 * random.Int64N(1000))
		stamp := binary.LittleEndian.AppendUint64(nil, uint64(rank<<32|round))
		if err := dev.CopyIn(p, stamp); err != nil {
			return err
		}
		var told []byte
		ok := s.At(p, 8, at)
		if round == rounds-1 {
			ok = s.Await(p, 8, at, 20*time.Second)
		}
		for r := range n {
			if ok && r != rank {
				known++
			}
			if !ok {
				at[r] = 0
			}
			told = binary.LittleEndian.AppendUint64(told, at[r])
		}
		records, err := b.AllGather(ctx, told)
		if err != nil {
			return err
		}
		for r, rec := range records {
			q := device.Ptr(binary.LittleEndian.Uint64(rec[8*rank:]))
			if q == 0 {
				continue
			}
			got := make([]byte, 8)
			if err := dev.CopyOut(got, q); err != nil {
				return fmt.Errorf("round %d: rank %d's buffer at %#x: %w", round, r, uintptr(q), err)
			}
			if v := binary.LittleEndian.Uint64(got); v != uint64(r<<32|round) {
				return fmt.Errorf("round %d: rank %d's buffer at %#x holds %#x", round, r, uintptr(q), v)
			}
		}
		if err := b.Barrier(ctx); err != nil {
			return err
		}
	}
	if known < n-1 {
		return fmt.Errorf("rank %d never knew an address", rank)
	}
	return nil
}

// Ranks that allocate and free at random read the right memory of each other.
func TestBuffersAtRandom(t *testing.T) {
	onDevices(t, func(t *testing.T, open opener) {
		if err := errors.Join(each(4, func(_ int, b bootstrap.Bootstrap) error {
			return buffersRank(t.Context(), b, open)
		})...); err != nil {
			t.Fatal(err)
		}
	})
}

// The same with a process for each rank.
func TestBuffersProcesses(t *testing.T) { processes(t) }
