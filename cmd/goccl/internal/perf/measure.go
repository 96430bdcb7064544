package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/printable"
)

// Rank is the equipment of one rank. Measure opens the communicators and the buffers; the caller closes the rest.
type Rank struct {
	Peers     Peers
	Device    device.Device
	Stream    device.Stream
	Libraries []Library
	// Capture runs enqueue with the stream in capture mode and returns the graph; nil: there are no graphs.
	Capture  func(s device.Stream, enqueue func() error) (Graph, error)
	Limits   Limits
	Crowded  bool     // the ranks of this host are processes, do the work themselves, and outnumber its processors
	Reporter Reporter // of rank 0; may be nil
}

// measurement is the state of one rank during Measure.
type measurement struct {
	Rank
	cfg   Config
	n, me int
	comms []Communicator // one per library
	buf   *buffers
	slow  []int // per library, the number of consecutive sizes at which it was too slow (Config.Prune)

	crowded bool // some host is crowded
}

// Measure runs the whole measurement on one rank; every rank calls it with an equal Config. The rows are the same on
// all ranks. After an error on one rank the others fail within Config.Timeout.
func Measure(ctx context.Context, cfg Config, r Rank) (rows []Row, err error) {
	n, me := r.Peers.WorldSize(), r.Peers.Rank()
	if err := cfg.normalize(n); err != nil {
		return nil, err
	}
	if cfg.GraphOps != 0 && r.Capture == nil {
		return nil, invalid("%v has no graphs: leave --graph out or measure on CUDA", r.Device.ID())
	}
	if len(r.Libraries) == 0 {
		return nil, errors.New("perf: no library to measure")
	}
	m := &measurement{Rank: r, cfg: cfg, n: n, me: me}
	var opened []Communicator
	defer func() { err = errors.Join(err, m.close(opened)) }()
	if err := m.meet(ctx); err != nil {
		return nil, err
	}
	points, largest, dropped := cfg.points(n)
	if opened, err = m.open(ctx, largest, dropped); err != nil {
		return nil, err
	}
	for _, g := range points {
		var point []Row
		for _, inPlace := range []bool{false, true} {
			if inPlace && (!cfg.InPlace || !cfg.Kind.HasInPlace()) || !inPlace && !cfg.OutOfPlace {
				continue
			}
			part, err := m.point(ctx, g, inPlace)
			if err != nil {
				return rows, fmt.Errorf("perf: rank %d: %v of %d bytes of %v: %w", me, cfg.Kind, g.size, g.typ, err)
			}
			point = append(point, part...)
		}
		rows = append(rows, point...)
		if m.Reporter != nil && me == 0 {
			m.Reporter.Point(point)
		}
		m.prune(point)
	}
	return rows, nil
}

// open opens the communicators, and buffers of up to largest bytes. After an error it returns the communicators that
// are open.
func (m *measurement) open(ctx context.Context, largest int64, dropped []int64) (opened []Communicator, err error) {
	fail := func(what string, lib Library, err error) error {
		return fmt.Errorf("perf: rank %d: %s %s: %w", m.me, what, lib.Name(), err)
	}
	for _, lib := range m.Libraries {
		m.progress("opening %s", lib.Name())
		c, err := lib.Open(ctx, m.Peers, m.Device)
		if err != nil {
			return opened, fail("open", lib, err)
		}
		opened = append(opened, c)
	}
	m.comms, m.Libraries, m.slow = slices.Clone(opened), slices.Clone(m.Libraries), make([]int, len(opened))
	if m.me == 0 && m.Reporter != nil {
		m.Reporter.Dropped(dropped)
	}
	if m.buf, err = newBuffers(m.Device, largest, m.cfg.Offset*8); err != nil {
		return opened, err
	}
	for i, c := range opened {
		if err := register(ctx, c, m.buf.send.Ptr(), m.buf.recv.Ptr()); err != nil {
			return opened, fail("buffers of", m.Libraries[i], err)
		}
		if m.cfg.Windows {
			if err := registerWindows(c, m.buf.send, m.buf.recv); err != nil {
				return opened, fail("windows of", m.Libraries[i], err)
			}
		}
	}
	return opened, nil
}

