package dsl

import "github.com/goccl/goccl/plan"

// Hook is a point where the program meets work of the caller while both run: a kernel that fills a part of the input,
// or one that reads a part of the output.
type Hook struct {
	*channel
	guards Chunk
	after  []*Hook
}

// InputHook creates a hook that the caller raises when it has written input. It does so without waiting for anything of
// the launch but the output hooks in after, which are of the same rank. The program must wait for the hook once, before
// anything of it touches the chunks.
func (p *CollectiveProgram) InputHook(input Chunk, after ...*Hook) *Hook {
	return p.newHook(Input, input, after)
}

// OutputHook creates a hook that the program signals, once, when output is final. From then on the caller reads it.
func (p *CollectiveProgram) OutputHook(output Chunk) *Hook { return p.newHook(Output, output, nil) }

// Wait blocks until the caller has written the input that the hook guards. Options: TB, Sync.
func (h *Hook) Wait(opts ...Option) { h.point(plan.WaitHook, apply(opts)) }

// Signal tells the caller that the output that the hook guards is final, as far as this block knows. Options: TB, Sync.
func (h *Hook) Signal(opts ...Option) { h.point(plan.SignalHook, apply(opts)) }

func (p *CollectiveProgram) newHook(buffer BufferType, guards Chunk, after []*Hook) *Hook {
	h := &Hook{channel: &channel{p: p, kind: plan.HookChannel, pos: p.position()}, guards: guards, after: after}
	bad := func(kind error, fix, format string, args ...any) *Hook {
		p.fail(h.pos, kind, fix, format, args...)
		h.p = nil
		return h
	}
	if !p.checkChunk(h.pos, "hook", guards) {
		h.p = nil
		return h
	}
	if guards.Buffer != buffer {
		return bad(ErrUsage, "guard input that the caller writes by InputHook, output that it reads by OutputHook",
			"a hook for buffer %q guards %v", string(buffer), guards)
	}
	for _, o := range after {
		if !o.valid() || o.src != guards.Rank || o.guards.Buffer != Output {
			return bad(ErrMismatch, "name hooks of OutputHook of the same rank", "a hook of rank %d comes after another's",
				guards.Rank)
		}
	}
	if p.spec.Instances > 1 && p.spec.ReplicationPolicy == None {
		return bad(ErrUsage, "use ReplicationPolicy Interleaved, or a thread-block group", "a hook in a program of %d "+
			"instances that share chunks", p.spec.Instances)
	}
	r := p.ranks[guards.Rank]
	h.src, h.dst = guards.Rank, guards.Rank
	h.id, h.nth = len(r.hooks), len(r.hooks)
	r.hooks = append(r.hooks, h)
	return h
}

// lowerHooks writes the rank's hooks. Every instance has its own, for its part of the chunks.
func (r *rankState) lowerHooks(n int, policy ReplicationPolicy) (out []plan.Hook) {
	for _, h := range r.hooks {
		for i := range n {
			inst := instance{i: i, n: n, policy: policy}
			k := plan.Hook{Type: h.guards.Buffer, Index: inst.index(h.guards.Index, h.guards.Size), Size: h.guards.Size}
			for _, o := range h.after {
				k.After = append(k.After, inst.id(o.id))
			}
			out = append(out, k)
		}
	}
	return out
}
