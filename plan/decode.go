package plan

import (
	"fmt"
	"strconv"
)

// Warning is an unknown key that Decode ignored.
type Warning struct {
	Line, Col int
	Text      string
}

func (w Warning) String() string { return fmt.Sprintf("%d:%d: %s", w.Line, w.Col, w.Text) }

// Decode reads a plan from JSON and validates it against Capacity. Every error is an *Error with the line and column.
// Unknown keys are ignored; DecodeWithWarnings lists them.
func Decode(data []byte) (*Plan, error) {
	p, _, err := DecodeWithWarnings(data, &Capacity)
	return p, err
}

// DecodeWithWarnings decodes and validates a plan against limits, and also returns at most 100 unknown keys.
func DecodeWithWarnings(data []byte, limits *Limits) (*Plan, []Warning, error) {
	if len(data) > limits.FileBytes {
		return nil, nil, &Error{Class: ErrLimit, Pos: nowhere, Detail: fmt.Sprintf("the file has %d bytes and the limit is %d", len(data), limits.FileBytes)}
	}
	d := decoder{scanner: scanner{data: data}, limits: limits, pos: nowhere}
	p := d.plan()
	if d.space(); d.err == nil && d.off < len(data) { // peek would take a zero byte for the end
		d.fail(d.off, "found %s after the plan", d.describe())
	}
	if d.err != nil {
		return nil, d.warnings, d.err
	}
	if err := p.Validate(limits); err != nil {
		err.(*Error).locate(data)
		return nil, d.warnings, err
	}
	return p, d.warnings, nil
}

// decoder turns the scanner's tokens into a Plan. A count over its limit stops it before it stores the next element.
type decoder struct {
	scanner
	limits   *Limits
	pos      Pos
	seen     []string // keys of the open objects, newest last
	warnings []Warning
	names    map[string]string
	ops      int
	operands int
}

// object reads an object and calls read for every key; read reads the value. A repeated key is an error, because readers
// differ in which of the values they keep.
func (d *decoder) object(read func(key string)) {
	mark := len(d.seen)
	d.open('{')
	for first := true; d.more('}', &first); {
		if k := d.member(mark); k != "" {
			read(k)
		}
	}
	d.seen = d.seen[:mark]
}

// member reads a key of the object whose keys begin at mark. It returns "" after an error.
func (d *decoder) member(mark int) string {
	d.space()
	at := d.off
	k := d.intern(d.key())
	if d.err != nil {
		return ""
	}
	if k == "" {
		d.fail(at, "an empty key")
		return ""
	}
	for _, s := range d.seen[mark:] {
		if s == k {
			d.fail(at, "key %q comes twice", k)
			return ""
		}
	}
	d.seen = append(d.seen, k)
	return k
}

// intern returns a shared copy of each distinct short string.
func (d *decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if d.names == nil {
		d.names = make(map[string]string, 64)
	}
	s := string(b)
	if len(s) <= 64 && len(d.names) < 1024 {
		d.names[s] = s
	}
	return s
}

func (d *decoder) word(what string) string {
	d.space()
	at := d.off
	b := d.str()
	if len(b) > d.limits.NameBytes {
		d.over(at, what, "bytes", d.limits.NameBytes)
		return ""
	}
	return d.intern(b)
}

func (d *decoder) over(at int, field, what string, limit int) {
	if d.err != nil {
		return
	}
	d.fail(at, "more than %d %s", limit, what)
	d.err.Class, d.err.Field, d.err.Pos = ErrLimit, field, d.pos
}

func (d *decoder) unknown(key string) {
	if len(d.warnings) < 100 {
		line, col := lineCol(d.data, d.off)
		where := d.pos.String()
		if where != "" {
			where += ": "
		}
		d.warnings = append(d.warnings, Warning{line, col, where + "unknown key " + strconv.Quote(key)})
	}
	d.skip()
}

// each calls read once for every element of a list, at most limit times.
func (d *decoder) each(field, what string, limit int, read func(i int)) {
	d.open('[')
	i := 0
	for first := true; d.more(']', &first); i++ {
		if i >= limit {
			d.over(d.off, field, what, limit)
			return
		}
		read(i)
	}
}

func (d *decoder) ints(field string, limit int) []int {
	var v []int
	d.each(field, "entries", limit, func(int) { v = append(v, d.int()) })
	return v
}

