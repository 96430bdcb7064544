package executor_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/transport"
)

// countedRank is a rank's buffers of an all-to-all with counts: input, output, and the table.
type countedRank struct {
	dev   device.Device
	x     *executor.ExecutionPlan
	rank  int
	n     int
	block uint64
	mem   [3]device.Allocation
}

func newCountedRank(x *executor.ExecutionPlan, dev device.Device, rank, n int, block uint64) (*countedRank, error) {
	c := &countedRank{dev: dev, x: x, rank: rank, n: n, block: block}
	for i, size := range []uint64{uint64(n) * block, uint64(n) * block, 8 * uint64(n*n)} {
		var err error
		if c.mem[i], err = dev.Alloc(int64(size)); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *countedRank) close() error {
	var errs []error
	for _, m := range c.mem {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

func (c *countedRank) args(s device.Stream, launch int) executor.Args {
	return executor.Args{Send: c.mem[0].Ptr(), Recv: c.mem[1].Ptr(), Message: uint64(c.n) * c.block,
		Type: datatype.Uint8, Stream: s, Counts: c.mem[2].Ptr(), Seq: uint64(launch)}
}

// input returns the input of this rank in a launch.
func (c *countedRank) input(launch int) (in []byte) {
	for dst := range c.n {
		in = append(in, c.blockOf(launch, c.rank, dst)...)
	}
	return in
}

// blockOf returns the block of one rank's input that is for another: a different byte fills each.
func (c *countedRank) blockOf(launch, src, dst int) []byte {
	return bytes.Repeat([]byte{byte(1 + launch*c.n*c.n + src*c.n + dst)}, int(c.block))
}

const untouched = 0xa5

func (c *countedRank) prepare(launch int, table []uint64) error {
	words := make([]byte, 0, 8*len(table))
	for _, count := range table {
		words = binary.NativeEndian.AppendUint64(words, count)
	}
	return errors.Join(c.dev.CopyIn(c.mem[0].Ptr(), c.input(launch)),
		c.dev.CopyIn(c.mem[1].Ptr(), bytes.Repeat([]byte{untouched}, c.n*int(c.block))), c.dev.CopyIn(c.mem[2].Ptr(), words))
}

func (c *countedRank) check(launch int, table []uint64) error {
	got := make([]byte, c.n*int(c.block))
	if err := c.dev.CopyOut(got, c.mem[1].Ptr()); err != nil {
		return err
	}
	want := executor.CountedOutput(c.rank, c.n, c.block, table, untouched, func(src int) []byte {
		return c.blockOf(launch, src, c.rank)
	})
	if !bytes.Equal(got, want) {
		return fmt.Errorf("launch %d, blocks of %d bytes: rank %d got wrong bytes with counts %d", launch, c.block, c.rank,
			table)
	}
	return nil
}

// counts runs a plan with tables that change from launch to launch: eagerly, and on GPUs as replays of a graph. Bytes
// behind a count stay as they were, since the buffers are registered where peers touch them.
func (j *job) counts(t *testing.T, p *plan.Plan, graph bool) {
	t.Helper()
	n, most := len(j.execs), uint64(300_000)
	if testing.Short() {
		most = 30_000
	}
	xs := j.load(t, p, executor.Registered())
	ctx := bounded(t)
	if err := j.each(func(r int) (err error) {
		c, err := newCountedRank(xs[r], j.devs[r], r, n, most)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		for _, m := range c.mem[:2] {
			if err := j.execs[r].Register(ctx, m.Ptr()); err != nil {
				return err
			}
		}
		for _, c.block = range []uint64{1, 37, 4096, most} {
			if err := c.launches(ctx, j.boots[r], graph); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// launches runs eight launches; with a graph, the second and later ones are replays.
func (c *countedRank) launches(ctx context.Context, boot bootstrap.Bootstrap, graph bool) (err error) {
	s, err := c.dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rng := rand.New(rand.NewPCG(c.block, 7)) // the same on all ranks
	launch := func(l int) error { return c.x.Execute(ctx, c.args(s, l)) }
	for l := range 8 {
		if graph && l == 1 {
			replay, exec, err := captured(s.(*cuda.Stream), 1, launch)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, exec.Close()) }()
			launch = replay
		}
		table := executor.RandomCounts(rng, c.n, c.block)
		if err := c.prepare(l, table); err != nil {
			return err
		}
		if err := boot.Barrier(ctx); err != nil { // a peer may get the input as soon as it launches
			return err
		}
		if err := errors.Join(launch(l), s.Synchronize(ctx)); err != nil {
			return err
		}
		if err := c.check(l, table); err != nil {
			return err
		}
		if err := boot.Barrier(ctx); err != nil {
			return err
		}
	}
	return nil
}

// captured captures n launches and returns a function that replays them.
func captured(s *cuda.Stream, n int, launch func(int) error) (func(int) error, *cuda.Exec, error) {
	if err := s.BeginCapture(cuda.CaptureRelaxed); err != nil {
		return nil, nil, err
	}
	var err error
	for i := range n {
		err = errors.Join(err, launch(i))
	}
	g, e := s.EndCapture()
	if err = errors.Join(err, e); err != nil {
		return nil, nil, err
	}
	exec, err := g.Instantiate()
	if err = errors.Join(err, g.Close()); err != nil {
		return nil, nil, err
	}
	return func(int) error { return exec.Launch(s) }, exec, nil
}

// TestCounts: all-to-alls whose counts lie in device memory move what the counts say, and leave the rest of the output
// alone.
func TestCounts(t *testing.T) {
	for name, p := range executor.CountedPlans(t, 4) {
		t.Run(name, func(t *testing.T) { newJob(t, 4, openHost).counts(t, p, false) })
	}
}

// TestCountsOverHosts is TestCounts with one rank per host.
func TestCountsOverHosts(t *testing.T) { countsOverHosts(t, 3, openHost) }

func countsOverHosts(t *testing.T, n int, open func(int) (device.Device, error)) {
	f := netfake.New(netfake.Options{Seed: 3, Repeat: 0.2})
	t.Cleanup(f.Close)
	j := newJobOn(t, layoutOf(n, 1), open, func(h int) transport.Net { return f.Net(fmt.Sprint(h)) })
	j.counts(t, executor.CountedPlans(t, n)["ports"], false)
}

// TestGPUCounts is TestCounts on GPUs, with a graph whose replays take the counts of their time.
func TestGPUCounts(t *testing.T) {
	n, open := commtest.GPUs(t)
	for name, p := range executor.CountedPlans(t, n) {
		t.Run(name, func(t *testing.T) { newJob(t, n, open).counts(t, p, true) })
	}
	t.Run("over hosts", func(t *testing.T) { countsOverHosts(t, 2, open) })
}

// TestWrongTables: a table that no op reads, or that lies askew, is refused.
func TestWrongTables(t *testing.T) {
	j := newJob(t, 2, openHost)
	plain, counted := j.load(t, turned(t, 2)), j.load(t, executor.CountedPlans(t, 2)["direct"])
	for says, x := range map[string]*executor.ExecutionPlan{"no op of plan turned has a count": plain[0],
		"no multiple of 8": counted[0]} {
		s, err := j.devs[0].NewStream()
		if err != nil {
			t.Fatal(err)
		}
		err = x.Execute(context.Background(), executor.Args{Message: 64, Type: datatype.Uint8, Stream: s, Counts: 0x1004})
		if !errors.Is(err, collective.ErrInvalidArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
