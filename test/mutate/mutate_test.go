package mutate_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goccl/goccl/test/mutate"
)

var fault = flag.Bool("fault", false, "let FuzzFault fail")

// FuzzFault has a fault that no seed shows: it takes one of 256 bytes at one place.
func FuzzFault(f *testing.F) {
	f.Add([]byte("abcd"), uint16(3))
	f.Add([]byte("efgh"), uint16(4))
	mutate.Fuzz(f, func(t *testing.T, b []byte, n uint16) {
		if *fault && len(b) > 3 && b[1] == 0x7f && n > 4096 {
			t.Error("the fault")
		}
	})
}

func loop(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(os.Args[0], append([]string{"-test.run", "^FuzzFault$"}, args...)...).CombinedOutput()
	if (err != nil) != strings.Contains(string(out), "the fault") {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The loop runs the reported number of inputs, finds the fault, prints the input, and is reproducible.
func TestLoop(t *testing.T) {
	if out := loop(t, "-mutate.runs=5000"); !strings.Contains(out, "FuzzFault: 5000 runs in ") {
		t.Error(out)
	}
	found := func(seed string) string {
		out := loop(t, "-mutate.runs=1000000", "-fault", "-mutate.seed="+seed)
		_, input, ok := strings.Cut(out, "of the loop, -mutate.seed "+seed+", with  []uint8")
		if !ok {
			t.Fatal(out)
		}
		line, _, _ := strings.Cut(input, "\n")
		return line
	}
	if a, b, c := found("1"), found("1"), found("2"); a != b || a == c {
		t.Errorf("seeds 1, 1 and 2 found\n%s\n%s\n%s", a, b, c)
	}
}

// A limit ends the loop, and every seed has its part of the time.
func TestLimit(t *testing.T) {
	var runs int
	out := loop(t, "-mutate.runs=2000000000", "-mutate.for=200ms")
	if _, err := fmt.Sscanf(out, "FuzzFault: %d runs in", &runs); err != nil || runs < 32 || runs >= 2000000000 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestConn(t *testing.T) {
	c := mutate.Conn([]byte("hello"))
	var b bytes.Buffer
	if n, err := b.ReadFrom(c); n != 5 || err != nil || b.String() != "hello" {
		t.Error(n, err)
	}
	if n, err := c.Write(make([]byte, 9)); n != 9 || err != nil {
		t.Error(n, err)
	}
}
