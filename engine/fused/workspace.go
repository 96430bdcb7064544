package fused

import (
	"cmp"
	"context"
	"errors"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// The algorithms of a Request: see the package's documentation.
const (
	OneShot = "one_shot"
	TwoShot = "two_shot"
	Apart   = "apart"
)

// Config configures a Workspace. It is the same on all ranks.
type Config struct {
	// RowBytes is the largest row that the kernels take; larger ones run apart. 0 is 16 KiB: 8,192 elements of 2 bytes.
	RowBytes int64
	// ScratchBytes is the size of the memory for sums that the caller does not want; 0 is 16 MiB. Larger requests run
	// apart in pieces of it.
	ScratchBytes int64
}

func (c *Config) fill() error {
	c.RowBytes, c.ScratchBytes = cmp.Or(c.RowBytes, 16<<10), cmp.Or(c.ScratchBytes, 16<<20)
	const most = 4 * MaxHidden
	if c.RowBytes < 0 || c.RowBytes > most || c.RowBytes%16 != 0 {
		return bad("rows of %d bytes: want a multiple of 16 up to %d", c.RowBytes, most)
	}
	if c.ScratchBytes < most {
		return bad("scratch of %d bytes: want at least a row of %d", c.ScratchBytes, most)
	}
	return nil
}

// Comm is what a Workspace needs of its communicator. Enqueue and Follow pass work to its engine, whichever that is.
type Comm struct {
	collective.Job
	Engine  Engine // the communicator's, if it runs kernels of a Workspace; else nil
	Enqueue func(seq uint64, reqs []collective.Request) error
	Follow  func(device.Stream) error
}

// Engine is an engine in whose order kernels of a Workspace run: engine/nvlink.
type Engine interface {
	// Reaches reports whether kernels of every rank can address the memory of all ranks.
	Reaches() bool
	// ForeignBlocks is the largest grid of a kernel that waits for peers. Such a kernel polls the AbortBlock.
	ForeignBlocks() int
	AbortBlock() device.Ptr
	// LaunchForeign launches a kernel as request seq.
	LaunchForeign(seq uint64, op collective.Collective, s *cuda.Stream, f *cuda.Function, blocks, threads int,
		params []byte) error
}

// Workspace is one rank's memory and kernels for fused all-reduces.
type Workspace struct {
	comm    Comm
	cfg     Config
	scratch device.Allocation
	gpu     *gpu // nil: on the host device
	tuned   table
}

// New makes a Workspace. It is collective.
func New(ctx context.Context, comm Comm, cfg Config) (w *Workspace, err error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	w = &Workspace{comm: comm, cfg: cfg}
	if w.scratch, err = comm.Device.Alloc(cfg.ScratchBytes); err != nil {
		return nil, err
	}
	if dev, ok := comm.Device.(*cuda.Device); ok {
		if w.gpu, err = newGPU(ctx, dev, &comm, cfg); err != nil {
			return nil, errors.Join(err, w.scratch.Close())
		}
	}
	return w, nil
}

// Enqueue puts a valid request on its stream and does not wait for it.
func (w *Workspace) Enqueue(seq uint64, r *Request) error {
	if r.Tokens == 0 {
		return nil
	}
	switch w.choose(r) {
	case OneShot:
		return w.gpu.packets(seq, r, oneShot, w.comm.Bootstrap.WorldSize())
	case TwoShot:
		return w.gpu.packets(seq, r, twoShot, w.comm.Bootstrap.WorldSize())
	}
	return w.apart(seq, r)
}

// choose returns the algorithm of a request: the one that it names, if the kernels can run it. Without a name it is the
// one that Tune has found to be the fastest, and apart before.
func (w *Workspace) choose(r *Request) string {
	if w.gpu == nil || !w.gpu.takes(r, w.cfg) {
		return Apart
	}
	name := cmp.Or(r.Algorithm, w.tuned.choose(r))
	if name == OneShot && r.divides() {
		return TwoShot
	}
	return name
}

// Close frees the workspace. Its work has ended or was aborted.
func (w *Workspace) Close() error {
	err := w.scratch.Close()
	if w.gpu != nil {
		err = errors.Join(err, w.gpu.close())
	}
	return err
}
