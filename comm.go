package goccl

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/collective/check"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine"
	"github.com/goccl/goccl/engine/onesided"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
	"github.com/goccl/goccl/job/network"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/watch/ras"
	"github.com/goccl/goccl/watch/record"
	"github.com/goccl/goccl/watch/watchdog"
)

// Comm is one rank's membership in a communicator.
type Comm struct {
	boot    bootstrap.Bootstrap // a group used by this communicator only
	owned   bootstrap.Bootstrap // what boot is a group of, if it is closed with this communicator; else nil
	dev     device.Device       // the caller's, who closes it after Close
	cfg     Config              // after fill and agree: what holds on all ranks
	rank    int                 // in this communicator
	size    int                 // the number of ranks
	engine  collective.Engine   // nil until setUp; registered algorithms run beside it
	checker *check.Checker      // nil if requests are not checked
	stream0 device.Stream       // the default stream of a GPU; nil on the host device
	order   *cuda.Order         // the order of the engine's work on a GPU; nil on the host device
	plans   [][]byte            // contents of the files in GOCCL_PLAN_DIR
	net     transport.Net       // to ranks of other hosts; nil if there are none
	nic     int                 // this rank's adapter of net

	id        uint64              // the same on all ranks, different for every communicator
	closed    atomic.Bool         // Close has begun
	suspended atomic.Bool         // between Suspend and Resume
	revoked   atomic.Bool         // by Revoke: shrinking is all that is left
	done      atomic.Bool         // set by Finalize
	group     *membership.Group   // who belongs to the communicator
	status    *membership.Status  // of group
	record    *record.Recorder    // nil: operations are not recorded
	leaveRAS  func()              // nil if the ranks have no records
	watchdog  *watchdog.Watchdog  // nil until the ranks have agreed
	notices   *membership.Notices // nil without peers

	mu       sync.Mutex            // guards the fields below and the order in which requests reach the engine
	seq      uint64                // sequence number of the latest collective
	messages uint64                // sends and receives so far
	single   [1]collective.Request // the request of a call with a single collective

	flats     *share.Windows   // flat windows; nil: none was registered
	signals   onesided.Signals // made with flats; nil if the ranks cannot have them
	resources []resource       // closed with the communicator
	detached  sync.Map         // of detached

	registered *registered // registered algorithms; nil if there are none
	extended   atomic.Bool // an algorithm is registered, so the engine does not see all work

	wanted map[collective.Collective]string // names in GOCCL_ALGO that the engine does not have
}

// NewComm joins this rank to a communicator of all ranks of the bootstrap. It is collective: every rank calls it.
func NewComm(ctx context.Context, cfg Config) (*Comm, error) {
	if cfg.Bootstrap == nil {
		return nil, fmt.Errorf("goccl: NewComm: %w: Config needs a Bootstrap", ErrInvalidArgument)
	}
	err := cmp.Or(context.Cause(ctx), cfg.fill())
	if err != nil { // join tells the peers
		var stop context.CancelCauseFunc
		ctx, stop = context.WithCancelCause(ctx)
		stop(err)
	}
	everyone := bootstrap.Everyone(cfg.Bootstrap.WorldSize())
	c, err := join(ctx, ctx, "init", cfg, cfg.Bootstrap, everyone, tags.SpaceOfCommunicators)
	if err == nil && c.net == nil && c.rank == 0 { // between hosts it is an error
		if bad := network.Unknown(cfg.settings); bad != nil {
			slog.Warn("goccl: no such network; ranks of one host need none", "error", bad)
		}
	}
	return c, err
}

