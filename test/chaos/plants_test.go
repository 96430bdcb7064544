package chaos

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plants are faults of goccl that the scoreboard must find, each by a cell.
var plants = []struct{ name, fault, phase, outcome, text string }{
	{"death told 2 s late", "kill", "small", Late, "got its error 2."},
	{"death told 2 s late", "kill", "set-up", Late, "got its error 2."},
	{"death told 10 s late", "kill", "small", Late, "got its error 10."},
	{"death never told", "kill", "small", Hang, ""},
	{"another rank blamed", "kill", "small", WrongRank, "blames"},
	{"OpTimeout x 15", "stop", "small", Late, "got its error"},
	{"slow Shrink", "kill", "small", Late, "used its new communicator"},
	{"a bit of the tenth result after Shrink", "kill", "small", Wrong, "operation 7 after the fault"},
	{"the last element of a large result", "pause", "large", Wrong, "element 4194303"},
	{"4 MiB of heap a communicator", "kill", "small", Leak, "bytes of Go's heap"},
	{"4 MiB of heap a communicator", "pause", "small", Leak, "bytes of Go's heap"},
	{"100 KiB of heap a communicator", "kill", "small", Leak, "bytes of Go's heap"},
	{"4 MiB of memory a communicator", "kill", "small", Leak, "bytes of private memory"},
	{"4 MiB of addresses a communicator", "kill", "small", Leak, "bytes of addresses"},
	{"device memory a communicator", "kill", "small", Leak, "shared mappings"},
	{"a descriptor a communicator", "kill", "small", Leak, "descriptors"},
	{"a goroutine a communicator", "kill", "small", Leak, "goroutines"},
	{"a communicator kept", "kill", "small", Leak, "communicators that were closed"},
	{"a socket", "kill", "small", Leak, "descriptors"},
	{"a file in /tmp", "kill", "small", Leak, "/tmp/x-"},
	{"a file in /dev/shm", "pause", "set-up", Leak, "/dev/shm/x-"},
	{"a process", "kill", "small", Leak, "sleep"},
	{"false alarm", "pause", "small", FalseAlarm, "peer 0"},
}

// sites are the places in goccl from which the functions of testdata/plants.go.txt are called: after the text.
var sites = []struct{ file, text, call string }{
	{"job/membership/group.go", "\tfor f := range failures {\n", "\t\tf = plantFailure(g, f)\n"},
	{"comm.go", "\tctx, stop := context.WithTimeout(ctx, cfg.Timeout)\n\tdefer stop()\n", "\tplantInit(op, &cfg)\n"},
	{"comm.go", "\t\tstatus: &group.Status}\n", "\tplantComm(op, c)\n"},
	{"group.go", "func (c *Comm) Submit(reqs ...collective.Request) error {\n", "\tplantSubmit(c, reqs[0])\n"},
	{"collectives.go", "\tif err := s.Synchronize(ctx); err != nil {\n\t\treturn err\n\t}\n", "\tplantResult(c)\n"},
}

// withPlants builds the program with the faults of testdata/plants.go.txt, of which GOCCL_PLANT chooses one.
func withPlants(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), filepath.Join("..", "..")
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, s := range sites {
		if texts[s.file] == "" {
			b, err := os.ReadFile(filepath.Join(root, s.file))
			if err != nil {
				t.Fatal(err)
			}
			texts[s.file] = string(b)
		}
		if n := strings.Count(texts[s.file], s.text); n != 1 {
			t.Fatalf("%s has %q %d times: name another place for the plant", s.file, s.text, n)
		}
		texts[s.file] = strings.Replace(texts[s.file], s.text, s.text+s.call, 1)
	}
	for file, text := range map[string]string{"plants.go": "plants", "job/membership/plants.go": "plants_membership"} {
		source, err := os.ReadFile("testdata/" + text + ".go.txt")
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(source)
	}
	replace := map[string]string{}
	for file, text := range texts {
		replace[filepath.Join(root, file)] = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "goccl")
	build := exec.Command("go", "build", "-trimpath", "-overlay", filepath.Join(dir, "overlay.json"), "-o", exe,
		"./cmd/goccl")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return exe
}

// TestFindsPlants puts faults into goccl. The scoreboard finds each, says which it is, and the run is no success.
// Without a fault the same program passes.
func TestFindsPlants(t *testing.T) {
	exe := withPlants(t)
	run := func(t *testing.T, seed int, plant, fault, phase string, slow float64) *Result {
		t.Helper()
		res, err := Run(t.Context(), Options{Seed: uint64(seed), Trials: 1, Ranks: 3, Faults: []string{fault},
			Phases: []string{phase}, Slow: slow, Out: io.Discard,
			Program: []string{"/usr/bin/env", "GOCCL_PLANT=" + plant, exe, "chaos", "--rank"}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for i, p := range plants {
		t.Run(strings.Join([]string{p.name, p.fault, p.phase}, "/"), func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(p.text, "/") && !canMark() {
				t.Skip("only root can give processes a group")
			}
			if p.outcome == Hang && os.Getenv("GOCCL_FULL") == "" {
				t.Skip("GOCCL_FULL=1: it takes a minute")
			}
			// On a loaded machine something else may go wrong first.
			res := run(t, i, p.name, p.fault, p.phase, 1)
			for tries := 1; res.Cells[0].Outcomes[p.outcome] != 1 && tries < 3; tries++ {
				res = run(t, i+tries*len(plants), p.name, p.fault, p.phase, 1)
			}
			c := res.Cells[0]
			if c.Outcomes[p.outcome] != 1 || res.OK || len(res.Failures) != 1 {
				t.Fatalf("outcomes %v, want %s; %v", c.Outcomes, p.outcome, c.Problems)
			}
			if text := c.Problems[0].Text; !strings.Contains(text, p.text) {
				t.Errorf("the text has no %q: %s", p.text, text)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		var tried [][2]string
		for _, p := range plants {
			if cell := [2]string{p.fault, p.phase}; !slices.Contains(tried, cell) {
				tried = append(tried, cell)
				if res := run(t, len(plants), "", p.fault, p.phase, 100); !res.OK {
					t.Errorf("%v: %+v", cell, res.Cells[0])
				}
			}
		}
	})
}
