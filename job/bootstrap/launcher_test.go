package bootstrap

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLaunchers joins ranks that real launchers start, by the launchers' environment. A launcher that is not installed
// is skipped.
func TestLaunchers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []struct {
		name     string
		programs []string // the first installed one is used
		version  string   // its version output
		args     []string
	}{
		{"openmpi", []string{"mpirun.openmpi", "mpirun"}, "Open MPI",
			[]string{"--allow-run-as-root", "--oversubscribe", "-np", "4"}},
		{"pmi", []string{"mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"}, "HYDRA",
			[]string{"-launcher", "fork", "-n", "4"}},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			program := ""
			for _, p := range l.programs {
				path, err := exec.LookPath(p)
				if err != nil {
					continue
				}
				if v, _ := exec.Command(path, "--version").CombinedOutput(); strings.Contains(string(v), l.version) {
					program = path
					break
				}
			}
			if program == "" {
				t.Skipf("none of %v is installed", l.programs)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, append(l.args, self)...)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "GOCCL_TEST_RANK=barrier")
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "joined [0 0 0 0]") != 4 || strings.Count(string(out), "done") != 4 {
				t.Errorf("%s: %v\n%s", filepath.Base(program), err, out)
			}
		})
	}
}
