package nvlink

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// terms are the facts that all ranks must agree on.
type terms struct {
	sharing    int      // the most ranks on one GPU: their kernels wait for each other, so all must fit at once
	copies     copyMode // the minimum over all ranks
	noRegister bool     // a rank shares no buffers of users
	memOps     bool     // all GPUs have memory operations of streams
	vmm        bool     // all GPUs have virtual memory management
	blocks     int64    // the minimum over the ranks' limits of thread blocks of a packet or ring kernel; 0: no limit
	least      int64    // the maximum over the ranks' lower limits, at most blocks; 0: none
	sms        int      // the minimum over the ranks' GPUs
	gpu        GPU      // selects the table
	links      linkSelection

	policy collective.CTAPolicy // the maximum over the ranks
}

// hello describes a rank to the others at set-up.
type hello struct {
	Copies       copyMode
	MemOps, VMM  bool
	NoRegister   bool   // GOCCL_REGISTER=off
	Blocks       uint16 // GOCCL_MAX_CTAS; 0: no limit
	Least        uint16 // GOCCL_MIN_CTAS
	Policy       collective.CTAPolicy
	GPU, BusID   string
	Major, Minor int // compute capability
	SMs          int
	Tuning       uint64 // hash of this rank's tuning environment

	// The settings of this rank's environment for links.
	Link                setting.Link
	P2PLevel            setting.P2PLevel
	NoP2P, NoHostMemory bool

	Error string // why this rank cannot go on
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
			return 0, fmt.Errorf("%w: GOCCL_TUNING: %w", collective.ErrInvalidArgument, err)
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
		Least: env.MinCTAs, Policy: env.CTAPolicy, Copies: copyMode(env.CopyEngine), NoRegister: env.NoRegister,
		MemOps: p.StreamMemOps, VMM: p.VMM, Link: env.Link,
		P2PLevel: env.P2PLevel, NoP2P: env.NoP2P, NoHostMemory: env.NoHostMemory}
	var err error
	h.Tuning, err = tuningHash(env)
	if err == nil && p.Major < 8 {
		err = fmt.Errorf("%w: %s has compute capability %d.%d; goccl's kernels need 8.0 or later (A100 and after): leave "+
			"this GPU out with CUDA_VISIBLE_DEVICES",
			collective.ErrUnsupported, p.Name, p.Major, p.Minor)
	}
	if err != nil {
		h.Error = err.Error()
	}
	return h, err
}

// meetRanks exchanges the ranks' facts in two rounds: the hello of each rank, and its paths to the others. All ranks
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
	if t, err = conclude(b, b.Rank(), all); err != nil {
		return t, err
	}
	t.links.boot, t.links.all = b, all
	if t.links.paths, err = meetPaths(ctx, b, dev, all); err != nil {
		return t, err
	}
	return t, t.links.possible()
}

func helloAll(ctx context.Context, b bootstrap.Bootstrap, own hello) ([]hello, error) {
	return exchange(ctx, b, own, "GPU", func(h *hello) bool { return h.BusID != "" })
}

// exchange gathers a record of each rank about a subject, as JSON. A record that is not valid is the error of every
// rank.
func exchange[T any](ctx context.Context, b bootstrap.Bootstrap, own T, subject string, valid func(*T) bool) ([]T,
	error,
) {
	record, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	records, err := b.AllGather(ctx, record)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(records))
	for r, x := range records {
		if err := json.Unmarshal(x, &all[r]); err != nil || !valid(&all[r]) {
			return nil, blame(b, r, "%w: rank %d sends nothing about its %s: do all ranks run one version of goccl?",
				collective.ErrMismatch, subject)
		}
	}
	return all, nil
}

// blame is a set-up error of rank r of b. The format begins with the kind of the error and the number of the rank.
func blame(b bootstrap.Bootstrap, r int, format string, kind error, args ...any) error {
	r = bootstrap.NameOf(b, r)
	return fault.Blame("nvlink", r, format, append([]any{kind, r}, args...)...)
}

// conclude derives the terms from the hellos.
func conclude(b bootstrap.Bootstrap, rank int, all []hello) (terms, error) {
	t := terms{sharing: 1, copies: copyAlways, memOps: true, vmm: true, sms: all[0].SMs,
		gpu: GPU{Name: all[0].GPU, Major: all[0].Major, Minor: all[0].Minor}}
	own, count := &all[rank], map[string]int{}
	for r := range all {
		h := &all[r]
		switch {
		case h.Error != "":
			return t, blame(b, r, "%w: rank %d cannot go on: %s", collective.ErrUnsupported, h.Error)
		case h.Tuning != own.Tuning:
			return t, blame(b, r, "%w: rank %d has another GOCCL_TUNING or GOCCL_ALGO than rank %d and would run different "+
				"kernels: set the same on all ranks", collective.ErrMismatch, bootstrap.NameOf(b, rank))
		}
		t.copies, t.memOps, t.vmm = min(t.copies, h.Copies), t.memOps && h.MemOps, t.vmm && h.VMM
		t.noRegister = t.noRegister || h.NoRegister
		if n := int64(h.Blocks); n > 0 && (t.blocks == 0 || n < t.blocks) {
			t.blocks = n
		}
		t.least, t.policy = max(t.least, int64(h.Least)), max(t.policy, h.Policy)
		t.sms = min(t.sms, h.SMs)
		count[h.BusID]++
		t.sharing = max(t.sharing, count[h.BusID])
		t.gpu.Meet(GPU{Name: h.GPU, Major: h.Major, Minor: h.Minor})
	}
	if t.blocks > 0 {
		t.least = min(t.least, t.blocks)
	}
	if own.Copies == copyAlways && t.copies < own.Copies {
		slog.Warn("copy engines do less than GOCCL_COPY_ENGINE=1 asks for: it is not set on all ranks", "rank", rank, "off",
			t.copies == copyNever)
	}
	return t, nil
}

// spareSMs is the number of SMs that the widest launch leaves free. Blocks wait for peers. If one launch took the whole
// GPU, a kernel of another communicator could not start, and a peer may wait for that kernel first: both would wait for
// ever. A launch whose blocks do not all fit keeps every later kernel off the GPU, too.
const spareSMs = directDefault

// leaveRoom leaves a third of the SMs to kernels of the same communicator that run at the same time and wait for other
// hosts. It returns how many blocks these of one rank may have: with one block on an SM, whether they or this engine's
// come first, all are resident.
func (t *terms) leaveRoom() int {
	third := t.sms / 3
	t.sms -= third - spareSMs
	return max(1, third/t.sharing)
}

// packetBlocks is the largest grid of a packet kernel, at most `most`. An SM holds `resident` of its blocks
// (kernels/collective/packet.cu).
func (t terms) packetBlocks(resident, most int) int64 {
	return t.share(min(most, resident*(t.sms-spareSMs)))
}

// p2pChannels is the largest number of channels of one lane of messages: an SM holds three blocks of those kernels, and
// a launch has up to 2n-1 lanes.
func (t terms) p2pChannels(n int) int {
	return max(1, min(channelsOf(p2pChannels, n), int(t.share(3*(t.sms-spareSMs)))/(2*n-1)))
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
