package main

import (
	"strings"
	"testing"

	"github.com/goccl/goccl/examples/internal/tutorialtest"
)

func TestMain(m *testing.M) { tutorialtest.Main(m, main) }

func TestAllReduce(t *testing.T) {
	for _, ranks := range []string{"1", "2", "3"} {
		out, ok := tutorialtest.Run(t, "-device", "host", "-ranks", ranks, "-count", "5000")
		if !ok || !strings.Contains(out, "Succeed!") {
			t.Fatalf("%s ranks:\n%s", ranks, out)
		}
	}
}
