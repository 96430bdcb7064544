package primitive

import (
	"encoding/binary"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
)

// Packet is a packet format: data and a flag are stored together, so that neither a fence nor a signal is needed.
type Packet uint8

// The formats. The flag is an epoch that is never 0 and increases by one for each use of the memory.
const (
	// LL16 is {u32 data, u32 flag, u32 data, u32 flag}: 8 bytes of payload in 16.
	LL16 Packet = iota
	// LL8 is {u32 data, u32 flag}: 4 bytes of payload in 8.
	LL8
	// LL128 is a line of 120 bytes of payload and a flag of 8 bytes. It requires lines that arrive as a whole: shared
	// memory, NVLink.
	LL128
)

// formats describes the formats, with sizes in bytes.
var formats = [...]struct {
	name          string
	size, payload int
}{LL16: {"LL16", 16, 8}, LL8: {"LL8", 8, 4}, LL128: {"LL128", 128, 120}}

// Size returns the packet's size in bytes.
func (p Packet) Size() int { return formats[p].size }

// Payload returns the number of payload bytes in a packet.
func (p Packet) Payload() int { return formats[p].payload }

// String returns the name, for example "LL128".
func (p Packet) String() string { return formats[p].name }

// Count returns the number of packets for a payload of the given bytes; the last packet may be partly empty.
func (p Packet) Count(bytes int64) int64 {
	return (bytes + int64(p.Payload()) - 1) / int64(p.Payload())
}

// BufferSize returns the packet memory in bytes for a payload of the given bytes.
func (p Packet) BufferSize(bytes int64) int64 { return p.Count(bytes) * int64(p.Size()) }

// part returns thread tid's packets [lo, hi).
func part(n int64, tid, nthreads int) (lo, hi int64) {
	return n * int64(tid) / int64(nthreads), n * int64(tid+1) / int64(nthreads)
}

// load64 loads up to 8 bytes of any alignment.
func load64(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var v uint64
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

func store64(b []byte, v uint64) {
	if len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, v)
		return
	}
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
}

// CopyToPackets writes bytes of src, of any alignment, as packets of epoch flag; packets must be aligned to the
// packet's size. It is cooperative.
//
// Words of LL8 and LL16 are stored without a barrier: an aligned word arrives as a whole and has its own flag, so the
// order of the words does not matter. The flag of an LL128 line is stored atomically, after its payload.
func CopyToPackets(p Packet, packets, src device.Ptr, bytes int64, tid, nthreads int, flag uint32) {
	lo, hi := part(p.Count(bytes), tid, nthreads)
	in := device.Bytes(src, bytes)
	f := uint64(flag) << 32
	step, size := int64(p.Payload()), int64(p.Size())
	for i := lo; i < hi; i++ {
		data := in[i*step : min(bytes, (i+1)*step)]
		at := packets.Add(i * size)
		switch p {
		case LL8:
			*(*uint64)(pointer(at)) = load64(data)&0xffffffff | f
		case LL128:
			copy(device.Bytes(at, 120), data)
			word64(at.Add(120)).Store(uint64(flag))
		default:
			v := load64(data)
			w := (*[2]uint64)(pointer(at))
			w[0], w[1] = v&0xffffffff|f, v>>32|f
		}
	}
}

// CopyFromPackets waits for the packets of epoch flag and writes their payload to dst: exactly bytes, of any alignment.
// It is cooperative.
func CopyFromPackets(p Packet, dst, packets device.Ptr, bytes int64, tid, nthreads int, flag uint32,
	abort device.Ptr) Status {
	lo, hi := part(p.Count(bytes), tid, nthreads)
	out := device.Bytes(dst, bytes)
	step, size := int64(p.Payload()), int64(p.Size())
	for i := lo; i < hi; i++ {
		at := packets.Add(i * size)
		data := out[i*step : min(bytes, (i+1)*step)]
		if readPacket(p, data, at, flag) {
			continue
		}
		if s := waitOnePacket(p, data, at, flag, abort); s != StatusOK {
			return s
		}
	}
	return StatusOK
}

// waitOnePacket is the slow path. It is a separate function so that the loop above allocates no closure.
func waitOnePacket(p Packet, data []byte, at device.Ptr, flag uint32, block device.Ptr) Status {
	return waitCell(nil, func() bool { return readPacket(p, data, at, flag) }, block, at, abort.WaitPacket)
}

// readPacket copies the payload and returns true if the packet has the flag; otherwise it returns false.
func readPacket(p Packet, data []byte, at device.Ptr, flag uint32) bool {
	switch p {
	case LL8:
		v := word64(at).Load()
		if uint32(v>>32) != flag {
			return false
		}
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], uint32(v))
		copy(data, b[:])
	case LL128:
		if word64(at.Add(120)).Load() != uint64(flag) {
			return false
		}
		copy(data, device.Bytes(at, 120))
	default:
		a, b := word64(at).Load(), word64(at.Add(8)).Load()
		if uint32(a>>32) != flag || uint32(b>>32) != flag {
			return false
		}
		store64(data, a&0xffffffff|b<<32)
	}
	return true
}
