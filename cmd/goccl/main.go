// Command goccl measures, diagnoses and launches. `goccl --help` lists its commands. Each command is a file of this
// directory that parses arguments and calls the package that implements it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// cli is the whole command line. A new command is a new field and a new file.
type cli struct {
	Perf    perfCommand    `cmd:"" help:"Measure a collective, check every result and print a table as nccl-tests does."`
	Tune    tuneCommand    `cmd:"" help:"Measure the algorithms of the collectives on this machine's GPUs and write the table that selects them."`
	Run     runCommand     `cmd:"" help:"Start a program as the ranks of a job on this host."`
	Doctor  doctorCommand  `cmd:"" help:"Report problems of this host, and how to fix them."`
	Chaos   chaosCommand   `cmd:"" help:"Inject faults into jobs of processes on this host, and report how they are handled."`
	Plan    planCommand    `cmd:"" help:"Execution plans: show, prove, run, simulate and build them."`
	Synth   synthCommand   `cmd:"" help:"Search the fastest plan of a collective for a topology, prove it and simulate it."`
	Watch   watchCommand   `cmd:"" help:"Show what the collectives of running jobs do, and what holds them up."`
	Topo    topoCommand    `cmd:"" help:"Show the machine: GPUs, how they are linked, NICs, NUMA nodes."`
	Trace   traceCommand   `cmd:"" help:"Show the last operations of processes: those that run, hang, are stopped or were killed."`
	Version versionCommand `cmd:"" help:"Print what this program was built from."`
}

// streams are where commands read and write.
type streams struct {
	out    io.Writer
	stderr *os.File
}

// exitError selects an exit status. Its text, if any, is printed.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() { os.Exit(run(os.Args)) }

// commandLine is the command line of this program, for records, without the directory of the program.
func commandLine() []string { return append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...) }

// run is the program; its result is the exit status: 0 success, 1 failure, 2 wrong arguments, or the status that the
// command selects.
func run(args []string) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()

	var c cli
	parser, err := kong.New(&c, kong.Name("goccl"),
		kong.Description("GPU communication from Go: collectives, their measurement and their diagnosis."),
		kong.UsageOnError(), kong.Exit(func(status int) { panic(exited(status)) }), kong.TypeMapper(sizeType, sizeMapper()),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(&streams{os.Stdout, os.Stderr}))
	if err != nil {
		fmt.Fprintf(os.Stderr, "goccl: %v\n", err)
		return 2
	}
	status, done := 0, false
	var parsed *kong.Context
	func() {
		defer func() { // kong exits after --help
			if r := recover(); r != nil {
				s, ok := r.(exited)
				if !ok {
					panic(r)
				}
				status, done = int(s), true
			}
		}()
		parsed, err = parser.Parse(args[1:])
	}()
	if done {
		return status
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "goccl: %v\n", err)
		var pe *kong.ParseError
		if errors.As(err, &pe) {
			fmt.Fprintf(os.Stderr, "Try \"goccl %s--help\".\n", commandPath(pe.Context))
		}
		return 2
	}
	if !takesContext(parsed) {
		stop() // signals end commands that compute at once
	}
	err = parsed.Run()
	if err == nil {
		return 0
	}
	var ee *exitError
	if errors.As(err, &ee) {
		if ee.err != nil {
			fmt.Fprintf(os.Stderr, "goccl: %v\n", ee.err)
		}
		return ee.status
	}
	fmt.Fprintf(os.Stderr, "goccl: %v\n", err)
	return 1
}

type exited int

// takesContext reports whether the chosen command ends by itself when its context does.
func takesContext(c *kong.Context) bool {
	run := c.Selected().Target.Addr().MethodByName("Run").Type()
	for i := range run.NumIn() {
		if run.In(i) == reflect.TypeFor[context.Context]() {
			return true
		}
	}
	return false
}

// compute calls f, which nothing stops. When ctx ends first it returns without f, for a program that is about to exit.
func compute[T any](ctx context.Context, f func() (T, error)) (v T, err error) {
	done := make(chan struct{})
	var got T
	var failed error
	go func() {
		defer close(done)
		got, failed = f()
	}()
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return v, &exitError{1, errors.New("interrupted")}
	}
}

// busy says in a terminal what is being done and for how long, from the third second on, until end is called.
func (s *streams) busy(what string) (end func()) {
	info, err := s.stderr.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for start := time.Now(); ; {
			select {
			case <-ctx.Done():
				fmt.Fprint(s.stderr, "\r\x1b[K")
				return
			case <-time.After(time.Second):
				if took := time.Since(start); took > 3*time.Second {
					fmt.Fprintf(s.stderr, "\r\x1b[K%s, %v", what, took.Round(time.Second))
				}
			}
		}
	})
	return func() { stop(); ended.Wait() }
}

// commandPath is, for example, "perf " for a failure while perf's arguments are parsed, and "" before a command is
// found.
func commandPath(c *kong.Context) string {
	if c == nil || c.Command() == "" {
		return ""
	}
	for _, p := range c.Path {
		if p.Command != nil {
			return p.Command.Name + " "
		}
	}
	return ""
}