// prune skips libraries at later sizes, as Config.Prune defines. All ranks have the same rows, so all skip the same
// libraries.
func (m *measurement) prune(point []Row) {
	if m.cfg.Prune == 0 || len(point) == 0 || point[0].Size < m.cfg.PruneFrom {
		return
	}
	n := len(m.comms)
	best := slices.MinFunc(point[:n], byTime).Time
	kept := 0
	for i, r := range point[:n] {
		if m.slow[i]++; r.Time <= m.cfg.Prune*best {
			m.slow[i] = 0
		}
		if m.slow[i] < pruneAfter {
			m.comms[kept], m.Libraries[kept], m.slow[kept] = m.comms[i], m.Libraries[i], m.slow[i]
			kept++
		}
	}
	m.comms, m.Libraries, m.slow = m.comms[:kept], m.Libraries[:kept], m.slow[:kept]
}

// pruneAfter is the number of consecutive sizes at which a library must be too slow.
const pruneAfter = 2

// meet sends rank 0's seed to all ranks, since every rank checks data of the others, and determines whether some host
// is crowded.
func (m *measurement) meet(ctx context.Context) error {
	mine := append(binary.LittleEndian.AppendUint64(nil, m.cfg.Seed), plain.Bit[byte](m.Crowded))
	all, err := m.all(ctx, mine)
	if err != nil {
		return err
	}
	for r, b := range all {
		if len(b) != len(mine) {
			return fmt.Errorf("perf: rank %d sent a seed of %d bytes, not %d: give every rank the same program", r, len(b),
				len(mine))
		}
		m.crowded = m.crowded || b[8] != 0
	}
	m.cfg.Seed = binary.LittleEndian.Uint64(all[0])
	return nil
}

func (m *measurement) close(comms []Communicator) error {
	err := device.CloseAll(comms...)
	if m.buf != nil {
		err = errors.Join(err, m.buf.Close())
	}
	return err
}

func (m *measurement) progress(format string, args ...any) {
	if m.Reporter != nil && m.me == 0 {
		m.Reporter.Progress(fmt.Sprintf(format, args...))
	}
}

