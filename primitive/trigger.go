package primitive

// A trigger is 32 bytes that a kernel writes to a FIFO as a request to the proxy:
//
//	word 0   size (bits 0–47) · type (48–55) · reserved (56–63)
//	word 1   source offset (0–47) · source memory id (48–63)
//	word 2   destination offset (0–47) · destination memory id (48–63)
//	word 3   semaphore id (0–31) · lap (32–63)
//
// The lap is position/size+1 and is written last, with release at system scope: a slot whose lap is the expected one is
// complete.

// TriggerType is a bit mask of requests, executed in the order data, flag, sync.
type TriggerType uint16

// The trigger types of a ProxyService. Custom handlers may use the other bits.
const (
	TriggerData TriggerType = 1 << iota
	TriggerFlag
	TriggerSync
)

// TriggerSize is the size of an encoded trigger in bytes.
const TriggerSize = 32

// Field limits of a trigger.
const (
	MaxTriggerSize   = 1<<48 - 1
	MaxTriggerOffset = 1<<48 - 1
	MaxMemoryID      = 1<<16 - 1
)

// MemoryID identifies a memory that was added to a ProxyService.
type MemoryID uint32

// SemaphoreID identifies a semaphore that was added to a ProxyService.
type SemaphoreID uint32

// Trigger is one request, decoded.
type Trigger struct {
	Type                 TriggerType
	Size                 uint64
	Src, Dst             MemoryID
	SrcOffset, DstOffset uint64
	Semaphore            SemaphoreID
}

const mask48 = 1<<48 - 1

// valid reports whether every field fits the encoding.
func (t *Trigger) valid() bool {
	return t.Size <= MaxTriggerSize && t.SrcOffset <= MaxTriggerOffset && t.DstOffset <= MaxTriggerOffset &&
		t.Src <= MaxMemoryID && t.Dst <= MaxMemoryID
}

func (t *Trigger) encode() (w0, w1, w2, sem uint64) {
	return t.Size&mask48 | uint64(t.Type)<<48,
		t.SrcOffset&mask48 | uint64(t.Src)<<48,
		t.DstOffset&mask48 | uint64(t.Dst)<<48,
		uint64(t.Semaphore)
}

func decodeTrigger(w0, w1, w2, w3 uint64) Trigger {
	return Trigger{
		Type: TriggerType(w0 >> 48), Size: w0 & mask48,
		Src: MemoryID(w1 >> 48), SrcOffset: w1 & mask48,
		Dst: MemoryID(w2 >> 48), DstOffset: w2 & mask48,
		Semaphore: SemaphoreID(uint32(w3)),
	}
}

// fifoLap returns the lap word of a position in a ring of size slots (a power of two).
func fifoLap(position uint64, size uint32) uint32 { return uint32(position/uint64(size)) + 1 }
