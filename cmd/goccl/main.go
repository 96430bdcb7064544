// Command goccl measures, diagnoses and launches. `goccl --help` lists its commands. Each command is a file of this
// directory that parses arguments and calls the package that implements it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goccl/goccl/internal/setting"
)

// cli is the whole command line. A new command is a new field and a new file.
type cli struct {
	Perf     perfCommand     `cmd:"" help:"Measure a collective, check every result and print a table as nccl-tests does."`
	Tune     tuneCommand     `cmd:"" help:"Measure the algorithms of the collectives on this machine's GPUs and write the table that selects them."`
	Run      runCommand      `cmd:"" help:"Start a program as the ranks of a job on this host."`
	Doctor   doctorCommand   `cmd:"" help:"Report problems of this host, and how to fix them."`
	Chaos    chaosCommand    `cmd:"" help:"Inject faults into jobs of processes on this host, and report how they are handled."`
	Plan     planCommand     `cmd:"" help:"Execution plans: show, prove, run, simulate and build them."`
	Synth    synthCommand    `cmd:"" help:"Search the fastest plan of a collective for a topology, prove it and simulate it."`
	Watch    watchCommand    `cmd:"" help:"Show what the collectives of running jobs do, and what holds them up."`
	Topo     topoCommand     `cmd:"" help:"Show the machine: GPUs, how they are linked, NICs, NUMA nodes."`
	Snapshot snapshotCommand `cmd:"" help:"Move the GPU state of a job's processes to host memory and back, for tools that save processes."`
	Trace    traceCommand    `cmd:"" help:"Show the last operations of processes: those that run, hang, are stopped or were killed."`
	Version  versionCommand  `cmd:"" help:"Print what this program was built from."`

	Completion completionCommand `cmd:"" help:"Print what completes this command line in a shell."`
	Man        manCommand        `cmd:"" help:"Print the manual page, for man -l."`
}

// streams are where commands read and write.
type streams struct {
	out    io.Writer
	stderr *os.File
}

func (s *streams) writeJSON(v any) error {
	e := json.NewEncoder(s.out)
	e.SetIndent("", " ")
	return e.Encode(v)
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

// run is the program; its result is the exit status: 0 success, 1 failure, 2 wrong arguments, 128 and the number of the
// signal that interrupted the command, or the status that the command selects.
func run(args []string) int {
	parser, err := newParser(new(cli))
	if err != nil {
		fmt.Fprintf(os.Stderr, "goccl: %v\n", err)
		return 2
	}
	parsed, err := parser.Parse(usual(args[1:])) // --help ends the program
	if err != nil {
		fmt.Fprintf(os.Stderr, "goccl: %v\n", err)
		if pe, ok := errors.AsType[*kong.ParseError](err); ok {
			fmt.Fprintf(os.Stderr, "Try \"goccl %s--help\".\n", commandPath(pe.Context))
		}
		return 2
	}
	ctx, stop := context.Background(), context.CancelFunc(func() {})
	if takesContext(parsed.Selected()) {
		ctx, stop = untilSignal()
	}
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	return status(ctx, parsed.Run())
}

func newParser(c *cli) (*kong.Kong, error) {
	return kong.New(c, append(mappers(), kong.Name("goccl"),
		kong.Description("GPU communication from Go: collectives, their measurement and their diagnosis."),
		kong.UsageOnError(), kong.WithHyphenPrefixedParameters(true),
		kong.Bind(&streams{os.Stdout, os.Stderr}))...)
}

// usual translates what other tools accept too: help, --version, and no arguments at all.
func usual(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	}
	return args
}

// takesContext reports whether the command wants to end by itself after a signal. Other commands hold nothing that must
// be given back: a signal ends them at once.
func takesContext(n *kong.Node) bool {
	if n == nil || !n.Target.CanAddr() {
		return false
	}
	run := n.Target.Addr().MethodByName("Run")
	return run.IsValid() && slices.Contains(slices.Collect(run.Type().Ins()), reflect.TypeFor[context.Context]())
}

// interrupted is the cause of a context that a signal has cancelled.
type interrupted syscall.Signal

func (interrupted) Error() string { return "interrupted" }

// untilSignal returns a context that the first signal cancels. A second signal ends the program at once.
func untilSignal() (context.Context, context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores SIGHUP
		ends = append(ends, syscall.SIGHUP)
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, ends...)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case s := <-got:
			signal.Stop(got)
			cancel(interrupted(s.(syscall.Signal)))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(nil)
	}
}

// status prints the error of a command and returns the exit status.
func status(ctx context.Context, err error) int {
	if err == nil {
		return 0
	}
	if by, ok := errors.AsType[interrupted](context.Cause(ctx)); ok {
		if setting.Get("GOCCL_RUN_ID") == "" { // otherwise the launcher says so, once
			fmt.Fprintln(os.Stderr, "goccl: interrupted")
		}
		return 128 + int(by)
	}
	status, text := 1, err
	if ee, ok := errors.AsType[*exitError](err); ok {
		status, text = ee.status, ee.err
	}
	if text != nil {
		fmt.Fprintf(os.Stderr, "goccl: %v\n", text)
	}
	return status
}

// busy names the running step and its duration in a terminal, from the third second on, until end is called.
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
