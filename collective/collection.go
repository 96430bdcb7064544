package collective

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/goccl/goccl/device"
)

// Algorithm runs one collective in one way: an executor plan, or a user's own kernels. A value is one rank's part; all
// ranks register the same algorithms in the same order.
//
// Accepts must give the same answer on all ranks for matching requests. It may therefore look at the collective, count,
// type, operator and root, but not at addresses. Run is called by one goroutine at a time, for the same requests in the
// same order on all ranks.
type Algorithm interface {
	Name() string
	Collective() Collective
	// MessageRange gives the sizes in bytes (MessageBytes) that the algorithm supports, both ends included.
	MessageRange() (least, most uint64)
	// Tags are free-form; selectors may use them.
	Tags() map[string]uint64
	Constraint() Constraint
	BufferMode() BufferMode
	// Accepts returns nil if the algorithm can run the request, else an error that gives the reason.
	Accepts(r *Request) error
	// Run enqueues the request on its stream and does not wait for it. seq is the request's number, for errors. Run
	// keeps no reference to r after it returns.
	Run(ctx context.Context, seq uint64, r *Request) error
	// Abort makes running and later work end with cause. Any goroutine may call it.
	Abort(cause error)
	Close() error
}

// Builder makes an Algorithm for a communicator. Build is collective. Build and Run may use the job's Bootstrap.
// Algorithms call its OnFailure, which ends the communicator, when they detect a failure while their work runs.
type Builder interface {
	Build(ctx context.Context, job Job) (Algorithm, error)
}

// Constraint restricts where an algorithm works; 0 is no restriction.
type Constraint struct {
	WorldSize    int
	RanksPerHost int
}

// BufferMode restricts an algorithm to in-place or out-of-place buffers.
type BufferMode uint8

// The buffer modes.
const (
	AnyBuffers BufferMode = iota
	InPlace
	OutOfPlace
)

// MessageBytes is the size that selection uses for a request: the whole input or output buffer, whichever is larger. It
// is 0 for requests without a single size.
func (r *Request) MessageBytes(ranks int) uint64 {
	switch r.Collective {
	case AllReduce, Broadcast, Reduce:
		return uint64(r.Bytes())
	case AllGather, ReduceScatter, AllToAll:
		return uint64(r.Bytes()) * uint64(ranks)
	}
	return 0
}

// IsInPlace reports whether input and output share memory, as NCCL defines in place.
func (r *Request) IsInPlace(rank int) bool {
	at := device.Ptr(int64(rank) * r.Bytes())
	switch r.Collective {
	case AllGather, Gather:
		return r.Send == r.Recv+at
	case ReduceScatter, Scatter:
		return r.Recv == r.Send+at
	}
	return r.Send == r.Recv
}

// Selector picks the algorithm for a request, or nil for the built-in engine. It must make the same choice on all
// ranks. candidates are the algorithms that match and accept the request, in order of registration.
type Selector func(r *Request, candidates []Algorithm) Algorithm

// Collection holds the registered algorithms of a communicator. The communicator's lock guards it.
type Collection struct {
	rank, ranks, ranksPerHost int

	all      []Algorithm
	by       [numCollectives][]Algorithm
	forced   [numCollectives]string
	selector Selector
	found    []Algorithm // scratch of Select
}

// NewCollection returns an empty collection for one rank of n. Select tries the names in forced first. The communicator
// checks that these names exist.
func NewCollection(rank, n, ranksPerHost int, forced []Forced) *Collection {
	c := &Collection{rank: rank, ranks: n, ranksPerHost: ranksPerHost}
	for _, f := range forced {
		c.forced[f.Collective] = f.Name
	}
	return c
}

// Has reports whether an algorithm of that name is registered for a collective.
func (c *Collection) Has(coll Collective, name string) bool {
	return slices.ContainsFunc(c.by[coll], func(a Algorithm) bool { return a.Name() == name })
}

