package primitive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels/examples"
)

// mock is set without a GPU: the mock driver runs no kernels.
var mock bool

// gpus returns n GPUs, or skips the test. If there is only one GPU, it stands for several.
func gpus(t *testing.T, n int) []*cuda.Device {
	t.Helper()
	if err := cuda.Available(); err != nil || mock {
		t.Skip("no GPU", err)
	}
	return opened(t, n)
}

func opened(t *testing.T, n int) []*cuda.Device {
	t.Helper()
	count, err := cuda.Count()
	if err != nil || count == 0 {
		t.Skip("no GPU:", err)
	}
	var devices []*cuda.Device
	for i := range n {
		d := must[*cuda.Device](t)(cuda.Open(i % count))
		devices = append(devices, d)
	}
	return devices
}

// gpuPair connects two GPUs of this process; everything that a peer would receive passes through its serialised form.
func gpuPair(t *testing.T, transport Transport) (x, y *side) {
	t.Helper()
	return joined(t, transport, gpus(t, 2))
}

func joined(t *testing.T, transport Transport, d []*cuda.Device) (x, y *side) {
	t.Helper()
	a, b := NewContext(WithTimeout(10*time.Second), WithSpinLimit(10*time.Second)),
		NewContext(WithTimeout(10*time.Second), WithSpinLimit(10*time.Second))
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), b.Close(), d[0].Close(), d[1].Close()); err != nil {
			t.Error(err)
		}
	})
	x, y = &side{ctx: a, dev: d[0]}, &side{ctx: b, dev: d[1]}
	for _, s := range []*side{x, y} {
		s.ep = must[*Endpoint](t)(s.ctx.CreateEndpoint(EndpointConfig{Transport: transport, Device: s.dev}))
	}
	for _, s := range [][2]*side{{x, y}, {y, x}} {
		s[0].conn = must[*Connection](t)(s[0].ctx.Connect(s[0].ep,
			must[*Endpoint](t)(DeserializeEndpoint(s[1].ep.Serialize()))))
		s[0].stub = must[*SemaphoreStub](t)(NewSemaphoreStub(s[0].conn))
	}
	for _, s := range [][2]*side{{x, y}, {y, x}} {
		remote := must[*SemaphoreStub](t)(s[0].ctx.DeserializeSemaphoreStub(must[[]byte](t)(s[1].stub.Serialize())))
		s[0].sema = must[*Semaphore](t)(NewSemaphore(s[0].stub, remote))
	}
	return x, y
}

// gpuMemory returns registered memory of a GPU with the given contents.
func (s *side) gpuMemory(t *testing.T, contents []byte, legacy bool) *RegisteredMemory {
	t.Helper()
	d := s.dev.(*cuda.Device)
	alloc := d.Alloc
	if legacy {
		alloc = d.AllocLegacy
	}
	// The pointer lies inside the allocation.
	a := must[device.Allocation](t)(alloc(int64(len(contents)) + 512))
	p := a.Ptr().Add(512)
	if err := d.CopyIn(p, contents); err != nil {
		t.Fatal(err)
	}
	return must[*RegisteredMemory](t)(s.ctx.RegisterMemory(d, p, int64(len(contents)), Flags(IPC, Ethernet)))
}

