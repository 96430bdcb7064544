package tutorial

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/kernels"
	"github.com/goccl/goccl/kernels/jit"
	"github.com/goccl/goccl/primitive"
)

// Device is a device with a stream and a little memory for handles.
type Device struct {
	device.Device
	Stream device.Stream

	gpu     *cuda.Device
	module  *cuda.Module
	scratch device.Allocation
	used    int64
	status  device.Ptr // the status word of kernels; one kernel at a time
}

const scratchSize = 1 << 16

// IsHost reports whether the device is a host device, where kernels are Go functions.
func (d *Device) IsHost() bool { return d.gpu == nil }

// Open opens a device: kind is "host" or "cuda". source is a CUDA file with the kernels; if it is empty, the device has
// the kernels of goccl's folder kernels/tutorial, which were compiled ahead of time.
func Open(kind string, index int, source string) (*Device, error) {
	d := &Device{}
	var err error
	if kind == "cuda" {
		if d.gpu, err = cuda.Open(index); err != nil {
			return nil, err
		}
		d.Device = d.gpu
		p := d.gpu.Properties()
		image, err := Compile(source, p.Major, p.Minor)
		if err != nil {
			return nil, errors.Join(err, d.gpu.Close())
		}
		if d.module, err = d.gpu.LoadModule(image); err != nil {
			return nil, errors.Join(err, d.gpu.Close())
		}
	} else if source != "" {
		return nil, Message("-kernels %s: the host device runs the kernels that main.go has as Go functions; "+
			"-device cuda runs CUDA", source)
	} else if d.Device, err = host.Open(index); err != nil {
		return nil, err
	}
	if d.Stream, err = d.NewStream(); err == nil {
		d.scratch, err = d.Alloc(scratchSize)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Compile returns the image of a CUDA file for a compute capability: one's own kernels are compiled at run time by
// NVRTC, against goccl's device headers, which are embedded. Without a file it is the image of kernels/tutorial.
func Compile(source string, major, minor int) ([]byte, error) {
	if source == "" {
		return kernels.Image("tutorial", major, minor)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	compiler, err := jit.New()
	if err != nil {
		return nil, err
	}
	image, err := compiler.Compile(jit.Request{Source: string(text), Name: source, Major: major, Minor: minor})
	if err != nil {
		return nil, fmt.Errorf("%+v", err) // with the compiler's log
	}
	return image.Data, nil
}

// Close ends the device.
func (d *Device) Close() error {
	var errs []error
	if d.Stream != nil {
		errs = append(errs, d.Stream.Close())
	}
	if d.scratch != nil {
		errs = append(errs, d.scratch.Close())
	}
	if d.module != nil {
		errs = append(errs, d.module.Close())
	}
	return errors.Join(append(errs, d.Device.Close())...)
}

// Kind returns the kind of device: "auto" is cuda when this process sees at least n GPUs, else host.
func Kind(asked string, n int) (string, error) {
	switch asked {
	case "host":
		return "host", nil
	case "cuda", "auto":
		count := 0
		err := cuda.Available()
		if err == nil {
			count, err = cuda.Count()
		}
		if asked == "auto" && (err != nil || count < n) {
			return "host", nil
		}
		return "cuda", err
	}
	return "", fmt.Errorf("-device %s: use auto, host or cuda", asked)
}

// handleBytes views a device handle as memory.
func handleBytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Upload copies handles to the device, one after the other, and returns the address of the first.
func Upload[T any](d *Device, handles ...T) (device.Ptr, error) {
	var b []byte
	for i := range handles {
		b = append(b, handleBytes(&handles[i])...)
	}
	return d.Put(b)
}

// Put copies bytes to the device's scratch memory, aligned to 256.
func (d *Device) Put(b []byte) (device.Ptr, error) {
	if d.used+int64(len(b)) > scratchSize {
		return 0, fmt.Errorf("tutorial: %d bytes of handles do not fit the scratch memory", len(b))
	}
	p := d.scratch.Ptr().Add(d.used)
	d.used = (d.used + int64(len(b)) + 255) &^ 255
	return p, d.CopyIn(p, b)
}

// SetConstant copies handles to a __constant__ array of the module. It does nothing on the host device, which does not
// need it.
func SetConstant[T any](d *Device, name string, handles ...T) error {
	if d.module == nil {
		return nil
	}
	var b []byte
	for i := range handles {
		b = append(b, handleBytes(&handles[i])...)
	}
	p, size, err := d.module.Global(name)
	if err != nil {
		return err
	}
	if int64(len(b)) > size {
		return fmt.Errorf("%d handles do not fit %s of %d bytes", len(handles), name, size)
	}
	return d.CopyIn(p, b)
}

// Kernel is one kernel in its two forms. Both return 0 or the reason why a wait ended early.
type Kernel struct {
	Name            string
	Blocks, Threads int
	// Args adds the CUDA kernel's parameters; the kernel writes its status at status.
	Args func(a *cuda.Args, status device.Ptr)
	// Host is the kernel for the host device: it runs once for each of HostBlocks blocks (0: one).
	Host       func(b *host.Block) primitive.Status
	HostBlocks int
}

// Running is a kernel that was launched.
type Running struct {
	d      *Device
	k      *Kernel
	status device.Ptr
	start  device.Event
	stop   device.Event
}

// statusError is a kernel's status as a stream's error.
type statusError struct{ primitive.Status }

func (e statusError) Error() string { return e.Status.String() }
func (e statusError) Unwrap() error { return e.Status.Err() }

// Launch enqueues a kernel.
func (d *Device) Launch(k Kernel) (*Running, error) {
	r := &Running{d: d, k: &k}
	var err error
	if r.start, err = d.Stream.Record(); err != nil {
		return nil, err
	}
	if d.IsHost() {
		s, ok := d.Stream.(*host.Stream)
		if !ok {
			return nil, fmt.Errorf("tutorial: a %T runs no Go kernels", d.Stream)
		}
		err = s.Launch(k.Name, max(1, k.HostBlocks), func(b *host.Block) error {
			if st := k.Host(b); st != primitive.StatusOK {
				return statusError{st}
			}
			return nil
		})
	} else {
		if r.status, err = d.clearStatus(); err != nil {
			return nil, err
		}
		err = d.launchGPU(r)
	}
	if err != nil {
		return nil, err
	}
	r.stop, err = d.Stream.Record()
	return r, err
}

// clearStatus resets the status word for the next kernel.
func (d *Device) clearStatus() (device.Ptr, error) {
	if d.status != 0 {
		return d.status, d.CopyIn(d.status, make([]byte, 4))
	}
	var err error
	d.status, err = d.Put(make([]byte, 4))
	return d.status, err
}

func (d *Device) launchGPU(r *Running) error {
	f, err := d.module.Function(r.k.Name)
	if err != nil {
		return err
	}
	s, ok := d.Stream.(*cuda.Stream)
	if !ok {
		return fmt.Errorf("tutorial: a %T runs no CUDA kernels", d.Stream)
	}
	var a cuda.Args
	r.k.Args(&a, r.status)
	return s.Launch(f, cuda.Launch1D(max(1, r.k.Blocks), max(1, r.k.Threads), 0), &a)
}

// Wait waits for the kernel and returns its duration. why explains a status (Context.Err).
func (r *Running) Wait(timeout time.Duration, why func() error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	explain := func(err error) error {
		if w := why(); w != nil {
			return fmt.Errorf("%s on %s: %w", r.k.Name, r.d.ID(), w)
		}
		return fmt.Errorf("%s on %s: %w", r.k.Name, r.d.ID(), err)
	}
	if err := r.d.Stream.Synchronize(ctx); err != nil {
		return 0, explain(err)
	}
	if r.status != 0 {
		var b [4]byte
		if err := r.d.CopyOut(b[:], r.status); err != nil {
			return 0, err
		}
		if s := primitive.Status(binary.LittleEndian.Uint32(b[:])); s != primitive.StatusOK {
			return 0, explain(s.Err())
		}
	}
	sec, err := r.stop.Since(r.start)
	return time.Duration(sec * float64(time.Second)), errors.Join(err, r.start.Close(), r.stop.Close())
}
