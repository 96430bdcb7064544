package hosts

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// CUDAOrder is the Order of a GPU.
type CUDAOrder struct{ *cuda.Order }

// NewCUDAOrder makes an order of work on dev. graphs is passed to cuda.Device.NewOrder.
func NewCUDAOrder(dev *cuda.Device, graphs cuda.GraphOrder) (*CUDAOrder, error) {
	o, err := dev.NewOrder(0, graphs)
	return &CUDAOrder{o}, err
}

// Enter implements Order.
func (o *CUDAOrder) Enter(s device.Stream) error { return with(s, o.Order.Enter) }

// Leave implements Order.
func (o *CUDAOrder) Leave(s device.Stream) error { return with(s, o.Order.Leave) }

// Forks implements Order.
func (o *CUDAOrder) Forks(s, side device.Stream) (bool, error) {
	own, in, err := side.(*cuda.Stream).CaptureStatus()
	if err != nil || own == cuda.CaptureNone {
		return true, err
	}
	status, id, err := s.(*cuda.Stream).CaptureStatus()
	return status == own && id == in, err
}

// Wait implements Order.
func (o *CUDAOrder) Wait(ctx context.Context) error { return o.Order.Wait(ctx) }

func with(s device.Stream, f func(*cuda.Stream) error) error {
	cs, ok := s.(*cuda.Stream)
	if !ok {
		return fmt.Errorf("%w: the stream belongs to %v, the communicator to a GPU", collective.ErrInvalidArgument,
			s.Device().ID())
	}
	return f(cs)
}
