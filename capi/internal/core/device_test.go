package core

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// Without a GPU the C ABI opens the host device, as the tool does, unless GOCCL_DEVICE says cuda.
func TestNoGPU(t *testing.T) {
	if cuda.Available() == nil {
		t.Skip("there is a GPU")
	}
	for _, open := range []func(int) (Handle, error){CurrentDevice, NumberedDevice} {
		t.Setenv("GOCCL_DEVICE", "")
		h, err := open(3)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := DeviceID(h); err != nil || id != (device.ID{Kind: device.Host, Index: 3}) {
			t.Errorf("%v, %v", id, err)
		}
		t.Setenv("GOCCL_DEVICE", "cuda")
		if _, err := open(0); !errors.Is(err, device.ErrNoDevice) {
			t.Errorf("GOCCL_DEVICE=cuda: %v", err)
		}
	}
}
