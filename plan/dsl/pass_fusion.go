package dsl

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// The maximum lengths of the lists of merged operations, equal to the limits in plan.Portable.
const (
	maxChannelsPerOp = 8
	maxRemotePerOp   = 8
	maxBuffersPerOp  = 10
)

// fuse merges adjacent operations of a block into one if the plan format has such an operation. A merged operation has
// the same effect on every byte; it only saves passes over memory. Conflicting operations are never merged, except when
// the second continues the first element by element.
func (p *CollectiveProgram) fuse(ops []*operation) []*operation {
	var out []*operation
	for _, o := range ops {
		origin := o
		o = o.clone()
		o.origin = origin
		if len(out) > 0 {
			if f := p.merge(out[len(out)-1], o); f != nil {
				out[len(out)-1] = f
				continue
			}
		}
		out = append(out, o)
	}
	return out
}

// merge returns a and b as one operation, or nil. It may modify a.
func (p *CollectiveProgram) merge(a, b *operation) *operation {
	if a.bound != nil || b.bound != nil || a.loop != b.loop || a.slice != b.slice || a.of != b.of {
		return nil
	}
	switch k := a.kind; {
	case k == b.kind && a.isNop():
		return a
	case k == b.kind && k.Synchronizes():
		return mergePoints(a, b)
	case k == b.kind && a.channelType == b.channelType:
		switch {
		case k.Src.Rest == 0:
		case k.Reduces && len(k.Dst.Front) == 1 && k.Dst.Rest == 0:
			return mergeReductions(a, b)
		case !k.Pairs || len(k.Channels) == 0:
		case k.Src.Rest.Packets():
			return mergeForwards(a, b)
		default:
			return mergeTransfers(a, b)
		}
		return nil
	case a.channelType == plan.SwitchChannel && b.channelType == plan.SwitchChannel:
		return p.mergeSwitch(a, b)
	}
	return mergeStores(a, b)
}

// mergePoints merges two synchronizing operations on different channels or semaphores.
func mergePoints(a, b *operation) *operation {
	if a.channelType != b.channelType || len(a.channels)+len(b.channels) > maxChannelsPerOp ||
		len(a.semaphores)+len(b.semaphores) > maxChannelsPerOp || meet(a.channels, b.channels) ||
		meet(a.semaphores, b.semaphores) {
		return nil
	}
	a.channels = append(a.channels, b.channels...)
	a.semaphores = append(a.semaphores, b.semaphores...)
	if a.sync == syncUnset {
		a.sync = b.sync
	} else if b.sync != syncUnset {
		a.sync |= b.sync
	}
	return a
}

// meet reports whether the lists have an element in common.
func meet[T comparable](a, b []T) bool {
	return slices.ContainsFunc(b, func(x T) bool { return slices.Contains(a, x) })
}

// mergeTransfers concatenates lists of transfers: pair i of the lists is transfer i. All must be independent, because
// they are unordered.
func mergeTransfers(a, b *operation) *operation {
	if len(a.dst)+len(b.dst) > maxRemotePerOp || conflict(a, b, overlapPlaces) {
		return nil
	}
	if a.kind.Does.Has(plan.Adds) && meet(a.channels, b.channels) { // one signal for each channel
		return nil
	}
	a.src, a.dst, a.channels = append(a.src, b.src...), append(a.dst, b.dst...), append(a.channels, b.channels...)
	return a
}

// mergeForwards merges forwards of the same packets to several peers.
func mergeForwards(a, b *operation) *operation {
	if len(a.src) != 1 || a.src[0] != b.src[0] || len(a.dst)+len(b.dst) > maxRemotePerOp || conflict(a, b, overlapPlaces) {
		return nil
	}
	a.dst, a.channels = append(a.dst, b.dst...), append(a.channels, b.channels...)
	return a
}

// mergeReductions merges b into a when b adds more operands to the result of a.
func mergeReductions(a, b *operation) *operation {
	if a.reduce != b.reduce || b.src[0] != a.dst[0] || b.dst[0] != a.dst[0] {
		return nil
	}
	limit := maxBuffersPerOp
	if a.kind.Src.Rest.Chunk() == plan.RemoteChunk {
		limit = 1 + maxRemotePerOp
	}
	if len(a.src)+len(b.src)-1 > limit {
		return nil
	}
	if meeting(b.src[1:], a.dst[:1], overlapPlaces) {
		return nil
	}
	a.src = append(a.src, b.src[1:]...)
	return a
}

