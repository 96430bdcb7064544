package core

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

func anyDevice(index int) (Handle, error) { return DeviceOpen(0, index) }

// Without a GPU the C ABI opens the host device, as the tool does, unless GOCCL_DEVICE says cuda.
func TestNoGPU(t *testing.T) {
	if cuda.Available() == nil {
		t.Skip("there is a GPU")
	}
	for _, open := range []func(int) (Handle, error){DeviceCurrent, anyDevice} {
		t.Setenv("GOCCL_DEVICE", "")
		h, err := open(3)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Find[*Device](h)
		if err != nil {
			t.Fatal(err)
		}
		if kind, i, err := DeviceID(d); err != nil || kind != device.Host || i != 3 {
			t.Errorf("%v %d, %v", kind, i, err)
		}
		t.Setenv("GOCCL_DEVICE", "cuda")
		if _, err := open(0); !errors.Is(err, device.ErrNoDevice) {
			t.Errorf("GOCCL_DEVICE=cuda: %v", err)
		}
	}
}
