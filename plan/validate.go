package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"
)

// Validate checks the structure of the plan: dense ids, known names, operands of the right kind, indices in range and
// counts within limits. It does not check what the plan computes; Verify does. The error is an *Error that names the
// rank, thread block, op and field.
//
// All code in this package may index a plan that Validate accepts without further checks.
func (p *Plan) Validate(limits *Limits) error {
	v := validator{p: p, l: limits, pos: Nowhere}
	v.plan()
	if v.err != nil {
		return v.err
	}
	return nil
}

type validator struct {
	p   *Plan
	l   *Limits
	pos Pos
	in  []element // the lists that contain the current check, outermost first
	err *Error

	gpu      *GPU
	tb       *ThreadBlock
	switches []SwitchGroup
	// hookTable lists the hooks of the rank
	hookTable []Hook
	barriers  map[int]barrierUse // of the rank, by id
	ops       int
}

// barrierUse is the first use of a barrier.
type barrierUse struct {
	at     Pos
	blocks int
}

// element is a position in a list of the file. It is formatted only for an error.
type element struct {
	list string
	i    int
}

func (v *validator) enter(list string, i int) { v.in = append(v.in, element{list, i}) }
func (v *validator) leave()                   { v.in = v.in[:len(v.in)-1] }

func (v *validator) bad(class error, field, format string, args ...any) {
	if v.err != nil {
		return
	}
	path := ""
	for _, e := range v.in {
		path += fmt.Sprintf(".%s[%d]", e.list, e.i)
	}
	if field != "" {
		path += "." + field
	}
	v.err = &Error{Class: class, Pos: v.pos, Field: strings.TrimPrefix(path, "."), Detail: fmt.Sprintf(format, args...)}
}

// need records an error unless ok, and returns ok.
func (v *validator) need(ok bool, field, format string, args ...any) bool {
	if !ok {
		v.bad(ErrInvalid, field, format, args...)
	}
	return ok && v.err == nil
}

// at is need for element i of a list.
func (v *validator) at(list string, i int, ok bool, field, format string, args ...any) bool {
	if !ok {
		v.enter(list, i)
		v.bad(ErrInvalid, field, format, args...)
		v.leave()
	}
	return ok && v.err == nil
}

// printable records a name that would move the cursor of a terminal, or break a line of a log.
func (v *validator) printable(name, field string) {
	at := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	v.need(at < 0, field, "%+q has a character that is not printable at byte %d: leave it out", name, at)
}

// within records an ErrLimit unless lo <= n <= hi.
func (v *validator) within(n, lo, hi int, field, what string) {
	if n < lo {
		v.bad(ErrInvalid, field, "%s is %d and must be at least %d", what, n, lo)
	} else if n > hi {
		v.bad(ErrLimit, field, "%s is %d and the limit is %d", what, n, hi)
	}
}

func (v *validator) plan() {
	p, l := v.p, v.l
	v.need(p.SchemaVersion >= 1 && p.SchemaVersion <= SchemaVersion, "schema_version",
		"version %d; this reader knows 1 to %d", p.SchemaVersion, SchemaVersion)
	v.need(p.Name != "", "name", "a plan needs a name")
	v.within(len(p.Name), 0, l.NameBytes, "name", "the length")
	v.printable(p.Name, "name")
	v.need(p.Collective != "", "collective", "a plan names its collective")
	v.within(len(p.Collective), 0, l.NameBytes, "collective", "the length")
	v.printable(string(p.Collective), "collective")
	v.need(p.Protocol == Simple || p.Protocol == LL, "protocol", "%q is not %q or %q", p.Protocol, Simple, LL)
	v.within(p.ThreadsPerBlock, 1, l.ThreadsPerBlock, "num_threads_per_block", "the number of threads")
	if p.Alignment < 1 || p.Alignment > l.Alignment || bits.OnesCount64(uint64(p.Alignment)) != 1 {
		v.bad(ErrInvalid, "buffer_alignment", "%d is not a power of two from 1 to %d", p.Alignment, l.Alignment)
	}
	v.need(p.MinSize <= p.MaxSize, "min_message_size", "%d is over max_message_size %d", p.MinSize, p.MaxSize)
	v.within(len(p.GPUs), 1, l.Ranks, "gpus", "the number of ranks")
	v.need(p.Root >= 0 && p.Root < max(1, len(p.GPUs)), "root", "rank %d of %d", p.Root, len(p.GPUs))
	for r := range p.GPUs {
		v.pos = Pos{r, -1, -1, -1}
		v.rank(r)
		if v.err != nil {
			return
		}
	}
	v.pos = Nowhere
	v.chunkCounts()
	v.postcondition()
	for r := range p.GPUs {
		if v.err != nil {
			return
		}
		v.gpu = &p.GPUs[r]
		v.switches = v.gpu.SwitchGroups()
		v.barriers = map[int]barrierUse{}
		v.pos = Pos{r, -1, -1, -1}
		v.hooks()
		for b := range v.gpu.ThreadBlocks {
			v.pos = Pos{r, b, -1, -1}
			v.tb = &v.gpu.ThreadBlocks[b]
			v.threadBlock(b)
		}
	}
}

