package primitive

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// The table defines the ABI with kernels/include/goccl/handle.cuh; a change here is an ABI change there.
func TestHandleLayout(t *testing.T) {
	var a AbortBlock
	var s SemaphoreHandle
	var m MemoryChannelHandle
	var f FifoHandle
	var b BasePortChannelHandle
	var p PortChannelHandle
	var w SwitchChannelHandle
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"AbortBlock", unsafe.Sizeof(a), AbortBlockSize},
		{"AbortBlock.Abort", unsafe.Offsetof(a.Abort), 0},
		{"AbortBlock.Reported", unsafe.Offsetof(a.Reported), 4},
		{"AbortBlock.SpinLimitNs", unsafe.Offsetof(a.SpinLimitNs), 8},
		{"AbortBlock.Detail", unsafe.Offsetof(a.Detail), 16},
		{"AbortBlock.Peer", unsafe.Offsetof(a.Peer), 24},
		{"AbortBlock.Op", unsafe.Offsetof(a.Op), 28},
		{"SemaphoreHandle", unsafe.Sizeof(s), SemaphoreHandleSize},
		{"SemaphoreHandle.Inbound", unsafe.Offsetof(s.Inbound), 0},
		{"SemaphoreHandle.RemoteInbound", unsafe.Offsetof(s.RemoteInbound), 8},
		{"SemaphoreHandle.Expected", unsafe.Offsetof(s.Expected), 16},
		{"SemaphoreHandle.Abort", unsafe.Offsetof(s.Abort), 24},
		{"BaseMemoryChannelHandle", unsafe.Sizeof(BaseMemoryChannelHandle{}), BaseMemoryChannelHandleSize},
		{"MemoryChannelHandle", unsafe.Sizeof(m), MemoryChannelHandleSize},
		{"MemoryChannelHandle.Dst", unsafe.Offsetof(m.Dst), 32},
		{"MemoryChannelHandle.Src", unsafe.Offsetof(m.Src), 40},
		{"MemoryChannelHandle.PacketBuffer", unsafe.Offsetof(m.PacketBuffer), 48},
		{"FifoHandle", unsafe.Sizeof(f), FifoHandleSize},
		{"FifoHandle.Ring", unsafe.Offsetof(f.Ring), 0},
		{"FifoHandle.Head", unsafe.Offsetof(f.Head), 8},
		{"FifoHandle.Tail", unsafe.Offsetof(f.Tail), 16},
		{"FifoHandle.TailCache", unsafe.Offsetof(f.TailCache), 24},
		{"FifoHandle.Size", unsafe.Offsetof(f.Size), 32},
		{"FifoHandle.Abort", unsafe.Offsetof(f.Abort), 40},
		{"BasePortChannelHandle", unsafe.Sizeof(b), BasePortChannelHandleSize},
		{"BasePortChannelHandle.Fifo", unsafe.Offsetof(b.Fifo), 32},
		{"BasePortChannelHandle.FlushDone", unsafe.Offsetof(b.FlushDone), 80},
		{"BasePortChannelHandle.SemaphoreID", unsafe.Offsetof(b.SemaphoreID), 88},
		{"BasePortChannelHandle.Order", unsafe.Offsetof(b.Order), 96},
		{"PortChannelHandle", unsafe.Sizeof(p), PortChannelHandleSize},
		{"PortChannelHandle.Dst", unsafe.Offsetof(p.Dst), 104},
		{"PortChannelHandle.Src", unsafe.Offsetof(p.Src), 108},
		{"PortChannelHandle.DstData", unsafe.Offsetof(p.DstData), 112},
		{"PortChannelHandle.SrcSize", unsafe.Offsetof(p.SrcSize), 136},
		{"SwitchChannelHandle", unsafe.Sizeof(w), SwitchChannelHandleSize},
		{"SwitchChannelHandle.NRanks", unsafe.Offsetof(w.NRanks), 8},
		{"SwitchChannelHandle.Rank", unsafe.Offsetof(w.Rank), 12},
		{"SwitchChannelHandle.Size", unsafe.Offsetof(w.Size), 16},
		{"SwitchChannelHandle.Abort", unsafe.Offsetof(w.Abort), 24},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

