package plan

import (
	"fmt"
	"slices"
)

// Hook is a point where a plan meets work of the caller on the same rank while both run: a kernel that fills a part of
// the input, or one that reads a part of the output. It guards Size chunks from chunk Index of buffer Type, and is a
// counter in the rank's memory.
//
// Of type Input, the caller adds to it once in a launch, when the chunks are there, and one wait_hook of the plan takes
// that. Before, the chunks are the caller's to write. Of type Output, one signal_hook of the plan adds to it when the
// chunks hold their final values. From then on, until the next launch, they are the caller's to read.
type Hook struct {
	Type  BufferType
	Index int
	Size  int

	// After, of type Input, are the Output hooks for which the caller waits before it writes the chunks. Nothing else of
	// the launch may be needed for the chunks to come.
	After []int
}

// Takes reports whether the plan waits for the hook; otherwise it signals it.
func (h *Hook) Takes() bool { return h.Type == Input }

// Hooks returns the hooks of g, by global id.
func (g *GPU) Hooks() (all []Hook) {
	for i := range g.Channels {
		if g.Channels[i].Type == HookChannel {
			all = append(all, g.Channels[i].Hooks...)
		}
	}
	return all
}

// A hook is a link of its rank to itself: end h of hook h is the plan's, the other the caller's. Each entry of After is
// a link within the caller's work, from the Output hook to the Input hook that comes after it.

// hookLinks returns the links of the rank's hooks, without their pairs, and for each the position of its pair.
func (g *GPU) hookLinks(rank int) (links []Link, pairs []int) {
	add := func(pair int) {
		links = append(links, Link{Rank: rank, Type: HookChannel, ID: len(links), Peer: rank, Nth: len(links), Pair: -1})
		pairs = append(pairs, pair)
	}
	hooks := g.Hooks()
	n := len(hooks)
	for h := range 2 * n {
		add((h + n) % (2 * n))
	}
	for h := range hooks {
		for range hooks[h].After {
			add(len(links) + 1)
			add(len(links) - 1)
		}
	}
	return links, pairs
}

// CallerEnd returns the global id of the channel end at which the caller stands when the plan is at hook h: signals of
// the plan arrive there.
func (g *GPU) CallerEnd(h int) int { return len(g.Hooks()) + h }

var (
	callerWaits   = Op{Name: WaitHook, ChannelType: HookChannel}
	callerSignals = Op{Name: SignalHook, ChannelType: HookChannel}
	callerCopies  = Op{Name: Copy}
)

// CallerProgram returns what the caller does at a hook in every launch, as an extra thread block would: wait for
// what the hook comes after, write the chunks, and add to the hook; or wait for the hook, read the chunks, and tell
// what comes after it. A write is a movement of the chunks onto themselves; a read is one without a destination.
func (p *Plan) CallerProgram(rank, hook int) []Step {
	g := &p.GPUs[rank]
	hooks := g.Hooks()
	h := &hooks[hook]
	at := Pos{rank, len(g.ThreadBlocks) + hook, -1, -1}
	var out []Step
	add := func(op *Op, does Effects, channels []int, moves ...Move) {
		if does&(Takes|Adds) != 0 && len(channels) == 0 {
			return
		}
		at.Op = len(out)
		code := does.code(false)
		out = append(out, Step{Op: op, Kind: op.Name.Kind(), Does: does, Code: code, Kernel: code, Pos: at, Moves: moves,
			Channels: channels, Hook: hook + 1})
	}
	here := Place{rank, PlaneOf(h.Type, false), h.Index, h.Size}
	if h.Takes() {
		add(&callerWaits, Takes, hookEdges(hooks, func(to, _ int) bool { return to == hook }, 1))
		add(&callerCopies, Meets, nil)
		add(&callerCopies, Moves, nil, Move{Src: []Place{here}, Dst: []Place{here}, Entry: -1})
		add(&callerCopies, Meets, nil)
		add(&callerSignals, Adds, []int{g.CallerEnd(hook)})
		return out
	}
	add(&callerWaits, Takes, []int{g.CallerEnd(hook)})
	add(&callerCopies, Meets, nil)
	add(&callerCopies, Moves, nil, Move{Src: []Place{here}, Entry: -1})
	add(&callerCopies, Meets, nil)
	add(&callerSignals, Adds, hookEdges(hooks, func(_, from int) bool { return from == hook }, 0))
	return out
}

// hookEdges returns the channel ends of the entries of After for which is holds: those where the caller signals (end
// 0), or waits (end 1).
func hookEdges(hooks []Hook, is func(to, from int) bool, end int) (ids []int) {
	at := 2 * len(hooks)
	for to := range hooks {
		for _, from := range hooks[to].After {
			if is(to, from) {
				ids = append(ids, at+end)
			}
			at += 2
		}
	}
	return ids
}

// Hooked reports whether the plan has hooks.
func (p *Plan) Hooked() bool {
	for r := range p.GPUs {
		if slices.ContainsFunc(p.GPUs[r].Channels, func(c Channel) bool { return c.Type == HookChannel }) {
			return true
		}
	}
	return false
}

// HookName describes the counter of a hook's link.
func HookName(p *Plan, l *Link) string {
	n := len(p.GPUs[l.Rank].Hooks())
	if l.ID >= 2*n {
		return fmt.Sprintf("the way from one hook to the next in the work of the caller of rank %d", l.Rank)
	}
	return fmt.Sprintf("hook %d of rank %d", l.ID%n, l.Rank)
}

// hooks checks the hooks of the rank. Chunk counts have been checked.
func (v *validator) hooks() {
	v.hookTable = v.gpu.Hooks()
	at := 0
	for i := range v.gpu.Channels {
		v.enter("channels", i)
		for j := range v.gpu.Channels[i].Hooks {
			v.enter("hooks", j)
			v.hook(&v.gpu.Channels[i].Hooks[j], at)
			v.leave()
			at++
		}
		v.leave()
	}
}

func (v *validator) hook(h *Hook, id int) {
	if !v.need(h.Type == Input || h.Type == Output, "type",
		"a hook guards input (i), which the caller writes, or output (o), which it reads, not %q", h.Type) {
		return
	}
	count := v.p.ChunkCount(v.gpu.ID, h.Type)
	v.need(h.Size > 0 && h.Index >= 0 && h.Size <= count && h.Index <= count-h.Size, "index",
		"chunks %d to %d of a buffer %q of %d chunks", h.Index, h.Index+h.Size-1, h.Type, count)
	v.need(h.Takes() || len(h.After) == 0, "after", "only a hook of input comes after others")
	for k, from := range h.After {
		v.at("after", k, from >= 0 && from < len(v.hookTable) && !v.hookTable[from].Takes(), "",
			"hook %d comes after hook %d, which is not one of the rank's %d hooks that guards output", id, from,
			len(v.hookTable))
		v.need(!slices.Contains(h.After[:k], from), "after", "hook %d comes twice", from)
	}
}

// hookUse checks entry i of an op on hooks.
func (v *validator) hookUse(op *Op, k *OpKind, i, id int) {
	h := &v.hookTable[id]
	v.enter("channel_ids", i)
	defer v.leave()
	v.need(v.pos.Inner < 0, "", "%s in a pipeline; a hook is raised once in a launch", op.Name)
	v.need(h.Takes() == k.Does.Has(Takes), "", "%s on hook %d, which guards %q: wait_hook is for input, signal_hook for "+
		"output", op.Name, id, h.Type)
}
