package plan

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
