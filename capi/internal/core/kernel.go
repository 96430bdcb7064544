package core

import (
	"fmt"
	"strings"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels/jit"
	"github.com/goccl/goccl/primitive"
)

// compilers holds one compiler for each list of directories in which to search libnvrtc.
var compilers = struct {
	sync.Mutex
	by map[string]*jit.Compiler
}{by: map[string]*jit.Compiler{}}

func compilerAt(dirs []string) (*jit.Compiler, error) {
	key := strings.Join(dirs, "\x00")
	compilers.Lock()
	defer compilers.Unlock()
	if c := compilers.by[key]; c != nil {
		return c, nil
	}
	c, err := jit.New(dirs...)
	if err != nil {
		return nil, err
	}
	compilers.by[key] = c
	return c, nil
}

// KernelCompile compiles a user's kernels for a compute capability (0.0: the capability of dev) with goccl's headers.
// The text of a failure holds the compiler's log.
func KernelCompile(device Handle, major, minor int, source []byte, name string, options,
	dirs []string) ([]byte, error) {
	if major == 0 {
		opened, err := Find[*Device](device)
		if err != nil {
			return nil, err
		}
		d, err := opened.cuda()
		if err != nil {
			return nil, err
		}
		p := d.Properties()
		major, minor = p.Major, p.Minor
	}
	c, err := compilerAt(dirs)
	if err != nil {
		return nil, err
	}
	image, err := c.Compile(jit.Request{Source: string(source), Name: name, Major: major, Minor: minor, Options: options})
	if err != nil {
		return nil, fmt.Errorf("%w: %+v", ErrInvalidArgument, err)
	}
	return image.Data, nil
}

func (d *Device) cuda() (*cuda.Device, error) {
	c, ok := d.Device.(*cuda.Device)
	if !ok {
		return nil, fmt.Errorf("%w: %v runs no CUDA kernels: open a GPU", ErrInvalidArgument, d.Device.ID())
	}
	return c, nil
}

// Module is loaded device code and its device.
type Module struct {
	*cuda.Module
	dev *cuda.Device
}

// Function is a kernel of a module.
type Function struct {
	*cuda.Function
	dev *cuda.Device

	mu     sync.Mutex
	shared uint32 // the value set with SetMaxDynamicShared
}

func ModuleLoad(d *Device, image []byte) (*Module, error) {
	gpu, err := d.cuda()
	if err != nil {
		return nil, err
	}
	m, err := gpu.LoadModule(image)
	return &Module{m, gpu}, err
}

func ModuleFunction(m *Module, name string) (*Function, error) {
	f, err := m.Function(name)
	return &Function{Function: f, dev: m.dev}, err
}

// staticShared is the dynamic shared memory that a kernel may use without SetMaxDynamicShared.
const staticShared = 48 << 10

func KernelLaunch(f *Function, stream uintptr, shape *[9]uint32, shared uint32, params []byte) error {
	if shape == nil {
		return fmt.Errorf("%w: the shape of the launch is NULL", ErrInvalidArgument)
	}
	cfg := cuda.Config{Grid: [3]uint32(shape[:3]), Block: [3]uint32(shape[3:6]), Cluster: [3]uint32(shape[6:]),
		Shared: shared}
	if cfg.Shared > staticShared {
		if err := f.reserve(cfg.Shared); err != nil {
			return err
		}
	}
	s, err := f.dev.WrapStream(stream)
	if err != nil {
		return err
	}
	return s.(*cuda.Stream).LaunchRaw(f.Function, &cfg, params)
}

// reserve lets the kernel use that much dynamic shared memory.
func (f *Function) reserve(shared uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if shared <= f.shared {
		return nil
	}
	err := f.SetMaxDynamicShared(int(shared))
	if err == nil {
		f.shared = shared
	}
	return err
}

// ChannelOp is an operation of a kernel on a channel's handle.
type ChannelOp uint32

