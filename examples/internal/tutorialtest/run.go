// Package tutorialtest runs a tutorial's main function in a process of its own, from the tutorial's test. It keeps no state.
package tutorialtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const marker = "GOCCL_TUTORIAL_MAIN"

// Main is what a tutorial's TestMain calls: in a process that Run started, or a rank that such a process started, it runs mainFunc.
func Main(m *testing.M, mainFunc func()) {
	if os.Getenv(marker) != "" {
		mainFunc()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Run runs the tutorial with the arguments and returns what it printed and whether it exited with status 0.
func Run(t *testing.T, args ...string) (output string, ok bool) {
	t.Helper()
	return Command(t, nil, args...)
}

// Command is Run behind a command, such as "ip netns exec NAME", with more environment variables.
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
	cmd.Env = append(os.Environ(), marker+"=1")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s: no end within a minute\n%s", strings.Join(args, " "), out)
	}
	return string(out), err == nil
}
