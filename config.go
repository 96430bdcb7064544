package goccl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
)

// Config is the configuration of one rank of a communicator.
type Config struct {
	// Bootstrap connects the ranks; it must be initialised. The Comm makes its own group from it and does not close it.
	Bootstrap bootstrap.Bootstrap
	// Device is where this rank's buffers and streams live. All ranks must use the same kind of device.
	Device device.Device
	// Timeout bounds set-up, Split and Shrink. 0 means 30 s.
	Timeout time.Duration
	// OpTimeout, when positive, is how long a collective may wait for its peers before it fails with ErrTimeout. 0
	// means GOCCL_OP_TIMEOUT (a Go duration, or seconds), and 30 minutes without that. When it is negative, or
	// GOCCL_OP_TIMEOUT is 0, only the death of a peer or Abort ends a wait.
	OpTimeout time.Duration
	// Check makes the ranks compare their calls before every operation, so that every rank gets ErrMismatch before data
	// is touched. Calls then wait for their peers' calls and cost a round trip through the Bootstrap: use it for
	// debugging. If one rank sets it, it is on for all ranks. GOCCL_CHECK=1 sets it.
	Check bool
	// CheckData makes the ranks also compare the data that operations have moved, and the results of all-reduces, by
	// checksums: a flipped bit becomes ErrCorrupt on every rank. It sets Check. Calls then wait for their operations,
	// and cannot be captured in graphs. Reductions to one rank, fused operations and counts in device memory are not
	// covered. If one rank sets it, it is on for all ranks. GOCCL_CHECK=2 sets it.
	CheckData bool
	// SeparateGraphs disables the ordering of CUDA graph launches that contain operations of this communicator,
	// relative to each other and to operations outside of graphs. Work within one graph keeps its order. This saves two
	// nodes in each graph, and a wait and a record around each eager operation after the first capture. The caller must
	// then use streams and events to keep such launches from running at the same time. NCCL_GRAPH_MIXING_SUPPORT=0 sets
	// it.
	SeparateGraphs bool
	// UnorderedCaptures also disables the order of operations on several streams of one capture: an operation is ordered
	// within its stream only. No two operations of the communicator may run at the same time; the caller orders them.
	// It implies SeparateGraphs.
	UnorderedCaptures bool
	// MinCTAs and MaxCTAs bound the thread blocks of a collective's kernel on GPUs; 0 is no bound. The largest MinCTAs
	// and the smallest MaxCTAs of any rank hold for all. GOCCL_MIN_CTAS and GOCCL_MAX_CTAS win.
	MinCTAs, MaxCTAs int
	// CTAPolicy says how far collectives spare the SMs of GPUs. The policy of any rank that spares most holds for all.
	// GOCCL_CTA_POLICY wins.
	CTAPolicy collective.CTAPolicy
	// Exact says on what the bits of reductions may depend. The furthest promise that any rank asks for holds for all.
	// GOCCL_EXACT wins if it asks for more.
	Exact collective.Exact
	// Quorum says which part of the communicator may Shrink without the rest, in the format of GOCCL_QUORUM, which it
	// replaces: off, majority, or rank N (of the job). The other part gets ErrNoQuorum. It must be the same on all ranks.
	Quorum string
	// Vote, if it is not nil, is a further condition of Shrink: each remaining rank calls it with the communicator's ID
	// and the ranks that are left. If it returns an error on one of them, all get ErrNoQuorum. It must return when ctx
	// ends. If a rank dies meanwhile, the others call it again. An example is to set a key of a consistent store, once.
	Vote func(ctx context.Context, id uint64, left []int) error
	// Name appears in logs and errors, without characters that a terminal obeys.
	Name string

	// Algorithms forces algorithms, in the format of GOCCL_ALGO, which it replaces: all_reduce:two_shot_ll128, several
	// separated by commas.
	Algorithms string

	// Net is the network between hosts; nil: TCP. All ranks have networks of one kind.
	Net transport.Net

	asked    time.Duration   // OpTimeout before fill
	ranks    []int           // the job's numbers of the ranks of the communicator; nil: their own
	settings *setting.Config // of the environment
	forced   []collective.Forced
	bad      error // an error in the environment or in Algorithms
}

const defaultTimeout = 30 * time.Second

// fill sets defaults for unset fields, from the environment. A bad value there is kept in bad: the ranks meet first, so
// that the peers learn of it.
func (cfg *Config) fill() error {
	if cfg.Device == nil {
		return fmt.Errorf("goccl: NewComm: %w: Config needs a Device", ErrInvalidArgument)
	}
	cfg.Name = printable.Line(cfg.Name)
	env, err := setting.Read()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	env.Algorithms = cmp.Or(cfg.Algorithms, env.Algorithms)
	forced, err2 := collective.ParseForced(env.Algorithms)
	var err3 error
	if env.Tuning != "" { // engines of host memory do not read it
		_, err3 = nvlink.LoadTable(env.Tuning, nvlink.GPU{}, 1)
	}
	cfg.settings, cfg.forced, cfg.bad = env, forced, errors.Join(err, err2, err3)
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.asked = cfg.OpTimeout; cfg.OpTimeout == 0 {
		cfg.OpTimeout = env.OpTimeoutOr(setting.DefaultOpTimeout)
	}
	cfg.OpTimeout = max(0, cfg.OpTimeout)
	cfg.CheckData = cfg.CheckData || env.Check == setting.CheckData
	cfg.Check = cfg.Check || cfg.CheckData || env.Check != setting.CheckNothing
	cfg.SeparateGraphs = cfg.SeparateGraphs || env.SeparateGraphs || cfg.UnorderedCaptures
	for _, n := range []int{cfg.MinCTAs, cfg.MaxCTAs} {
		if n < 0 || n > math.MaxUint16 {
			return fmt.Errorf("goccl: NewComm: %w: %d thread blocks: want 0 to %d", ErrInvalidArgument, n, math.MaxUint16)
		}
	}
	env.MinCTAs, env.MaxCTAs = cmp.Or(env.MinCTAs, uint16(cfg.MinCTAs)), cmp.Or(env.MaxCTAs, uint16(cfg.MaxCTAs))
	if q, ok := setting.ParseQuorum(cfg.Quorum); ok {
		env.Quorum = q
	} else if cfg.Quorum != "" {
		return fmt.Errorf("goccl: NewComm: %w: Quorum is %q: want %s", ErrInvalidArgument, cfg.Quorum, setting.WantQuorum)
	}
	env.CTAPolicy = cmp.Or(env.CTAPolicy, cfg.CTAPolicy)
	if env.Exact = max(env.Exact, cfg.Exact); env.Exact > collective.ExactReference {
		return fmt.Errorf("goccl: NewComm: %w: Exact is %d: want one of collective's constants", ErrInvalidArgument,
			env.Exact)
	}
	return nil
}
