package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/goccl/goccl/internal/netns"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"goccl": func() { os.Exit(run(os.Args)) }})
}

// TestScripts runs testdata/script/*.txtar, each a command-line session.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			// In scripts there is no GPU and no launcher, whatever the test's environment.
			env.Setenv("CUDA_VISIBLE_DEVICES", "")
			env.Setenv("CI", "true")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "hosts": // network namespaces
				w, err := netns.New(1)
				if err == nil {
					w.Close()
				}
				return err == nil, nil
			case "openmpi":
			default:
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			out, err := exec.Command("mpirun", "--version").CombinedOutput()
			return err == nil && strings.Contains(string(out), "Open MPI"), nil
		},
	})
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"0": 0, "8": 8, "64K": 64 << 10, "64M": 64 << 20, "1MiB": 1 << 20,
		"2gb": 2 << 30, "1T": 1 << 40, "12B": 12, "1.5K": 1536, "0.5M": 1 << 19} {
		if got, err := parseSize(s); err != nil || got != want {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "M", "-1", "8X", "1.M", "1.0001K", ".5K", "9999999999G", "8KM"} {
		if got, err := parseSize(s); err == nil {
			t.Errorf("%q is accepted as %d", s, got)
		}
	}
}

// A signal ends a measurement with the rows that are complete, one line about it, and the status of the signal.
func TestInterrupted(t *testing.T) {
	var sizes []string
	for i := range 5000 {
		sizes = append(sizes, strconv.Itoa(4+4*i))
	}
	for layout, sig := range map[string]syscall.Signal{"--threads": syscall.SIGINT, "--processes": syscall.SIGTERM} {
		file := filepath.Join(t.TempDir(), "out.json")
		cmd := exec.Command("goccl", "perf", "all_reduce", "--device", "host", "-n", "2", layout, "-i", "1", "-c", "1",
			"--sizes", strings.Join(sizes, ","), "--json", file)
		var errors strings.Builder
		cmd.Stderr = &errors
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "  ") && !strings.Contains(text.String(), "\n  ") {
				_ = cmd.Process.Signal(sig)
			}
			text.WriteString(lines.Text() + "\n")
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 128+int(sig) || errors.String() != "goccl: interrupted\n" {
			t.Errorf("%s: status %d, %q", layout, got, errors.String())
		}
		if !strings.Contains(text.String(), "# interrupted: ") || !strings.Contains(text.String(), "# Wrong elements") {
			t.Errorf("%s: no summary:\n%s", layout, text.String())
		}
		record, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(record), `"size_bytes": 4`) ||
			!strings.Contains(string(record), `"error": "`) {
			t.Errorf("%s: %v, %s", layout, err, record)
		}
	}
}
