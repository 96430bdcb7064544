package core

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/network"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
)

// Executor is an executor and the bootstrap that it owns.
type Executor struct {
	*executor.Executor
	boot bootstrap.Bootstrap
	dev  *Device
}

// Close ends the executor, then closes its bootstrap.
func (e *Executor) Close() error { return errors.Join(e.Executor.Close(), e.boot.Close()) }

// Loaded is a plan of an executor. It ends with the executor.
type Loaded struct {
	e *Executor
	x *executor.ExecutionPlan
}

// ExecutorCreate makes an executor among all ranks of a bootstrap. It is collective: the ranks create a sub-bootstrap
// for the executor, so that others can use the bootstrap too.
func ExecutorCreate(b *Bootstrap, d *Device, opTimeout time.Duration) (*Executor, error) {
	cfg, err := Config{OpTimeout: opTimeout}.withDefaults(defaultStep)
	if err != nil {
		return nil, err
	}
	cfg.OpTimeout = cmp.Or(cfg.OpTimeout, setting.Lenient().OpTimeoutOr(setting.DefaultOpTimeout))
	ctx, cancel := context.WithTimeout(context.Background(), cfg.Timeout)
	defer cancel()
	mine := binary.LittleEndian.AppendUint32(nil, b.executors.Add(1)%tags.SpaceOfExecutors)
	all, err := b.AllGather(ctx, mine)
	if err != nil {
		return nil, err
	}
	space := tags.SpaceOfExecutors + int(binary.LittleEndian.Uint32(all[0]))
	sub, err := b.Sub(ctx, bootstrap.Everyone(b.WorldSize()), space)
	if err != nil {
		return nil, err
	}
	e, err := newExecutor(ctx, executor.Config{Job: collective.Job{Bootstrap: sub, Device: d.Device,
		OpTimeout: cfg.OpTimeout}}, cfg.Timeout)
	if err != nil {
		_ = sub.Close()
		return nil, err
	}
	return &Executor{e, sub, d}, nil
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
	chosen, err := network.Choose(ctx, network.Config{Bootstrap: cfg.Bootstrap, Device: cfg.Device, Settings: settings,
		Timeout: timeout})
	if errors.Is(err, network.ErrNone) {
		err = fmt.Errorf("%w: %w", collective.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	cfg.Net, cfg.NIC = chosen.Net, chosen.NIC
	return executor.New(cfg)
}

// ExecutorLoad verifies a plan file and allocates memory for messages of up to reserve bytes (0: at the first launch).
// It is collective.
func ExecutorLoad(e *Executor, file []byte, reserve uint64) (*Loaded, error) {
	return e.load(file, reserve)
}

func ExecutorLoadTrusted(e *Executor, file []byte, reserve uint64) (*Loaded, error) {
	return e.load(file, reserve, executor.Trusted())
}

func (e *Executor) load(file []byte, reserve uint64, opts ...executor.Option) (*Loaded, error) {
	if reserve > 0 {
		opts = append(opts, executor.Reserve(reserve))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*defaultStep)
	defer cancel()
	p, err := decodePlan(bytes.Clone(file)) // the caller's memory is its own again when the call returns
	if err != nil {
		return nil, wrong(err)
	}
	x, err := e.Load(ctx, p, opts...)
	if err != nil {
		return nil, wrong(err)
	}
	return &Loaded{e, x}, nil
}

func ExecutorLaunch(p *Loaded, send, recv uintptr, message uint64, stream uintptr, t, op uint32, scalar uint64) error {
	return ExecutorLaunchCounted(p, send, recv, message, 0, stream, t, op, scalar)
}

func ExecutorLaunchCounted(p *Loaded, send, recv uintptr, message uint64, counts, stream uintptr, t, op uint32,
	scalar uint64) error {
	s, err := p.e.dev.stream(stream)
	if err != nil {
		return err
	}
	a := executor.Args{Send: device.Ptr(send), Recv: device.Ptr(recv), Message: message, Type: datatype.Type(t),
		Op: datatype.Op(op), Stream: s, Counts: device.Ptr(counts)}
	binary.LittleEndian.PutUint64(a.Scalar[:], scalar)
	return p.x.Execute(context.Background(), a)
}

func ExecutorError(e *Executor) error { return e.Err() }

func ExecutorAbort(e *Executor) error {
	e.Abort(nil)
	return nil
}

func ExecutorHook(p *Loaded, id uint32) (uint64, error) {
	at, err := p.x.Hook(int(id))
	return uint64(at), wrong(err)
}

func ExecutorRaiseHook(p *Loaded, id uint32, n uint64, stream uintptr) error {
	s, err := p.e.dev.stream(stream)
	if err != nil {
		return err
	}
	return wrong(p.x.RaiseHook(s, int(id), n))
}

func ExecutorAwaitHook(p *Loaded, id uint32, n uint64, stream uintptr) error {
	s, err := p.e.dev.stream(stream)
	if err != nil {
		return err
	}
	return wrong(p.x.AwaitHook(s, int(id), n))
}

func ExecutorRegister(e *Executor, buffer uintptr) error {
	ctx, cancel := context.WithTimeout(context.Background(), defaultStep)
	defer cancel()
	return wrong(e.Register(ctx, device.Ptr(buffer)))
}

func PlanCompile(document []byte) ([]byte, error) {
	p, err := dsl.CompileJSON(document)
	if err != nil {
		return nil, wrong(err)
	}
	file := p.Encode()
	origins.Lock()
	defer origins.Unlock()
	if len(origins.of) >= maxOrigins || origins.of == nil {
		origins.of = map[[sha256.Size]byte]*plan.Origins{}
	}
	origins.of[sha256.Sum256(file)] = p.Origins
	return file, nil
}

// origins remembers where the plan files that this process has compiled come from, so that a counterexample names the
// author's lines. When it is full, it is cleared.
var origins struct {
	sync.Mutex
	of map[[sha256.Size]byte]*plan.Origins
}

const maxOrigins = 256

// decodePlan decodes a plan file.
func decodePlan(file []byte) (*plan.Plan, error) {
	p, err := plan.Decode(file)
	if err != nil {
		return nil, err
	}
	origins.Lock()
	defer origins.Unlock()
	p.Origins = origins.of[sha256.Sum256(file)]
	return p, nil
}

func PlanBuild(name string, options []byte) ([]byte, error) {
	var o programs.Options
	if len(options) > 0 {
		if err := json.Unmarshal(options, &o); err != nil {
			return nil, wrong(err)
		}
	}
	p, err := programs.Build(name, o)
	if err != nil {
		return nil, wrong(err)
	}
	return p.Encode(), nil
}

// planReport describes a plan, with the names of the plan format. The fields from EvenOnly on are the verifier's.
type planReport struct {
	Name       string `json:"name"`
	Collective string `json:"collective"`
	Protocol   string `json:"protocol"`
	InPlace    bool   `json:"inplace"`
	Ranks      int    `json:"num_ranks"`
	Root       int    `json:"root"`
	MinSize    uint64 `json:"min_message_size"`
	MaxSize    uint64 `json:"max_message_size"`
	Verified   bool   `json:"verified"`
	EvenOnly   bool   `json:"even_only"`
	Operator   string `json:"reduce_op"`
	Steps      int64  `json:"verified_steps"`
}

func describe(p *plan.Plan) *planReport {
	return &planReport{Name: p.Name, Collective: string(p.Collective), Protocol: string(p.Protocol), InPlace: p.InPlace,
		Ranks: len(p.GPUs), Root: p.Root,
		MinSize: p.MinSize, MaxSize: p.MaxSize}
}

func PlanCheck(file []byte) ([]byte, error) {
	p, err := decodePlan(file)
	if err != nil {
		return nil, wrong(err)
	}
	r, err := verify.Check(p, verify.Options{})
	if err != nil {
		return nil, wrong(err)
	}
	d := describe(p)
	d.Verified, d.EvenOnly, d.Operator, d.Steps = true, r.EvenOnly, string(r.Operator), r.Steps
	return json.Marshal(d)
}

func PlanDescribe(file []byte) ([]byte, error) {
	p, err := plan.Decode(file)
	if err != nil {
		return nil, wrong(err)
	}
	return json.Marshal(describe(p))
}
