package plan

// OpName is the name of an op, as written in the file.
type OpName string

// The ops.
const (
	Nop        OpName = "nop"
	Barrier    OpName = "barrier"
	Signal     OpName = "signal"
	Wait       OpName = "wait"
	RlxSignal  OpName = "rlxsignal"
	RlxWait    OpName = "rlxwait"
	Flush      OpName = "flush"
	SemAcquire OpName = "sem_acquire"
	SemRelease OpName = "sem_release"
	WaitHook   OpName = "wait_hook"
	SignalHook OpName = "signal_hook"

	Copy                  OpName = "copy"
	Get                   OpName = "get"
	Put                   OpName = "put"
	PutWithSignal         OpName = "pws"
	PutWithSignalAndFlush OpName = "pwsf"

	PutPackets            OpName = "ppkt"
	ReadPutPackets        OpName = "rppkt"
	CopyPackets           OpName = "cpkt"
	UnpackPackets         OpName = "upkt"
	ReducePackets         OpName = "repkt"
	ReduceCopyPackets     OpName = "recpkt"
	ReduceSendPackets     OpName = "respkt"
	ReduceCopySendPackets OpName = "recspkt"

	ReduceLocal    OpName = "re"
	ReduceSend     OpName = "res"
	ReadReduce     OpName = "rre"
	ReadReduceSend OpName = "rres"

	SwitchReduce       OpName = "glre"
	SwitchReduceStore  OpName = "glres"
	SwitchStore        OpName = "gstore"
	SwitchStorePackets OpName = "gstorepkt"

	Pipeline OpName = "pipeline"
)

var (
	memoryOnly = []ChannelType{MemoryChannel}
	portOnly   = []ChannelType{PortChannel}
	memOrPort  = []ChannelType{MemoryChannel, PortChannel}
	switchOnly = []ChannelType{SwitchChannel}
	hookOnly   = []ChannelType{HookChannel}
)

func front(front ...OperandKind) Operands      { return Operands{Front: front} }
func (s Operands) any(k OperandKind) Operands  { s.Rest = k; return s }
func (s Operands) some(k OperandKind) Operands { s.Rest, s.Min = k, 1; return s }

// The operand lists that several ops share.
var (
	locals       = front().some(AnyLocal)
	remotes      = front().some(AnyRemote)
	packets      = front().some(LocalPackets)
	peersPackets = front().some(RemotePackets)
	local        = front(AnyLocal)
	switched     = front(SwitchPlain)
	andPackets   = local.any(LocalPackets) // a local operand first
	andRemotes   = local.some(AnyRemote)
)