// join creates a communicator of the given ranks of parent, in the given space. Its errors name ranks by their numbers
// in parent.
//
//  1. Make a bootstrap group for this communicator, so that its messages cannot mix with the messages of others.
//  2. Watch the group: from here on a death ends what this rank waits for.
//  3. Agree on the kind of device, before anything is built on it, and on checking.
//  4. Set up the engine.
//  5. Wait until all ranks have done so. This step ends with the context last, the others with ctx: where the death of
//     another rank of parent ends ctx, it ends the set-up on all ranks or on none.
//
// A rank that fails says so to the others (bootstrap.GiveUp), which end at once and blame the same rank.
func join(ctx, last context.Context, op string, cfg Config, parent bootstrap.Bootstrap, ranks []int, space int) (
	*Comm, error,
) {
	ctx, stop := context.WithTimeout(ctx, cfg.Timeout)
	defer stop()
	last, stopLast := context.WithTimeout(last, cfg.Timeout)
	defer stopLast()
	boot, err := parent.Sub(ctx, ranks, space)
	if err == nil && context.Cause(ctx) != nil { // nobody else is in the group
		err = errors.Join(context.Cause(ctx), boot.Close())
	}
	if err != nil {
		return nil, membership.Wrap(cfg.Name, op, parent.Rank(), err)
	}
	bootstrap.NameAsAbove(boot, true)
	cfg.ranks = membership.InJob(cfg.ranks, ranks)
	group := membership.New(boot, membership.Config{Name: cfg.Name, Timeout: cfg.Timeout, OpTimeout: cfg.OpTimeout,
		Verdict: watchdog.Verdict, Quorum: cfg.settings.Quorum, Vote: cfg.Vote, Job: cfg.ranks})
	c := &Comm{boot: boot, dev: cfg.Device, cfg: cfg, rank: boot.Rank(), size: boot.WorldSize(), group: group,
		status: &group.Status}
	bounded, stop2 := c.status.Bound(ctx)
	defer stop2()
	if err = c.agree(bounded); err == nil {
		err = c.setUp(bounded)
	}
	if err == nil {
		boundedLast, stop3 := c.status.Bound(last)
		defer stop3()
		err = c.boot.Barrier(boundedLast)
	}
	if err != nil {
		err = group.Blame(op, err, cmp.Or(context.Cause(ctx), context.Cause(last)), ranks)
		group.GiveUp(err, ranks)
		return nil, errors.Join(err, c.Close())
	}
	bootstrap.NameAsAbove(boot, false)
	return c, nil
}

// agree checks that all ranks use the same kind of device and the same plans, turns checking on if any rank requests
// it, and takes the communicator's id from rank 0. A rank whose settings are wrong tells its peers: all of them fail.
func (c *Comm) agree(ctx context.Context) error {
	plans, digest, err := planFolder(c.cfg.settings.PlanDir)
	c.plans = plans
	mine := binary.LittleEndian.AppendUint64([]byte{byte(c.dev.ID().Kind), 0}, rand.Uint64())
	mine = binary.LittleEndian.AppendUint64(mine, digest)
	mine = binary.LittleEndian.AppendUint32(mine, uint32(c.cfg.settings.Quorum))
	mine = append(mine, membership.Here(c.dev.ID().Index).Bytes()...)
	switch {
	case c.cfg.CheckData:
		mine[1] = 2
	case c.cfg.Check:
		mine[1] = 1
	}
	if c.cfg.Vote != nil {
		mine[1] |= 8
	}
	mine[1] |= byte(c.cfg.settings.Exact) << 4
	length := len(mine)
	failed := errors.Join(c.cfg.bad, err)
	if failed != nil {
		mine = append(mine, failed.Error()...)
	}
	all, err := c.boot.AllGather(ctx, mine)
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	for r, b := range all {
		if len(b) > length {
			return c.group.Fault("init", r, fmt.Errorf("%w: rank %d cannot go on: %s", ErrUnsupported, r, b[length:]))
		}
		if len(b) != length || b[0] != mine[0] {
			return c.group.Fault("init", r, fmt.Errorf("%w: this rank uses a %v device, the peer another kind: give every rank "+
				"the same kind", ErrMismatch, c.dev.ID().Kind))
		}
		if binary.LittleEndian.Uint64(b[10:]) != digest {
			return c.group.Fault("init", r, fmt.Errorf("%w: the peer has other plans in GOCCL_PLAN_DIR than this rank",
				ErrMismatch))
		}
		if q := setting.Quorum(binary.LittleEndian.Uint32(b[18:])); q != c.cfg.settings.Quorum {
			return c.group.Fault("init", r, fmt.Errorf("%w: GOCCL_QUORUM or Config.Quorum is %q here and %q there: set it "+
				"equally on all ranks", ErrMismatch, c.cfg.settings.Quorum, q))
		}
		c.cfg.Check, c.cfg.CheckData = c.cfg.Check || b[1]&7 != 0, c.cfg.CheckData || b[1]&7 == 2
		c.group.Voting = c.group.Voting || b[1]&8 != 0
		c.cfg.settings.Exact = max(c.cfg.settings.Exact, collective.Exact(b[1]>>4))
	}
	c.id = binary.LittleEndian.Uint64(all[0][2:])
	who := &membership.Members{ID: c.id}
	for _, b := range all {
		who.Ranks = append(who.Ranks, membership.ParseProcess(b[length-membership.ProcessBytes:length]))
	}
	c.group.Agreed(who)
	c.record = record.Open(record.Meta{ID: c.id, Name: c.cfg.Name, Rank: c.rank, Size: c.size, Ranks: c.cfg.ranks,
		Device: c.dev.ID().String()}, record.Options{Entries: c.cfg.settings.Record, Folder: c.cfg.settings.RecordDir,
		Signal: c.cfg.settings.RecordSignal})
	c.watchdog = watchdog.New(watchdog.Config{Group: c.group, Device: c.dev, Record: c.record,
		After: c.cfg.settings.VerdictAfter, OpTimeout: c.cfg.OpTimeout})
	if c.cfg.Check {
		wait := cmp.Or(max(0, cmp.Or(c.cfg.asked, c.cfg.settings.OpTimeoutOr(0))), c.cfg.Timeout)
		c.checker = &check.Checker{Group: c.group, Boot: c.boot, Device: c.dev, Timeout: wait, Failure: c.AsyncError}
	}
	return nil
}

