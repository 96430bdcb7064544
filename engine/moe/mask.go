package moe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
)

// Mask names the ranks that take no part in the operations, and who serves their experts. The zero Mask is the one that
// a Buffer begins with.
type Mask struct {
	// Gone has an entry for each rank: true masks it. nil: none.
	Gone []bool
	// Replicas has an entry for each expert: the expert that serves the tokens of an expert on a masked rank, -1: none.
	// Entries of other experts are not used. nil: no expert has a replica.
	Replicas []int32
}

// word is a mask as operations read it: a bit for each masked rank, and in the upper half the number of the SetMask. A
// handle has the word for which it was filled.
type word uint32

func (w word) has(rank int) bool { return w>>rank&1 != 0 }

var errOtherMask = fmt.Errorf("%w: the handle was filled before the latest SetMask", collective.ErrInvalidUsage)

// check returns the bits of the masked ranks.
func (m *Mask) check(rank, ranks int) (gone word, err error) {
	if m.Gone != nil && len(m.Gone) != ranks {
		return 0, bad("a mask of %d ranks: want %d", len(m.Gone), ranks)
	}
	for r, masked := range m.Gone {
		if masked {
			gone |= 1 << r
		}
	}
	experts := len(m.Replicas)
	switch {
	case gone == 1<<ranks-1:
		return 0, bad("all ranks are masked")
	case gone.has(rank):
		return 0, bad("rank %d masks itself", rank)
	case experts%ranks != 0 || experts/ranks > MaxExperts:
		return 0, bad("replicas of %d experts on %d ranks: want the same number on each rank, up to %d", experts, ranks,
			MaxExperts)
	}
	for x, y := range m.Replicas {
		switch local := experts / ranks; {
		case !gone.has(x / local):
		case y < -1 || int(y) >= experts:
			return 0, bad("the replica of expert %d is %d: want an expert below %d, or -1", x, y, experts)
		case y >= 0 && gone.has(int(y)/local):
			return 0, bad("the replica of expert %d is expert %d, whose rank %d is masked", x, y, int(y)/local)
		}
	}
	return gone, nil
}

// SetMask changes the mask between two operations. The ranks that are not masked by it call it together, with the same
// Mask; they go on with the same operation, whatever they did before. It ends an abort.
//
//  1. Wait until this rank's work has ended: by itself, or by an abort.
//  2. Meet the other ranks, compare the masks, and agree for each kind of operation on a number behind all that have
//     been used, so that nothing that is left in the arenas is taken for new.
//  3. Set numbers and mask, in memory that the operations read: graphs remain valid.
//  4. Wait until all ranks have done so, then watch them. From here on the death of one of them aborts the Buffer.
//
// If it fails, the Buffer is aborted, and the ranks may call it again.
func (b *Buffer) SetMask(ctx context.Context, m Mask) error {
	gone, err := m.check(b.rank, b.size)
	if err != nil {
		return b.error("moe_mask", 0, -1, err)
	}
	b.mu.Lock()
	b.detached = true
	b.mu.Unlock()
	if err = b.setMask(ctx, gone, slices.Clone(m.Replicas)); err == nil {
		return nil
	}
	if fault.Of(err) == nil {
		err = b.error("moe_mask", 0, fault.PeerOf(err), bootstrap.Kind(err))
	}
	b.Abort(err)
	return err
}

// Detached reports whether SetMask was called. Since then the Buffer does not end with the communicator.
func (b *Buffer) Detached() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.detached
}

// JobEnded is Abort for the end of the communicator, before SetMask.
func (b *Buffer) JobEnded(cause error) {
	b.mu.Lock()
	first := !b.detached && b.abort(cause)
	b.mu.Unlock()
	b.report(first, cause)
}

func (b *Buffer) setMask(ctx context.Context, gone word, replicas []int32) error {
	if err := b.engine.idle(ctx); err != nil {
		return err
	}
	if err := b.unwatch(); err != nil {
		return err
	}
	members := slices.DeleteFunc(bootstrap.Everyone(b.size), gone.has)
	live, err := b.cfg.Bootstrap.Sub(ctx, members, tags.SpaceOfExperts)
	for first := err; err != nil; live, err = b.cfg.Bootstrap.Sub(ctx, members, tags.SpaceOfExperts) {
		// A rank may have called before without this one, in vain. It has given up that Sub, and is in a later one.
		if !errors.Is(err, bootstrap.ErrGaveUp) || !errors.Is(err, bootstrap.ErrTimeout) {
			return first
		}
	}
	bootstrap.NameAsAbove(live, true)
	if err := b.agree(ctx, live, members, gone, replicas); err != nil {
		return errors.Join(err, live.Close())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errors.Join(b.cause.Err(), live.Close())
	}
	b.cause.Clear()
	b.aborted.Store(0)
	b.live, b.members = live, members
	for _, failures := range []<-chan bootstrap.PeerFailure{live.Failures(), bootstrap.GivenUp(live)} {
		b.watch.Go(func() {
			for f := range failures {
				b.Abort(b.error("moe", 0, members[f.Rank], bootstrap.Kind(f.Err)))
			}
		})
	}
	return nil
}

// agree is steps 2 and 3, and the wait of 4.
func (b *Buffer) agree(ctx context.Context, live bootstrap.Bootstrap, members []int, gone word,
	replicas []int32) error {
	latest, err := b.engine.latest()
	if err != nil {
		return err
	}
	sum := fnv.New64a()
	_ = binary.Write(sum, binary.LittleEndian, replicas)
	mine := append(sum.Sum(nil), launcher.Raw(&latest)...)
	all, err := live.AllGather(ctx, binary.LittleEndian.AppendUint32(mine, b.masks))
	if err != nil {
		return err
	}
	for r, x := range all {
		if len(x) != len(mine)+4 || string(x[:8]) != string(mine[:8]) {
			return b.error("moe_mask", 0, members[r], fmt.Errorf("%w: rank %d has other replicas", collective.ErrMismatch,
				members[r]))
		}
		for k := range latest { // which wrap at different times
			if n := binary.LittleEndian.Uint32(x[8+4*k:]); int32(n-latest[k]) > 0 {
				latest[k] = n
			}
		}
		b.masks = max(b.masks, binary.LittleEndian.Uint32(x[len(mine):]))
	}
	b.masks++
	for k := range latest {
		latest[k] = settled(latest[k] + 1)
	}
	if err := b.engine.restart(latest, gone|word(b.masks)<<MaxRanks, replicas); err != nil {
		return err
	}
	return live.Barrier(ctx)
}

// unwatch leaves the ranks of the latest SetMask.
func (b *Buffer) unwatch() error {
	b.mu.Lock()
	live := b.live
	b.live = nil
	b.mu.Unlock()
	if live == nil {
		return nil
	}
	err := live.Close()
	b.watch.Wait()
	return err
}

// giveUp tells the ranks of the latest SetMask about an abort. It requires mu.
func (b *Buffer) giveUp(cause error) {
	if b.live == nil {
		return
	}
	blamed := -1
	if e := fault.Of(cause); e != nil {
		blamed = slices.Index(b.members, e.Peer)
	}
	bootstrap.GiveUp(b.live, blamed, bootstrap.Told(cause))
}
