package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/hosts/cudawire"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/tags"
)

// rings lead from a GPU to ranks of other hosts. All plans of the executor share them, so their launches follow each
// other, in the same order on all ranks: kernels/executor/far.cuh.
type rings struct {
	e     *Executor
	wire  *cudawire.Wire
	order *cuda.Order       // of the launches that use the rings
	state device.Allocation // locks by rank and lane, turns by rank, and a count of blocks
	plans uint32            // opened so far, the same on all ranks
}

// connectTimeout bounds the connection of a peer.
const connectTimeout = 30 * time.Second

func openRings(e *Executor) (*rings, error) {
	dev, ok := e.cfg.Device.(*cuda.Device)
	if !ok {
		return nil, invalid("%v is no CUDA device", e.cfg.Device.ID())
	}
	r := &rings{e: e, order: e.cfg.Order}
	if err := r.open(dev); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rings) open(dev *cuda.Device) (err error) {
	e := r.e
	if r.order == nil {
		if r.order, err = dev.NewOrder(0, cuda.OrderedGraphs); err != nil {
			return err
		}
	}
	job := e.cfg.Job
	job.Timeout, job.OnFailure = connectTimeout, e.Abort
	if r.wire, err = cudawire.New(cudawire.Config{Job: job, Net: e.cfg.Net, NIC: e.cfg.NIC, Order: r.order,
		Tag: tags.PlanLinks}); err != nil {
		return err
	}
	locks := int64(e.size) * int64(r.wire.Rings().Lanes)
	if r.state, err = dev.Alloc(8*locks + 4*int64(e.size) + 4); err != nil {
		return err
	}
	start := make([]byte, r.state.Size())
	for i := range locks {
		start[8*i] = 1 // permits of a DeviceSemaphore
	}
	return dev.CopyIn(r.state.Ptr(), start)
}

// connect connects this rank with the peers, which do the same.
func (r *rings) connect(ctx context.Context, peers []int) error { return r.wire.Connect(ctx, peers) }

// far is what the kernels of the next plan know of other hosts.
func (r *rings) far(prog *program, blocks int, abort uint64) *gpuFar {
	at, shape := uint64(r.state.Ptr()), r.wire.Rings()
	turns := at + 8*uint64(r.e.size)*uint64(shape.Lanes)
	f := &gpuFar{abort: abort, links: uint64(shape.Links), lanes: shape.Lanes, slots: shape.Slots,
		slotBytes: shape.SlotBytes, blocks: uint32(blocks), locks: at, turns: turns, left: turns + 4*uint64(r.e.size),
		plan: r.plans, count: uint32(prog.links), peers: uint32(len(prog.distant))}
	for i, p := range prog.distant {
		f.peer[i] = uint16(p)
	}
	return f
}

// begin comes before a launch of a plan that enters the order, and wire.Launched after it has left the order.
func (r *rings) begin(x *ExecutionPlan, seq uint64, s *cuda.Stream) error {
	return r.wire.Begin(s, wire.Op{Name: "plan " + x.plan.Name, Seq: seq}, x.program.distant)
}

// halt makes later launches fail.
func (r *rings) halt(cause error) {
	if r != nil && r.wire != nil {
		r.wire.Abort(cause)
	}
}

// close comes after the launches have ended.
func (r *rings) close() error {
	if r == nil {
		return nil
	}
	var errs []error
	if r.wire != nil {
		if err := r.wire.Close(); err != nil {
			return fmt.Errorf("%w: %w", collective.ErrAborted, err) // a kernel may still run, so nothing is freed
		}
	}
	errs = append(errs, device.CloseAll(r.state))
	if r.order != nil && r.order != r.e.cfg.Order {
		errs = append(errs, r.order.Close())
	}
	return errors.Join(errs...)
}
