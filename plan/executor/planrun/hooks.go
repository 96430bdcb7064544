package planrun

import (
	"encoding/binary"
	"errors"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan/executor"
)

// caller raises the input hooks of a plan, as the caller's kernels would.
type caller struct {
	x     *executor.ExecutionPlan
	s     device.Stream
	hooks []int
	total uint64 // launches so far, in the life of the plan
}

// newCaller returns nil for a plan without hooks on the rank.
func newCaller(x *executor.ExecutionPlan, rank int, dev device.Device) (*caller, error) {
	hooks := x.Plan().GPUs[rank].Hooks()
	if len(hooks) == 0 {
		return nil, nil
	}
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	c := &caller{x: x, s: s}
	for id := range hooks {
		if hooks[id].Takes() {
			c.hooks = append(c.hooks, id)
		}
	}
	if len(c.hooks) > 0 { // no launch runs now, so all that was raised has been taken
		at, err := x.Hook(c.hooks[0])
		word := make([]byte, 8)
		if err == nil {
			err = dev.CopyOut(word, at)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		c.total = binary.NativeEndian.Uint64(word)
	}
	return c, nil
}

// launches says that the input of n more launches is there.
func (c *caller) launches(n int) error {
	if c == nil {
		return nil
	}
	c.total += uint64(n)
	var errs []error
	for _, id := range c.hooks {
		errs = append(errs, c.x.RaiseHook(c.s, id, c.total))
	}
	return errors.Join(errs...)
}

func (c *caller) close() error {
	if c == nil {
		return nil
	}
	return c.s.Close()
}
