package main

import (
	"strings"
	"testing"

	"github.com/goccl/goccl/examples/internal/tutorialtest"
)

func TestMain(m *testing.M) { tutorialtest.Main(m, main) }

func TestTwoProcesses(t *testing.T) {
	out, ok := tutorialtest.Run(t, "-device", "host", "-iterations", "20")
	if !ok || !strings.Contains(out, "Succeed!") || !strings.Contains(out, "ms per iteration (20)") {
		t.Fatal(out)
	}
}

func TestThreeRanksAreRefused(t *testing.T) {
	out, ok := tutorialtest.Run(t, "-device", "host", "-ranks", "3")
	if ok || !strings.Contains(out, "for two ranks, not 3") {
		t.Fatal(out)
	}
}
