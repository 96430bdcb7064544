package nvlink

import (
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// Constants of kernels/collective/direct.cuh.
const (
	directLine   = 128
	directShared = 192 << 10
)

const (
	directBlocks  = 32 // at most
	directDefault = 8  // measured beside models: more blocks are no faster alone, and take SMs from the model
	directInstead = 32 // channels of the ring where a request cannot run in place

	// captureWait is how long a captured call waits for peers to map its buffers. The graph keeps their addresses.
	captureWait = 200 * time.Millisecond
)

// directArgs are the parameters of the kernels of the ring, which run large messages in place where all ranks have
// mapped the buffers (share.Buffers): by rank, the address there of this rank's send and receive buffer.
type directArgs struct {
	collectiveArgs
	in, out    [maxRanks]uint64
	meetOffset uint64 // of the lines by which ranks meet; 0: the ring
}

// directBytes is the size of those lines: one for each block and peer.
func directBytes(n int) int64 { return directBlocks * int64(n) * directLine }

// share makes the registry of users' buffers, where kernels of all ranks can read them in place.
func (e *Engine) share(t *terms, b bootstrap.Bootstrap) {
	if !t.noRegister && e.size > 1 && t.gpu.Link == NVLink {
		e.buffers = share.NewBuffers(b, tags.Buffers, e.dev)
	}
}

// inPlace returns v, or a ring if v is direct and the ranks cannot run r in place. It is the same on all ranks. Where a
// rank's buffers are not mapped, the kernel runs the ring in its blocks.
func (e *Engine) inPlace(v variant, r *collective.Request) variant {
	if v.protocol != direct || e.buffers != nil && r.Bytes()&15 == 0 && e.canUseRing(r) &&
		(r.Collective == collective.AllGather || (r.Op == datatype.Sum || r.Op == datatype.Avg) &&
			(r.Type == datatype.Float32 || r.Type == datatype.Float16 || r.Type == datatype.Bfloat16)) {
		return v
	}
	return variant{protocol: ring, threads: directInstead}
}

// place fills the addresses of the buffers of a launch of v, of `in` and `out` bytes. The kernel needs both.
func (e *Engine) place(r *collective.Request, s *cuda.Stream, v variant, in, out int64) error {
	a := e.ring
	if a.meetOffset = 0; v.protocol != direct {
		return nil
	}
	a.meetOffset = uint64(streamBytes(e.size) + ringFlagBytes(e.size))
	all := func(at func(p device.Ptr, n int64, to []uint64) bool) bool {
		known := in == 0 || at(r.Send, in, a.in[:e.size])
		if known = (out == 0 || at(r.Recv, out, a.out[:e.size])) && known; known && in == 0 {
			a.in = a.out
		} else if known && out == 0 {
			a.out = a.in
		}
		return known
	}
	known := false
	if a.aligned() {
		known = all(e.buffers.At)
		if !known {
			status, _, err := s.CaptureStatus()
			if err != nil {
				return err
			}
			known = status != cuda.CaptureNone && all(func(p device.Ptr, n int64, to []uint64) bool {
				return e.buffers.Await(p, n, to, captureWait)
			})
		}
	}
	if !known {
		a.in, a.out = [maxRanks]uint64{}, [maxRanks]uint64{}
	}
	return nil
}

// allowShared lets a kernel of the ring use the shared memory of bulk copies.
func (e *Engine) allowShared(f *cuda.Function) error {
	if f == nil || !e.bulk() {
		return nil
	}
	return f.SetMaxDynamicShared(directShared)
}

// bulk reports whether kernels move data by bulk copies.
func (e *Engine) bulk() bool { return e.dev.Properties().Major >= 9 }

// launchRing launches a kernel of the ring, in place if v says so.
func (e *Engine) launchRing(s *cuda.Stream, f *cuda.Function, v variant, w ringWork) error {
	cfg := e.ringGrid(v, w)
	if v.protocol == direct { // its blocks take whole SMs, so they do not wait there for the launch before
		cfg = cuda.Launch1D(int(cfg.Grid[0]), int(cfg.Block[0]), 0)
		if e.bulk() {
			cfg.Shared = directShared
		}
	}
	return s.LaunchInOrder(f, &cfg, launcher.Raw(e.ring), e.launcher.Order)
}
