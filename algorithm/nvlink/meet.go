package nvlink

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device/cuda"
)

// terms are what all ranks must be of one mind about.
type terms struct {
	sharing int      // the largest number of ranks on one GPU: their kernels wait for each other, so all must fit on it at once
	copies  copyMode // the least that any rank wants
	blocks  int64    // the most thread blocks of a kernel of packets or of the ring that any rank allows; 0: as many as it likes
}

// maxCTAs is GOCCL_MAX_CTAS or, where that is not set, NCCL_MAX_CTAS; 0 is neither.
func maxCTAs() (uint16, error) {
	for _, name := range []string{"GOCCL_MAX_CTAS", "NCCL_MAX_CTAS"} {
		v := os.Getenv(name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%w: %s=%q: want a number of thread blocks, from 1 to 65535", algorithm.ErrInvalidArgument, name, v)
		}
		return uint16(n), nil
	}
	return 0, nil
}

// meetRanks tells the ranks of each other.
func meetRanks(ctx context.Context, b bootstrap.Bootstrap, dev *cuda.Device) (t terms, err error) {
	own, err := maxCTAs()
	if err != nil {
		return t, err
	}
	wanted, err := wantedCopies()
	if err != nil {
		return t, err
	}
	const head = 3
	record := binary.LittleEndian.AppendUint16([]byte{byte(wanted)}, own)
	all, err := b.AllGather(ctx, append(record, dev.Properties().BusID...))
	if err != nil {
		return t, err
	}
	t = terms{sharing: 1, copies: copyAlways}
	count := map[string]int{}
	for r, x := range all {
		if len(x) <= head {
			return t, &algorithm.Error{Op: "init", Rank: b.Rank(), Peer: r, Err: fmt.Errorf("%w: rank %d says nothing of its GPU", algorithm.ErrMismatch, r)}
		}
		t.copies = min(t.copies, copyMode(x[0]))
		if n := int64(binary.LittleEndian.Uint16(x[1:])); n > 0 && (t.blocks == 0 || n < t.blocks) {
			t.blocks = n
		}
		count[string(x[head:])]++
		t.sharing = max(t.sharing, count[string(x[head:])])
	}
	if wanted == copyAlways && t.copies < wanted {
		slog.Warn("copy engines do less than GOCCL_COPY_ENGINE=1 asks for: it is not set on all ranks", "rank", b.Rank(), "off", t.copies == copyNever)
	}
	return t, nil
}

// share is one rank's part of so many blocks of a GPU.
func (t terms) share(blocks int) int64 {
	n := int64(max(1, blocks/t.sharing))
	if t.blocks > 0 {
		n = min(n, t.blocks)
	}
	return n
}
