package records

// The layouts of records.h, field by field; TestLayout compares them with the compiler's.

const (
	magic   = 0x314c4343434f4731
	version = 1

	nameCount, nameBytes = 128, 24
	opCount, proxyCount  = 512, 256
	sumCount             = 96
)

// Kinds of operations; 3 is by copy engines.
const (
	Collective = 1 + iota
	Message
)

// Captured is the flag of an operation in a CUDA graph: nothing is recorded of its runs.
const Captured = 1

// commOpen is the state of an open communicator; others are unused or closed.
const commOpen = 1

// Op is an operation. Times are CLOCK_MONOTONIC in ns; 0: not yet.
type Op struct {
	Order, Call, Seq, Count, Bytes                           uint64
	Enqueued, Launched, Started, Ended, GPUStarted, GPUEnded uint64
	Send, Recv, Stream                                       uint64
	ChannelsBegun, ChannelsDone                              uint32
	Root                                                     int32
	Kind, Func, Type, Algo, Proto, Channels, Flags, _        uint8
	ProxiesBegun, ProxiesDone                                uint32
	_                                                        [3]uint32
}

// Proxy is a transfer of a proxy thread for operation Op.
type Proxy struct {
	Order, Op, Begun, Ended, Since, Bytes uint64
	Peer, Steps, Step                     int32
	Channel, Sends, State, _              uint8
}

// Sum is over the operations of one kind.
type Sum struct {
	Key, Begun, Ended, Bytes, QueuedNs, BusyNs, BusyBytes, _ uint64
}

// Func, Algo, Proto and Class are the parts of the key: names, and the class of size.
func (s *Sum) Func() uint8  { return uint8(s.Key >> 24) }
func (s *Sum) Algo() uint8  { return uint8(s.Key >> 16) }
func (s *Sum) Proto() uint8 { return uint8(s.Key >> 8) }
func (s *Sum) Class() uint8 { return uint8(s.Key) }

type rawComm struct {
	ID, Opened, Closed                  uint64
	State                               uint32
	Rank, Size, Nodes                   int32
	Name                                [64]byte
	Ops, Collectives, Messages, Proxies uint64
	Channels, Lost                      uint64
	_                                   [8]uint64
	Sums                                [sumCount]Sum
	Op                                  [opCount]Op
	Proxy                               [proxyCount]Proxy
}

type rawHeader struct {
	Magic            uint64
	Version, PID     uint32
	CommBytes, Comms uint32
	Profiler, Names  uint32
	Begun, BegunReal uint64
	Refused          uint64
	_                [8]uint64
	Host             [64]byte
	Name             [nameCount][nameBytes]byte
}
