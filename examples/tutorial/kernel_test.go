package tutorial_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/examples/tutorial"
	"github.com/goccl/goccl/primitive"
	"github.com/goccl/goccl/test/mockcuda"
)

var mock bool // the driver runs no kernels

func TestMain(m *testing.M) {
	var cleanup func()
	var err error
	mock, cleanup, err = mockcuda.Setup()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	code := m.Run()
	cleanup()
	os.Exit(code)
}

func open(t *testing.T, kind string) *tutorial.Device {
	t.Helper()
	d, err := tutorial.Open(kind, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil { // it counts open objects
			t.Error(err)
		}
	})
	return d
}

func nothing() error { return nil }

// Kernels in a row are enqueued before the first has ended, and run in their order.
func TestLaunchAll(t *testing.T) {
	d := open(t, "host")
	all := make(chan struct{})
	var order []int
	r, err := d.LaunchAll(3, func(i int) tutorial.Kernel {
		return tutorial.Kernel{Name: "ordered", Host: func(*host.Block) primitive.Status {
			select {
			case <-all:
			case <-time.After(time.Minute):
				return primitive.StatusTimeout
			}
			order = append(order, i)
			return primitive.StatusOK
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	close(all)
	if _, err := r.Wait(tutorial.Timeout, nothing); err != nil || !slices.Equal(order, []int{0, 1, 2}) {
		t.Errorf("%v, %v", order, err)
	}
	if _, err := d.LaunchAll(0, nil); err == nil {
		t.Error("no kernels were launched without an error")
	}
}

// A status that is not OK is found wherever in the row its kernel is. The mock driver runs no kernels, so the test
// writes the word.
func TestStatusOfEach(t *testing.T) {
	if !mock {
		t.Skip("this test needs the mock driver")
	}
	d := open(t, "cuda")
	for _, n := range []int{1, 2, 5, 3} {
		for bad := -1; bad < n; bad++ {
			var words []device.Ptr
			args := func(a *cuda.Args, status device.Ptr) {
				words = append(words, status)
				a.Ptr(status)
			}
			launched, err := d.LaunchAll(n, func(int) tutorial.Kernel {
				return tutorial.Kernel{Name: "tutorial_ping", Args: args}
			})
			if err != nil {
				t.Fatal(err)
			}
			if slices.Sort(words); len(slices.Compact(slices.Clone(words))) != n {
				t.Fatalf("%d kernels have the words %v", n, words)
			}
			if bad >= 0 {
				status := binary.LittleEndian.AppendUint32(nil, uint32(primitive.StatusTimeout))
				if err := d.CopyIn(words[bad], status); err != nil {
					t.Fatal(err)
				}
			}
			_, err = launched.Wait(tutorial.Timeout, nothing)
			if bad < 0 && err != nil || bad >= 0 && !errors.Is(err, primitive.StatusTimeout.Err()) {
				t.Errorf("kernel %d of %d: %v", bad, n, err)
			}
			if bad >= 0 && !strings.Contains(fmt.Sprint(err), "tutorial_ping") {
				t.Errorf("the error does not name the kernel: %v", err)
			}
		}
	}
}
