package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	errs "github.com/goccl/goccl/internal/fault"
)

// misuses are faults of a program and of what was there before it.
func misuses() []*fault {
	return []*fault{
		{Name: "order", Number: 7, Help: "one rank uses two communicators in the other order, deadline 1 s", expect: stall,
			victims: oneOf, phases: []string{"two"}, hold: time.Second, verdict: errs.VerdictDeadlock},
		{Name: "stale", Number: 15, Help: "ranks at the same address were killed just before", expect: nothing,
			before: (*experiment).crash, phases: []string{"joining", "set-up", "small", "large", "split", "colors",
				"plan", "proxy"}},
		{Name: "fork", Number: 16, Help: "one rank forks; the child has all descriptors and memory, and ends 1 s later",
			expect: nothing, victims: oneOf, strike: (*rank).fork, stretch: time.Second},
		{Name: "fork-kill", Number: 16, Help: "kill -9 of one rank that has forked; the child lives on for 1 s",
			victims: oneOf, strike: func(r *rank) { r.fork(); r.kill() }},
		{Name: "bad-pointer", Number: 17, Help: "one rank calls with wrong pointers, and then again with the right ones",
			expect: nothing, victims: oneOf, call: func(c *call) { c.bad = true }, phases: collectives},
		{Name: "device-full", Number: 17, Help: "one rank's device has no memory left", expect: typed, victims: oneOf,
			strike: (*rank).fillDevice, phases: []string{"set-up", "small", "split", "colors", "grow"}},
	}
}

// crash runs the ranks of the trial once before it, and kills them in the middle. The job that follows has the same
// address and secret.
func (x *experiment) crash(program []string) error {
	for r := range x.phase.processes(x.Ranks) {
		if err := x.start(r, program); err != nil {
			return err
		}
	}
	_, err := x.job.Await("begun", everyone(x.phase.processes(x.Ranks)), limit)
	time.Sleep(x.Delay)
	for r := range x.job.Size() {
		_ = x.job.Process(r).Kill()
	}
	x.job.Wait(limit)
	x.job.Close()
	return err
}

// fork makes a process that has this one's descriptors and memory, as a program does that calls fork without exec. Go
// has no fork: the child only makes two system calls.
func (r *rank) fork() {
	r.say("fault", nil)
	pid := forkAndSleep(time.Second)
	go func() { _, _ = syscall.Wait4(pid, nil, 0, nil) }()
}

//go:norace
//go:nosplit
func forkAndSleep(d time.Duration) int {
	t := unix.Timespec{Sec: int64(d / time.Second)}
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 {
		return int(pid)
	}
	nap(&t)
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// both runs all-reduces on two communicators in turn. Rank by rank, a call ends before the next begins.
func (r *rank) both() (err error) {
	other, err := r.comm.Split(context.Background(), 0, r.Rank)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	var sets [2]*sums
	for i, c := range []*goccl.Comm{r.comm, other} {
		if sets[i], err = newSums(c, r.phase.count); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sets[i].close()) }()
		if err := sets[i].once(nil); err != nil {
			return err
		}
	}
	if err := r.begin(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := r.again(i, 30); err != nil {
			return fine(err)
		}
		first := 0
		if r.fault.Name == "order" && r.struck() && i == 3 {
			r.say("fault", nil)
			first = 1
		}
		for k := range sets {
			if err := sets[(first+k)%2].once(nil); err != nil {
				return err
			}
		}
	}
}

// refused makes calls with pointers that are wrong, each of which must be refused.
func (u *sums) refused(right collective.Request) error {
	for what, change := range map[string]func(q *collective.Request){
		"no memory":        func(q *collective.Request) { q.Send = 0 },
		"beyond the end":   func(q *collective.Request) { q.Recv = q.Recv.Add(8) },
		"not aligned":      func(q *collective.Request) { q.Send = q.Send.Add(1) },
		"a negative count": func(q *collective.Request) { q.Count = -1 },
	} {
		q := right
		change(&q)
		if err := u.c.Submit(q); !errors.Is(err, goccl.ErrInvalidArgument) {
			return fmt.Errorf("%w: a call with wrong pointers (%s) ended with %v", errWrong, what, err)
		}
	}
	return nil
}

// fillDevice takes all memory of this rank's GPU, and gives it back when the trial is over. Memory of the host device
// is files: it gets a limit of 4 KiB.
func (r *rank) fillDevice() {
	r.say("fault", nil)
	if !r.CUDA {
		signal.Ignore(syscall.SIGXFSZ) // an error instead
		_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096})
		return
	}
	var all []device.Allocation
	for size := int64(1) << 32; size >= 1<<21; {
		m, err := r.dev.Alloc(size)
		if err != nil {
			size /= 2
			continue
		}
		all = append(all, m)
	}
	go func() {
		<-r.end
		for _, m := range all {
			_ = m.Close()
		}
	}()
}
