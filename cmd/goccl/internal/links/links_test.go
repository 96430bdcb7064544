package links

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/shm"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/topo"
	"github.com/goccl/goccl/test/mockcuda"
)

// TestMain is also the child process: it serves three GPUs, of which pair 0-2 hangs and pair 1-2 ends the process.
func TestMain(m *testing.M) {
	var a, b int
	if n, _ := fmt.Sscanf(os.Getenv("LINKS_CHILD"), "%d-%d", &a, &b); n == 2 {
		fmt.Println("a line that is no record")
		_ = Serve(os.Stdout, a, b, 3, func(a, b int) Verdict {
			if b == 2 && a == 0 {
				time.Sleep(time.Minute)
			}
			if a == 1 {
				os.Exit(3)
			}
			return Verdict{A: a, B: b, Link: "PCIe", Micros: 1.5}
		})
		os.Exit(0)
	}
	_, cleanup, err := mockcuda.Setup()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	code := m.Run()
	cleanup()
	os.Exit(code)
}

// A pair that hangs, and one that ends the process, are verdicts; the others are measured all the same.
func TestRun(t *testing.T) {
	var started []string
	got, err := Run(t.Context(), 3, 5*time.Second, func(a, b int) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		from := fmt.Sprintf("%d-%d", a, b)
		cmd.Env = append(os.Environ(), "LINKS_CHILD="+from)
		started = append(started, from)
		return cmd
	})
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if want := (Verdict{A: 0, B: 1, Link: "PCIe", Micros: 1.5}); got[0] != want {
		t.Errorf("%+v", got[0])
	}
	if got[1].Pair() != "0-2" || !strings.Contains(got[1].Error, "hangs") || got[2].Pair() != "1-2" ||
		!strings.Contains(got[2].Error, "exit status 3") {
		t.Errorf("%+v", got[1:])
	}
	if want := []string{"0-1", "1-2"}; !reflect.DeepEqual(started, want) {
		t.Errorf("children from %v, want %v", started, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Run(ctx, 3, time.Second, nil); err == nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// ends are two ranks of the host device, where data really moves.
func ends(t *testing.T) *[2]member {
	var out [2]member
	boots := bootstrap.NewLocalGroup(2)
	if err := both(func(r int) error {
		dev, err := host.Open(r)
		if err != nil {
			return err
		}
		e, err := shm.New(t.Context(), shm.Config{Job: collective.Job{Bootstrap: boots[r], Device: dev}})
		if err != nil {
			return err
		}
		t.Cleanup(func() { _, _ = e.Close(), dev.Close() })
		out[r] = member{dev: dev, engine: e, rank: r}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestExamine(t *testing.T) {
	e := ends(t)
	micros, gbps, err := examine(t.Context(), e, 1<<20)
	if err != nil || micros <= 0 || gbps <= 0 {
		t.Fatalf("%v µs, %v GB/s, %v", micros, gbps, err)
	}
	// One byte that does not arrive as it was sent is found.
	if _, err := exchange(t.Context(), e, odd, 1); err != nil {
		t.Fatal(err)
	}
	device.Bytes(e[1].recv, odd)[odd-1] ^= 1
	if err := e[1].compare(odd); err == nil || !strings.Contains(err.Error(), "byte 100002 of 100003 that end 1 ") {
		t.Errorf("%v", err)
	}
	if err := e[0].compare(odd); err != nil {
		t.Error(err)
	}
}

// Kernels of the mock driver move nothing, so its pairs are found out.
func TestMeasureFindsWhatDoesNotMove(t *testing.T) {
	if os.Getenv(mockcuda.Env) == "" {
		t.Skip("this test needs the mock driver: gcc, and no GPU")
	}
	v := Measure(t.Context(), 0, 1)
	if v.Link != "NVLink" || v.BusA == v.BusB || !strings.Contains(v.Error, "wrong data: byte 0 of 8") {
		t.Errorf("%+v", v)
	}
	if v := Measure(t.Context(), 0, 77); v.Error == "" {
		t.Errorf("%+v", v)
	}
}

func TestPromise(t *testing.T) {
	m := &topo.Machine{GPUs: []topo.GPU{{BusID: "a", Compute: "9.0", NVLinks: 18, PCIeGBps: 63},
		{Index: 1, BusID: "b", Compute: "9.0", NVLinks: 18, PCIeGBps: 31.5}},
		Links: []topo.Link{{A: 0, B: 1, Path: topo.PathNVLink, NVLinks: 18}}}
	for link, want := range map[string]float64{"NVLink": 450, "PCIe": 31.5, "host memory": 31.5} {
		v := Verdict{BusA: "a", BusB: "b", Link: link}
		if got := v.Promise(m); got != want {
			t.Errorf("%s: %v, want %v", link, got, want)
		}
	}
	if (&Verdict{BusA: "a", BusB: "c"}).Promise(m) != 0 || (&Verdict{}).Promise(nil) != 0 {
		t.Error("an unknown GPU promises something")
	}
}