func (s *side) read(t *testing.T, p device.Ptr, n int64) []byte {
	t.Helper()
	b := make([]byte, n)
	if err := s.dev.CopyOut(b, p); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCUDAConnection(t *testing.T) {
	for _, tr := range []Transport{IPC, Ethernet} {
		for _, legacy := range []bool{false, true} {
			x, y := gpuPair(t, tr)
			const size = 3 << 20
			in := make([]byte, size)
			fill(in, 5)
			src := x.gpuMemory(t, in, legacy)
			dst := y.gpuMemory(t, make([]byte, size), legacy)
			to := x.receive(t, dst)
			var mine uint64
			for _, err := range []error{x.conn.Write(to, 16, src, 5, size-16), x.conn.AtomicAdd(to, 0, 42),
				x.conn.UpdateAndSync(to, 8, &mine, 7), x.conn.Flush(0)} {
				if err != nil {
					t.Fatal(tr, legacy, err)
				}
			}
			out := y.read(t, dst.Data(), size)
			if !bytes.Equal(out[16:], in[5:5+size-16]) || out[0] != 42 || out[8] != 7 {
				t.Fatal(tr, legacy, "wrong bytes")
			}
			h := NewHost2DeviceSemaphore(x.sema)
			for range 4 {
				if err := h.Signal(); err != nil {
					t.Fatal(err)
				}
			}
			if err := x.conn.Flush(0); err != nil {
				t.Fatal(err)
			}
			counter := y.read(t, y.sema.handle.Inbound, 16)
			added, stored := binary.LittleEndian.Uint64(counter), binary.LittleEndian.Uint64(counter[8:])
			if added+stored != 4 || (stored == 4) != (tr == IPC) {
				t.Fatalf("%v: %d added and %d stored signals of 4", tr, added, stored)
			}
		}
	}
}

// portMesh are two ranks that exchange slices by the mesh kernel of tutorial 04, in two memories by turns.
type portMesh struct {
	sides  []*side
	mems   [2][2]*RegisteredMemory // by turn and rank
	stream [2]*cuda.Stream
	status [2]device.Ptr
	launch [2]func(turn int, size int64) error
}

func newPortMesh(t *testing.T, tr Transport, most int64) *portMesh {
	t.Helper()
	x, y := gpuPair(t, tr)
	m := &portMesh{sides: []*side{x, y}}
	for i, s := range m.sides {
		for turn := range m.mems {
			m.mems[turn][i] = s.gpuMemory(t, make([]byte, 2*most), false)
		}
	}
	for i, s := range m.sides {
		service := must[*ProxyService](t)(NewProxyService(s.ctx, s.dev, ProxyOptions{}))
		id := must[SemaphoreID](t)(service.AddSemaphore(s.sema))
		d := s.dev.(*cuda.Device)
		area := must[device.Allocation](t)(d.Alloc(4096))
		for turn := range m.mems {
			to := must[MemoryID](t)(service.AddMemory(s.receive(t, m.mems[turn][1-i])))
			from := must[MemoryID](t)(service.AddMemory(m.mems[turn][i]))
			handles := [2]PortChannelHandle{}
			handles[1-i] = must[*PortChannel](t)(service.PortChannel(id, to, from)).DeviceHandle()
			if err := d.CopyIn(area.Ptr().Add(int64(turn)*1024),
				unsafe.Slice((*byte)(unsafe.Pointer(&handles)), unsafe.Sizeof(handles))); err != nil {
				t.Fatal(err)
			}
		}
		if err := service.Start(); err != nil {
			t.Fatal(err)
		}
		m.status[i] = area.Ptr().Add(2048)
		p := d.Properties()
		module := must[*cuda.Module](t)(d.LoadModule(must[[]byte](t)(examples.Group.Image(p.Major, p.Minor))))
		f := must[*cuda.Function](t)(module.Function("tutorial_port_mesh"))
		m.stream[i] = must[device.Stream](t)(d.NewStream()).(*cuda.Stream)
		m.launch[i] = func(turn int, size int64) error {
			var a cuda.Args
			a.Ptr(area.Ptr().Add(int64(turn) * 1024)).Uint32(uint32(i)).Uint32(2).Uint64(uint64(size)).Ptr(m.status[i])
			return m.stream[i].Launch(f, cuda.Launch1D(1, 2, 0), &a)
		}
	}
	return m
}

// each runs f for both ranks at once.
func (m *portMesh) each(t *testing.T, f func(i int, s *side) error) {
	t.Helper()
	done := make(chan error, 2)
	for i, s := range m.sides {
		go func() { done <- f(i, s) }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	for i, s := range m.sides {
		if st := Status(binary.LittleEndian.Uint32(s.read(t, m.status[i], 4))); st != StatusOK {
			t.Fatalf("rank %d: %v: %v", i, st, s.ctx.Err())
		}
	}
}

// A kernel on each GPU puts and waits. Large puts go through the proxy; over IPC small ones do not.
func TestCUDAPortChannel(t *testing.T) {
	for _, tr := range []Transport{IPC, Ethernet} {
		const most = 1 << 20
		m := newPortMesh(t, tr, most)
		for round, size := range []int64{most, 8, 1000, 4096, 4112, 24, 1, 70001, 16, 3000} {
			mine := func(i int) []byte {
				b := make([]byte, size)
				fill(b, 7*round+i)
				return b
			}
			for i, s := range m.sides {
				if err := s.dev.(*cuda.Device).CopyIn(m.mems[0][i].Data().Add(int64(i)*size), mine(i)); err != nil {
					t.Fatal(err)
				}
			}
			m.each(t, func(i int, _ *side) error {
				return errors.Join(m.launch[i](0, size), m.stream[i].Synchronize(t.Context()))
			})
			for i, s := range m.sides {
				if got := s.read(t, m.mems[0][i].Data().Add(int64(1-i)*size), size); !bytes.Equal(got, mine(1-i)) {
					t.Fatalf("%v, rank %d, %d bytes: wrong slice", tr, i, size)
				}
			}
		}
	}
}

var portSteps = flag.Int("port.steps", 400, "captured steps of TestCUDAPortChannelCaptured")

// Graphs of exchanges of random sizes, most of them small, bring what was put, in any mixture of direct puts and puts
// through the proxy. A memory is used again when the peer's next kernel runs, behind its copy from there.
func TestCUDAPortChannelCaptured(t *testing.T) {
	const most, steps = 8 << 10, 20 // of a graph: an even number
	m := newPortMesh(t, IPC, most)
	var in, out [2]device.Allocation
	for i, s := range m.sides {
		in[i] = must[device.Allocation](t)(s.dev.Alloc(steps * most))
		out[i] = must[device.Allocation](t)(s.dev.Alloc(steps * most))
	}
	data := make([]byte, steps*most)
	for done := 0; done < *portSteps; {
		var sizes [steps]int64
		for k := range sizes {
			if sizes[k] = 1 + rand.Int64N(300); rand.IntN(3) == 0 {
				sizes[k] = 1 + rand.Int64N(most)
			}
			if rand.IntN(2) == 0 {
				sizes[k] = (sizes[k] + 15) &^ 15
			}
		}
		var graph [2]*cuda.Exec
		m.each(t, func(i int, _ *side) (err error) {
			x := m.stream[i]
			graph[i], err = x.Capture(func() (err error) {
				for k, size := range sizes {
					mem, at := m.mems[k%2][i].Data(), int64(k)*most
					err = errors.Join(err, x.Memset(out[i].Ptr().Add(at), 0xa5, most),
						x.Copy(mem.Add(int64(i)*size), in[i].Ptr().Add(at), size), m.launch[i](k%2, size),
						x.Copy(out[i].Ptr().Add(at), mem.Add(int64(1-i)*size), size))
				}
				return err
			})
			return err
		})
		for range 50 {
			seed := rand.Int()
			for i, s := range m.sides {
				fill(data, seed+i)
				if err := s.dev.(*cuda.Device).CopyIn(in[i].Ptr(), data); err != nil {
					t.Fatal(err)
				}
			}
			m.each(t, func(i int, _ *side) error {
				return errors.Join(graph[i].Launch(m.stream[i]), m.stream[i].Synchronize(t.Context()))
			})
			for i, s := range m.sides {
				fill(data, seed+1-i)
				got := s.read(t, out[i].Ptr(), steps*most)
				for k, size := range sizes {
					if !bytes.Equal(got[k*most:][:size], data[k*most:][:size]) {
						t.Fatalf("rank %d, step %d of %v: wrong bytes", i, k, sizes)
					}
				}
			}
			if done += steps; done >= *portSteps {
				break
			}
		}
		if err := errors.Join(graph[0].Close(), graph[1].Close()); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Printf("port channels: %d captured steps, 0 wrong\n", *portSteps)
}

// A kernel that waits for a signal that is never sent ends by the abort, and the GPU stays usable.
func TestCUDAAbort(t *testing.T) {
	x, _ := gpuPair(t, IPC)
	d := x.dev.(*cuda.Device)
	h := must[*BaseMemoryChannel](t)(NewBaseMemoryChannel(x.sema)).DeviceHandle()
	area := must[device.Allocation](t)(d.Alloc(4096))
	if err := d.CopyIn(area.Ptr(), unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))); err != nil {
		t.Fatal(err)
	}
	p := d.Properties()
	m := must[*cuda.Module](t)(d.LoadModule(must[[]byte](t)(examples.Group.Image(p.Major, p.Minor))))
	f := must[*cuda.Function](t)(m.Function("tutorial_pong"))
	stream := must[device.Stream](t)(d.NewStream()).(*cuda.Stream)
	var a cuda.Args
	a.Ptr(area.Ptr()).Int32(1).Uint64(0).Ptr(area.Ptr().Add(2048))
	if err := stream.Launch(f, cuda.Launch1D(1, 1, 0), &a); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	x.ctx.Abort(failure("test", 0, 1, ErrPeerDead))
	if err := stream.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := Status(binary.LittleEndian.Uint32(x.read(t, area.Ptr().Add(2048), 4))); st != StatusPeerDead {
		t.Errorf("status %v", st)
	}
	x.ctx.Recover()
	if x.ctx.Err() != nil {
		t.Error(x.ctx.Err())
	}
}
