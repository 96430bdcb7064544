package nvlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
)

// terms are the facts that all ranks must agree on.
type terms struct {
	sharing int       // the most ranks on one GPU: their kernels wait for each other, so all must fit at once
	copies  copyMode  // the minimum over all ranks
	blocks  int64     // the minimum over the ranks' limits of thread blocks of a packet or ring kernel; 0: no limit
	sms     int       // the minimum over the ranks' GPUs
	gpu     GPU       // selects the table
	worst   cuda.Link // of any pair of ranks
}

// hello describes a rank to the others at set-up.
type hello struct {
	Copies       copyMode
	Blocks       uint16 // GOCCL_MAX_CTAS; 0: no limit
	GPU, BusID   string
	Major, Minor int // compute capability
	SMs          int
	Tuning       uint64 // hash of this rank's tuning environment
	Error        string // why this rank cannot go on
}

// tuningHash hashes the file that GOCCL_TUNING names and GOCCL_ALGO; it is 0 if neither is set.
func tuningHash(env *setting.Config) (uint64, error) {
	path, spec := env.Tuning, env.Algorithms
	if path == "" && spec == "" {
		return 0, nil
	}
	h := fnv.New64a()
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("%w: GOCCL_TUNING: %w", algorithm.ErrInvalidArgument, err)
		}
		_, _ = h.Write(data)
	}
	_, _ = h.Write([]byte("\x00" + spec))
	return h.Sum64(), nil
}

// introduce returns this rank's hello, which includes the error.
func introduce(dev *cuda.Device, env *setting.Config) (hello, error) {
	p := dev.Properties()
	h := hello{GPU: p.Name, BusID: p.BusID, Major: p.Major, Minor: p.Minor, SMs: p.SMs, Blocks: env.MaxCTAs,
		Copies: copyMode(env.CopyEngine)}
	var err error
	h.Tuning, err = tuningHash(env)
	if err == nil && p.Major < 8 {
		err = fmt.Errorf("%w: %s has compute capability %d.%d; goccl's kernels need 8.0 or later (A100 and after): leave "+
			"this GPU out with CUDA_VISIBLE_DEVICES",
			algorithm.ErrUnsupported, p.Name, p.Major, p.Minor)
	}
	if err != nil {
		h.Error = err.Error()
	}
	return h, err
}

// meetRanks exchanges the ranks' facts in two rounds: the hello of each rank, and its links to the others. All ranks
// draw the same conclusion from the same facts. If one rank fails, all ranks fail.
func meetRanks(ctx context.Context, b bootstrap.Bootstrap, dev *cuda.Device, env *setting.Config) (t terms, err error) {
	own, failed := introduce(dev, env)
	all, err := helloAll(ctx, b, own)
	switch {
	case failed != nil:
		return t, failed
	case err != nil:
		return t, err
	}
	if t, err = conclude(b.Rank(), all); err != nil {
		return t, err
	}
	t.worst, err = meetLinks(ctx, b, dev, all)
	t.gpu.PCIe = t.worst == cuda.PCIe
	return t, err
}

func helloAll(ctx context.Context, b bootstrap.Bootstrap, own hello) ([]hello, error) {
	record, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	records, err := b.AllGather(ctx, record)
	if err != nil {
		return nil, err
	}
	all := make([]hello, len(records))
	for r, x := range records {
		if err := json.Unmarshal(x, &all[r]); err != nil || all[r].BusID == "" {
			return nil, &algorithm.Error{Op: "init", Rank: b.Rank(), Peer: r,
				Err: fmt.Errorf("%w: rank %d says nothing of its GPU: do all ranks run one version of goccl?",
					algorithm.ErrMismatch, r)}
		}
	}
	return all, nil
}

