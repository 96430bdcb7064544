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
	if os.Getenv("PRIMITIVES_PROGRAM") != "" {
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
	cmd.Env = append(os.Environ(), "PRIMITIVES_PROGRAM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The whole measurement runs on the host device, with an even and an odd number of ranks, and every figure has a
// description.
func TestHostDevice(t *testing.T) {
	for _, ranks := range []string{"2", "3"} {
		path := filepath.Join(t.TempDir(), "out.json")
		if out, err := program(t, "-device", "host", "-ranks", ranks, "-bytes", "262144", "-json", path); err != nil {
			t.Fatalf("%s ranks: %v\n%s", ranks, err, out)
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
			if f.Value <= 0 && f.Name != "device_open" || f.Unit == "" || f.Machine == "" || f.Commit == "" ||
				len(f.Command) == 0 || f.Target != nil || f.Met != nil {
				t.Errorf("%s ranks: %+v", ranks, f)
			}
		}
		for _, name := range []string{"mesh_setup", "memory_channel_signal", "memory_channel_packet",
			"port_channel_put_signal", "memory_channel_put", "memory_channel_all_to_all", "port_channel_put"} {
			if !seen[name] {
				t.Errorf("%s ranks: no figure %s", ranks, name)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-device", "tpu"}, "-device must be cuda or host"},
		{[]string{"-device", "host", "-ranks", "1"}, "choose 2 to 8"},
		{[]string{"-device", "host", "-ranks", "9"}, "choose 2 to 8"},
		{[]string{"-device", "host", "-bytes", "100"}, "multiple of 128"},
		{[]string{"-ranks", "64"}, "-device host needs none"},
	} {
		out, err := program(t, c.args...)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// Every rank meets every other rank once, and at most one per round.
func TestPartner(t *testing.T) {
	for n := 2; n <= 9; n++ {
		met := map[[2]int]int{}
		for round := range rounds(n) {
			for a := range n {
				b := partner(n, round, a)
				if b < 0 {
					continue
				}
				if b == a || b >= n || partner(n, round, b) != a {
					t.Fatalf("%d ranks, round %d: %d meets %d, who meets %d", n, round, a, b, partner(n, round, b))
				}
				met[[2]int{a, b}]++
			}
		}
		if len(met) != n*(n-1) {
			t.Errorf("%d ranks: %d of %d meetings", n, len(met), n*(n-1))
		}
	}
}
