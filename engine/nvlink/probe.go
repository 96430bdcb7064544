package nvlink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

const (
	probeToken = 0x676f6363
	probeBlock = 256
)

// probeSlots is the size of the probe's part of an arena: a slot for each rank.
func probeSlots(n int) int64 { return int64(n) * 2 * probeHalf }

// The limits of a probe: of a kernel's wait for data that has been sent, and of the host's wait for kernels and copies,
// which may have to wait for work of other processes.
const (
	probeFlagLimit = 100 * time.Millisecond
	probeLimit     = 10 * time.Second
)

var probeFindings = [...]string{
	"nothing is known of what rank %d sends to rank %d", "",
	"what rank %d stores in the memory of rank %d does not arrive",
	"what rank %d stores in the memory of rank %d arrives as other data",
	"what a copy engine of rank %d writes to the memory of rank %d arrives as other data",
	"rank %[2]d loads other data from the memory of rank %[1]d than is there",
}

// found describes what rank `to` has found out about the data of rank `from`; "" if all is right.
func found(result uint32, from, to int) string {
	if result == probeWorks {
		return ""
	}
	if int(result) >= len(probeFindings) {
		result = 0
	}
	return fmt.Sprintf(probeFindings[result], from, to)
}

// probe checks that data arrives between the arenas of all ranks: stores of kernels, copies, and loads. The result is
// by rank and source, the same on all ranks. It is collective.
//
//  1. Each rank's kernel stores a pattern into every arena, and copy engines copy it.
//  2. The ranks meet.
//  3. Each rank's kernel compares the data in its arena. Only if the stores of a peer have arrived does it load from
//     the peer's arena: a load from memory that cannot be reached may never return, and no process can end it.
//  4. The ranks exchange their results.
//
// A rank that fails sends that in step 2 or 4, so that no rank waits for it.
func probe(ctx context.Context, b bootstrap.Bootstrap, dev *cuda.Device, arena *share.Arena, at layout) ([][]uint32,
	error,
) {
	p := &prober{dev: dev, args: probeArgs{limitNs: uint64(probeFlagLimit), rank: uint32(b.Rank()),
		nranks: uint32(at.n), token: probeToken, loads: 1}}
	for r := range at.n {
		p.args.window[r] = uint64(arena.Ptr[r].Add(at.probeOffset()))
	}
	ctx, stop := context.WithTimeout(ctx, probeLimit)
	defer stop()
	own := p.open()
	if own == nil {
		own = p.send(ctx, arena, at)
	}
	if err := meetProbe(ctx, b, nil, own, nil); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	mine, own := p.check(ctx)
	all := make([][]uint32, at.n)
	return all, errors.Join(meetProbe(ctx, b, mine, own, all), p.close(ctx))
}

// errHangs means that this rank's GPU still works on a probe.
var errHangs = errors.New("the GPU has not ended a probe of its links")

// probeRecord is the result of a rank's probe.
type probeRecord struct {
	Results []uint32
	Error   string
}

// meetProbe exchanges results or the failure of a rank.
func meetProbe(ctx context.Context, b bootstrap.Bootstrap, mine []uint32, own error, all [][]uint32) error {
	rec := probeRecord{Results: mine}
	if own != nil {
		rec.Error = own.Error()
	}
	records, err := exchange(ctx, b, rec, "probe", func(rec *probeRecord) bool {
		return rec.Error != "" || all == nil || len(rec.Results) == len(all)
	})
	if err = errors.Join(own, err); err != nil {
		return err
	}
	for r, rec := range records {
		if rec.Error != "" {
			return blame(b, r, "%w: rank %d could not probe its links: %s", collective.ErrUnsupported, rec.Error)
		}
		if all != nil {
			all[r] = rec.Results
		}
	}
	return nil
}

// prober holds a rank's resources of a probe.
type prober struct {
	dev           *cuda.Device
	args          probeArgs
	stream        *cuda.Stream
	result        *cuda.HostMemory
	store, verify *cuda.Function
}

func (p *prober) open() error {
	module, err := launcher.Load(p.dev, "probe")
	if err != nil {
		return err
	}
	if p.store, err = module.Function("probe_store"); err != nil {
		return err
	}
	if p.verify, err = module.Function("probe_check"); err != nil {
		return err
	}
	s, err := p.dev.NewStream()
	if err != nil {
		return err
	}
	p.stream = s.(*cuda.Stream)
	if p.result, err = p.dev.HostAlloc(4096); err != nil {
		return err
	}
	p.args.result = uint64(p.result.Ptr())
	return nil
}

func (p *prober) launch(f *cuda.Function) error {
	cfg := cuda.Launch1D(int(p.args.nranks), probeBlock, 0)
	return p.stream.LaunchRaw(f, &cfg, launcher.Raw(&p.args))
}

// send is step 1.
func (p *prober) send(ctx context.Context, arena *share.Arena, at layout) error {
	if err := p.launch(p.store); err != nil {
		return err
	}
	rank := int(p.args.rank)
	slot := at.probeOffset() + int64(rank)*2*probeHalf
	for r := range at.n {
		if err := p.stream.Copy(arena.Ptr[r].Add(slot+probeHalf), arena.Ptr[rank].Add(slot), probeHalf); err != nil {
			return err
		}
	}
	return p.wait(ctx)
}

// check is step 3.
func (p *prober) check(ctx context.Context) ([]uint32, error) {
	if err := p.launch(p.verify); err != nil {
		return nil, err
	}
	if err := p.wait(ctx); err != nil {
		return nil, err
	}
	out := make([]uint32, p.args.nranks)
	copy(device.BytesOf(out), p.result.Bytes())
	return out, nil
}

func (p *prober) wait(ctx context.Context) error {
	if err := p.stream.Synchronize(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w in %v (goccl doctor); the process cannot use this GPU any more", collective.ErrTimeout,
				errHangs, probeLimit)
		}
		return err
	}
	return nil
}

// close frees the stream and the results. After a probe that hangs they are kept, because the GPU still uses them.
func (p *prober) close(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(device.CloseAll(p.stream), device.CloseAll(p.result))
}

// medium is the memory that a link kind needs: kinds with one medium need one probe.
type medium uint8

const (
	peerMemory medium = iota
	hostMemory
	numMedia
)

func (r LinkKind) medium() medium {
	if r == HostMemory {
		return hostMemory
	}
	return peerMemory
}

// verdict is the result of a probe of one pair: neither for no probe.
type verdict struct {
	Proven bool
	Broken string // why not
}

// verdicts keeps what this process has found out about pairs of GPUs: links do not change while it runs.
var verdicts = struct {
	sync.Mutex
	of map[[2]string]*[numMedia]verdict
}{of: map[[2]string]*[numMedia]verdict{}}

// known returns the verdicts on the pair of a GPU of this process and another one.
func known(busID, other string) [numMedia]verdict {
	verdicts.Lock()
	defer verdicts.Unlock()
	if v := verdicts.of[[2]string{busID, other}]; v != nil {
		return *v
	}
	return [numMedia]verdict{}
}

func learn(busID, other string, m medium, v verdict) {
	verdicts.Lock()
	defer verdicts.Unlock()
	k := [2]string{busID, other}
	if verdicts.of[k] == nil {
		verdicts.of[k] = new([numMedia]verdict)
	}
	verdicts.of[k][m] = v
}