// Infos describes the algorithms in the order of their registration.
func (c *Collection) Infos() []Info {
	var list []Info
	for _, a := range c.all {
		least, most := a.MessageRange()
		list = append(list, Info{Name: a.Name(), Collective: a.Collective(), Least: least, Most: most, Tags: a.Tags(),
			Forceable: true, Registered: true})
	}
	return list
}

// Register adds a. Names are unique for a collective.
func (c *Collection) Register(a Algorithm) error {
	coll := a.Collective()
	if !coll.Valid() || a.Name() == "" {
		return fmt.Errorf("%w: an algorithm %q for %v", ErrInvalidArgument, a.Name(), coll)
	}
	if k := a.Constraint(); k.WorldSize != 0 && k.WorldSize != c.ranks || k.RanksPerHost != 0 &&
		k.RanksPerHost != c.ranksPerHost {
		return fmt.Errorf("%w: algorithm %s is for %d ranks, %d of them on a host; here are %d, %d on a host",
			ErrInvalidArgument, a.Name(), k.WorldSize, k.RanksPerHost, c.ranks, c.ranksPerHost)
	}
	if slices.ContainsFunc(c.by[coll], func(o Algorithm) bool { return o.Name() == a.Name() }) {
		return fmt.Errorf("%w: %v has an algorithm %s already", ErrInvalidArgument, coll, a.Name())
	}
	c.all = append(c.all, a)
	c.by[coll] = append(c.by[coll], a)
	return nil
}

// SetSelector replaces the selector of Select; nil selects the first candidate.
func (c *Collection) SetSelector(s Selector) { c.selector = s }

// All lists the algorithms in the order of their registration.
func (c *Collection) All() []Algorithm { return slices.Clone(c.all) }

// Find lists the algorithms of a collective that carry all of tags.
func (c *Collection) Find(coll Collective, tags map[string]uint64) []Algorithm {
	var out []Algorithm
	if !coll.Valid() {
		return nil
	}
	for _, a := range c.by[coll] {
		if carries(a.Tags(), tags) {
			out = append(out, a)
		}
	}
	return out
}

func carries(has, want map[string]uint64) bool {
	for k, v := range want {
		if got, ok := has[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Select picks the algorithm for a request, or nil for the engine:
//
//  1. The candidates match the collective, the message range and the buffer mode, and accept the request.
//  2. A candidate that GOCCL_ALGO names wins. If GOCCL_ALGO names one of the engine's algorithms, no candidate runs.
//  3. Otherwise the selector decides. Without a selector the first candidate runs.
func (c *Collection) Select(r *Request) Algorithm {
	list := c.by[r.Collective]
	if len(list) == 0 {
		return nil
	}
	size := r.MessageBytes(c.ranks)
	c.found = c.found[:0]
	for _, a := range list {
		least, most := a.MessageRange()
		if size < least || size > most {
			continue
		}
		if m := a.BufferMode(); m != AnyBuffers && (m == InPlace) != r.IsInPlace(c.rank) {
			continue
		}
		if a.Accepts(r) == nil {
			c.found = append(c.found, a)
		}
	}
	if name := c.forced[r.Collective]; name != "" {
		for _, a := range c.found {
			if a.Name() == name {
				return a
			}
		}
		if !c.Has(r.Collective, name) {
			return nil
		}
	}
	if c.selector != nil {
		return c.selector(r, c.found)
	}
	if len(c.found) > 0 {
		return c.found[0]
	}
	return nil
}

// Close closes all algorithms.
func (c *Collection) Close() error {
	var first error
	for _, a := range slices.Backward(c.all) {
		if err := a.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Abort aborts all algorithms.
func (c *Collection) Abort(cause error) {
	for _, a := range c.all {
		a.Abort(cause)
	}
}

// AnySize is the upper end of the message range of an algorithm without a size limit.
const AnySize = uint64(math.MaxUint64)
