package verify

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/goccl/goccl/plan"
)

var hammer = flag.Int("hammer", 30000, "mutated plans to load")

// TestHammer decodes mutated plans in a loop: cheaper per execution than the fuzzer, whose purpose is to find new
// paths.
func TestHammer(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	var corpus [][]byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		corpus = append(corpus, txtar.Parse(data).Files[0].Data)
	}
	rng := rand.New(rand.NewPCG(uint64(*hammer), 7))
	start, valid, bytes := time.Now(), 0, 0
	var b []byte
	for range *hammer {
		b = append(b[:0], corpus[rng.IntN(len(corpus))]...)
		if rng.IntN(2) == 0 {
			b = spliced(b, corpus[rng.IntN(len(corpus))], rng)
		}
		for range rng.IntN(4) {
			at := rng.IntN(len(b))
			switch rng.IntN(4) {
			case 0:
				b[at] = byte(rng.Uint32())
			case 1:
				b[at] = `0123456789{}[]",:-.etrfn`[rng.IntN(24)]
			case 2:
				b = append(b[:at], b[min(len(b), at+rng.IntN(20)):]...)
			case 3:
				n := min(len(b), at+rng.IntN(40))
				b = append(b[:n:n], b[at:]...)
			}
			if len(b) == 0 {
				b = append(b, '{')
			}
		}
		bytes += len(b)
		p, err := plan.Decode(b)
		if err != nil {
			if e, ok := err.(*plan.Error); !ok || e.Line < 1 {
				t.Fatalf("%v\n%s", err, b)
			}
			continue
		}
		valid++
		_, _ = Check(p, Options{MaxSteps: 1 << 12, MaxCells: 1 << 12})
	}
	t.Logf("%d loads, %d valid, %.0f a second, %.0f MB", *hammer, valid, float64(*hammer)/time.Since(start).Seconds(),
		float64(bytes)/1e6)
}

// spliced joins the front of a and the back of b.
func spliced(a, b []byte, rng *rand.Rand) []byte {
	return append(a[:rng.IntN(len(a))], b[rng.IntN(len(b)):]...)
}