func (c *Comm) setUp(ctx context.Context) (err error) {
	if c.dev.ID().Kind == device.CUDA {
		if c.stream0, err = c.dev.WrapStream(0); err != nil {
			return err
		}
	}
	made, err := engine.New(ctx, engine.Config{Job: c.job(c.failAlone), Net: c.cfg.Net, Record: c.record,
		ExplainLate: c.watchdog.ExplainLate})
	if err != nil {
		return err
	}
	c.engine, c.boot, c.net, c.nic, c.order = made.Engine, made.Bootstrap, made.Net, made.NIC, made.Order
	c.status.SetEngine(c.engine)
	c.notices = c.group.Listen(c.engine)
	c.record.Serve(c.engine, made.Kind, made.Kind == engine.EngineOfHost, c.stream0 != nil)
	c.watchdog.Observe(c.boot, c.engine)
	if c.record != nil {
		c.leaveRAS = ras.Join(c.cfg.settings, c.watchdog)
	}
	if err = c.readForced(c.cfg.forced); err != nil {
		return err
	}
	return c.loadPlanFolder(ctx, c.plans)
}

// job is the configuration of the engine, and of what works beside it. failed is called with the cause of a failure.
func (c *Comm) job(failed func(error)) collective.Job {
	return collective.Job{Bootstrap: c.boot, Device: c.dev, Name: c.cfg.Name, Settings: c.cfg.settings,
		Timeout: c.cfg.Timeout, OpTimeout: c.cfg.OpTimeout, StallWarning: c.cfg.settings.StallWarning,
		SeparateGraphs: c.cfg.SeparateGraphs, UnorderedCaptures: c.cfg.UnorderedCaptures, Explain: c.watchdog.Explain,
		OnFailure: failed}
}

// NetworkName names the network that carries messages between hosts: "tcp", "ib", or a plugin's name. It is "" if all
// ranks are on one host.
func (c *Comm) NetworkName() string {
	if c.net == nil {
		return ""
	}
	return c.net.Name()
}

// Rank returns this rank's number, from 0 to WorldSize-1.
func (c *Comm) Rank() int { return c.rank }

// WorldSize returns the number of ranks.
func (c *Comm) WorldSize() int { return c.size }

// Device returns the device given to NewComm.
func (c *Comm) Device() device.Device { return c.dev }

// Name returns the name given to NewComm.
func (c *Comm) Name() string { return c.cfg.Name }

// ID returns a number that is the same on all ranks and different for every communicator.
func (c *Comm) ID() uint64 { return c.id }

// Table returns the name of the measured table that chooses the algorithms of c's built-in collectives, or "none" if no
// table is in use.
func (c *Comm) Table() string { return c.engine.TableName() }

// usable returns nil if the communicator can be used, and the error to report otherwise.
func (c *Comm) usable(op string) error {
	if err := c.open(op); err != nil {
		return err
	}
	return c.engine.Err()
}

// open is usable without regard to failures.
func (c *Comm) open(op string) error {
	if c.closed.Load() {
		return c.group.Fault(op, -1, ErrClosed)
	}
	if c.done.Load() {
		return c.errorf(op, ErrInvalidUsage, "the communicator was finalized")
	}
	if c.suspended.Load() && op != "resume" {
		return c.errorf(op, ErrInvalidUsage, "the communicator is suspended: resume it first")
	}
	return nil
}

// AsyncError returns the first error of the communicator, or nil. After an error only Abort, Shrink and Close are
// useful. Once a stream has ended, AsyncError knows of every failed operation in it.
func (c *Comm) AsyncError() error {
	if c.closed.Load() {
		return c.engine.Err()
	}
	return c.status.Failure()
}

func (c *Comm) wrap(op string, err error) error { return c.group.Wrap(op, err) }

func (c *Comm) errorf(op string, kind error, format string, args ...any) error {
	return c.group.Errorf(op, kind, format, args...)
}
