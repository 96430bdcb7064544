package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/leak"
	"github.com/goccl/goccl/test/ranks"
)

// rank is a process of a trial, seen from inside.
type rank struct {
	Trial
	fault *fault
	phase *phase
	armed bool
	// lateness is how long the next operation waits, in ns.
	lateness atomic.Int64
	end      chan struct{} // closed when the trial is over for all ranks
	until    time.Time     // when a rank gives up that should have got an error

	boot bootstrap.Bootstrap
	dev  device.Device
	comm *goccl.Comm // from which the survivors shrink

	making  context.Context // in which set-up makes a communicator; giveUp ends it
	giveUp  context.CancelFunc
	current atomic.Pointer[goccl.Comm] // which the fault may abort
}

// Rank is the main function of a process of a trial. It returns the exit status.
func Rank(text string, stdin io.Reader) int {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	r := &rank{end: make(chan struct{}), until: time.Now().Add(limit)}
	r.making, r.giveUp = context.WithCancel(context.Background())
	defer r.giveUp()
	if err := json.Unmarshal([]byte(text), &r.Trial); err != nil {
		fmt.Println(err)
		return 1
	}
	if r.Rank < 0 {
		r.Rank, _ = strconv.Atoi(setting.Get("RANK"))
	}
	r.fault, r.phase = lookUp(faults(), r.Fault), lookUp(phases(), r.Phase)
	if r.fault == nil || r.phase == nil {
		r.say("failed", fmt.Errorf("no fault %q or no phase %q", r.Fault, r.Phase))
		return 1
	}
	go func() { // the end of the input is the end of the experimenter
		_, _ = bufio.NewReader(stdin).ReadString('\n')
		close(r.end)
	}()
	base := ranks.Base()
	if err := r.live(); err != nil {
		r.say("failed", err)
		return 1
	}
	if r.CUDA { // the driver keeps descriptors and mappings until the process ends; rank.cycles looks for more
		base.Descriptors, base.Mappings = math.MaxInt, math.MaxInt
	}
	if after := leak.Settled(base); after.More(base) {
		r.say("leak", fmt.Errorf("%v, before %v\n%s", after, base, after.Detail))
	}
	r.say("done", nil)
	return 0
}

func (r *rank) say(event string, err error) { ranks.NewReport(r.Rank, event, err).Print() }

// sayError reports an error of r.comm by the numbers that ranks have in the job.
func (r *rank) sayError(err error) {
	rep := ranks.NewReport(r.Rank, "error", err)
	if r.comm != nil {
		rep.Peer, rep.Blames = r.inJob(rep.Peer, r.comm.WorldSize()), r.inJob(rep.Blames, r.comm.WorldSize())
	}
	rep.Print()
}

// inJob is the number in the job of a rank of a communicator. One without the leaver has other numbers.
func (t *Trial) inJob(number, size int) int {
	if l := t.leaver(); l >= 0 && size == t.Ranks-1 && number >= l {
		return number + 1
	}
	return number
}

// Spaces of bootstrap groups.
const (
	survivors = iota + 1
	members
)

// live joins, makes a communicator, uses it in the trial's phase, and goes on with the survivors.
func (r *rank) live() (err error) {
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	if r.dev, err = r.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.dev.Close()) }()
	r.say("opened", nil)
	if r.Phase == "joining" {
		r.arm()
	}
	r.boot, err = bootstrap.JoinAddress(ctx, r.Address, r.Rank, r.phase.processes(r.Ranks),
		bootstrap.WithTimeout(r.joinTimeout()))
	if err != nil {
		return r.over(err)
	}
	defer func() { err = errors.Join(err, r.boot.Close()) }()
	if r.phase.use == nil {
		return r.over(r.setUp(ctx))
	}
	if r.Rank >= r.Ranks {
		return r.over(r.newcomer(ctx))
	}
	group := r.boot
	if r.phase.extra > 0 {
		if group, err = r.boot.Sub(ctx, everyone(r.Ranks), members); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, group.Close()) }()
	}
	if r.comm, err = r.newComm(ctx, group); err != nil {
		return err
	}
	first := r.comm
	r.current.Store(first)
	defer func() { err = errors.Join(err, first.Close()) }()
	defer r.notice(first)()
	defer func() {
		if r.comm != first && r.struck() { // the survivors have closed theirs
			err = errors.Join(err, r.comm.Close())
		}
	}()
	if err := r.steady(first, 16, 1); err != nil { // it works
		return err
	}
	return r.over(r.phase.use(r))
}

func (r *rank) open() (device.Device, error) {
	if !r.CUDA {
		return host.Open(r.Rank)
	}
	n, err := cuda.Count()
	if err != nil {
		return nil, err
	}
	return cuda.Open(r.Rank % max(1, n))
}

