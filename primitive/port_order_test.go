package primitive

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

const portSlots, portSlot = 4, 8192

// portSide is the sender's side of port channels of GPUs, whose kernels the test emulates: the memory of the mock
// driver is memory of the host.
type portSide struct {
	*testing.T
	service *ProxyService
	handles []PortChannelHandle
	src     []byte
}

// portPair joins two channels of one connection, and returns the receiver's handles and memory.
func portPair(t *testing.T, transport Transport) (s *portSide, in []SemaphoreHandle, dst []byte) {
	t.Helper()
	if !mock {
		t.Skip("only the mock driver's memory is memory of the host")
	}
	if err := cuda.Available(); err != nil {
		t.Skip(err)
	}
	x, y := joined(t, transport, opened(t, 2))
	s = &portSide{T: t, service: must[*ProxyService](t)(NewProxyService(x.ctx, x.dev, ProxyOptions{FifoSize: 4}))}
	zeros := make([]byte, portSlots*portSlot)
	from, to := x.gpuMemory(t, zeros, false), y.gpuMemory(t, zeros, false)
	s.src, dst = device.Bytes(from.ptr, from.size), device.Bytes(to.ptr, to.size)
	toID := must[MemoryID](t)(s.service.AddMemory(x.receive(t, to)))
	fromID := must[MemoryID](t)(s.service.AddMemory(from))
	for range 2 {
		a, b := must[*SemaphoreStub](t)(NewSemaphoreStub(x.conn)), must[*SemaphoreStub](t)(NewSemaphoreStub(y.conn))
		id := must[SemaphoreID](t)(s.service.AddSemaphore(must[*Semaphore](t)(NewSemaphore(a,
			must[*SemaphoreStub](t)(x.ctx.DeserializeSemaphoreStub(must[[]byte](t)(b.Serialize())))))))
		s.handles = append(s.handles, must[*PortChannel](t)(s.service.PortChannel(id, toID, fromID)).DeviceHandle())
		in = append(in, must[*Semaphore](t)(NewSemaphore(b, a)).DeviceHandle())
	}
	if err := s.service.Start(); err != nil {
		t.Fatal(err)
	}
	return s, in, dst
}

// until polls: the mock's streams wake nobody.
func (s *portSide) until(what string, cond func() bool) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); runtime.Gosched() {
		if time.Now().After(end) {
			s.Fatalf("%s: %v", what, s.service.Err())
		}
	}
}

// put does what goccl::PortChannelHandle does, and reports whether it was direct.
func (s *portSide) put(h *PortChannelHandle, kind TriggerType, off, size uint64) bool {
	s.Helper()
	asked, flushed := word64(h.Order), word64(h.Order.Add(8))
	if size <= 4096 && asked.Load() <= flushed.Load() {
		copy(device.Bytes(h.DstData.Add(int64(off)), int64(size)), device.Bytes(h.SrcData.Add(int64(off)), int64(size)))
		if kind&TriggerFlag != 0 {
			word64(h.Semaphore.RemoteInbound).Add(1)
		}
		return true
	}
	pos, st := h.Fifo.Push(Trigger{Type: kind, Size: size, Src: MemoryID(h.Src), Dst: MemoryID(h.Dst), SrcOffset: off,
		DstOffset: off, Semaphore: SemaphoreID(h.SemaphoreID)})
	if st != StatusOK {
		s.Fatal(st)
	}
	asked.Store(max(asked.Load(), pos+1))
	if kind&TriggerSync != 0 {
		s.until("flush", func() bool { return word64(h.FlushDone).Load() > pos })
		flushed.Store(pos + 1)
	}
	return false
}

// Puts and signals of both kinds arrive in the order of the calls, and every signal is counted once.
func TestPortChannelMixesDirectAndProxiedPuts(t *testing.T) {
	s, in, dst := portPair(t, IPC)
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]int{}
	var want [2]uint64
	type sent struct {
		channel int
		off     uint64
		data    []byte
	}
	var open []sent
	for n := range 2000 {
		if len(open) == portSlots {
			first := open[0]
			open = open[1:]
			want[first.channel]++
			counter := in[first.channel].Inbound
			s.until(fmt.Sprintf("signal of put %d", n-portSlots), func() bool {
				return word64(counter).Load()+word64(counter.Add(8)).Load() >= want[first.channel]
			})
			if !bytes.Equal(dst[first.off:][:len(first.data)], first.data) {
				t.Fatalf("put %d: the signal overtook the data", n-portSlots)
			}
		}
		c, size, kind := rng.IntN(2), uint64(1+rng.IntN(4096)), TriggerData|TriggerFlag
		if rng.IntN(4) == 0 {
			size = 5000
		}
		if rng.IntN(3) == 0 {
			kind |= TriggerSync
		}
		off := uint64(n % portSlots * portSlot)
		fill(s.src[off:off+size], n)
		open = append(open, sent{c, off, bytes.Clone(s.src[off : off+size])})
		kinds[fmt.Sprint(s.put(&s.handles[c], kind, off, size))]++
	}
	if err := s.service.Stop(); err != nil {
		t.Fatal(err)
	}
	var total uint64
	for _, h := range in {
		total += word64(h.Inbound).Load() + word64(h.Inbound.Add(8)).Load()
	}
	if total != 2000 || kinds["true"] < 200 || kinds["false"] < 200 {
		t.Errorf("%d signals, direct: %v", total, kinds)
	}
}

// Only channels between GPUs that reach each other have direct operations. Channels of one connection share the order.
func TestPortChannelOrder(t *testing.T) {
	for _, tr := range []Transport{IPC, Ethernet} {
		s, _, _ := portPair(t, tr)
		for i, h := range s.handles {
			direct := tr == IPC
			if (h.Order != 0) != direct || (h.Semaphore.RemoteInbound != 0) != direct || (h.DstData != 0) != direct ||
				(h.SrcData != 0) != direct || (h.DstSize == portSlots*portSlot) != direct ||
				h.SrcSize != h.DstSize || h.Order != s.handles[0].Order {
				t.Errorf("%v, channel %d: %+v", tr, i, h)
			}
		}
	}
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	service := must[*ProxyService](t)(NewProxyService(ctx, x.dev, ProxyOptions{}))
	m, _ := x.memory(t, 64, Flags(IPC))
	there, _ := y.memory(t, 64, Flags(IPC))
	id, to, from := must[SemaphoreID](t)(service.AddSemaphore(x.sema)),
		must[MemoryID](t)(service.AddMemory(x.receive(t, there))), must[MemoryID](t)(service.AddMemory(m))
	h := must[*PortChannel](t)(service.PortChannel(id, to, from)).DeviceHandle()
	if h.Order != 0 || h.Semaphore.RemoteInbound != 0 || h.DstData != 0 {
		t.Errorf("the host device: %+v", h)
	}
}
