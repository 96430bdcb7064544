package executor

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/plan"
)

// A hook is a link of the rank to itself (plan.Hook), so its two counters are in the rank's control arena, where other
// links have theirs. They only grow, as signals do: the n-th launch takes the n-th. So a captured launch replays.

// Hook returns the address of the counter of hook id of this rank: 8 bytes of device memory, which live as long as the
// plan. The caller adds 1 to the counter of an input hook for every launch, by a release at the scope of the GPU or
// wider, when the input is there. The counter of an output hook has grown to n when the output of the n-th launch is
// there; read it by an acquire, and bound the wait. Launches of messages of 0 bytes do not count.
func (x *ExecutionPlan) Hook(id int) (device.Ptr, error) {
	link, _, err := x.hook(id)
	if err != nil {
		return 0, err
	}
	return x.engine.counter(link), nil
}

// hook returns the link on whose counter the reader of a hook waits.
func (x *ExecutionPlan) hook(id int) (link int, h *plan.Hook, err error) {
	hooks := x.program.hooks
	if id < 0 || id >= len(hooks) {
		return 0, nil, x.fail(0, -1, invalid("hook %d; rank %d of the plan has %d", id, x.e.rank, len(hooks)))
	}
	h = &hooks[id]
	link = x.program.firstHook + id
	if !h.Takes() {
		link = x.program.firstHook + x.plan.GPUs[x.e.rank].CallerEnd(id)
	}
	return link, h, nil
}

// RaiseHook enqueues on s that the input that hook id guards is there for the first n launches. s must not be the
// stream of Execute. Use it where no kernel of the caller raises the hook itself, and not in a capture.
func (x *ExecutionPlan) RaiseHook(s device.Stream, id int, n uint64) error {
	link, h, err := x.hook(id)
	if err != nil {
		return err
	}
	if !h.Takes() {
		return x.fail(0, -1, invalid("hook %d guards output: the plan raises it", id))
	}
	switch s := s.(type) {
	case *cuda.Stream:
		return s.WriteValue64(x.engine.counter(link), n)
	case *host.Stream:
		own := x.engine.(*hostEngine).arenas[x.e.rank]
		return s.Launch("raise hook", 1, func(*host.Block) error {
			own.inbound(link).Store(n)
			own.door().Wake()
			return nil
		})
	}
	return x.fail(0, -1, invalid("%T is no stream of the executor's device", s))
}

// AwaitHook enqueues on s, which must not be the stream of Execute, a wait until the output that hook id guards is
// there for the n-th launch. It ends with an error if the executor fails or is aborted. It works on the host device: on
// a GPU, a kernel of the caller waits for the counter, and must bound the wait.
func (x *ExecutionPlan) AwaitHook(s device.Stream, id int, n uint64) error {
	link, h, err := x.hook(id)
	if err != nil {
		return err
	}
	if h.Takes() {
		return x.fail(0, -1, invalid("hook %d guards input: the caller raises it", id))
	}
	hs, ok := s.(*host.Stream)
	if !ok {
		return x.fail(0, -1, fmt.Errorf("%w: a wait of a stream for a hook; let a kernel wait for its counter, see Hook",
			collective.ErrUnsupported))
	}
	engine := x.engine.(*hostEngine)
	own := engine.arenas[x.e.rank]
	return hs.Launch("await hook", 1, func(b *host.Block) error {
		there := func() bool { return int64(own.inbound(link).Load()-n) >= 0 || b.Abort.Load() != 0 }
		limit := wait.Limit{Deadline: wait.After(x.e.cfg.OpTimeout), Abort: &x.e.aborted}
		if err := wait.Until(own.door(), there, limit, engine.policy); err != nil {
			return x.fail(0, -1, x.e.ended(err, fmt.Sprintf("waiting for hook %d of launch %d", id, n)))
		}
		return nil
	})
}

// meets checks that a launch with this placement and operator runs directly on the caller's buffers if the plan has
// hooks. A hook announces data in the caller's buffer, and a staged copy would miss it.
func (x *ExecutionPlan) meets(p *placement, op datatype.Op) error {
	if len(x.program.hooks) == 0 {
		return nil
	}
	switch {
	case op == datatype.Avg || op == datatype.PreMulSum:
		return invalid("a plan with hooks reduces by %v, which scales elements before or after the launch, unseen by hooks",
			op)
	case p.moveIn:
		return invalid("a plan with hooks reads the caller's input where it is: register it (Executor.Register), and " +
			"let input and output be one memory if and only if they are in the plan")
	case p.moveOut:
		return invalid("a plan with hooks writes the caller's output where it is: register it (Executor.Register)")
	}
	return nil
}