func (v *validator) rank(r int) {
	p, l, g := v.p, v.l, &v.p.GPUs[r]
	v.need(g.ID == r, "id", "rank %d stands at position %d of gpus; ids are dense and in order", g.ID, r)
	v.within(g.InputChunks, 0, l.Chunks, "input_chunks", "the number of chunks")
	v.within(g.OutputChunks, 0, l.Chunks, "output_chunks", "the number of chunks")
	v.within(g.ScratchChunks, 0, l.Chunks, "scratch_chunks", "the number of chunks")
	counts := map[ChannelType]int{}
	for i := range g.Channels {
		v.enter("channels", i)
		v.channel(r, &g.Channels[i], counts)
		v.leave()
	}
	v.within(len(g.RemoteBuffers), 0, l.RemoteBuffers, "remote_buffers", "the number of remote buffers")
	for i := range g.RemoteBuffers {
		v.enter("remote_buffers", i)
		b := &g.RemoteBuffers[i]
		v.need(b.Rank >= 0 && b.Rank < len(p.GPUs) && b.Rank != r, "rank", "rank %d is not another rank of %d", b.Rank,
			len(p.GPUs))
		v.need(b.Type.Valid(), "type", "%q is not i, o or s", b.Type)
		for _, a := range b.Access {
			v.need(a == MemoryChannel || a == PortChannel, "access_channel_types", "%q is not memory or port", a)
		}
		v.leave()
	}
	v.within(len(g.Semaphores), 0, l.Semaphores, "semaphores", "the number of semaphores")
	for i := range g.Semaphores {
		v.enter("semaphores", i)
		v.within(g.Semaphores[i].InitValue, 0, l.SemaphoreValue, "init_value", "the value")
		v.leave()
	}
	v.within(len(g.ThreadBlocks), 0, l.ThreadBlocks, "threadblocks", "the number of thread blocks")
}

func (v *validator) channel(r int, c *Channel, counts map[ChannelType]int) {
	n := len(v.p.GPUs)
	switch c.Type {
	case MemoryChannel, PortChannel:
		counts[c.Type] += len(c.ConnectedTo)
		for j, peer := range c.ConnectedTo {
			v.at("connected_to", j, peer >= 0 && peer < n && peer != r, "", "rank %d is not another rank of %d", peer, n)
		}
		v.need(len(c.RankGroups) == 0, "rank_groups", "only switch channels have groups")
	case SwitchChannel:
		v.need(c.BufferType.Valid(), "buffer_type", "%q is not i, o or s", c.BufferType)
		counts[c.Type] += len(c.RankGroups)
		for j := range c.RankGroups {
			v.enter("rank_groups", j)
			v.group(r, c.RankGroups[j].Ranks)
			v.leave()
		}
		v.need(len(c.ConnectedTo) == 0, "connected_to", "switch channels have groups of ranks")
	case HookChannel:
		counts[c.Type] += len(c.Hooks)
		v.within(counts[c.Type], 0, v.l.Hooks, "hooks", "the number of hooks")
		v.need(len(c.ConnectedTo)+len(c.RankGroups) == 0, "", "hooks lead to no rank")
	default:
		v.bad(ErrInvalid, "channel_type", "%q is not memory, port, switch or hook", c.Type)
	}
	v.need(len(c.Hooks) == 0 || c.Type == HookChannel, "hooks", "only an entry of channel_type hook has hooks")
	v.within(counts[c.Type], 0, v.l.ChannelsPerRank, "", "the number of channels of one type")
}

