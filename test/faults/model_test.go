package faults_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
)

// The random model: processes split, shrink, abort, are killed, stopped and continue, all determined by a shared seed.
// So each process knows its possible outcomes: a call succeeds, and then a sum has a bit of each member and no other
// bit, or it fails and names the victim. A job is rounds until one in which a rank is killed.

// What happens in a round.
const (
	eventSplit = iota
	eventAbort
	eventStop
	eventKill      // among sums
	eventKillSplit // in a split
	eventKillShrink
	numEvents
)

const (
	modelRanks = 4
	modelCount = 1 << 20     // elements of a large sum, for which processes use separate memory
	modelLimit = time.Minute // OpTimeout of the other rounds; no wait of theirs takes it
	// OpTimeout of rounds in which a rank is stopped; a busy machine must not look like a stopped rank
	modelPause = 8 * time.Second
)

// modelRound is the part of the seed's script for one round.
type modelRound struct {
	event, victim int
	delay         time.Duration // until the victim is killed or stopped
	colors        []int
	lists         []bool // by rank: whether it excludes the victim; the other ranks learn that from the agreement
	counts        []int64
}

func drawRound(rng *rand.Rand) modelRound {
	r := modelRound{event: rng.IntN(numEvents), victim: rng.IntN(modelRanks),
		delay: time.Duration(rng.IntN(12000)) * time.Microsecond}
	if r.event >= eventKill && rng.IntN(3) == 0 { // jobs with a kill are expensive
		r.event = rng.IntN(eventKill)
	}
	if r.event == eventStop && rng.IntN(2) == 0 { // and a stop lasts as long as its deadline
		r.event = rng.IntN(eventStop)
	}
	for range modelRanks {
		r.colors = append(r.colors, rng.IntN(2))
		r.lists = append(r.lists, rng.IntN(2) == 0)
		r.counts = append(r.counts, []int64{1, 100, 5000, 70001, modelCount}[rng.IntN(5)])
	}
	r.lists[(r.victim+1)%modelRanks] = true
	return r
}

func model(k *commtest.Process) error {
	rng := rand.New(rand.NewPCG(k.Seed, 3))
	for i := range k.Rounds {
		r := drawRound(rng)
		k.OpTimeout = modelLimit
		if r.event == eventStop {
			k.OpTimeout = modelPause * commtest.Slowness
		}
		m := &modelRank{Process: k, round: r, n: i}
		err := m.run()
		if err != nil {
			return fmt.Errorf("round %d, event %d, victim %d: %w", i, r.event, r.victim, err)
		}
		k.Say("round", nil)
		if r.event >= eventKill {
			return nil
		}
	}
	return nil
}

// modelRank is a rank in one round.
type modelRank struct {
	*commtest.Process
	round  modelRound
	n      int
	mem    [2]device.Allocation
	stream device.Stream
}

func (m *modelRank) run() (err error) {
	c, err := m.Comm(m.Boot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for i := range m.mem {
		if m.mem[i], err = m.Device.Alloc(4 * modelCount); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.mem[i].Close()) }()
	}
	if m.stream, err = m.Device.NewStream(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stream.Close()) }() // the latest
	bit := binary.LittleEndian.AppendUint32(nil, 1<<m.Rank)
	if err := m.Device.CopyIn(m.mem[0].Ptr(), bytes.Repeat(bit, modelCount)); err != nil {
		return err
	}
	if err := m.sums(c, commtest.Everyone(modelRanks)); err != nil {
		return err
	}
	// No rank dies while another is still in these sums: they would end with its death.
	if err := m.Boot.Barrier(context.Background()); err != nil {
		return err
	}
	switch m.round.event {
	case eventSplit:
		return m.split(c)
	case eventAbort:
		return m.aborted(c)
	case eventStop:
		return m.stopped(c)
	}
	return m.killed(c)
}

var errWrongSum = errors.New("a wrong sum")

// sums runs the round's all-reduces on c and checks them.
func (m *modelRank) sums(c *goccl.Comm, members []int) error {
	want := uint32(0)
	for _, r := range members {
		want |= 1 << r
	}
	element := binary.LittleEndian.AppendUint32(nil, want)
	for _, n := range m.round.counts {
		if err := c.AllReduce(m.mem[0].Ptr(), m.mem[1].Ptr(), n, datatype.Uint32, datatype.Sum, m.stream); err != nil {
			return err
		}
		if err := c.Synchronize(context.Background(), m.stream); err != nil {
			return err
		}
		got := make([]byte, 4*n)
		if err := m.Device.CopyOut(got, m.mem[1].Ptr()); err != nil {
			return err
		}
		if bytes.Equal(got, bytes.Repeat(element, int(n))) { // the race detector looks at each access of a loop
			continue
		}
		for i := 0; i < len(got); i += 4 {
			if x := binary.LittleEndian.Uint32(got[i:]); x != want {
				return fmt.Errorf("%w: element %d of %d is %#x, want %#x of ranks %v", errWrongSum, i/4, n, x, want, members)
			}
		}
	}
	return nil
}

