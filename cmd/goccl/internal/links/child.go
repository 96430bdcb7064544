package links

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/goccl/goccl/internal/child"
)

// record is a line from the child: first the pair that it begins to examine, then the result.
type record struct {
	Begins *[2]int  `json:",omitempty"`
	Found  *Verdict `json:",omitempty"`
}

// next is the pair behind (a, b); b > a.
func next(a, b, n int) (int, int) {
	if b++; b >= n {
		a, b = a+1, a+2
	}
	return a, b
}

// Serve measures the pairs of n GPUs, from (a, b) on, and writes a line before and after each.
func Serve(w io.Writer, a, b, n int, measure func(a, b int) Verdict) error {
	out := json.NewEncoder(w)
	for ; b < n; a, b = next(a, b, n) {
		if err := out.Encode(record{Begins: &[2]int{a, b}}); err != nil {
			return err
		}
		v := measure(a, b)
		if err := out.Encode(record{Found: &v}); err != nil {
			return err
		}
	}
	return nil
}

// Run has children measure all pairs of n GPUs. command makes a child that runs Serve from a pair on, with its lines on
// the standard output. limit bounds each pair, the first one of a child with its start.
func Run(ctx context.Context, n int, limit time.Duration, command func(a, b int) *exec.Cmd) ([]Verdict, error) {
	var all []Verdict
	for a, b := 0, 1; b < n; {
		if ctx.Err() != nil {
			return all, fmt.Errorf("pairs from %d-%d on were not examined: %w", a, b, context.Cause(ctx))
		}
		found, err := runChild(ctx, limit, command(a, b))
		all = append(all, found...)
		if len(found) > 0 {
			a, b = next(found[len(found)-1].A, found[len(found)-1].B, n)
		}
		if err == nil && b < n {
			err = errors.New("the child process ended early")
		}
		if err != nil {
			all = append(all, Verdict{A: a, B: b, Error: err.Error()})
			a, b = next(a, b, n)
		}
	}
	return all, nil
}

// runChild returns the verdicts of one child, and why it has ended before the last pair.
func runChild(ctx context.Context, limit time.Duration, cmd *exec.Cmd) (found []Verdict, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(cmd); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("it hangs: nothing for %v; the process that measured it was killed", limit))
	})
	defer late.Stop()
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill()
		_ = out.Close() // ends the scan: a process whose kernel does not end may stay
	})
	for s := bufio.NewScanner(out); s.Scan(); {
		var r record
		if json.Unmarshal(s.Bytes(), &r) != nil {
			continue
		}
		if r.Found != nil {
			found = append(found, *r.Found)
		}
		late.Reset(limit)
	}
	if !stop() {
		go func() { _ = cmd.Wait() }()
		return found, context.Cause(ctx)
	}
	if err := cmd.Wait(); err != nil {
		return found, fmt.Errorf("the process that measured it ended: %w", err)
	}
	return found, nil
}