// notice reports when the communicator first has an error: a rank may then be busy with its own data. The result ends
// it.
func (r *rank) notice(c *goccl.Comm) (stop func()) {
	quit := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := c.AsyncError(); err != nil {
				r.say("named", err)
				return
			}
			select {
			case <-quit:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	return func() { close(quit); <-done }
}

// joinTimeout is short where a rank may die before anyone has heard of it.
func (r *rank) joinTimeout() time.Duration {
	if r.Phase == "joining" && r.fault.expect != nothing {
		return joinTimeout
	}
	return hold
}

func (r *rank) newComm(ctx context.Context, b bootstrap.Bootstrap) (*goccl.Comm, error) {
	return goccl.NewComm(ctx, r.config(b))
}

func (r *rank) config(b bootstrap.Bootstrap) goccl.Config {
	return goccl.Config{Bootstrap: b, Device: r.dev, OpTimeout: r.Hold, Timeout: r.timeout(r.fault),
		// Neither a plan's steps nor kernels can carry what was called.
		Check: r.fault.expect == mismatch && (r.Phase == "plan" || r.CUDA && slices.Contains(collectives, r.Phase))}
}

// patient multiplies the deadlines of a communicator after the fault by the same factor as the judge's limits.
func (r *rank) patient(cfg *goccl.Config) {
	cfg.OpTimeout = time.Duration(r.Slow * float64(r.Hold))
	cfg.Timeout = time.Duration(r.Slow * float64(r.timeout(r.fault)))
}

// over reports what the phase ended with, goes on with the survivors, and waits until all ranks have come so far.
func (r *rank) over(failed error) error {
	if failed == nil {
		r.say("fine", nil)
	} else {
		if errors.Is(failed, errWrong) {
			r.say("wrong", failed)
		}
		if r.sayError(failed); r.fault.expect == typed && r.comm != nil {
			r.comm.Abort(failed) // as a program does that cannot go on
		}
	}
	err := error(nil)
	// In a Shrink a victim may have been left out, without an error.
	goesOn := failed != nil || r.Phase == "shrink" && r.forever() && r.Rank != r.leaver()
	switch {
	case goesOn && slices.Contains(r.remaining(r.fault), r.Rank):
		err = r.goOn(failed)
	case failed == nil && r.fault.expect == nothing && r.comm != nil && r.Phase != "close" && r.Rank != r.leaver():
		err = r.prove(r.comm)
	}
	if errors.Is(err, errWrong) {
		r.say("wrong", err)
	}
	if err != nil {
		r.say("failed", err)
	}
	r.say("over", nil)
	<-r.end
	if r.comm != nil && failed == nil && !r.forever() && r.Phase != "close" {
		err := r.comm.Finalize(context.Background())
		return errors.Join(err, r.comm.Close())
	}
	return nil
}

// goOn makes a communicator of the survivors and uses it.
func (r *rank) goOn(failed error) (err error) {
	switch {
	case r.Phase == "joining" || r.Phase == "close":
		return nil
	case r.fault.expect == typed:
		return nil // there is no one to leave out
	case r.phase.use == nil, r.fault.expect == mismatch && r.Phase != "shrink":
		var left bootstrap.Bootstrap
		if left, err = r.boot.Sub(context.Background(), r.remaining(r.fault), survivors); err != nil {
			return fmt.Errorf("join the survivors: %w", err)
		}
		defer func() { err = errors.Join(err, left.Close()) }()
		cfg := r.config(left)
		r.patient(&cfg)
		if r.comm, err = goccl.NewComm(context.Background(), cfg); err != nil {
			return fmt.Errorf("a communicator of the survivors: %w", err)
		}
	default:
		if err := r.shrink(failed); err != nil {
			return err
		}
	}
	c := r.comm
	defer func() { err = errors.Join(err, c.Close()) }()
	if err = r.steady(c, 1000, 3); err != nil {
		return fmt.Errorf("the survivors' communicator: %w", err)
	}
	r.say("shrunk", nil)
	if err = r.prove(c); err != nil {
		return fmt.Errorf("the survivors' communicator: %w", err)
	}
	return c.Finalize(context.Background()) // a rank that is done must not end the others' work
}

// shrink replaces r.comm by a communicator of the survivors. It may take several steps: a communicator may have a
// victim that dies later.
func (r *rank) shrink(failed error) error {
	want := r.shrunk()
	for r.comm.WorldSize() > len(want) {
		if time.Now().After(r.until) {
			return fmt.Errorf("still %d ranks, want %v: %w", r.comm.WorldSize(), want, failed)
		}
		small, err := r.comm.Shrink(context.Background(), r.excluded(failed), true, r.patient)
		if err != nil {
			failed = err
			var ge *goccl.Error
			if !errors.As(err, &ge) || ge.Peer < 0 {
				return fmt.Errorf("shrink: the error names nobody: %w", err)
			}
			continue
		}
		if r.comm.WorldSize() < r.Ranks { // not the first, which live closes
			_ = r.comm.Close()
		}
		if r.comm = small; small.WorldSize() > len(want) {
			failed = r.steady(small, 16, 1<<30)
		}
	}
	return nil
}

// excluded lists whom this rank leaves out: the rank that its error names, if it lives, since the agreement learns of
// the dead by itself.
func (r *rank) excluded(failed error) []int {
	var out []int
	if l := r.leaver(); l >= 0 && r.comm.WorldSize() == r.Ranks {
		out = append(out, l)
	}
	// A rank that has called something else, Shrink, is alive and shrinks.
	e := ranks.NewReport(r.Rank, "", failed)
	if r.fault.expect != death && r.fault.expect != cut &&
		e.Kind != goccl.ErrMismatch.Error() && e.Peer >= 0 && e.Peer != r.comm.Rank() &&
		!slices.Contains(out, e.Peer) {
		out = append(out, e.Peer)
	}
	return out
}

// leaver is the rank that the phase "shrink" leaves out although it lives, or -1.
func (t *Trial) leaver() int {
	if t.Phase != "shrink" {
		return -1
	}
	v := 0
	if len(t.Victims) > 0 {
		v = t.Victims[0]
	}
	if next := (v + 1) % t.Ranks; len(t.Victims) < t.Ranks-1 {
		for slices.Contains(t.Victims, next) {
			next = (next + 1) % t.Ranks
		}
		return next
	}
	return v
}

// shrunk lists the ranks of this survivor's communicator.
func (r *rank) shrunk() []int {
	return slices.DeleteFunc(r.remaining(r.fault), func(x int) bool {
		return x == r.leaver() || r.fault.expect == cut && r.host(x) != r.host(r.Rank)
	})
}

func everyone(n int) []int {
	out := make([]int, n)
	for r := range out {
		out[r] = r
	}
	return out
}
