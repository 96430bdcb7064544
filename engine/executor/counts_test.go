package executor_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/engine/executor"
)

// TestCounts: an all-to-all whose counts lie in device memory moves what they say and leaves the rest of the output
// alone. The counts of a launch are written by work before it on the stream.
func TestCounts(t *testing.T) {
	const n, launches = 4, 12
	p, err := programs.BuildAllToAllV(n)
	if err != nil {
		t.Fatal(err)
	}
	j := newJob(t, n, openHost)
	xs := j.load(t, p)
	ctx := bounded(t)
	for _, block := range []int64{1, 37, 4096, 300_000} {
		rng := rand.New(rand.NewPCG(uint64(block), 7))
		counts := make([][n][n]uint64, launches)
		for l := range counts {
			for s := range n {
				for d := range n {
					if counts[l][s][d] = rng.Uint64N(uint64(block) + 1); rng.IntN(5) == 0 {
						counts[l][s][d] = []uint64{0, 1 << 63, uint64(block)}[rng.IntN(3)] // more than there is room for is all
					}
				}
			}
		}
		if err := j.each(func(r int) error {
			dev := j.devs[r]
			s, err := dev.NewStream()
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			mem := make([]device.Allocation, 3)
			for i, size := range []int64{n * block, n * block, 8 * n * n} {
				if mem[i], err = dev.Alloc(size); err != nil {
					return err
				}
				defer func() { _ = mem[i].Close() }()
			}
			in, out := device.Bytes(mem[0].Ptr(), n*block), device.Bytes(mem[1].Ptr(), n*block)
			fill := func(launch, src, dst int) byte { return byte(1 + launch*n*n + src*n + dst) }
			for l := range launches {
				for q := range n {
					copy(in[int64(q)*block:], bytes.Repeat([]byte{fill(l, r, q)}, int(block)))
				}
				copy(out, bytes.Repeat([]byte{0xa5}, len(out)))
				table := make([]byte, 0, 8*n*n)
				for _, row := range counts[l] {
					for _, c := range row {
						table = binary.NativeEndian.AppendUint64(table, c)
					}
				}
				if err := dev.CopyIn(mem[2].Ptr(), table); err != nil {
					return err
				}
				if err := xs[r].Execute(ctx, executor.Args{Send: mem[0].Ptr(), Recv: mem[1].Ptr(), Message: uint64(n * block),
					Type: datatype.Uint8, Stream: s, Counts: mem[2].Ptr(), Seq: uint64(l)}); err != nil {
					return err
				}
				if err := s.Synchronize(ctx); err != nil {
					return err
				}
				for q := range n {
					got, c := out[int64(q)*block:int64(q+1)*block], min(counts[l][q][r], uint64(block))
					want := append(bytes.Repeat([]byte{fill(l, q, r)}, int(c)), bytes.Repeat([]byte{0xa5}, int(block)-int(c))...)
					if !bytes.Equal(got, want) {
						return fmt.Errorf("launch %d, blocks of %d: rank %d got wrong bytes from rank %d, %d of which are sent", l,
							block, r, q, c)
					}
				}
				if err := j.boots[r].Barrier(ctx); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