// ChannelRun performs an operation of a host-device kernel on the channel h: a is the target offset, b the origin
// offset, size is in bytes, flag a packet epoch. It runs on the calling thread, as a kernel of one thread. Other
// languages write kernels for the host device with it. It refuses a memory channel whose memory is on a GPU, where
// kernels are CUDA kernels.
func ChannelRun(h Handle, op ChannelOp, a, b, size uint64, flag uint32) (polled bool, err error) {
	v, err := objects.get(h)
	if err != nil {
		return false, err
	}
	channel, ok := v.(interface{ Semaphore() *primitive.Semaphore })
	if !ok {
		return false, fmt.Errorf("%w: a %s has no operations for kernels here", ErrInvalidArgument, nameOf(v))
	}
	if id := channel.Semaphore().Connection().Device().ID(); id.Kind != device.Host {
		return false, fmt.Errorf("%w: the channel belongs to %v, whose kernels are CUDA's: launch one with the channel's "+
			"device handle", ErrInvalidUsage, id)
	}
	s, polled, known := primitive.StatusOK, true, false
	switch c := v.(type) {
	case *primitive.BaseMemoryChannel:
		k := c.DeviceHandle()
		s, polled, known = runSemaphore(&k.Semaphore, op)
	case *primitive.MemoryChannel:
		k := c.DeviceHandle()
		if s, polled, known = runSemaphore(&k.Semaphore, op); !known {
			s, known = runMemory(&k, op, int64(a), int64(b), int64(size), flag)
			polled = true
		}
	case *primitive.PortChannel:
		k := c.DeviceHandle()
		s, polled, known = runPort(&k, op, a, b, size)
	}
	if !known {
		return false, fmt.Errorf("%w: a %s has no operation %d", ErrInvalidArgument, nameOf(v), op)
	}
	if s == primitive.StatusOK {
		return polled, nil
	}
	return false, fmt.Errorf("kernel of the host device: %w", s.Err())
}

// runSemaphore performs the operations that every memory channel has.
func runSemaphore(h *primitive.SemaphoreHandle, op ChannelOp) (s primitive.Status, polled, known bool) {
	s, polled = primitive.StatusOK, true
	switch op {
	case OpSignal:
		h.Signal()
	case OpRelaxedSignal:
		h.RelaxedSignal()
	case OpWait:
		s = h.Wait()
	case OpRelaxedWait:
		s = h.RelaxedWait()
	case OpPoll:
		polled = h.Poll()
	default:
		return s, false, false
	}
	return s, polled, true
}

// runMemory performs the operations that move data.
func runMemory(k *primitive.MemoryChannelHandle, op ChannelOp, a, b, size int64, flag uint32) (s primitive.Status,
	known bool) {
	s = primitive.StatusOK
	switch op {
	case OpPut:
		k.Put(a, b, size, 0, 1)
	case OpGet:
		k.Get(a, b, size, 0, 1)
	case OpPutWithSignal:
		k.PutWithSignal(a, b, size)
	case OpPutPackets:
		k.PutPackets(primitive.LL16, a, b, size, 0, 1, flag)
	case OpUnpackPackets:
		s = k.UnpackPackets(primitive.LL16, a, b, size, 0, 1, flag)
	default:
		return s, false
	}
	return s, true
}

func runPort(k *primitive.PortChannelHandle, op ChannelOp, a, b, size uint64) (s primitive.Status, polled, known bool) {
	s, polled = primitive.StatusOK, true
	switch op {
	case OpSignal:
		s = k.Signal()
	case OpWait:
		s = k.Wait()
	case OpPoll:
		polled = k.Poll()
	case OpPut:
		s = k.Put(a, b, size)
	case OpPutWithSignal:
		s = k.PutWithSignal(a, b, size)
	case OpPutWithSignalAndFlush:
		s = k.PutWithSignalAndFlush(a, b, size)
	case OpFlush:
		s = k.Flush()
	default:
		return s, false, false
	}
	return s, polled, true
}
