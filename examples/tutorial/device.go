package tutorial

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/kernels/examples"
	"github.com/goccl/goccl/kernels/jit"
)

// Device is a device with a stream and a little memory for handles.
type Device struct {
	device.Device
	Stream device.Stream

	gpu     *cuda.Device
	module  *cuda.Module
	scratch device.Allocation
	used    int64
	status  statusWords // of the kernels that were launched last
}

const scratchSize = 1 << 16

// IsHost reports whether the device is a host device, where kernels are Go functions.
func (d *Device) IsHost() bool { return d.gpu == nil }

// Open opens a device: kind is "host" or "cuda". source is a CUDA file with the kernels; if it is empty, the device has
// the kernels of goccl's folder kernels/examples, which were compiled ahead of time.
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
// NVRTC, against goccl's device headers, which are embedded. Without a file it is the image of kernels/examples.
func Compile(source string, major, minor int) ([]byte, error) {
	if source == "" {
		return examples.Group.Image(major, minor)
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
	errs = append(errs, d.status.Close())
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
