package core

import (
	"fmt"

	"github.com/goccl/goccl/primitive"
)

// ProxyServiceCreate makes a service for kernels of d.
func ProxyServiceCreate(ctx *primitive.Context, d *Device, fifoSize int) (*primitive.ProxyService, error) {
	if fifoSize < 0 || fifoSize > 1<<20 {
		return nil, fmt.Errorf("%w: a fifo of %d triggers", ErrInvalidArgument, fifoSize)
	}
	return primitive.NewProxyService(ctx, d.Device, primitive.ProxyOptions{FifoSize: fifoSize})
}
