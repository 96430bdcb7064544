package plan

import "slices"

// OpKind is a row of the table of ops (op_table.go): all that is particular to one op. The codec, the validator, the
// verifier, the interpreter, the simulator, the executors, the language, the schema and docs/plan-format.md read it,
// and none of them knows an op by its name.
type OpKind struct {
	Name OpName
	Word string // the name of the operation in the language, see dsl.Command; "" when the language has none
	Does Effects

	Src, Dst Operands
	Pairs    bool // source i goes to destination i; otherwise all sources are combined and go to every destination
	Fan      bool // with Pairs: a single source may go to every destination
	Reduces  bool // sources are combined with ReduceOp, in list order
	Raw      bool // over a port channel, sources are packets, which are copied as they are: their flags are not awaited

	Channels   []ChannelType // allowed channel types; none for ops that need no channel
	Semaphores bool          // Takes and Adds count on semaphores of the rank instead of channels

	// Relaxes is the op that this one is the relaxed form of. At the beginning of a program, it orders the launch
	// itself only: see Opens.
	Relaxes OpName

	Code      Code // what the executor's kernel runs for it, when that is not the code of its first effect
	OlderKeys bool // an older form of the file names its operands by other keys
	Doc       string
}

// OperandKind is the kind of operand allowed at a position in an op's source or destination list.
type OperandKind uint8

// The kinds of operand. Packets live in scratch.
const (
	AnyLocal      OperandKind = iota + 1 // local buffer, plain bytes
	LocalPackets                         // local scratch, packets
	AnyRemote                            // remote buffer, plain bytes
	RemotePackets                        // remote scratch, packets
	SwitchPlain                          // switch channel over any buffer
	SwitchPackets                        // switch channel over scratch, packets
)

var operandNames = [...]string{"", "local", "local packets", "remote", "remote packets", "switch", "switch packets"}

// String returns text like "remote packets".
func (k OperandKind) String() string { return operandNames[k] }

// Packets reports whether the operand holds packets.
func (k OperandKind) Packets() bool {
	return k == LocalPackets || k == RemotePackets || k == SwitchPackets
}

// Chunk returns the kind of chunk that names such an operand.
func (k OperandKind) Chunk() ChunkKind {
	switch k {
	case AnyRemote, RemotePackets:
		return RemoteChunk
	case SwitchPlain, SwitchPackets:
		return SwitchChunk
	}
	return LocalChunk
}

// Operands is the grammar of an operand list: fixed kinds first, then any number (at least Min) of kind Rest; Rest 0
// allows none.
type Operands struct {
	Front []OperandKind
	Rest  OperandKind
	Min   int
}

// At returns the kind of operand i.
func (s Operands) At(i int) OperandKind {
	if i < len(s.Front) {
		return s.Front[i]
	}
	return s.Rest
}

// Kinds returns the kinds of operand that the list may hold, in order.
func (s Operands) Kinds() []OperandKind {
	if s.Rest == 0 {
		return s.Front
	}
	return append(slices.Clone(s.Front), s.Rest)
}

// Equal reports whether both lists admit the same operands.
func (s Operands) Equal(o Operands) bool {
	return slices.Equal(s.Front, o.Front) && s.Rest == o.Rest && s.Min == o.Min
}

var kindOf = indexKinds()

func indexKinds() map[OpName]*OpKind {
	m := make(map[OpName]*OpKind, len(opKinds))
	for i := range opKinds {
		m[opKinds[i].Name] = &opKinds[i]
	}
	return m
}

// OpKinds returns the table of ops. It must not be changed.
func OpKinds() []OpKind { return opKinds }

// Kind returns the row of an op, or nil when there is no such op.
func (n OpName) Kind() *OpKind { return kindOf[n] }

// FindOp returns the first op of the table for which f holds, or nil.
func FindOp(f func(k *OpKind) bool) *OpKind {
	if i := slices.IndexFunc(opKinds, func(k OpKind) bool { return f(&k) }); i >= 0 {
		return &opKinds[i]
	}
	return nil
}

// String returns the name.
func (k *OpKind) String() string { return string(k.Name) }

// Relaxed reports whether the op is the relaxed form of another.
func (k *OpKind) Relaxed() bool { return k.Relaxes != "" }

// Opens reports whether a program that has done nothing else is still at its beginning.
func (k *OpKind) Opens() bool { return k.Does == Meets || k.Relaxed() }

// Synchronizes reports whether only a few threads run the op, one for each channel or semaphore.
func (k *OpKind) Synchronizes() bool { return k.Does&(Takes|Adds|Flushes) != 0 && !k.Does.Has(Moves) }

// On reports whether the op works over channels of type t.
func (k *OpKind) On(t ChannelType) bool { return slices.Contains(k.Channels, t) }

// Sliced reports whether thread blocks may share the op over channels of type t, each a slice of it. Over a port
// channel they may when each waits for its packets.
func (k *OpKind) Sliced(t ChannelType) bool {
	return k.Does.Has(Moves) && (t != PortChannel || k.Src.At(0) == LocalPackets)
}

// MovesLike reports whether both ops move the same operands in the same way, whatever else they do.
func (k *OpKind) MovesLike(o *OpKind) bool {
	return k.Src.Equal(o.Src) && k.Dst.Equal(o.Dst) && k.Pairs == o.Pairs && k.Fan == o.Fan && k.Reduces == o.Reduces &&
		k.Raw == o.Raw
}

// does reports whether the op, which need not be one of the table, has effect e.
func (op *Op) does(e Effects) bool {
	k := op.Name.Kind()
	return k != nil && k.Does.Has(e)
}

// SourcePackets reports whether source i holds packets, over channels of type t.
func (k *OpKind) SourcePackets(t ChannelType, i int) bool {
	return k.Src.At(i).Packets() || k.Raw && t == PortChannel
}

// srcOf returns the index of the source for destination i of an op with Pairs.
func (op *Op) srcOf(i int) int {
	if len(op.Src) == 1 {
		return 0
	}
	return i
}
