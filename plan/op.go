package plan

import (
	"slices"

	"github.com/goccl/goccl/datatype"
)

// Op is one instruction of a thread block. Name determines which fields it uses; the others are zero.
type Op struct {
	Name        OpName
	Src, Dst    []Chunk
	ChannelType ChannelType
	ChannelIDs  []int // positions in the thread block's list of ChannelType; entry i is served by thread i
	Slice       Slice
	ReduceOp    ReduceOp
	Bound       *Bound // or nil

	SemaphoreIDs    []int // sem_acquire, sem_release; entry i is served by thread i
	BarrierID       int   // barrier
	NumThreadBlocks int   // barrier

	UnitSize  int64 // pipeline: bytes per iteration
	NumChunks int   // pipeline: chunks that all iterations cover together
	Ops       []Op  // pipeline: the body; pipelines do not nest
}

// Slice makes an op work on part Index of Count equal parts of its operands, so that several thread blocks share it.
// Count 0 means the whole.
type Slice struct {
	Index int
	Count int
}

// ChunkKind is the kind of memory that holds a chunk.
type ChunkKind uint8

// The kinds of chunk.
const (
	LocalChunk  ChunkKind = iota // buffer Type of this rank
	RemoteChunk                  // remote buffer ID of this thread block, over the op's channel type
	SwitchChunk                  // the buffers of all ranks of the thread block's switch channel ID
)

// Chunk is a range of Size chunks from chunk Index of a buffer.
type Chunk struct {
	Kind  ChunkKind
	Type  BufferType // of a LocalChunk
	ID    int        // of a RemoteChunk (buffer_id) or a SwitchChunk (switch_channel_id)
	Index int
	Size  int
}

// Local returns the range of size chunks from chunk index of buffer t of this rank.
func Local(t BufferType, index, size int) Chunk {
	return Chunk{Kind: LocalChunk, Type: t, Index: index, Size: size}
}

// Remote returns the range of size chunks from chunk index of the thread block's remote buffer id.
func Remote(id, index, size int) Chunk {
	return Chunk{Kind: RemoteChunk, ID: id, Index: index, Size: size}
}

// Switch returns the range of size chunks from chunk index of the buffers behind the thread block's switch channel id.
func Switch(id, index, size int) Chunk {
	return Chunk{Kind: SwitchChunk, ID: id, Index: index, Size: size}
}

// Effects are what an op does. Each effect has one meaning, in the memory model of docs/plan-format.md; an op with
// several does them in the order of these constants. Single threads take, add and flush, and all threads move: where
// one follows the other, the threads of the block meet in between. Over a port channel thread i pushes transfer i, so
// there they need not meet.
type Effects uint8

const (
	Takes Effects = 1 << iota // thread i waits until counter i is positive and takes one: acquire
	Moves                     // data moves from sources to destinations
	// thread i adds one to counter i: release. On a channel, it is the counter at the peer's end
	Adds
	Flushes // thread i waits until the transfers pushed into port channel i have left their source
	Meets   // all threads of the block meet
	Joins   // all threads of the thread blocks of a barrier meet
	Loops   // runs its body, once for each window of the operands
)

// Has reports whether all of o are among e.
func (e Effects) Has(o Effects) bool { return e&o == o }

// Code is what the executor's kernel does for an op (kernels/executor/program.cuh).
type Code uint8

// The codes.
const (
	CodeNop Code = iota
	CodeBarrier
	CodeSignal
	CodeWait
	CodeFlush
	CodeAcquire
	CodeRelease
	CodeData
	CodeLoop    // begins a pipeline
	CodeEndLoop // ends one
)

// first returns the effect that comes first.
func (e Effects) first() Effects { return e & -e }

