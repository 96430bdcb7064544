// Package tutorialtest runs a tutorial's main function in a separate process, from the tutorial's test. It keeps no
// state.
package tutorialtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/leak"
	"github.com/goccl/goccl/test/testutil"
)

const marker = "GOCCL_TUTORIAL_MAIN"

// Main is called by a tutorial's TestMain. In a process that Run started, or in a rank that such a process started, it
// runs mainFunc, and fails when that leaves descriptors, goroutines or shared mappings.
func Main(m *testing.M, mainFunc func()) {
	if setting.Get(marker) == "" {
		os.Exit(m.Run())
	}
	base, err := before()
	if err == nil {
		mainFunc()
		if r := leak.Settled(base); r.More(base) {
			err = fmt.Errorf("left behind: %v, before %v\n%s", r, base, r.Detail)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// before returns the resources of the process after it has acquired those that it keeps until its end: the listener for
// descriptors, the runtime's poller, the goroutine that waits for signals.
func before() (leak.Resources, error) {
	if _, err := fdshare.Shared(); err != nil {
		return leak.Resources{}, err
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	return leak.Held(), nil
}

// Run runs the tutorial with the arguments and returns its output and whether it exited with status 0.
func Run(t *testing.T, args ...string) (output string, ok bool) {
	t.Helper()
	return Command(t, nil, args...)
}

// Command is Run with a command before the program, such as "ip netns exec NAME", and with more environment variables.
func Command(t *testing.T, before []string, args ...string) (output string, ok bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	line := append(append(append([]string{}, before...), self), args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(setting.Environ(), marker+"=1")
	watch := testutil.NewWatch(t)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s: no end within a minute\n%s", strings.Join(args, " "), out)
	}
	watch.NothingLeft(t)
	return string(out), err == nil
}
