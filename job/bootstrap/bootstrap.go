package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"

	"github.com/goccl/goccl/internal/tags"
)

// MaxMessage is the largest payload, in bytes, of one Send or of one rank's part of an AllGather.
const MaxMessage = 16 << 20

// MaxWorldSize is the largest number of ranks in a job.
const MaxWorldSize = 1 << 16

// A Bootstrap is one rank's handle of a job. All errors are *Error.
type Bootstrap interface {
	// Rank returns this rank, 0 ≤ Rank < WorldSize.
	Rank() int
	// WorldSize returns the number of ranks.
	WorldSize() int
	// Send sends data to peer under tag. It returns when data may be reused, not when peer has received it. A rank may
	// send to itself.
	Send(ctx context.Context, peer, tag int, data []byte) error
	// Recv waits for and returns the oldest message of peer under tag. The caller owns the result. Messages that a peer
	// sent before it died or closed can still be received.
	Recv(ctx context.Context, peer, tag int) ([]byte, error)
	// AllGather returns every rank's data, indexed by rank. The parts may differ in length. The caller owns the result.
	AllGather(ctx context.Context, data []byte) ([][]byte, error)
	// Barrier returns when every rank has called it.
	Barrier(ctx context.Context) error
	// Hosts returns each rank's host, numbered by first appearance in rank order. Ranks of one host can exchange file
	// descriptors. The caller must not change the result.
	Hosts() []int
	// Sub returns a Bootstrap over some ranks of this one, renumbered in the given order, on the same connections.
	// Exactly the listed ranks call it, with the same list and tagSpace; other ranks may be dead. It returns when all
	// of them have called it.
	Sub(ctx context.Context, ranks []int, tagSpace int) (Bootstrap, error)
	// Failures subscribes to the deaths of peers. Every call returns a new channel. The channel delivers each dead peer
	// once, in the order in which this rank detected the deaths, including those before the call. Close or StopFailures
	// closes it. It need not be drained.
	Failures() <-chan PeerFailure
	// Close leaves the job. Pending operations end with ErrClosed, here and at peers that wait for this rank. Closing
	// twice is harmless.
	Close() error
}

// A PeerFailure is the death of a rank and how it was detected.
type PeerFailure struct {
	Rank int
	Err  error
}

// LocalRanks lists, in order, the ranks on the host of b's rank.
func LocalRanks(b Bootstrap) []int {
	hosts := b.Hosts()
	var ranks []int
	for r, h := range hosts {
		if h == hosts[b.Rank()] {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// LocalRank returns b's position among the ranks of its host.
func LocalRank(b Bootstrap) int { return slices.Index(LocalRanks(b), b.Rank()) }

// LocalAddress returns an address of this host over which b is connected with another one. It is invalid if there is no
// such connection.
func LocalAddress(b Bootstrap) netip.Addr {
	if g := groupOf(b); g != nil {
		if at := g.e.outward.Load(); at != nil {
			return *at
		}
	}
	return netip.Addr{}
}

// groupOf returns the group of a Bootstrap; nil if it is of another package.
func groupOf(b Bootstrap) *group {
	switch b := b.(type) {
	case *group:
		return b
	case apart:
		return b.group
	}
	return nil
}

// LocalSize returns the number of ranks on b's host.
func LocalSize(b Bootstrap) int { return len(LocalRanks(b)) }

// SplitByHost returns a Bootstrap over the ranks of b's host. Every rank of b calls it.
func SplitByHost(ctx context.Context, b Bootstrap) (Bootstrap, error) {
	return b.Sub(ctx, LocalRanks(b), tags.SpaceOfHost)
}

// apart is a group whose ranks count as separate hosts.
type apart struct{ *group }

// Apart returns b with every rank on a separate host, for ranks of one host that share no memory.
func Apart(b Bootstrap) Bootstrap {
	if g, ok := b.(*group); ok {
		return apart{g}
	}
	return b
}

// Hosts implements Bootstrap.
func (a apart) Hosts() []int { return Everyone(a.WorldSize()) }

// MostAlike returns the largest number of ranks that give the same key, such as the name of their GPU. It is
// collective.
func MostAlike(ctx context.Context, b Bootstrap, key string) (most int, err error) {
	all, err := b.AllGather(ctx, []byte(key))
	count := map[string]int{}
	for _, k := range all {
		count[string(k)]++
		most = max(most, count[string(k)])
	}
	return most, err
}

// GatherJSON gathers a value of each rank by all, an AllGather. What names the values in the error for one that cannot
// be read.
func GatherJSON[T any](ctx context.Context, all func(context.Context, []byte) ([][]byte, error), what string, mine T) (
	[]T, error,
) {
	b, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	blobs, err := all(ctx, b)
	if err != nil {
		return nil, err
	}
	values := make([]T, len(blobs))
	for r, b := range blobs {
		if err := json.Unmarshal(b, &values[r]); err != nil {
			return nil, fmt.Errorf("%s of rank %d: %w", what, r, err)
		}
	}
	return values, nil
}

// Serve calls handle with the messages of every other rank of b that carry the tag. Each rank has a goroutine of tasks,
// and ended, if not nil, is called when it is over: with the error of handle, or of Recv when the bootstrap is closed,
// the rank is gone or gives up, or ctx ends. A rank may be silent for any time.
func Serve(ctx context.Context, tasks *sync.WaitGroup, b Bootstrap, tag int,
	handle func(peer int, message []byte) error, ended func(peer int, err error)) {
	for p := range b.WorldSize() {
		if p == b.Rank() {
			continue
		}
		tasks.Go(func() {
			ctx, stop := context.WithTimeout(ctx, math.MaxInt64) // a deadline in place of the step timeout
			defer stop()
			var err error
			for err == nil {
				var message []byte
				if message, err = b.Recv(ctx, p, tag); err == nil {
					err = handle(p, message)
				}
			}
			if ended != nil {
				ended(p, err)
			}
		})
	}
}