// code returns the code of the first of the effects.
func (e Effects) code(semaphores bool) Code {
	switch e.first() {
	case Takes:
		if semaphores {
			return CodeAcquire
		}
		return CodeWait
	case Moves:
		return CodeData
	case Adds:
		if semaphores {
			return CodeRelease
		}
		return CodeSignal
	case Flushes:
		return CodeFlush
	case Joins:
		return CodeBarrier
	case Loops:
		return CodeLoop
	}
	return CodeNop
}

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

// ReduceOp is the operator of a reducing op. The empty operator stands for the operator that the caller of the
// collective chooses.
type ReduceOp string

// The operators of the format. Prod is an extension; MSCCL++ sums whatever operator the file names.
const (
	CallerOp ReduceOp = ""
	Sum      ReduceOp = "sum"
	Min      ReduceOp = "min"
	Max      ReduceOp = "max"
	Prod     ReduceOp = "prod"
)

var operators = map[ReduceOp]datatype.Op{Sum: datatype.Sum, Min: datatype.Min, Max: datatype.Max, Prod: datatype.Prod}

// Valid reports whether o is one of the operators.
func (o ReduceOp) Valid() bool {
	_, ok := operators[o]
	return ok || o == CallerOp
}

// Or returns the operator, or caller where the caller of the collective chooses it.
func (o ReduceOp) Or(caller datatype.Op) datatype.Op {
	if op, ok := operators[o]; ok {
		return op
	}
	return caller
}

// Operator returns the operator of the plan's reductions: the first one that a reduction specifies, or CallerOp. mixed
// reports whether reductions specify different ones.
func (p *Plan) Operator() (op ReduceOp, mixed bool) {
	first := true
	for r := range p.GPUs {
		for _, o := range p.GPUs[r].Ops() {
			if !o.Name.Kind().Reduces {
				continue
			}
			mixed = mixed || !first && o.ReduceOp != op
			if first || op == CallerOp {
				op = o.ReduceOp
			}
			first = false
		}
	}
	return op, mixed
}

// Bound limits what an op moves by a count that is known only when the plan runs: of the bytes that rank Src sends to
// rank Dst in an all-to-all, those before the count exist. The op's operands are the chunks of that block from chunk
// Index of the block on, wherever they lie.
//
// The counts are a table in device memory, the same on all ranks: row by row, how many bytes each rank sends to each.
// At most a block of the message exists, so the message is the capacity.
type Bound struct {
	Src, Dst int
	Index    int
}

// Counted reports whether ops of the plan are limited by counts.
func (p *Plan) Counted() bool {
	for r := range p.GPUs {
		for _, op := range p.GPUs[r].Ops() {
			if op.Bound != nil {
				return true
			}
		}
	}
	return false
}

// bound checks the limit of an op by a count. Packets are refused: they are awaited whole, so a count would save
// nothing, and a rank that sends none gives its reader no order.
func (v *validator) bound(op *Op, k *OpKind) {
	b := op.Bound
	n := len(v.p.GPUs)
	_, period, _ := v.p.Blocks()
	switch {
	case v.p.Collective != AllToAll:
		v.bad(ErrInvalid, "count", "only an alltoall has counts, of what one rank sends to another")
	case !k.Does.Has(Moves) || !k.Pairs || k.Src.At(0).Packets() || k.Dst.At(0).Packets():
		v.bad(ErrInvalid, "count", "%s moves no plain bytes from one place to another", op.Name)
	case b.Src < 0 || b.Src >= n || b.Dst < 0 || b.Dst >= n:
		v.bad(ErrInvalid, "count", "what rank %d sends to rank %d, of %d ranks", b.Src, b.Dst, n)
	case v.err == nil && (b.Index < 0 || b.Index > period-op.Src[0].Size):
		v.bad(ErrInvalid, "count.index", "chunks %d to %d of a block of %d", b.Index, b.Index+op.Src[0].Size-1, period)
	}
	for i := range op.Src {
		v.need(op.Src[i].Size == op.Src[0].Size, "count", "sources of different sizes")
	}
}
