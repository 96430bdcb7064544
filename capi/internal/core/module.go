package core

import (
	"fmt"
	"strings"
	"sync"

	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels/jit"
)

// compilers holds one compiler for each list of directories in which to search libnvrtc.
var compilers struct {
	sync.Mutex
	by map[string]*jit.Compiler
}

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
	if compilers.by == nil {
		compilers.by = map[string]*jit.Compiler{}
	}
	compilers.by[key] = c
	return c, nil
}

// KernelCompile compiles a user's kernels for a compute capability (0.0: the capability of dev) with goccl's headers.
// The text of a failure holds the compiler's log.
func KernelCompile(dev Handle, major, minor int, source []byte, name string, options,
	dirs []string) ([]byte, error) {
	if major == 0 {
		d, err := cudaDevice(dev)
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

func cudaDevice(h Handle) (*cuda.Device, error) {
	d, err := devices.get(h)
	if err != nil {
		return nil, err
	}
	c, ok := d.device.(*cuda.Device)
	if !ok {
		return nil, fmt.Errorf("%w: %v runs no CUDA kernels: open a GPU", ErrInvalidArgument, d.device.ID())
	}
	return c, nil
}

// module is loaded device code and its device.
type module struct {
	*cuda.Module
	dev *cuda.Device
}

// function is a kernel of a module.
type function struct {
	*cuda.Function
	dev *cuda.Device

	mu     sync.Mutex
	shared uint32 // the value set with SetMaxDynamicShared
}

// ModuleLoad loads a cubin, a fatbin or PTX.
func ModuleLoad(dev Handle, image []byte) (Handle, error) {
	d, err := cudaDevice(dev)
	if err != nil {
		return 0, err
	}
	m, err := d.LoadModule(image)
	if err != nil {
		return 0, err
	}
	return addObject(&module{m, d}, nil)
}

// ModuleFunction finds a kernel; it ends with its module.
func ModuleFunction(h Handle, name string) (Handle, error) {
	m, err := objectOf[*module](h)
	if err != nil {
		return 0, err
	}
	f, err := m.Function(name)
	if err != nil {
		return 0, err
	}
	return addObject(&function{Function: f, dev: m.dev}, nil)
}

// staticShared is the dynamic shared memory that a kernel may use without SetMaxDynamicShared.
const staticShared = 48 << 10

// KernelLaunch enqueues a kernel with a parameter buffer in the layout that the kernel declares.
func KernelLaunch(h Handle, stream uintptr, shape *[9]uint32, shared uint32, params []byte) error {
	if shape == nil {
		return fmt.Errorf("%w: the shape of the launch is NULL", ErrInvalidArgument)
	}
	cfg := cuda.Config{Grid: [3]uint32(shape[:3]), Block: [3]uint32(shape[3:6]), Cluster: [3]uint32(shape[6:]),
		Shared: shared}
	f, err := objectOf[*function](h)
	if err != nil {
		return err
	}
	if cfg.Shared > staticShared {
		f.mu.Lock()
		if cfg.Shared > f.shared {
			if err = f.SetMaxDynamicShared(int(cfg.Shared)); err == nil {
				f.shared = cfg.Shared
			}
		}
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
	s, err := f.dev.WrapStream(stream)
	if err != nil {
		return err
	}
	return s.(*cuda.Stream).LaunchRaw(f.Function, &cfg, params)
}