func (d *decoder) plan() *Plan {
	p := &Plan{SchemaVersion: 1, ThreadsPerBlock: 1024, Alignment: 16, MaxSize: 1<<64 - 1}
	d.space()
	start := d.off
	var have uint
	d.object(func(k string) {
		switch k {
		case "schema_version":
			p.SchemaVersion = d.int()
		case "name":
			p.Name = d.word(k)
			have |= 1
		case "collective":
			p.Collective = Collective(d.word(k))
			have |= 2
		case "protocol":
			p.Protocol = Protocol(d.word(k))
			have |= 4
		case "inplace":
			p.InPlace = d.bool()
			have |= 8
		case "reuse_resources":
			p.ReuseResources = d.bool()
		case "num_threads_per_block":
			p.ThreadsPerBlock = d.int()
		case "use_double_scratch_buffer":
			p.DoubleScratch = d.bool()
		case "buffer_alignment":
			p.Alignment = d.int64()
		case "min_message_size":
			p.MinSize = d.uint()
		case "max_message_size":
			p.MaxSize = d.uint()
		case "root":
			p.Root = d.int()
		case "postcondition":
			d.each(k, "entries", d.limits.PostcondTerms, func(int) { p.Postcondition = append(p.Postcondition, d.postcond()) })
		case "gpus":
			d.each(k, "ranks", d.limits.Ranks, func(i int) {
				d.pos = Pos{i, -1, -1, -1}
				p.GPUs = append(p.GPUs, d.gpu())
				d.pos = nowhere
			})
			have |= 16
		default:
			d.unknown(k)
		}
	})
	for i, k := range []string{"name", "collective", "protocol", "inplace", "gpus"} {
		if d.err == nil && have&(1<<i) == 0 {
			d.fail(start, "the plan has no %q", k)
		}
	}
	return p
}

func (d *decoder) postcond() (c Postcond) {
	c.Size = 1
	d.object(func(k string) {
		switch k {
		case "rank":
			c.Rank = d.int()
		case "index":
			c.Index = d.int()
		case "size":
			c.Size = d.int()
		case "reduce_op":
			c.Op = ReduceOp(d.word(k))
		case "of":
			d.each(k, "contributions", d.limits.PostcondTerms, func(int) { c.Of = append(c.Of, d.contribution()) })
		default:
			d.unknown(k)
		}
	})
	return c
}

func (d *decoder) contribution() (c Contribution) {
	d.object(func(k string) {
		switch k {
		case "rank":
			c.Rank = d.int()
		case "index":
			c.Index = d.int()
		default:
			d.unknown(k)
		}
	})
	return c
}

func (d *decoder) gpu() (g GPU) {
	g.ID = -1
	l := d.limits
	d.object(func(k string) {
		switch k {
		case "id":
			g.ID = d.int()
		case "input_chunks":
			g.InputChunks = d.int()
		case "output_chunks":
			g.OutputChunks = d.int()
		case "scratch_chunks":
			g.ScratchChunks = d.int()
		case "channels":
			d.each(k, "entries", l.ChannelsPerRank, func(int) { g.Channels = append(g.Channels, d.channel()) })
		case "remote_buffers":
			d.each(k, "remote buffers", l.RemoteBuffers, func(int) { g.RemoteBuffers = append(g.RemoteBuffers, d.remoteBuffer()) })
		case "semaphores":
			d.each(k, "semaphores", l.Semaphores, func(int) { g.Semaphores = append(g.Semaphores, d.semaphore()) })
		case "threadblocks":
			rank := d.pos.Rank
			d.each(k, "thread blocks", l.ThreadBlocks, func(i int) {
				d.pos = Pos{rank, i, -1, -1}
				g.ThreadBlocks = append(g.ThreadBlocks, d.threadBlock())
				d.pos = Pos{rank, -1, -1, -1}
			})
		default:
			d.unknown(k)
		}
	})
	return g
}

func (d *decoder) channel() (c Channel) {
	d.object(func(k string) {
		switch k {
		case "channel_type":
			c.Type = ChannelType(d.word(k))
		case "connected_to":
			c.ConnectedTo = d.ints(k, d.limits.ChannelsPerRank)
		case "buffer_type", "buff": // buff is the older name
			c.BufferType = BufferType(d.word(k))
		case "rank_groups":
			d.each(k, "groups", d.limits.ChannelsPerRank, func(int) { c.RankGroups = append(c.RankGroups, d.rankGroup()) })
		default:
			d.unknown(k)
		}
	})
	return c
}

func (d *decoder) rankGroup() (g RankGroup) {
	d.space()
	at, size := d.off, -1
	d.object(func(k string) {
		switch k {
		case "size":
			size = d.int()
		case "ranks":
			g.Ranks = d.ints(k, d.limits.Ranks)
		default:
			d.unknown(k)
		}
	})
	if size >= 0 && size != len(g.Ranks) {
		d.fail(at, "a group of size %d lists %d ranks", size, len(g.Ranks))
	}
	return g
}

func (d *decoder) remoteBuffer() (b RemoteBuffer) {
	d.object(func(k string) {
		switch k {
		case "rank":
			b.Rank = d.int()
		case "type":
			b.Type = BufferType(d.word(k))
		case "access_channel_types":
			d.each(k, "access types", 2, func(int) { b.Access = append(b.Access, ChannelType(d.word(k))) })
		default:
			d.unknown(k)
		}
	})
	return b
}

func (d *decoder) semaphore() (v Semaphore) {
	d.object(func(k string) {
		switch k {
		case "init_value":
			v.InitValue = d.int()
		default:
			d.unknown(k)
		}
	})
	return v
}
