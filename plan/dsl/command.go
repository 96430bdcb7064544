package dsl

import (
	"errors"
	"strings"

	"github.com/goccl/goccl/plan"
)

// Command is one step of a program as data. Strings and numbers describe every operation of the language, so that a
// front end in another language can record commands and compile them in one call. Objects are numbered by kind in the
// order of their creation, from 0.
//
// Op is one of
//
//	memory_channel port_channel              dst, src (ranks)
//	switch_channel                           ranks, buffer
//	semaphore                                rank, initial
//	input_hook output_hook                   to (the chunk), after (hooks)
//	scratch                                  rank, size; makes a buffer, whose chunks count from its start by `view`
//	signal wait flush                        channel_type, channel
//	get put put_packets read_put_packets
//	put_with_signal
//	put_with_signal_and_flush                channel_type, channel, to, from
//	reduce                                   acc, others; into; channel_type, channel for a peer's chunks; packet
//	copy copy_packets unpack_packets         to, from
//	barrier                                  rank, blocks
//	acquire release                          semaphore
//	wait_hook signal_hook                    hook
//	switch_reduce                            channel, rank, offset, size, to
//	switch_broadcast switch_broadcast_packets   channel, rank, from, offset, size
//	begin_loop end_loop                      unit, chunks
//
// Options are tb, group, sync, relaxed, reduce_op and count. file and line are the position in the author's source.
type Command struct {
	Op   string `json:"op"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`

	Dst     int        `json:"dst,omitempty"`
	Src     int        `json:"src,omitempty"`
	Rank    int        `json:"rank,omitempty"`
	Ranks   []int      `json:"ranks,omitempty"`
	Buffer  BufferType `json:"buffer,omitempty"`
	Initial int        `json:"initial,omitempty"`
	Size    int        `json:"size,omitempty"`
	Offset  int        `json:"offset,omitempty"`
	Blocks  []int      `json:"blocks,omitempty"`
	Unit    uint64     `json:"unit,omitempty"`
	Chunks  int        `json:"chunks,omitempty"`

	ChannelType ChannelType `json:"channel_type,omitempty"`
	Channel     int         `json:"channel,omitempty"`
	Semaphore   int         `json:"semaphore,omitempty"`
	Hook        int         `json:"hook,omitempty"`
	After       []int       `json:"after,omitempty"`

	To     *ChunkRef  `json:"to,omitempty"`
	From   *ChunkRef  `json:"from,omitempty"`
	Acc    *ChunkRef  `json:"acc,omitempty"`
	Others []ChunkRef `json:"others,omitempty"`
	Into   *ChunkRef  `json:"into,omitempty"`
	Packet bool       `json:"packet,omitempty"`

	TB       *int     `json:"tb,omitempty"`
	Group    []int    `json:"group,omitempty"`
	Sync     string   `json:"sync,omitempty"`
	Relaxed  bool     `json:"relaxed,omitempty"`
	ReduceOp ReduceOp `json:"reduce_op,omitempty"`
	Count    *Count   `json:"count,omitempty"`
}

// Count limits a command, see Counted.
type Count struct {
	Src   int `json:"src"`
	Dst   int `json:"dst"`
	Index int `json:"index,omitempty"`
}

// replay holds the objects that commands have created.
type replay struct {
	p        *CollectiveProgram
	channels map[ChannelType][]*channel
	groups   []*SwitchChannel
	sems     []*Semaphore
	hooks    []*Hook
	views    []*Buffer
}

// errBadRef stops one command; the error has been recorded.
var errBadRef = errors.New("bad reference")

func (r *replay) chunk(c *ChunkRef, what string) (Chunk, error) {
	if c == nil {
		return Chunk{}, r.bad("the command needs %q", what)
	}
	if c.View != nil {
		if *c.View < 0 || *c.View >= len(r.views) {
			return Chunk{}, r.bad("%q names scratch %d of %d", what, *c.View, len(r.views))
		}
		return r.sized(r.views[*c.View].Slice(c.Index, c.Index+c.Size))
	}
	rank := r.p.Rank(c.Rank)
	if rank.id < 0 {
		return Chunk{}, errBadRef
	}
	switch c.Buffer {
	case Input:
		return r.sized(rank.Input().Slice(c.Index, c.Index+c.Size))
	case Output:
		return r.sized(rank.Output().Slice(c.Index, c.Index+c.Size))
	case Scratch:
		return Chunk{Rank: c.Rank, Buffer: Scratch, Index: c.Index, Size: c.Size}, nil
	}
	return Chunk{}, r.bad("%q has buffer %q, want \"i\", \"o\" or \"s\"", what, string(c.Buffer))
}

func (r *replay) sized(c Chunk) (Chunk, error) {
	if c.Size == 0 {
		return c, errBadRef
	}
	return c, nil
}

func (r *replay) bad(format string, args ...any) error {
	r.p.fail(r.p.position(), ErrUsage, "", format, args...)
	return errBadRef
}

// numbered returns element i of a list that earlier commands have made, or records that there is none.
func numbered[T any](r *replay, list []*T, i int, what string) (*T, bool) {
	if i < 0 || i >= len(list) {
		_ = r.bad("%s %d of %d", what, i, len(list))
		return nil, false
	}
	return list[i], true
}

