package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccl/goccl/bench/internal/figure"
)

// TestMain runs the test binary as the program, so that ranks can be started.
func TestMain(m *testing.M) {
	if os.Getenv("COMMUNICATOR_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "COMMUNICATOR_PROGRAM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The whole measurement runs on the host device, and every figure has a description.
func TestHostDevice(t *testing.T) {
	for _, n := range []string{"2", "3"} {
		path := filepath.Join(t.TempDir(), "out.json")
		if out, err := program(t, "-device", "host", "-ranks", n, "-json", path); err != nil {
			t.Fatalf("%s ranks: %v\n%s", n, err, out)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var figures []figure.Figure
		if err := json.Unmarshal(raw, &figures); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, f := range figures {
			seen[f.Name] = true
			measured := f.Value > 0 || f.Name == "device_open" || strings.HasSuffix(f.Name, "_allocations")
			if !measured || f.Detail == "" || f.Machine == "" || f.Commit == "" || len(f.Command) == 0 || f.Target != nil ||
				f.Met != nil {
				t.Errorf("%s ranks: %+v", n, f)
			}
		}
		for _, name := range []string{"communicator_start", "bootstrap_join", "engine_setup", "first_operation",
			"device_open", "eager_all_reduce", "eager_broadcast",
			"eager_send_recv", "eager_all_to_all_v", "eager_all_reduce_allocations", "communicator_again"} {
			if !seen[name] {
				t.Errorf("%s ranks: no figure %s", n, name)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{{"-device", "tpu"}, {"-device", "host", "extra"}, {"-device", "host", "-ranks", "9"}} {
		if out, err := program(t, args...); err == nil || !strings.HasPrefix(out, "communicator: ") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
