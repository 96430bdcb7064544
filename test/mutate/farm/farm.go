package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/setting"
)

// A target is a fuzz target and what was run of it.
type target struct {
	Package  string  `json:"package"`
	Target   string  `json:"target"`
	Inputs   int     `json:"inputs"`
	Failures int     `json:"failures"`
	Seconds  float64 `json:"seconds"` // of all its workers

	program string
	folder  string // in which it runs: its package's, with its files, if that is here
	workers int
}

// mostFailures end the work on a target.
const mostFailures = 10

// farm is the targets and their state, which mu guards.
type farm struct {
	dir, json string
	goal      int
	turn      time.Duration

	mu      sync.Mutex
	targets []*target
	seed    uint64
}

// find lists the targets of all programs.
func (f *farm) find(ctx context.Context) error {
	programs, err := filepath.Glob(filepath.Join(f.dir, "*.test"))
	if err == nil && len(programs) == 0 {
		err = fmt.Errorf("%s has no test program", f.dir)
	}
	for _, p := range programs {
		if p, err = filepath.Abs(p); err != nil {
			return err
		}
		out, err := exec.CommandContext(ctx, p, "-test.list", "^Fuzz").Output()
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(p), ".test"), ".", "/")
		folder := map[bool]string{true: ".", false: name}[name == "goccl"]
		if files, _ := filepath.Glob(filepath.Join(folder, "*_test.go")); len(files) == 0 {
			folder = f.dir
		}
		for _, line := range strings.Fields(string(out)) {
			f.targets = append(f.targets, &target{Package: name, Target: line, program: p, folder: folder})
		}
	}
	return err
}

// next gives a worker the target with the fewest workers, a number of inputs and a seed; nil: all have enough.
func (f *farm) next() (t *target, inputs int, seed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.targets {
		if x.Inputs < f.goal && x.Failures < mostFailures && (t == nil || x.workers < t.workers) {
			t = x
		}
	}
	if t == nil {
		return nil, 0, 0
	}
	f.seed++
	t.workers++
	return t, max(1, f.goal-t.Inputs), f.seed
}

func (f *farm) work(ctx context.Context) {
	for ctx.Err() == nil {
		t, inputs, seed := f.next()
		if t == nil {
			return
		}
		begin := time.Now()
		runs, log := f.loop(ctx, t, inputs, seed)
		f.mu.Lock()
		t.workers--
		t.Inputs += runs
		t.Seconds += time.Since(begin).Seconds()
		if log != nil {
			t.Failures++
			name := fmt.Sprintf("%s.%s.%d.log", strings.ReplaceAll(t.Package, "/", "."), t.Target, seed)
			_ = os.WriteFile(filepath.Join(f.dir, name), log, 0o644)
		}
		f.mu.Unlock()
	}
}

// ran is what mutate prints at the end.
var ran = regexp.MustCompile(`(?m)^Fuzz\w+: (\d+) runs in `)

// loop runs a target once. It returns how many inputs it ran, and its log if it failed.
func (f *farm) loop(ctx context.Context, t *target, inputs int, seed uint64) (runs int, log []byte) {
	turn := f.turn
	if end, ok := ctx.Deadline(); ok {
		turn = min(turn, time.Until(end))
	}
	if turn <= 0 {
		return 0, nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), turn+20*time.Second) // the start, and a slow input
	defer stop()
	cmd := exec.CommandContext(ctx, t.program, "-test.run", "^"+t.Target+"$", fmt.Sprint("-mutate.runs=", inputs),
		fmt.Sprint("-mutate.seed=", seed), fmt.Sprint("-mutate.for=", turn))
	cmd.Dir = t.folder
	cmd.Env = append(setting.Environ(), "GOMAXPROCS=2")
	out, err := cmd.CombinedOutput()
	if m := ran.FindSubmatch(out); m != nil {
		runs, _ = strconv.Atoi(string(m[1]))
	}
	if err != nil {
		log = fmt.Appendf(out, "\n%v: %v\n", cmd.Args, err)
	}
	return runs, log
}

// report prints a line for each target and writes the file.
func (f *farm) report(w io.Writer) error {
	for _, t := range f.targets {
		fmt.Fprintf(w, "%-36s %-16s %10d inputs %3d failures %8.1f s\n", t.Package, t.Target, t.Inputs, t.Failures, t.Seconds)
	}
	if f.json == "" {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, t := range f.targets {
		line, err := json.Marshal(t)
		if err != nil {
			return err
		}
		b.Write(line)
		if i < len(f.targets)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	return os.WriteFile(f.json, b.Bytes(), 0o644)
}

// failed reports whether an input did.
func (f *farm) failed() bool {
	for _, t := range f.targets {
		if t.Failures > 0 {
			return true
		}
	}
	return false
}
