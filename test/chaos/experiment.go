package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/badnet"
	"github.com/goccl/goccl/test/leak"
	"github.com/goccl/goccl/test/ranks"
)

// experiment is a trial, seen from outside.
type experiment struct {
	Trial
	fault *fault
	phase *phase
	job   *ranks.Job

	network  *netns.Network // of several hosts
	line     *badnet.Line
	tap      *tap
	files    owner
	struckAt time.Time // when a fault outside of the ranks began
}

// Verdict is what came of a trial.
type Verdict struct {
	Outcome string
	Text    string        // what went wrong
	Named   time.Duration // from the fault until the last survivor had an error; 0: none has to
	Shrunk  time.Duration // and until the survivors had used their communicator
	// Judged counts survivors whose error has a verdict, Right the verdicts that name the fault's kind and rank.
	Right, Judged int
	Misjudged     []string // the others' errors
	// Spent is the time by stretch.
	Spent map[string]time.Duration
}

// Outcomes of a trial, see the package's documentation.
const (
	Handled    = "handled"
	Wrong      = "wrong result"
	Hang       = "hang"
	Late       = "late"
	Leak       = "leak"
	FalseAlarm = "false alarm"
	WrongRank  = "wrong rank"
	Failed     = "failed"
)

// Outcomes lists them.
func Outcomes() []string {
	return []string{Handled, Wrong, Hang, Late, Leak, FalseAlarm, WrongRank, Failed}
}

// run performs the trial with processes of program, which is this program's path and the arguments before Trial's.
func (t *Trial) run(f *fault, p *phase, program []string) Verdict {
	x := &experiment{Trial: *t, fault: f, phase: p, job: ranks.New(), files: newOwner()}
	began := time.Now()
	watch := leak.NewWatch(100 * ms)
	defer watch.End()
	if err := x.connect(); err != nil {
		return Verdict{Outcome: Failed, Text: err.Error()}
	}
	switch {
	case x.line != nil:
		defer x.line.Close()
	case x.network != nil:
		defer x.network.Close()
	}
	if f.tap != nil {
		var err error
		if x.tap, err = newTap(strings.TrimPrefix(x.Address, "unix:"), f.tap); err != nil {
			return Verdict{Outcome: Failed, Text: err.Error()}
		}
		defer func() { _ = x.tap.l.Close() }()
	}
	defer func() { x.job.Close() }()
	if f.before != nil {
		if err := f.before(x, program); err != nil {
			return Verdict{Outcome: Failed, Text: err.Error() + "\n" + x.story()}
		}
		x.job = ranks.New()
	}
	for r := range p.processes(t.Ranks) {
		if err := x.start(r, program); err != nil {
			return Verdict{Outcome: Failed, Text: err.Error()}
		}
	}
	v := x.perform()
	if err := errors.Join(watch.Leftovers(), x.files.left()); err != nil && v.Outcome == Handled {
		v.Outcome, v.Text = Leak, err.Error()
	}
	v.Spent = spend(began, x.job.Said(), time.Now())
	return v
}

func (x *experiment) start(r int, program []string) error {
	t := x.Trial
	t.Rank = r
	if x.tap != nil && r == t.Ranks-1 {
		t.Address += "-tap"
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	args := slices.Concat(x.fault.prefix, program, []string{string(text)})
	if x.network != nil {
		args = slices.Concat(x.network.On(t.host(r)), args)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(setting.Environ(), fmt.Sprintf("GOCCL_SECRET=chaos-%016x", t.Seed), "GOCCL_VERDICT_AFTER=300ms")
	x.files.mark(cmd)
	return x.job.Add(cmd)
}

// perform waits until all ranks that live have come through, lets them end, and judges.
func (x *experiment) perform() Verdict {
	alive := slices.DeleteFunc(everyone(x.phase.processes(x.Ranks)), func(r int) bool {
		return slices.Contains(x.Victims, r) && (x.fault.expect == death || x.fault.expect == typed)
	})
	if x.fault.outside != nil {
		if _, err := x.job.Await("begun", alive, limit); err != nil {
			return x.broken(alive, err)
		}
		if err := x.fault.outside(x); err != nil {
			return Verdict{Outcome: Failed, Text: err.Error()}
		}
	}
	first := alive
	if x.fault.expect == stall { // the stopped ranks come later
		first = slices.DeleteFunc(slices.Clone(alive), func(r int) bool { return slices.Contains(x.Victims, r) })
	}
	if _, err := x.job.Await("over", first, x.patience()); err != nil {
		return x.broken(first, err)
	}
	for _, r := range x.Victims {
		_ = x.job.Process(r).Signal(syscall.SIGCONT)
	}
	if _, err := x.job.Await("over", alive, x.patience()); err != nil {
		return x.broken(alive, err)
	}
	for r := range x.job.Size() {
		_ = x.job.Tell(r, "end\n")
	}
	if !x.job.Wait(limit + x.Hold) {
		return x.broken(alive, fmt.Errorf("a process did not end"))
	}
	return x.judge(alive)
}

// falseAlarm reports whether a rank says that another one has failed, in a wait or in a call, and none had to.
func (x *experiment) falseAlarm(rep ranks.Report) bool {
	of := rep.Kind == goccl.ErrPeerDead.Error() || rep.Kind == goccl.ErrTimeout.Error()
	return x.fault.expect == nothing && (rep.Event == "error" || rep.Event == "failed" && of)
}

// broken describes a rank that failed or did not come back, with its stacks.
func (x *experiment) broken(alive []int, err error) Verdict {
	v := Verdict{Outcome: Hang, Text: err.Error()}
	if strings.Contains(v.Text, "ended without") {
		v.Outcome = Failed
	}
	for _, rep := range x.job.Said() {
		switch {
		case rep.Event == "wrong":
			v.Outcome = Wrong
		case x.falseAlarm(rep) && v.Outcome != Wrong && v.Outcome != FalseAlarm:
			v.Outcome, v.Text = FalseAlarm, fmt.Sprintf("rank %d: %s\n%s", rep.Rank, rep.Text, v.Text)
		case rep.Event == "failed" && v.Outcome != Wrong && v.Outcome != FalseAlarm:
			v.Outcome = Failed
		}
	}
	over, _ := x.job.Await("over", nil, 0)
	for _, r := range alive {
		if _, ok := over[r]; !ok {
			_ = x.job.Process(r).Signal(syscall.SIGQUIT)
		}
	}
	x.job.Wait(2 * time.Second)
	x.job.Close()
	v.Text += "\n" + x.story()
	return v
}

// story is what the ranks said.
func (x *experiment) story() string {
	var b strings.Builder
	for _, r := range x.job.Said() {
		fmt.Fprintf(&b, "rank %d: %s %s\n", r.Rank, r.Event, r.Text)
	}
	for r := range x.job.Size() {
		if log := x.job.Log(r); log != "" {
			fmt.Fprintf(&b, "rank %d ended with %v; its log:\n%.20000s\n", r, x.job.State(r), log)
		}
	}
	return b.String()
}

// Program is the command of a rank of this program.
func Program(args ...string) ([]string, error) {
	self, err := os.Executable()
	return append([]string{self}, args...), err
}