// layout.txt is the CUDA side of the table, checked there by the compiler.
func TestHandleLayoutAgreesWithTheHeaders(t *testing.T) {
	text, err := os.ReadFile("../kernels/include/goccl/layout.txt")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]reflect.Type{
		"AbortBlock": reflect.TypeFor[AbortBlock](), "SemaphoreHandle": reflect.TypeFor[SemaphoreHandle](),
		"BaseMemoryChannelHandle": reflect.TypeFor[BaseMemoryChannelHandle](),
		"MemoryChannelHandle":     reflect.TypeFor[MemoryChannelHandle](),
		"FifoHandle":              reflect.TypeFor[FifoHandle](),
		"BasePortChannelHandle":   reflect.TypeFor[BasePortChannelHandle](),
		"PortChannelHandle":       reflect.TypeFor[PortChannelHandle](),
		"SwitchChannelHandle":     reflect.TypeFor[SwitchChannelHandle](),
	}
	checked := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] == "#" || types[f[0]] == nil {
			continue
		}
		typ := types[f[0]]
		offset, _ := strconv.Atoi(f[2])
		size, _ := strconv.Atoi(f[3])
		gotOffset, gotSize := uintptr(0), typ.Size()
		switch f[1] {
		case "-":
		case "pad", "reserved":
			continue
		default:
			field, ok := typ.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, f[1]) })
			if !ok {
				t.Errorf("%s has no field %s", f[0], f[1])
				continue
			}
			gotOffset, gotSize = field.Offset, field.Type.Size()
		}
		if int(gotOffset) != offset || int(gotSize) != size {
			t.Errorf("%s.%s: offset %d size %d, the headers say %d and %d", f[0], f[1], gotOffset, gotSize, offset, size)
		}
		checked++
	}
	if checked < 30 {
		t.Errorf("only %d lines of the table were understood", checked)
	}
}

func TestTriggerCodec(t *testing.T) {
	for _, in := range []Trigger{
		{},
		{Type: TriggerData | TriggerFlag | TriggerSync, Size: MaxTriggerSize, Src: MaxMemoryID, Dst: MaxMemoryID,
			SrcOffset: MaxTriggerOffset,
			DstOffset: MaxTriggerOffset, Semaphore: 1<<32 - 1},
		{Type: TriggerFlag, Size: 5 << 32, Src: 3, Dst: 700, SrcOffset: 1 << 40, DstOffset: 17, Semaphore: 1025},
	} {
		if !in.valid() {
			t.Fatalf("%+v: not valid", in)
		}
		w0, w1, w2, sem := in.encode()
		if out := decodeTrigger(w0, w1, w2, sem|uint64(fifoLap(9, 4))<<32); out != in {
			t.Errorf("got %+v, want %+v", out, in)
		}
	}
	// The words of a program's own triggers arrive whole.
	const any0, any1, any2 = 0x8123456789abcdef, 0xfedcba9876543210, 0xa5a5a5a5a5a5a5a5
	own := decodeTrigger(any0, any1, any2, 0)
	if w0, w1, w2, _ := own.encode(); w0 != any0 || w1 != any1 || w2 != any2 {
		t.Errorf("%#x, %#x, %#x", w0, w1, w2)
	}
	if (&Trigger{Size: MaxTriggerSize + 1}).valid() || (&Trigger{Dst: MaxMemoryID + 1}).valid() {
		t.Error("a trigger beyond the encoding passes as valid")
	}
	if fifoLap(0, 8) != 1 || fifoLap(7, 8) != 1 || fifoLap(8, 8) != 2 {
		t.Error("lap")
	}
}

func TestTransportFlags(t *testing.T) {
	f := Flags(IPC, Ethernet)
	if !f.Has(IPC) || !f.Has(Ethernet) || f.Has(IB3) || f.Count() != 2 || f.String() != "ipc|ethernet" {
		t.Errorf("%v", f)
	}
	if f.Without(IPC) != Flags(Ethernet) || !NoTransports.None() || !AllTransports.All() || AllIBTransports.Count() != 8 ||
		AllTransports.Count() != 10 {
		t.Error("sets")
	}
	if Flags(UnknownTransport, Transport(200)) != 0 {
		t.Error("an invalid transport is in the set")
	}
	for tr := IPC; tr < numTransports; tr++ {
		if got, err := ParseTransport(tr.String()); err != nil || got != tr {
			t.Errorf("%v: %v, %v", tr, got, err)
		}
	}
}
