package main

import (
	"strings"
	"testing"

	"github.com/goccl/goccl/examples/internal/tutorialtest"
)

func TestMain(m *testing.M) { tutorialtest.Main(m, main) }

func TestMesh(t *testing.T) {
	out, ok := tutorialtest.Run(t, "-device", "host", "-ranks", "4", "-bytes", "50001")
	if !ok || !strings.Contains(out, "Succeed!") {
		t.Fatal(out)
	}
}

func TestTooManyRanksAreRefused(t *testing.T) {
	out, ok := tutorialtest.Run(t, "-device", "host", "-ranks", "9")
	if ok || !strings.Contains(out, "choose 2 to 8") {
		t.Fatal(out)
	}
}
