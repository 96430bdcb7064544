package moe

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/testutil"
)

// TestPromises: the bits of a combined token depend neither on the other tokens, of any rank, nor on its place among
// them, nor on whether few tokens travel as packets. docs/exact.md shows the result.
func TestPromises(t *testing.T) {
	const n = 3
	comms := commtest.New(t, n, commtest.Host, nil)
	seed := rand.Uint64()
	layouts := []string{moe.Rows: "rows", moe.Experts: "experts", moe.ZeroCopy: "zero copy"}
	moved, differs := make([][3]int, n), make([][3]int, n) // by rank and layout
	if err := commtest.Each(n, func(r int) error {
		rank, err := NewRank(comms[r], size)
		if err != nil {
			return err
		}
		random := rand.New(rand.NewPCG(seed, 35))
		for _, shape := range shapes(n) {
			most := size.Tokens
			if shape.Layout == moe.Experts {
				most = size.PacketTokens
			}
			whole := Draw(random.Uint64(), n, most, shape, "random", false)
			if err := rank.Run(whole, true); err != nil {
				return err
			}
			all, row := rank.Combined, 2*shape.Hidden
			for range 4 {
				part := whole.Part(random)
				if err := rank.Run(part, true); err != nil {
					return err
				}
				for i, k := range part.Number[r] {
					moved[r][shape.Layout]++
					if string(rank.Combined[i*row:][:row]) != string(all[k*row:][:row]) {
						differs[r][shape.Layout]++
					}
				}
			}
		}
		return rank.Close()
	}); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	var found []testutil.Promise
	for layout, name := range layouts {
		level := "batch"
		for r := range n {
			if differs[r][layout] > 0 {
				level = "run"
			}
			if moved[r][layout] == 0 {
				t.Errorf("seed %d, rank %d, %s: no token was compared", seed, r, name)
			}
		}
		found = append(found, testutil.Promise{Where: "combine of experts, one host", Algorithm: name, Level: level})
	}
	testutil.ComparePromises(t, found, os.Getenv("GOCCL_UPDATE_GOLDEN") != "")
}