// mergeStores merges b into a when b sends the result of a.
func mergeStores(a, b *operation) *operation {
	kind, from := stored(a.kind, b.kind)
	if kind == nil || len(b.kind.Channels) > 0 && b.channelType != plan.MemoryChannel {
		return nil
	}
	for _, x := range b.src {
		if x != a.dst[from] {
			return nil
		}
	}
	remotes := 0
	for _, x := range append(a.dst[:len(a.dst):len(a.dst)], b.dst...) {
		if x.channel != nil {
			remotes++
		}
	}
	if len(a.dst)+len(b.dst) > maxBuffersPerOp || remotes > maxRemotePerOp {
		return nil
	}
	// Operations run element by element, so an element of a source may be overwritten only by its own result.
	if meeting(b.dst, a.dst, overlapPlaces) ||
		meeting(b.dst, a.src, func(d, s operand) bool { return d.chunk != s.chunk && overlapPlaces(d, s) }) {
		return nil
	}
	at := len(a.dst)
	if b.channelType == plan.NoChannel { // destinations on the rank come first
		at = len(a.kind.Dst.Front)
	}
	a.kind, a.dst, a.channelType = kind, slices.Insert(a.dst, at, b.dst...), plan.NoChannel
	if len(kind.Channels) > 0 {
		a.channelType = plan.MemoryChannel
	}
	return a
}

// stored returns the op that reduces as a does and also stores the result as b does, or nil. from is the destination of
// a that b reads.
func stored(a, b *plan.OpKind) (k *plan.OpKind, from int) {
	from = slices.Index(a.Dst.Front, b.Src.At(0))
	if !a.Reduces || !b.Pairs || a.Does != plan.Moves || b.Does != plan.Moves || from < 0 {
		return nil, 0
	}
	dst, more := a.Dst, b.Dst.At(0)
	switch {
	case more.Chunk() == plan.RemoteChunk && (dst.Rest == 0 || dst.Rest == more):
		dst.Rest, dst.Min = more, 1
	case more.Chunk() == plan.LocalChunk && !slices.Contains(dst.Front, more):
		dst.Front = append(slices.Clone(dst.Front), more)
	default:
		return nil, 0
	}
	return plan.FindOp(func(k *plan.OpKind) bool {
		return k.Reduces && k.Does == plan.Moves && k.Src.Equal(a.Src) && k.Dst.Equal(dst)
	}), from
}

// mergeSwitch merges a reduction over a group and a store to it. The merged operation keeps no local result, so the
// store must also write that place, or no other operation may access it.
func (p *CollectiveProgram) mergeSwitch(a, b *operation) *operation {
	kind := plan.FindOp(func(k *plan.OpKind) bool {
		return k.Does == plan.Moves && k.Reduces && k.Src.Equal(a.kind.Src) && k.Dst.Equal(b.kind.Dst)
	})
	if kind == nil || !a.kind.Dst.Equal(b.kind.Src) || b.src[0] != a.dst[0] {
		return nil
	}
	store := b.dst[0]
	if store.chunk != a.dst[0].chunk && (a.dst[0].chunk.Buffer != Scratch || p.touched(a.dst[0].chunk, a, b)) {
		return nil
	}
	if overlapPlaces(a.src[0], store) && (a.src[0].chunk != store.chunk || !sameMembers(a.src[0].sw, store.sw)) {
		return nil
	}
	a.kind, a.dst = kind, b.dst
	return a
}

func sameMembers(a, b *SwitchChannel) bool {
	return a.buffer == b.buffer && len(a.ranks) == len(b.ranks) &&
		!slices.ContainsFunc(a.ranks, func(r int) bool { return b.member(r) < 0 })
}

// touched reports whether an operation other than a and b reads or writes c.
func (p *CollectiveProgram) touched(c Chunk, a, b *operation) bool {
	return slices.ContainsFunc(p.ranks, func(r *rankState) bool {
		return slices.ContainsFunc(r.ops, func(o *operation) bool {
			return o != a.origin && o != b.origin && slices.ContainsFunc(o.places(), c.Overlaps)
		})
	})
}

// overlapPlaces reports whether two operands share a chunk, on whatever rank.
func overlapPlaces(x, y operand) bool {
	if x.sw == nil && y.sw == nil {
		return x.chunk.Overlaps(y.chunk)
	}
	return meeting(x.places(), y.places(), Chunk.Overlaps)
}