func (v *validator) group(r int, ranks []int) {
	v.within(len(ranks), 1, v.l.Ranks, "ranks", "the number of ranks")
	member := false
	seen := make(map[int]bool, len(ranks))
	for i, k := range ranks {
		v.at("ranks", i, k >= 0 && k < len(v.p.GPUs), "", "rank %d of %d", k, len(v.p.GPUs))
		v.at("ranks", i, !seen[k], "", "rank %d comes twice", k)
		seen[k] = true
		member = member || k == r
	}
	v.need(member, "ranks", "the group does not hold rank %d itself", r)
}

// Valid reports whether t is one of the buffers.
func (t BufferType) Valid() bool { return t == Input || t == Output || t == Scratch }

func (v *validator) threadBlock(b int) {
	tb, l := v.tb, v.l
	v.need(tb.ID == b, "id", "thread block %d stands at position %d; ids are dense and in order", tb.ID, b)
	v.channelRefs()
	v.bufferRefs()
	n := 0
	for i := range tb.Ops {
		if v.err != nil {
			return
		}
		v.pos.Op = i
		n += 1 + len(tb.Ops[i].Ops)
		v.op(&tb.Ops[i])
	}
	v.pos.Op = -1
	v.within(n, 0, l.Ops, "ops", "the number of ops, bodies of pipelines included,")
	v.ops += n
	v.within(v.ops, 0, l.TotalOps, "ops", "the number of ops in the plan")
}

func (v *validator) channelRefs() {
	types := map[ChannelType]bool{}
	for i := range v.tb.Channels {
		v.enter("channels", i)
		c := &v.tb.Channels[i]
		total := 0
		switch c.Type {
		case MemoryChannel, PortChannel:
			total = len(v.gpu.Peers(c.Type))
		case SwitchChannel:
			total = len(v.switches)
		case HookChannel:
			total = len(v.hookTable)
		default:
			v.bad(ErrInvalid, "channel_type", "%q is not memory, port, switch or hook", c.Type)
		}
		v.need(!types[c.Type], "channel_type", "%q comes twice", c.Type)
		types[c.Type] = true
		v.within(len(c.IDs), 0, v.l.ChannelsPerBlock, "channel_ids", "the number of channels")
		for j, id := range c.IDs {
			v.at("channel_ids", j, id >= 0 && id < total, "", "channel %d of the %d %s channels of the rank", id, total, c.Type)
		}
		v.leave()
	}
}

func (v *validator) bufferRefs() {
	access := map[ChannelType]bool{}
	for i := range v.tb.RemoteBufferRefs {
		v.enter("remote_buffer_refs", i)
		c := &v.tb.RemoteBufferRefs[i]
		v.need(c.Access == MemoryChannel || c.Access == PortChannel, "access_channel_type", "%q is not memory or port",
			c.Access)
		v.need(!access[c.Access], "access_channel_type", "%q comes twice", c.Access)
		access[c.Access] = true
		v.within(len(c.IDs), 0, v.l.RemotePerBlock, "remote_buffer_ids", "the number of remote buffers")
		for j, id := range c.IDs {
			if v.at("remote_buffer_ids", j, id >= 0 && id < len(v.gpu.RemoteBuffers), "",
				"buffer %d of the %d remote buffers of the rank", id, len(v.gpu.RemoteBuffers)) {
				v.at("remote_buffer_ids", j, slices.Contains(v.gpu.RemoteBuffers[id].Access, c.Access), "",
					"remote buffer %d does not list %q in access_channel_types", id, c.Access)
			}
		}
		v.leave()
	}
}