// command replays one command. Errors are recorded in the program.
func (r *replay) command(c *Command) {
	r.p.At(c.File, c.Line)
	if c.File == "" {
		r.p.At("command "+c.Op, c.Line)
	}
	opt, err := r.options(c)
	if err != nil {
		return
	}
	switch c.Op {
	case "memory_channel", "port_channel":
		kind := ChannelType(strings.TrimSuffix(c.Op, "_channel"))
		r.channels[kind] = append(r.channels[kind], r.p.newChannel(kind, c.Dst, c.Src))
	case "switch_channel":
		r.groups = append(r.groups, r.p.SwitchChannel(c.Ranks, c.Buffer))
	case "semaphore":
		r.sems = append(r.sems, r.p.Semaphore(c.Rank, c.Initial))
	case "input_hook", "output_hook":
		r.hook(c)
	case "scratch":
		if c.Size > 1<<20 {
			_ = r.bad("scratch of %d chunks", c.Size)
			return
		}
		r.views = append(r.views, r.p.Rank(c.Rank).Scratch(c.Size))
	case "begin_loop":
		r.p.BeginLoop(c.Unit, c.Chunks)
	case "end_loop":
		r.p.EndLoop()
	case "barrier":
		r.p.Rank(c.Rank).Barrier(c.Blocks...)
	case "reduce":
		r.reduce(c, opt)
	default:
		r.op(c, apply([]Option{opt}))
	}
}

func (r *replay) hook(c *Command) {
	chunk, err := r.chunk(c.To, "to")
	if err != nil {
		return
	}
	var after []*Hook
	for _, i := range c.After {
		h, ok := numbered(r, r.hooks, i, "hook")
		if !ok {
			return
		}
		after = append(after, h)
	}
	buffer := Input
	if c.Op == "output_hook" {
		buffer = Output
	}
	r.hooks = append(r.hooks, r.p.newHook(buffer, chunk, after))
}

// op replays an operation that the table of ops has a word for.
func (r *replay) op(c *Command, s settings) {
	k := plan.FindOp(func(k *plan.OpKind) bool { return k.Word == c.Op && c.Op != "" })
	switch {
	case k != nil && k.On(plan.HookChannel):
		if h, ok := numbered(r, r.hooks, c.Hook, "hook"); ok {
			h.point(k.Name, s)
		}
	case k == nil || len(k.Channels) > 0 && !k.On(plan.SwitchChannel):
		r.onChannel(c, k, s)
	case k.Semaphores:
		if sem, ok := numbered(r, r.sems, c.Semaphore, "semaphore"); ok {
			sem.point(k.Name, s)
		}
	case k.On(plan.SwitchChannel):
		r.onSwitch(c, k, s)
	default:
		if to, from, err := r.ends(c); err == nil {
			r.p.Rank(to.Rank).move(k.Name, to, from, s)
		}
	}
}

// ends returns the destination and the source of a command.
func (r *replay) ends(c *Command) (to, from Chunk, err error) {
	if to, err = r.chunk(c.To, "to"); err == nil {
		from, err = r.chunk(c.From, "from")
	}
	return to, from, err
}

// options returns the options of a command, as one.
func (r *replay) options(c *Command) (Option, error) {
	s := settings{tb: Auto, group: c.Group, sync: syncUnset, relaxed: c.Relaxed, op: c.ReduceOp, packet: c.Packet,
		bound: (*plan.Bound)(c.Count)}
	if c.TB != nil {
		s.tb = *c.TB
	}
	if c.Sync != "" {
		t, ok := syncNames[c.Sync]
		if !ok {
			return nil, r.bad("sync %q, want none, before, after or both", c.Sync)
		}
		s.sync = t
	}
	if c.Into != nil {
		into, err := r.chunk(c.Into, "into")
		if err != nil {
			return nil, err
		}
		s.into = &into
	}
	return func(to *settings) { *to = s }, nil
}

func (r *replay) reduce(c *Command, opt Option) {
	acc, err := r.chunk(c.Acc, "acc")
	if err != nil {
		return
	}
	var others []Chunk
	for i := range c.Others {
		o, err := r.chunk(&c.Others[i], "others")
		if err != nil {
			return
		}
		others = append(others, o)
	}
	switch c.ChannelType {
	case "":
		r.p.Rank(acc.Rank).Reduce(acc, others, opt)
	case plan.MemoryChannel:
		if m, ok := numbered(r, r.channels[plan.MemoryChannel], c.Channel, "memory channel"); ok {
			(&MemoryChannel{m}).Reduce(acc, others, opt)
		}
	default:
		_ = r.bad("reduce on a %s channel: only memory channels load", c.ChannelType)
	}
}

func (r *replay) onSwitch(c *Command, k *plan.OpKind, s settings) {
	group, ok := numbered(r, r.groups, c.Channel, "switch channel")
	if !ok {
		return
	}
	at := group.AtRank(c.Rank)
	local, what := c.From, "from"
	if k.Dst.At(0).Chunk() == plan.LocalChunk {
		local, what = c.To, "to"
	}
	if chunk, err := r.chunk(local, what); err == nil {
		at.move(k.Name, chunk, c.Offset, c.Size, s)
	}
}

// onChannel replays an operation on a memory or port channel. k is nil if there is no such operation.
func (r *replay) onChannel(c *Command, k *plan.OpKind, s settings) {
	list := r.channels[c.ChannelType]
	switch {
	case c.Channel < 0 || c.Channel >= len(list):
		_ = r.bad("command %q on %s channel %d, there are %d memory and %d port channels", c.Op, c.ChannelType, c.Channel,
			len(r.channels[plan.MemoryChannel]), len(r.channels[plan.PortChannel]))
	case k == nil || !k.On(c.ChannelType):
		_ = r.bad("a %s channel has no operation %q", c.ChannelType, c.Op)
	case !k.Does.Has(plan.Moves):
		list[c.Channel].point(k.Name, s)
	default:
		if to, from, err := r.ends(c); err == nil {
			list[c.Channel].move(k.Name, to, from, s)
		}
	}
}
