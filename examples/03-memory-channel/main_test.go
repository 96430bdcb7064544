package main

import (
	"strings"
	"testing"

	"github.com/goccl/goccl/examples/internal/tutorialtest"
)

func TestMain(m *testing.M) { tutorialtest.Main(m, main) }

func TestPutGetPackets(t *testing.T) {
	for _, bytes := range []string{"1", "1001", "300000"} {
		out, ok := tutorialtest.Run(t, "-device", "host", "-iterations", "5", "-bytes", bytes)
		if !ok || !strings.Contains(out, "Succeed!") {
			t.Fatal(out)
		}
		for _, way := range []string{"put", "get", "packets"} {
			if !strings.Contains(out, "] "+way) {
				t.Errorf("%s bytes: no bandwidth of %s:\n%s", bytes, way, out)
			}
		}
	}
}