// conclude derives the terms from the hellos.
func conclude(rank int, all []hello) (terms, error) {
	t := terms{sharing: 1, copies: copyAlways, sms: all[0].SMs,
		gpu: GPU{Name: all[0].GPU, Major: all[0].Major, Minor: all[0].Minor}}
	own, count := &all[rank], map[string]int{}
	for r := range all {
		h := &all[r]
		var err error
		switch {
		case h.Error != "":
			err = fmt.Errorf("%w: rank %d cannot go on: %s", algorithm.ErrUnsupported, r, h.Error)
		case h.Tuning != own.Tuning:
			err = fmt.Errorf("%w: rank %d has another GOCCL_TUNING or GOCCL_ALGO than rank %d: set them alike, or the ranks "+
				"would run different kernels", algorithm.ErrMismatch, r, rank)
		}
		if err != nil {
			return t, &algorithm.Error{Op: "init", Rank: rank, Peer: r, Err: err}
		}
		t.copies = min(t.copies, h.Copies)
		if n := int64(h.Blocks); n > 0 && (t.blocks == 0 || n < t.blocks) {
			t.blocks = n
		}
		t.sms = min(t.sms, h.SMs)
		count[h.BusID]++
		t.sharing = max(t.sharing, count[h.BusID])
		t.gpu.Meet(GPU{Name: h.GPU, Major: h.Major, Minor: h.Minor})
	}
	if own.Copies == copyAlways && t.copies < own.Copies {
		slog.Warn("copy engines do less than GOCCL_COPY_ENGINE=1 asks for: it is not set on all ranks", "rank", rank, "off",
			t.copies == copyNever)
	}
	return t, nil
}

// meetLinks finds the worst link between any two ranks. Every rank sends its link to each of the others.
func meetLinks(ctx context.Context, b bootstrap.Bootstrap, dev *cuda.Device, all []hello) (cuda.Link, error) {
	row, rank := make([]byte, len(all)), b.Rank()
	var failed error
	for r := range all {
		l, err := dev.LinkTo(all[r].BusID)
		failed = errors.Join(failed, err)
		row[r] = byte(l)
	}
	rows, err := b.AllGather(ctx, row)
	if err = errors.Join(failed, err); err != nil {
		return cuda.NoLink, err
	}
	worst, from, to := cuda.SameGPU, 0, 0
	for r, row := range rows {
		for p := range all {
			l := cuda.NoLink
			if p < len(row) {
				l = cuda.Link(row[p])
			}
			if l < worst {
				worst, from, to = l, r, p
			}
		}
	}
	pair := fmt.Sprintf("rank %d (%s at %s) and rank %d (%s at %s)", from, all[from].GPU, all[from].BusID, to, all[to].GPU,
		all[to].BusID)
	switch {
	case worst == cuda.NoLink:
		return worst, &algorithm.Error{Op: "init", Rank: rank, Peer: -1,
			Err: fmt.Errorf(
				"%w: the GPUs of %s have no peer access: choose GPUs that have (goccl topo), or allow it (goccl doctor); "+
					"this version moves nothing through host memory", algorithm.ErrUnsupported, pair)}
	case worst == cuda.PCIe && rank == 0:
		warnOnce("not all GPUs are connected by NVLink: only protocols that PCIe allows are used", "worst", pair)
	}
	return worst, nil
}

// spareSMs is the number of SMs that the widest launch leaves free. Blocks wait for peers. If one launch took the whole
// GPU, a kernel of another communicator could not start, and a peer may wait for that kernel first: both would wait for
// ever. A launch whose blocks do not all fit keeps every later kernel off the GPU, too.
const spareSMs = 4

// packetBlocks is the largest grid of a packet kernel. An SM holds `resident` of its blocks
// (kernels/collective/packet.cu).
func (t terms) packetBlocks(resident int) int64 {
	return t.share(min(maxBlocks, resident*(t.sms-spareSMs)))
}

// p2pChannels is the largest number of channels of one lane of messages: an SM holds three blocks of those kernels, and
// a launch has up to 2n-1 lanes.
func (t terms) p2pChannels(n int) int {
	return max(1, min(channelsOf(p2pChannels, n), 3*(t.sms-spareSMs)/(2*n-1)))
}

// ringBlocks is the largest grid of a ring kernel, of which an SM holds one block.
func (t terms) ringBlocks() int64 { return t.share(min(ringChannels, t.sms-spareSMs)) }

// share is one rank's part of the blocks of a GPU.
func (t terms) share(blocks int) int64 {
	n := int64(max(1, blocks/t.sharing))
	if t.blocks > 0 {
		n = min(n, t.blocks)
	}
	return n
}