// point measures one size, in place or out of place. The package documentation lists its steps.
func (m *measurement) point(ctx context.Context, g geometry, inPlace bool) ([]Row, error) {
	form := "out of place"
	if inPlace {
		form = "in place"
	}
	c, err := m.buf.call(g, m.me, inPlace, m.cfg.Offset*g.typ.Size(), m.Stream)
	if err != nil {
		return nil, err
	}
	out := make([]outcome, len(m.comms))

	// 1. One operation on fresh data, checked; then the warm-up.
	in, err := m.draw(g, inPlace, 1)
	if err != nil {
		return nil, err
	}
	for i, comm := range m.comms {
		m.progress("%s, %s: checking %s", printable.Bytes(g.size), form, m.Libraries[i].Name())
		r := runner{comm: comm, submit: m.counted(&out[i], func() error { return comm.Submit(c.requests...) }), ops: 1}
		if err := m.check(ctx, &r, c, in, 1, &out[i]); err != nil {
			return nil, err
		}
		if err := m.enqueue(ctx, &r, m.cfg.Warmup); err != nil {
			return nil, err
		}
	}
	// 2. The batches. Every rank must make the same number of calls, so the ranks agree on the number first.
	ops, runs, err := m.agree(ctx, c)
	if err != nil {
		return nil, err
	}
	runners, err := m.runners(ctx, c, ops, out)
	defer func() {
		for _, r := range runners {
			if r.graph != nil {
				_ = r.graph.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	for cycle := range m.cfg.Cycles {
		for i, lib := range m.Libraries {
			m.progress("%s, %s: %s, batch %d of %d", printable.Bytes(g.size), form, lib.Name(), cycle+1, m.cfg.Cycles)
			if err := m.batch(ctx, &runners[i], runs, &out[i]); err != nil {
				return nil, err
			}
		}
	}
	// 3. The same check at full speed.
	if err := m.recheck(ctx, c, runners, runs, out); err != nil {
		return nil, err
	}
	return m.gather(ctx, &g, inPlace, ops, runs, out)
}

// recheck checks the timed operations on other data. An in-place operation must not read its own result, however.
func (m *measurement) recheck(ctx context.Context, c *call, runners []runner, runs int, out []outcome) error {
	in, err := m.draw(c.g, c.inPlace, 2)
	if err != nil {
		return err
	}
	for i, comm := range m.comms {
		r := runner{comm: comm, submit: runners[i].submit, ops: 1}
		times := 1
		switch {
		case c.inPlace:
		case runners[i].graph != nil:
			r = runners[i]
		default:
			times = min(runs, 8)
		}
		if err := m.check(ctx, &r, c, in, times, &out[i]); err != nil {
			return err
		}
	}
	return nil
}

// runners returns a runner for each library: of an operation, or of a graph of ops operations. After an error it
// returns the runners that are ready.
func (m *measurement) runners(ctx context.Context, c *call, ops int, out []outcome) (list []runner, err error) {
	for i, comm := range m.comms {
		r := runner{comm: comm, submit: func() error { return comm.Submit(c.requests...) }, ops: ops}
		if m.cfg.GraphOps != 0 {
			if r.graph, err = m.Capture(m.Stream,
				m.counted(&out[i], func() error { return repeat(ctx, ops, r.submit) })); err != nil {
				return list, fmt.Errorf("capture %s: %w", m.Libraries[i].Name(), err)
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// counted returns submit, which then notes in o the part of a GPU that its work takes.
func (m *measurement) counted(o *outcome, submit func() error) func() error {
	dev, ok := m.Device.(*cuda.Device)
	if !ok {
		return submit
	}
	return func() error {
		dev.TakeUse()
		err := submit()
		o.Use, o.SMs = dev.TakeUse(), dev.Properties().SMs
		return err
	}
}

func (m *measurement) draw(g geometry, inPlace bool, round uint64) (*inputs, error) {
	if !m.cfg.Check {
		round = 0 // the contents still affect the power consumption of a GPU
	}
	seed := mix(m.cfg.Seed ^ mix(uint64(g.size)<<2|round))
	if inPlace {
		seed = mix(seed)
	}
	var longest int64
	for r := range m.n {
		in, _ := g.lengths(r)
		longest = max(longest, in)
	}
	return newInputs(g.typ, g.op, m.n, longest, g.kind.HasOp(), seed)
}

// check runs r the given number of times on fresh data and adds the errors in the result to o.
func (m *measurement) check(ctx context.Context, r *runner, c *call, in *inputs, times int, o *outcome) error {
	if err := m.buf.fill(c, in); err != nil {
		return err
	}
	if err := m.enqueue(ctx, r, times); err != nil || !m.cfg.Check {
		return err
	}
	wrong, stray, err := m.buf.verify(ctx, c, in)
	o.Wrong += wrong
	o.Stray += stray
	return err
}

func repeat(ctx context.Context, n int, f func() error) error {
	for i := range n {
		if i%256 == 255 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) enqueue(ctx context.Context, r *runner, times int) error {
	if err := repeat(ctx, times, func() error { return r.run(m.Stream) }); err != nil {
		return err
	}
	return m.wait(ctx, r.comm)
}

func (m *measurement) wait(ctx context.Context, comm Communicator) error {
	return m.bounded(ctx, func(ctx context.Context) error { return comm.Synchronize(ctx, m.Stream) })
}

func (m *measurement) barrier(ctx context.Context) error { return m.bounded(ctx, m.Peers.Barrier) }

func (m *measurement) all(ctx context.Context, mine []byte) (all [][]byte, err error) {
	err = m.bounded(ctx, func(ctx context.Context) (err error) {
		all, err = m.Peers.AllGather(ctx, mine)
		return err
	})
	return all, err
}

func (m *measurement) bounded(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	return f(ctx)
}