// split makes communicators by color and runs all-reduces on them.
func (m *modelRank) split(c *goccl.Comm) error {
	var members []int
	for r, color := range m.round.colors {
		if color == m.round.colors[m.Rank] {
			members = append(members, r)
		}
	}
	sub, err := c.Split(context.Background(), m.round.colors[m.Rank], 0)
	if err != nil {
		return err
	}
	err = m.sums(sub, members)
	return errors.Join(err, sub.Close())
}

// restart replaces the stream, which keeps its failure.
func (m *modelRank) restart() error {
	s, err := m.Device.NewStream()
	if err != nil {
		return err
	}
	err = m.stream.Close()
	m.stream = s
	return err
}

// untilFailed runs all-reduces until one fails, which the victim must have caused.
func (m *modelRank) untilFailed(c *goccl.Comm) error {
	for {
		if err := m.sums(c, commtest.Everyone(modelRanks)); err != nil {
			return m.because(err)
		}
	}
}

// because returns nil if err names the victim.
func (m *modelRank) because(err error) error {
	var ge *goccl.Error
	switch {
	case errors.Is(err, errWrongSum) || !errors.As(err, &ge):
		return err
	case ge.Rank != m.Rank || m.Rank != m.round.victim && ge.Peer != m.round.victim:
		return fmt.Errorf("an error that rank %d must have because of rank %d: %w", m.Rank, m.round.victim, err)
	}
	return nil
}

func (m *modelRank) aborted(c *goccl.Comm) error {
	if m.Rank == m.round.victim {
		time.AfterFunc(m.round.delay, func() { c.Abort(nil) })
	}
	if err := m.untilFailed(c); err != nil {
		return err
	}
	return m.Boot.Barrier(context.Background())
}

func (m *modelRank) stopped(c *goccl.Comm) error {
	if m.Rank == m.round.victim {
		time.AfterFunc(m.round.delay, func() {
			m.Say("stopping", nil)
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		})
	}
	if err := m.untilFailed(c); err != nil {
		return err
	}
	mine := bytes.Repeat([]byte{0xa5}, 4*modelCount)
	if m.Rank == m.round.victim { // it may be alive, but the others continue without it
		if s, err := c.Shrink(context.Background(), nil, true); err == nil {
			_ = s.Close()
			return errors.New("the rank that was given up has shrunk")
		}
		return m.Boot.Barrier(context.Background())
	}
	small, err := m.shrunk(c)
	if err != nil {
		return err
	}
	defer func() { _ = small.Close() }()
	if err := m.Device.CopyIn(m.mem[1].Ptr(), mine); err != nil {
		return err
	}
	m.Say(fmt.Sprint("reused ", m.n), nil)
	if err := m.Boot.Barrier(context.Background()); err != nil {
		return err
	}
	got := make([]byte, len(mine))
	if err := m.Device.CopyOut(got, m.mem[1].Ptr()); err != nil {
		return err
	}
	if !bytes.Equal(got, mine) {
		return errors.New("a rank that was given up has written to memory that this rank had back")
	}
	return nil
}

// shrunk makes the survivors' communicator and checks all-reduces on it.
func (m *modelRank) shrunk(c *goccl.Comm) (*goccl.Comm, error) {
	var list []int
	if m.round.lists[m.Rank] {
		list = []int{m.round.victim}
	}
	var small *goccl.Comm
	for {
		var err error
		if small, err = c.Shrink(context.Background(), list, true); err == nil {
			break
		}
		if m.round.event < eventKill || m.because(err) != nil { // only a rank that dies during Shrink may make it fail
			return nil, err
		}
	}
	if err := m.restart(); err != nil {
		return small, err
	}
	left := commtest.Others(modelRanks, m.round.victim)
	if small.WorldSize() != len(left) || small.Rank() != slices.Index(left, m.Rank) {
		return small, fmt.Errorf("rank %d is %d of %d after a shrink to %v", m.Rank, small.Rank(), small.WorldSize(), left)
	}
	return small, m.sums(small, left)
}

func (m *modelRank) killed(c *goccl.Comm) error {
	if m.Rank == m.round.victim {
		time.AfterFunc(m.round.delay/2, func() {
			m.Say("dying", nil)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		})
	}
	var failed error
	for failed == nil {
		failed = m.sums(c, commtest.Everyone(modelRanks))
		if failed == nil && m.round.event == eventKillSplit {
			failed = m.split(c)
		}
	}
	if m.Rank == m.round.victim {
		time.Sleep(time.Minute)
	}
	if err := m.because(failed); err != nil && m.round.event != eventKillSplit {
		return err
	} else if err != nil && errors.Is(failed, errWrongSum) {
		return err // an error of a split's communicator uses that communicator's ranks
	}
	small, err := m.shrunk(c)
	if small != nil {
		err = errors.Join(err, small.Close())
	}
	return err
}
