package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan/programs"
)

// errUnaware is the error of a rank that got none although it had to.
var errUnaware = errors.New("no error came")

// forever reports whether the phase runs until it fails.
func (r *rank) forever() bool {
	return r.fault.expect != nothing && r.fault.expect != typed
}

// again reports whether another round of the phase follows round i, of n where the fault is none.
func (r *rank) again(i, n int) error {
	if r.forever() && time.Now().After(r.until) {
		return errUnaware
	}
	if !r.forever() && i >= n {
		return errEnd
	}
	if !r.forever() {
		time.Sleep(r.fault.stretch / time.Duration(max(1, n)))
	}
	return nil
}

// errEnd ends a phase that went well.
var errEnd = errors.New("the end")

func fine(err error) error {
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// steady runs n all-reduces.
func (r *rank) steady(c *goccl.Comm, count int64, n int) (err error) {
	u, err := newSums(c, count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	for range n {
		if err := u.once(nil); err != nil {
			return err
		}
		if r.forever() && time.Now().After(r.until) { // else a busy machine is no fault
			return errUnaware
		}
	}
	return nil
}

// setUp makes a communicator and uses it until a victim is dead. The fault strikes in the making, or later.
func (r *rank) setUp(ctx context.Context) (err error) {
	if r.Phase != "joining" {
		if err := r.boot.Barrier(ctx); err != nil {
			return err
		}
		r.arm()
	}
	switch k := r.altered(); {
	case k.skip:
		return nil
	case k.other:
		forget, err := otherPlans()
		if err != nil {
			return err
		}
		defer forget()
	}
	c, err := r.newComm(r.making, r.boot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if r.current.Store(c); r.making.Err() != nil { // the fault came before
		c.Abort(nil)
	}
	if !r.forever() {
		return r.steady(c, 256, 20)
	}
	return r.steady(c, 256, 1<<30)
}

// otherPlans gives this process a folder of plans, which its peers do not have.
func otherPlans() (forget func(), err error) {
	dir, err := os.MkdirTemp("", "goccl-chaos-*")
	if err != nil {
		return nil, err
	}
	prog, err := programs.Lookup("allreduce_direct")
	if err != nil {
		return nil, err
	}
	p, err := prog.Build(programs.Options{Ranks: 2})
	if err != nil {
		return nil, err
	}
	before := setting.Environ()
	setting.Load(append([]string{"GOCCL_PLAN_DIR=" + dir}, before...))
	return func() { setting.Load(before); _ = os.RemoveAll(dir) },
		os.WriteFile(filepath.Join(dir, "plan.json"), p.Encode(), 0o600)
}

// begin lets all ranks start the phase together, and arms the fault.
func (r *rank) begin() error {
	if err := r.boot.Barrier(context.Background()); err != nil {
		return err
	}
	r.arm()
	return nil
}

func (r *rank) reduce() (err error) {
	u, err := newSums(r.comm, r.phase.count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	if err := errors.Join(u.once(nil), r.begin()); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := r.again(i, int(30/(1+r.phase.count>>20))); err != nil {
			return fine(err)
		}
		time.Sleep(time.Duration(r.lateness.Swap(0)))
		if err := u.once(r.change(i)); err != nil {
			return err
		}
	}
}

// skewed runs operations before each of which every rank pauses for a random time.
func (r *rank) skewed() (err error) {
	u, err := newSums(r.comm, r.phase.count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	if err := errors.Join(u.once(nil), r.begin()); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(r.Seed, uint64(r.Rank)))
	for range 1000 {
		switch rng.IntN(100) {
		case 0:
			time.Sleep(time.Duration(rng.IntN(20)) * ms)
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
			time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
		}
		if err := u.once(nil); err != nil {
			return err
		}
	}
	return nil
}

// change is what the fault changes in one of this rank's calls. A rank that leaves out a call comes back after the
// others' deadline.
func (r *rank) change(i int) func(c *call) {
	if r.fault.call == nil || !r.struck() || i != 3 {
		return nil
	}
	return func(c *call) {
		r.say("fault", nil)
		if r.fault.call(c); c.skip && r.phase.collective {
			time.Sleep(3 * r.Hold)
		} else if c.skip {
			time.Sleep(r.timeout(r.fault) + 2*r.Hold)
		}
	}
}

// altered is what the fault changes in a call that is no collective.
func (r *rank) altered() (k call) {
	if change := r.change(3); change != nil {
		change(&k)
	}
	return k
}

func (r *rank) idle() (err error) {
	u, err := newSums(r.comm, 256)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.close()) }()
	if err := errors.Join(u.once(nil), r.begin()); err != nil {
		return err
	}
	for i := 0; r.comm.AsyncError() == nil; i++ {
		if err := r.again(i, 3000); err != nil || r.fault.expect == leaving && i == 100 { // the next operation shows it
			if err = fine(err); err == nil {
				err = u.once(nil)
			}
			return err
		}
		time.Sleep(100 * time.Microsecond)
	}
	if err := u.once(nil); err != nil {
		return err
	}
	return fmt.Errorf("an operation came out well after %w", r.comm.AsyncError())
}

func (r *rank) split() error {
	if err := r.begin(); err != nil {
		return err
	}
	colors := r.phase.colors(&r.Trial)
	var members []int
	for m, color := range colors {
		if color == colors[r.Rank] {
			members = append(members, m)
		}
	}
	for i := 0; ; i++ {
		if err := r.again(i, 10); err != nil {
			return fine(err)
		}
		time.Sleep(time.Duration(r.lateness.Swap(0)))
		if i == 3 {
			if k := r.altered(); k.skip {
				continue
			} else if k.other {
				_, err := r.comm.Grow(context.Background(), r.Ranks+1, nil)
				return err
			}
		}
		sub, err := r.comm.Split(context.Background(), colors[r.Rank], r.Rank)
		if err != nil {
			return err
		}
		if sub == nil { // NoColor
			continue
		}
		err = r.steady(sub, 256, 1)
		if err == nil {
			err = sub.Finalize(context.Background())
		}
		if err = errors.Join(inParent(err, members), sub.Close()); err != nil {
			return err
		}
	}
}

// inParent gives the ranks of an error of a communicator their numbers in the parent: members has them.
func inParent(err error, members []int) error {
	var ge *goccl.Error
	if !errors.As(err, &ge) {
		return err
	}
	renamed := *ge
	if ge.Peer >= 0 {
		renamed.Peer = members[ge.Peer]
	}
	if v := ge.Verdict; v != nil && v.Rank >= 0 {
		verdict := *v
		verdict.Rank, renamed.Verdict = members[v.Rank], &verdict
	}
	return &renamed
}

func (r *rank) shrinking() error {
	if err := r.begin(); err != nil {
		return err
	}
	l := r.leaver()
	if r.Rank == l {
		r.say("over", nil)
		<-r.end
		return nil
	}
	switch k := r.altered(); {
	case k.skip:
		return nil
	case k.other:
		if _, err := r.comm.Split(context.Background(), 0, r.Rank); !errors.Is(err, goccl.ErrMismatch) {
			return fmt.Errorf("%w: Split, while the peers are in Shrink, ended with %v", errWrong, err)
		}
	}
	small, err := r.comm.Shrink(context.Background(), []int{l}, false)
	if err != nil {
		return err
	}
	r.comm = small
	if r.current.Swap(small).AsyncError() != nil && r.fault.expect == leaving && r.struck() {
		small.Abort(nil) // the fault came before
	}
	if !r.forever() || r.fault.expect == mismatch {
		return r.steady(small, 256, 20)
	}
	if small.WorldSize() == len(r.shrunk()) { // the victim died before it shrank
		return nil
	}
	return r.steady(small, 256, 1<<30)
}

const newcomerTag = 7

func (r *rank) grow() error {
	if err := r.begin(); err != nil {
		return err
	}
	ctx := context.Background()
	var id *bootstrap.UniqueID
	if r.Rank == 0 {
		made, err := bootstrap.NewUniqueID()
		if err != nil {
			return err
		}
		id = &made
		if err := r.boot.Send(ctx, r.Ranks, newcomerTag, made[:]); err != nil {
			return err
		}
	}
	big, err := r.comm.Grow(ctx, r.Ranks+1, id)
	if err != nil {
		return err
	}
	return r.useGrown(big)
}

func (r *rank) useGrown(big *goccl.Comm) (err error) {
	defer func() { err = errors.Join(err, big.Close()) }()
	if r.forever() {
		return r.steady(big, 256, 1<<30)
	}
	if err := r.steady(big, 256, 20); err != nil {
		return err
	}
	return big.Finalize(context.Background())
}

// newcomer is the process by which the communicator grows.
func (r *rank) newcomer(ctx context.Context) (err error) {
	if err := r.begin(); err != nil {
		return err
	}
	b, err := r.boot.Recv(ctx, 0, newcomerTag)
	if err != nil {
		return err
	}
	id, err := bootstrap.ParseUniqueID(b)
	if err != nil {
		return err
	}
	boot, err := bootstrap.JoinID(ctx, id, r.Rank, r.Ranks+1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, boot.Close()) }()
	big, err := r.newComm(ctx, boot)
	if err != nil {
		return err
	}
	return r.useGrown(big)
}

func (r *rank) finish() error {
	if err := r.begin(); err != nil {
		return err
	}
	err := r.comm.Finalize(context.Background())
	return errors.Join(err, r.comm.Close())
}

func (r *rank) plan() error {
	prog, err := programs.Lookup("allreduce_direct")
	if err != nil {
		return err
	}
	p, err := prog.Build(programs.Options{Ranks: r.Ranks})
	if err != nil {
		return err
	}
	if err := r.comm.RegisterPlan(context.Background(), p); err != nil {
		return err
	}
	return r.reduce()
}
