package cudawire

import "unsafe"

// These types and constants mirror kernels/hosts/wire.cuh.

type linkWords struct {
	send, recv, post, flag, credit, taken, counters, peer uint64
}

const counterBytes = 32 // of one lane of a link

const (
	kindSend = iota
	kindRecv
	kindReduce
	kindSendCounted
	kindRecvCounted
)

type item struct {
	at, bytes uint64
	peer      uint32
	kind      uint16
	leads     uint16
}

type reduction struct {
	own          uint64
	op, ranks    uint32
	first, count uint16
	moves, _     uint16
}

// Values of reduction.moves.
const (
	ownStays = iota
	ownSent
	ownLeads
)

type task struct{ first, count uint16 }

type head struct {
	ticket, abort, links    uint64
	rank                    uint32
	lanes, slots, slotBytes uint32
	least, width            uint32
	tag                     uint64
	counts, displs          [2]uint64
	elements                [2]uint64
}

const (
	mostItems, mostReductions, mostPeers = 96, 8, 160
	fewItems, fewReductions, fewPeers    = 8, 2, 16
)

type args struct {
	head
	task      [mostItems]task
	item      [mostItems]item
	reduction [mostReductions]reduction
	peers     [mostPeers]uint16
}

type fewArgs struct {
	head
	task      [fewItems]task
	item      [fewItems]item
	reduction [fewReductions]reduction
	peers     [fewPeers]uint16
}

const unsignedBit = 8

// localPeer is a bit of args.peers: the operand is in this rank's memory, and the other bits are its number there.
const localPeer = 1 << 15

// scaledTerms is kernels/include/goccl/reduce.cuh's: a bit of reduction.ranks.
const scaledTerms = 1 << 31

var (
	_ = [1]struct{}{}[unsafe.Sizeof(linkWords{})-64]
	_ = [1]struct{}{}[unsafe.Sizeof(head{})-104]
	_ = [1]struct{}{}[unsafe.Sizeof(args{})-3304]
	_ = [1]struct{}{}[unsafe.Sizeof(fewArgs{})-408]
)
