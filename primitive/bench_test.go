package primitive

import (
	"testing"
)

func BenchmarkSignalWait(b *testing.B) {
	ctx := newContext(b)
	x, y := pair(b, IPC, ctx, ctx)
	h, p := x.sema.DeviceHandle(), y.sema.DeviceHandle()
	for b.Loop() {
		p.Signal()
		h.Wait()
	}
}

func BenchmarkPortPutSignalFlush1K(b *testing.B) {
	ctx := newContext(b)
	x, y := pair(b, IPC, ctx, ctx)
	src, _ := x.memory(b, 4096, Flags(IPC))
	dst, _ := y.memory(b, 4096, Flags(IPC))
	s := must[*ProxyService](b)(NewProxyService(ctx, x.dev, ProxyOptions{}))
	to, from := must[MemoryID](b)(s.AddMemory(x.receive(b, dst))), must[MemoryID](b)(s.AddMemory(src))
	h := must[*PortChannel](b)(s.PortChannel(must[SemaphoreID](b)(s.AddSemaphore(x.sema)), to, from)).DeviceHandle()
	if err := s.Start(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if st := h.PutWithSignalAndFlush(0, 0, 1024); st != StatusOK {
			b.Fatal(st)
		}
	}
}

func BenchmarkPackets(b *testing.B) {
	ctx := newContext(b)
	x, _ := pair(b, IPC, ctx, ctx)
	const size = 1 << 18
	for _, p := range []Packet{LL8, LL16, LL128} {
		src, _ := x.memory(b, size, Flags(IPC))
		buf, _ := x.memory(b, p.BufferSize(size), Flags(IPC))
		b.Run(p.String(), func(b *testing.B) {
			b.SetBytes(size)
			for flag := uint32(1); b.Loop(); flag++ {
				CopyToPackets(p, buf.Data(), src.Data(), size, 0, 1, flag)
				if s := CopyFromPackets(p, src.Data(), buf.Data(), size, 0, 1, flag, 0); s != StatusOK {
					b.Fatal(s)
				}
			}
		})
	}
}
