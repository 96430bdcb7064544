package chaos

import (
	"os"
	"syscall"
	"time"

	"github.com/goccl/goccl/test/wallclock"
)

// arm lets the fault strike this rank Delay after now, if it is a victim.
func (r *rank) arm() {
	r.say("begun", nil)
	if f := r.fault; f.strike != nil && r.struck() && !r.armed {
		r.armed = true
		time.AfterFunc(r.Delay, func() { f.strike(r) })
	}
}

// kill sends SIGKILL to this process.
func (r *rank) kill() {
	r.say("fault", nil)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (r *rank) exit() {
	r.say("fault", nil)
	os.Exit(0)
}

func (r *rank) panic() {
	r.say("fault", nil)
	panic("the fault of the trial")
}

func (r *rank) sigabrt() {
	r.say("fault", nil)
	_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
	select {}
}

// stop sends SIGSTOP to this process.
func (r *rank) stop() {
	r.say("fault", nil)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// abort ends the communicator, or the making of one.
func (r *rank) abort() {
	r.say("fault", nil)
	r.giveUp()
	if c := r.current.Load(); c != nil {
		c.Abort(nil)
	}
}

// jump moves the wall clock of this process, again and again: hours ahead, hours behind, and right.
func (r *rank) jump() {
	r.say("fault", nil)
	for i := range int(jumping / jumpEvery) {
		if err := wallclock.Jump([]time.Duration{3 * time.Hour, -6 * time.Hour, 3 * time.Hour}[i%3]); err != nil {
			r.say("failed", err)
			return
		}
		time.Sleep(jumpEvery)
	}
}

const (
	jumping   = 600 * ms
	jumpEvery = 50 * ms
)

// late delays the next operation of this rank by 5 s.
func (r *rank) late() {
	r.say("fault", nil)
	r.lateness.Store(int64(5 * time.Second))
}

// goOn continues the ranks that stopped, 0.3 s after they did.
func (x *experiment) goOn() error {
	if _, err := x.job.Await("fault", x.Victims, limit); err != nil {
		return err
	}
	time.Sleep(300 * ms)
	for _, r := range x.Victims {
		if _, err := x.job.Signal(r, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

func (x *experiment) pauseAll() error {
	time.Sleep(x.Delay)
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		for r := range x.job.Size() {
			if _, err := x.job.Signal(r, s); err != nil {
				return err
			}
		}
		if s == syscall.SIGSTOP {
			time.Sleep(time.Second)
		}
	}
	return nil
}
