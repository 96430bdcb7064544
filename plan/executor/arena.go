package executor

import (
	"context"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/share"
)

// arena is an arena of the ranks of this host, indexed by the ranks of the communicator.
type arena struct {
	*share.Arena
	Ptr         []device.Ptr // 0 for ranks of other hosts
	SameProcess []bool
}

// newArena is collective among the ranks of this host.
func (e *Executor) newArena(ctx context.Context, dev device.Device, size int64) (*arena, error) {
	a, err := share.NewArena(ctx, e.here, dev, size)
	if err != nil {
		if p := fault.PeerOf(err); p >= 0 && len(e.local) < e.size {
			err = &collective.Error{Comm: e.cfg.Name, Op: "plan", Rank: e.rank, Peer: p, Err: err}
		}
		return nil, err
	}
	all := &arena{Arena: a, Ptr: e.byRank(a.Ptr), SameProcess: make([]bool, e.size)}
	for i, r := range e.local {
		all.SameProcess[r] = a.SameProcess[i]
	}
	return all, nil
}

// byRank indexes the addresses of this host's ranks by the ranks of the communicator. Others have 0.
func (e *Executor) byRank(local []device.Ptr) []device.Ptr {
	all := make([]device.Ptr, e.size)
	for i, r := range e.local {
		all[r] = local[i]
	}
	return all
}

// A control arena of the host engine has this layout:
//
//	0               door      the owner sleeps here; a writer that changes what the owner may wait for wakes it
//	128             left      1 when a launch of the owner has failed: peers must not touch its buffers any more
//	192             moving    the number of the owner's workers that touch buffers of peers
//	256 + 128·k     launch    the record of the owner's launch of parity k
//	512 + 64·l      inbound   signals that arrived on the owner's link l
//
// The owner writes door, left, moving and launch; peers add to inbound.
const (
	offDoor     = 0
	offLeft     = 128
	offMoving   = 192
	offLaunch   = 256
	launchBytes = 128
	offInbound  = offLaunch + 2*launchBytes
)

type controlArena struct{ base unsafe.Pointer }

func pointer(p device.Ptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func (a controlArena) door() *wait.Cell { return wait.At(unsafe.Add(a.base, offDoor)) }

func (a controlArena) left() *atomic.Uint32   { return (*atomic.Uint32)(unsafe.Add(a.base, offLeft)) }
func (a controlArena) moving() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Add(a.base, offMoving)) }

func (a controlArena) inbound(link int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(a.base, offInbound+wait.CellSize*link))
}

func (a controlArena) launch(n uint64) *record {
	return (*record)(unsafe.Add(a.base, offLaunch+launchBytes*(n&1)))
}

// record describes a rank's launch to its peers. number is stored last: a reader that finds the number it expects sees
// the other fields. The owner reuses a record two launches later. A plan without the handshakes that the verifier
// demands may let it do so too early, so readers check number again after reading.
type record struct {
	number    atomic.Uint64 // launch + 1
	signature atomic.Uint64 // hash of message size, type and operator; all ranks must agree
	buffer    [2]bufferRecord
}

// bufferRecord describes an input or output.
type bufferRecord struct {
	kind    uint32
	number  uint32 // of the owner's directory entry
	address uint64 // in the owner's process
	offset  uint64 // in the allocation
	size    uint64
}

// The kinds of bufferRecord.
const (
	bufferNone   = iota // no buffer, or no peer needs it
	bufferLocal         // accessible to ranks of the same process
	bufferShared        // also mappable by other processes
)

var _ [launchBytes - unsafe.Sizeof(record{})]struct{}
