package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/goccl/goccl/examples/internal/tutorialtest"
)

func TestMain(m *testing.M) { tutorialtest.Main(m, main) }

func TestPingPongOnTheHost(t *testing.T) {
	out, ok := tutorialtest.Run(t, "-device", "host")
	if !ok || !strings.HasSuffix(out, "Succeed!\n") {
		t.Fatal(out)
	}
	for _, line := range []string{"Creating endpoints ...", "Device 0: Creating a connection and a semaphore stub ...",
		"Device 1: Creating a semaphore and a memory channel ...", "Device 0: Launching gpuKernel0 ...",
		"Device 1: Launching gpuKernel1 ..."} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("%q is not printed:\n%s", line, out)
		}
	}
	if !regexp.MustCompile(`(?m)^Elapsed [0-9.]+ ms per iteration \(100\)$`).MatchString(out) {
		t.Error(out)
	}
}

func TestOneDeviceIsNotEnough(t *testing.T) {
	out, ok := tutorialtest.Run(t, "-device", "host", "-ranks", "1")
	if ok || out != "At least two Devices are required\n" {
		t.Fatalf("%v %q", ok, out)
	}
}
