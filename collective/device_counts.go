package collective

import (
	"encoding/binary"
	"fmt"

	"github.com/goccl/goccl/device"
)

// ReadDeviceCounts fills the slices of an all_to_all_v_device of n ranks with the current counts, for devices whose
// memory the processor reads; it runs on the request's stream. list has room for 4·n numbers. Negative counts become 0,
// as on GPUs. It refuses parts outside the buffers; for a buffer of unknown length, parts larger than any memory.
func (r *Request) ReadDeviceCounts(n int, list []int64) error {
	d, size := &r.DeviceCounts, r.Type.Size()
	for i, from := range []struct {
		name   string
		at     device.Ptr
		to     *[]int64
		buffer device.Ptr
		length int64
	}{
		{"SendCounts", d.SendCounts, &r.SendCounts, r.Send, d.SendElements},
		{"RecvCounts", d.RecvCounts, &r.RecvCounts, r.Recv, d.RecvElements},
		{"SendDispls", d.SendDispls, &r.SendDispls, r.Send, d.SendElements},
		{"RecvDispls", d.RecvDispls, &r.RecvDispls, r.Recv, d.RecvElements},
	} {
		length := mostBytes / size
		switch {
		case from.buffer == 0:
			length = 0
		case from.length > 0:
			length = min(length, from.length)
		}
		part := list[i*n : (i+1)*n]
		*from.to = part
		b := device.Bytes(from.at, 8*int64(n))
		for p := range part {
			x, room := int64(binary.NativeEndian.Uint64(b[8*p:])), length
			if i < 2 {
				x = max(0, x)
			} else if count := list[(i-2)*n+p]; count > 0 {
				room -= count
			} else {
				x = 0 // not used
			}
			if x < 0 || x > room {
				return fmt.Errorf("%w: DeviceCounts.%s[%d] is %d when the operation runs: want 0 to %d, "+
					"the buffer has %d elements", ErrInvalidArgument, from.name, p, x, room, length)
			}
			part[p] = x
		}
	}
	return nil
}

// mostBytes is larger than any buffer.
const mostBytes = 1 << 46
