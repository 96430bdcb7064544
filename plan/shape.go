package plan

// operandKind is the kind of operand allowed at a position in an op's source or destination list.
type operandKind uint8

const (
	anyLocal     operandKind = iota + 1 // local buffer, plain bytes
	localPackets                        // local scratch, packets
	anyRemote                           // remote buffer, plain bytes
	remotePkts                          // remote scratch, packets
	switchPlain                         // switch channel over any buffer
	switchPkts                          // switch channel over scratch, packets
)

func (k operandKind) packets() bool {
	return k == localPackets || k == remotePkts || k == switchPkts
}

func (k operandKind) chunkKind() ChunkKind {
	switch k {
	case anyLocal, localPackets:
		return LocalChunk
	case anyRemote, remotePkts:
		return RemoteChunk
	}
	return SwitchChunk
}

// side is the grammar of an operand list: fixed kinds first, then any number (at least min) of kind rest; rest 0 allows
// none.
type side struct {
	front []operandKind
	rest  operandKind
	min   int
}

func (s side) at(i int) operandKind {
	if i < len(s.front) {
		return s.front[i]
	}
	return s.rest
}

// shape is the grammar of an op. The table below is the single definition; validation, interpreter and verifier all
// follow it.
type shape struct {
	src, dst side
	pairs    bool          // source i goes to destination i; otherwise all sources are combined and go to every destination
	fan      bool          // with pairs: a single source may go to every destination
	reduces  bool          // sources are combined with ReduceOp, in list order
	channels []ChannelType // allowed channel types; none for ops that need no channel
	sync     bool          // channel_ids lists the channels to synchronize
	slices   bool          // tbg_info allowed
	data     bool
}

var (
	memoryOnly = []ChannelType{MemoryChannel}
	portOnly   = []ChannelType{PortChannel}
	memOrPort  = []ChannelType{MemoryChannel, PortChannel}
	switchOnly = []ChannelType{SwitchChannel}
)

func list(front ...operandKind) side                { return side{front: front} }
func many(k operandKind) side                       { return side{rest: k, min: 1} }
func then(rest operandKind, f ...operandKind) side  { return side{front: f, rest: rest} }
func then1(rest operandKind, f ...operandKind) side { return side{front: f, rest: rest, min: 1} }
func moves(s shape) shape                           { s.data = true; return s }

var shapes = map[OpName]shape{
	Nop:        {},
	Barrier:    {},
	Pipeline:   {},
	SemAcquire: {},
	SemRelease: {},
	Signal:     {channels: memOrPort, sync: true},
	Wait:       {channels: memOrPort, sync: true},
	RlxSignal:  {channels: memOrPort, sync: true},
	RlxWait:    {channels: memOrPort, sync: true},
	Flush:      {channels: portOnly, sync: true},

	Copy: moves(shape{src: many(anyLocal), dst: many(anyLocal), pairs: true, slices: true}),
	Get:  moves(shape{src: many(anyRemote), dst: many(anyLocal), pairs: true, slices: true, channels: memoryOnly}),
	Put:  moves(shape{src: many(anyLocal), dst: many(anyRemote), pairs: true, fan: true, slices: true, channels: memOrPort}),

	PutWithSignal:         moves(shape{src: many(anyLocal), dst: many(anyRemote), pairs: true, fan: true, channels: portOnly}),
	PutWithSignalAndFlush: moves(shape{src: many(anyLocal), dst: many(anyRemote), pairs: true, fan: true, channels: portOnly}),

	PutPackets:     moves(shape{src: many(anyLocal), dst: many(remotePkts), pairs: true, fan: true, slices: true, channels: memOrPort}),
	ReadPutPackets: moves(shape{src: many(localPackets), dst: many(remotePkts), pairs: true, fan: true, slices: true, channels: memOrPort}),
	CopyPackets:    moves(shape{src: many(anyLocal), dst: many(localPackets), pairs: true, slices: true}),
	UnpackPackets:  moves(shape{src: many(localPackets), dst: many(anyLocal), pairs: true, slices: true}),

	ReducePackets:         moves(shape{src: then(localPackets, anyLocal), dst: list(anyLocal), reduces: true, slices: true}),
	ReduceCopyPackets:     moves(shape{src: then(localPackets, anyLocal), dst: list(anyLocal, localPackets), reduces: true, slices: true}),
	ReduceSendPackets:     moves(shape{src: then(localPackets, anyLocal), dst: then1(remotePkts, anyLocal), reduces: true, slices: true, channels: memoryOnly}),
	ReduceCopySendPackets: moves(shape{src: then(localPackets, anyLocal), dst: then1(remotePkts, anyLocal, localPackets), reduces: true, slices: true, channels: memoryOnly}),

	ReduceLocal:    moves(shape{src: many(anyLocal), dst: list(anyLocal), reduces: true, slices: true}),
	ReduceSend:     moves(shape{src: many(anyLocal), dst: then1(anyRemote, anyLocal), reduces: true, slices: true, channels: memoryOnly}),
	ReadReduce:     moves(shape{src: then1(anyRemote, anyLocal), dst: list(anyLocal), reduces: true, slices: true, channels: memoryOnly}),
	ReadReduceSend: moves(shape{src: then1(anyRemote, anyLocal), dst: then1(anyRemote, anyLocal), reduces: true, slices: true, channels: memoryOnly}),

	SwitchReduce:       moves(shape{src: list(switchPlain), dst: list(anyLocal), reduces: true, slices: true, channels: switchOnly}),
	SwitchReduceStore:  moves(shape{src: list(switchPlain), dst: list(switchPlain), reduces: true, slices: true, channels: switchOnly}),
	SwitchStore:        moves(shape{src: list(anyLocal), dst: list(switchPlain), pairs: true, slices: true, channels: switchOnly}),
	SwitchStorePackets: moves(shape{src: list(localPackets), dst: list(switchPkts), pairs: true, slices: true, channels: switchOnly}),
}

// srcPackets reports whether source i holds packets. A put of packets over a port channel reads packets: it copies them
// as they are.
func (op *Op) srcPackets(sh *shape, i int) bool {
	return sh.src.at(i).packets() || op.Name == PutPackets && op.ChannelType == PortChannel
}

// srcOf returns the index of the source for destination i of an op with pairs.
func (op *Op) srcOf(i int) int {
	if len(op.Src) == 1 {
		return 0
	}
	return i
}