// opKinds is the table of ops. Where two ops serve equally, the earlier one is chosen: see FindOp.
var opKinds = []OpKind{
	{Name: Nop, Does: Meets,
		Doc: "all threads of the block meet"},
	{Name: Barrier, Does: Joins,
		Doc: "all threads of the blocks of this rank that use the id meet. Exactly `num_threadblocks` blocks use " +
			"it, and every op with the id says the same number"},
	{Name: Signal, Word: "signal", Does: Adds, Channels: memOrPort,
		Doc: "release: what the thread knows to be done is visible to the waiter. Over a port channel it goes " +
			"behind the transfers that were pushed before"},
	{Name: Wait, Word: "wait", Does: Takes, Channels: memOrPort,
		Doc: "takes one signal; acquire"},
	{Name: RlxSignal, Does: Adds, Channels: memOrPort, Relaxes: Signal,
		Doc: "as `signal`, but at the beginning of a program, where only `nop`, `rlxsignal` and " +
			"`rlxwait` come before it, it may be relaxed: it says that the launch has begun, and what was before it is over. " +
			"Elsewhere it is `signal`"},
	{Name: RlxWait, Does: Takes, Channels: memOrPort, Relaxes: Wait,
		Doc: "as `wait`"},
	{Name: Flush, Word: "flush", Does: Flushes, Channels: portOnly,
		Doc: "waits until the transfers pushed into the channels before have left their sources. These may be reused. It " +
			"does not say that the data has arrived: a signal behind the transfers does"},
	{Name: SemRelease, Word: "release", Does: Adds, Semaphores: true,
		Doc: "adds 1, with release. Values persist between launches"},
	{Name: SemAcquire, Word: "acquire", Does: Takes, Semaphores: true,
		Doc: "waits for a positive value and subtracts 1, with acquire"},

	{Name: WaitHook, Word: "wait_hook", Does: Takes, Channels: hookOnly,
		Doc: "waits until the caller has written the input that the hook guards; acquire. One op of a launch does, outside " +
			"of pipelines"},
	{Name: SignalHook, Word: "signal_hook", Does: Adds, Channels: hookOnly,
		Doc: "release: the output that the hook guards is final, and the caller may read it. One op of a launch does, " +
			"outside of pipelines"},

	{Name: Copy, Word: "copy", Does: Moves, Src: locals, Dst: locals, Pairs: true,
		Doc: "dst[i] ← src[i]"},
	{Name: Get, Word: "get", Does: Moves, Src: remotes, Dst: locals, Pairs: true, Channels: memoryOnly,
		Doc: "dst[i] ← src[i], each at its own offset"},
	{Name: Put, Word: "put", Does: Moves, Src: locals, Dst: remotes, Pairs: true, Fan: true, Channels: memOrPort,
		Doc: "dst[i] ← src[i]; one source may serve all. Port: thread i pushes transfer i into `channel_ids[i]`"},
	{Name: PutWithSignal, Word: "put_with_signal", Does: Moves | Adds, Src: locals, Dst: remotes, Pairs: true,
		Fan: true, Channels: portOnly,
		Doc: "put, then signal"},
	{Name: PutWithSignalAndFlush, Word: "put_with_signal_and_flush", Does: Moves | Adds | Flushes, Src: locals,
		Dst: remotes, Pairs: true, Fan: true, Channels: portOnly,
		Doc: "put, then signal, then flush"},

	{Name: PutPackets, Word: "put_packets", Does: Moves, Src: locals, Dst: peersPackets, Pairs: true, Fan: true,
		Raw: true, Channels: memOrPort,
		Doc: "as `put`, as packets. Port: the source is scratch that holds packets, copied as it is without " +
			"looking at flags"},
	{Name: ReadPutPackets, Word: "read_put_packets", Does: Moves, Src: packets, Dst: peersPackets, Pairs: true,
		Fan: true, Channels: memOrPort,
		Doc: "waits for the packets and forwards them; one source may serve all"},
	{Name: CopyPackets, Word: "copy_packets", Does: Moves, Src: locals, Dst: packets, Pairs: true,
		Doc: "as `copy`, as packets"},
	{Name: UnpackPackets, Word: "unpack_packets", Does: Moves, Src: packets, Dst: locals, Pairs: true,
		Doc: "waits for the packets and unpacks them"},

	{Name: ReduceLocal, Does: Moves, Src: locals, Dst: local, Reduces: true,
		Doc: "dst ← src[0] ⊕ src[1] ⊕ …"},
	{Name: ReduceSend, Does: Moves, Src: locals, Dst: andRemotes, Reduces: true, Channels: memoryOnly,
		Doc: "the same, to every destination"},
	{Name: ReadReduce, Does: Moves, Src: andRemotes, Dst: local, Reduces: true, Channels: memoryOnly,
		Doc: "as `re`, reading peers"},
	{Name: ReadReduceSend, Does: Moves, Src: andRemotes, Dst: andRemotes, Reduces: true, Channels: memoryOnly,
		Doc: "as `res`, reading peers"},
	{Name: ReducePackets, Does: Moves, Src: andPackets, Dst: local, Reduces: true,
		Doc: "as `re`, waiting for packets"},
	{Name: ReduceCopyPackets, Does: Moves, Src: andPackets, Dst: front(AnyLocal, LocalPackets), Reduces: true,
		Doc: "as `repkt`, and as packets into local scratch"},
	{Name: ReduceSendPackets, Does: Moves, Src: andPackets, Dst: local.some(RemotePackets), Reduces: true,
		Channels: memoryOnly,
		Doc:      "as `repkt`, and as packets to peers"},
	{Name: ReduceCopySendPackets, Does: Moves, Src: andPackets, Dst: front(AnyLocal,
		LocalPackets).some(RemotePackets), Reduces: true, Channels: memoryOnly,
		Doc: "as `repkt`, and as packets into local scratch and to peers"},

	{Name: SwitchReduce, Word: "switch_reduce", Does: Moves, Src: switched, Dst: local, Reduces: true,
		Channels: switchOnly, OlderKeys: true,
		Doc: "dst ← reduction over all ranks of the group, in rank order"},
	{Name: SwitchReduceStore, Does: Moves, Src: switched, Dst: switched, Reduces: true, Channels: switchOnly,
		Doc: "the same, stored to all ranks"},
	{Name: SwitchStore, Word: "switch_broadcast", Does: Moves, Src: local, Dst: switched, Pairs: true,
		Channels: switchOnly,
		Doc:      "stored to all ranks"},
	{Name: SwitchStorePackets, Word: "switch_broadcast_packets", Does: Moves, Src: front(LocalPackets),
		Dst: front(SwitchPackets), Pairs: true, Channels: switchOnly,
		Doc: "waits for the packets and stores them to all ranks"},

	{Name: Pipeline, Does: Loops,
		Doc: "`iter_context` {`unit_size`, `num_chunks`} and `ops`: runs the body once per window. Pipelines do " +
			"not nest"},
}
