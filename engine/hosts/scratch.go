package hosts

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
)

// The sizes of one of the two areas of scratch. They are also the bound of a chunk: GPUs have faster networks. Requests
// of the host device whose buffers are not larger than smallRoom have areas of that size, so that a communicator
// without larger ones does not take the memory. All ranks decide the same.
const (
	smallRoom = 128 << 10
	hostRoom  = 8 << 20
	gpuRoom   = 16 << 20
)

// scratch is the engine's memory for data on its way between local and remote ranks.
type scratch struct {
	dev          device.Device
	small, large device.Allocation // large: nil on the host device until it is needed
}

func (s *scratch) open(dev device.Device) (err error) {
	s.dev = dev
	if dev.ID().Kind != device.Host { // memory cannot be made while a stream is captured
		s.large, err = dev.Alloc(2 * gpuRoom)
		return err
	}
	s.small, err = dev.Alloc(2 * smallRoom)
	return err
}

// areas returns the two areas for a request whose buffers have the given number of bytes.
func (s *scratch) areas(bytes int64) (two [2]device.Ptr, room int64, err error) {
	at, room := s.large, int64(gpuRoom)
	if s.small != nil {
		at, room = s.small, smallRoom
		if bytes > smallRoom {
			if s.large == nil {
				if s.large, err = s.dev.Alloc(2 * hostRoom); err != nil {
					return two, 0, fmt.Errorf("%w: scratch for messages between hosts: %w", collective.ErrAborted, err)
				}
			}
			at, room = s.large, hostRoom
		}
	}
	return [2]device.Ptr{at.Ptr(), at.Ptr().Add(room)}, room, nil
}

func (s *scratch) close() error {
	return device.CloseAll(s.small, s.large)
}
