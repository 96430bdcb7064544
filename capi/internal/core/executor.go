package core

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/transport/choice"
)

// exec is an executor and the bootstrap that it owns.
type exec struct {
	*executor.Executor
	boot bootstrap.Bootstrap
	dev  *dev
}

// Close ends the executor, then closes its bootstrap.
func (e *exec) Close() error {
	err := e.Executor.Close()
	if cerr := e.boot.Close(); err == nil {
		err = cerr
	}
	return err
}

// loaded is a plan of an executor. It ends with the executor.
type loaded struct {
	e *exec
	x *executor.ExecutionPlan
}

// ExecutorCreate makes an executor among all ranks of a bootstrap. It is collective: the ranks create a sub-bootstrap
// for the executor, so that others can use the bootstrap too.
func ExecutorCreate(boot, devh Handle, opTimeout time.Duration) (Handle, error) {
	var args args
	b, d := args.bootstrap(boot), args.device(devh)
	if args.err != nil {
		return 0, args.err
	}
	cfg, err := Config{OpTimeout: opTimeout}.withDefaults(defaultStep)
	if err != nil {
		return 0, err
	}
	if cfg.OpTimeout == 0 {
		cfg.OpTimeout = setting.Lenient().OpTimeoutOr(setting.DefaultOpTimeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Timeout)
	defer cancel()
	mine := binary.LittleEndian.AppendUint32(nil, executorCount.Add(1)%tags.SpaceOfExecutors)
	all, err := b.AllGather(ctx, mine)
	if err != nil {
		return 0, err
	}
	ranks := make([]int, b.WorldSize())
	for i := range ranks {
		ranks[i] = i
	}
	sub, err := b.Sub(ctx, ranks, tags.SpaceOfExecutors+int(binary.LittleEndian.Uint32(all[0])))
	if err != nil {
		return 0, err
	}
	e, err := newExecutor(ctx, executor.Config{Bootstrap: sub, Device: d.device, OpTimeout: cfg.OpTimeout}, cfg.Timeout)
	if err != nil {
		_ = sub.Close()
		return 0, err
	}
	return addObject(&exec{e, sub, d}, nil)
}

// newExecutor gives an executor of several hosts the network that a communicator would have.
func newExecutor(ctx context.Context, cfg executor.Config, timeout time.Duration) (*executor.Executor, error) {
	if _, err := bootstrap.OtherHost(cfg.Bootstrap); err == nil {
		return executor.New(cfg)
	}
	settings, err := setting.Read()
	if err != nil {
		return nil, err
	}
	chosen, err := choice.Make(ctx, choice.Config{Bootstrap: cfg.Bootstrap, Device: cfg.Device, Settings: settings,
		Timeout: timeout})
	if errors.Is(err, choice.ErrNone) {
		err = fmt.Errorf("%w: %w", collective.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	cfg.Net, cfg.NIC = chosen.Net, chosen.NIC
	return executor.New(cfg)
}

// executorCount numbers executors. Rank 0's number distinguishes those that share a bootstrap.
var executorCount atomic.Uint32

// ExecutorLoad verifies a plan file and allocates memory for messages of up to reserve bytes (0: at the first launch).
// It is collective.
func ExecutorLoad(h Handle, file []byte, reserve uint64) (Handle, error) {
	return load(h, file, reserve)
}

// ExecutorLoadTrusted is ExecutorLoad without the verification.
func ExecutorLoadTrusted(h Handle, file []byte, reserve uint64) (Handle, error) {
	return load(h, file, reserve, executor.Trusted())
}

func load(h Handle, file []byte, reserve uint64, opts ...executor.Option) (Handle, error) {
	e, err := objectOf[*exec](h)
	if err != nil {
		return 0, err
	}
	if reserve > 0 {
		opts = append(opts, executor.Reserve(reserve))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*defaultStep)
	defer cancel()
	p, err := decodePlan(bytes.Clone(file)) // the caller's memory is its own again when the call returns
	if err != nil {
		return 0, wrong(err)
	}
	x, err := e.Load(ctx, p, opts...)
	if err != nil {
		return 0, wrong(err)
	}
	return addObject(&loaded{e, x}, nil)
}

// ExecutorLaunch enqueues one run of a plan without counts.
func ExecutorLaunch(h Handle, send, recv uintptr, message uint64, stream uintptr, t, op uint32, scalar uint64) error {
	return ExecutorLaunchCounted(h, send, recv, message, 0, stream, t, op, scalar)
}

// ExecutorLaunchCounted enqueues one run.
func ExecutorLaunchCounted(h Handle, send, recv uintptr, message uint64, counts, stream uintptr, t, op uint32,
	scalar uint64) error {
	p, err := objectOf[*loaded](h)
	if err != nil {
		return err
	}
	s, err := p.e.dev.stream(stream)
	if err != nil {
		return err
	}
	a := executor.Args{Send: device.Ptr(send), Recv: device.Ptr(recv), Message: message, Type: datatype.Type(t),
		Op: datatype.Op(op), Stream: s, Counts: device.Ptr(counts)}
	binary.LittleEndian.PutUint64(a.Scalar[:], scalar)
	return p.x.Execute(context.Background(), a)
}

// ExecutorError returns the first failure of the executor's launches, or the reason of its abort.
func ExecutorError(h Handle) error { return with(h, func(e *exec) error { return e.Err() }) }

// ExecutorAbort ends running launches.
func ExecutorAbort(h Handle) error {
	return with(h, func(e *exec) error {
		e.Abort(nil)
		return nil
	})
}
