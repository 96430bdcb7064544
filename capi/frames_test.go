//go:build cgo && linux

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/capi/internal/core"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/mockcuda"
)

// mostFrames bounds the functions of goccl on the stack when an ncclAllReduce of a few elements launches its kernel;
// mostRing is the same for a large one.
const mostFrames, mostRing = 12, 13

// doorFrames are goccl_submit of door.c and the Go function that it calls, gocclgo_submit, which calls core.Submit.
const doorFrames = 2

// A call from ncclAllReduce to the launch of its kernel goes through few functions. The frames of each part are counted
// on a real stack, inlined functions included in Go. Frames of the Go runtime and of cgo are not counted.
func TestFramesToTheLaunch(t *testing.T) {
	shim := shimFrames(t)
	trace := mockDriver(t)
	request := allReduce(t)
	for count, most := range map[uint64]int{64: mostFrames, largeBytes / 4: mostRing} {
		request.Count = count
		launched, driver := launchFrames(t, trace, request)
		total := shim + doorFrames + len(launched) + driver
		t.Logf("%d frames: %d in libnccl.so.2, %d in the door, %d in Go, %d in the driver's C:\n%s", total, shim, doorFrames,
			len(launched), driver,
			strings.Join(launched, "\n"))
		if shim < 1 || len(launched) < 5 || driver < 1 {
			t.Error("the stack was not found")
		}
		if total > most {
			t.Errorf("%d elements: %d frames, at most %d are allowed", count, total, most)
		}
	}
}

// largeBytes is the size of a message that goes around the ring.
const largeBytes = 64 << 20

// mockDriver puts a mock under this process, and traces its calls.
func mockDriver(t *testing.T) *mockcuda.Trace {
	t.Helper()
	lib := filepath.Join(t.TempDir(), "libmockcuda.so")
	if err := mockcuda.Build(lib); err != nil {
		t.Skip(err)
	}
	t.Setenv(mockcuda.Env, lib)
	t.Setenv(mockcuda.TraceEnv, "")
	trace, err := mockcuda.NewTrace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// shimFrames counts the frames of libnccl.so.2, which calls a core that counts them.
func shimFrames(t *testing.T) int {
	t.Helper()
	core := filepath.Join(t.TempDir(), "libcore.so")
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", core,
		"testdata/frames_core.c", "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := run(t, environment(t, "GOCCL_LIBRARY="+core), program(t, "frames"))
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatalf("the core printed %q", text)
	}
	return n
}

// launchFrames holds the launch of an all-reduce in the mock driver. It returns goccl's Go functions on the stack from
// the launch up to core.Submit, and the number of C functions below them.
func launchFrames(t *testing.T, trace *mockcuda.Trace, request core.Request) (launched []string, driver int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	callers, release, err := trace.Hold(ctx, func() {
		if err := core.Submit([]core.Request{request}); err != nil {
			t.Error(err)
		}
	})
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	release()
	if err != nil {
		t.Fatal(err)
	}
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "core.Submit(") {
			launched = ours(stack)
		}
	}
	for driver < len(callers) && runtime.FuncForPC(callers[driver]) == nil {
		driver++
	}
	return launched, driver - 1 // the last one is of cgo
}

var function = regexp.MustCompile(`(?m)^(github\.com/goccl/goccl\S*?)\([^()]*\)$`)

// ours lists the functions of goccl in a stack, down to core.Submit, without those that cgo generates.
func ours(stack string) (names []string) {
	for _, m := range function.FindAllStringSubmatch(stack, -1) {
		if strings.Contains(m[1], "_Cfunc_") {
			continue
		}
		if names = append(names, m[1]); strings.HasSuffix(m[1], "core.Submit") {
			break
		}
	}
	return names
}

// allReduce is a request of rank 0 of two ranks on mock GPUs, without a count.
func allReduce(t *testing.T) core.Request {
	t.Helper()
	var gpus [2]core.Handle
	for i := range gpus {
		var err error
		if gpus[i], err = core.DeviceOpen(device.CUDA, i); err != nil {
			t.Fatal(err)
		}
	}
	comms, err := core.CommInitAll(gpus[:], core.Config{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comms {
		t.Cleanup(func() { _ = core.CommAbort(c) })
	}
	gpu, err := core.Find[*core.Device](gpus[0])
	if err != nil {
		t.Fatal(err)
	}
	mem, err := core.Alloc(gpu, largeBytes)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := core.StreamCreate(gpu)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = core.Free(mem) })
	return core.Request{Comm: comms[0], Collective: uint32(collective.AllReduce), Type: uint32(datatype.Float32),
		Send: mem, Recv: mem, Stream: stream}
}
