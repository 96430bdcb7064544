package core

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl/device/cuda"
)

// notifyLimit bounds how long Notify follows work that does not end; f is called then.
const notifyLimit = 10 * time.Minute

// Notify calls f, on another goroutine, when the work that is on a stream now has ended.
func Notify(h Handle, raw uintptr, f func()) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	s, err := c.stream(raw)
	if err != nil {
		return err
	}
	if g, ok := s.(*cuda.Stream); ok {
		status, _, err := g.CaptureStatus()
		if err != nil {
			return err
		}
		if status != cuda.CaptureNone {
			return fmt.Errorf("%w: the stream is being captured", ErrInvalidUsage)
		}
	}
	e, err := s.Record()
	if err != nil {
		return err
	}
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), notifyLimit)
		defer stop()
		_ = e.Wait(ctx) // an error of the stream ends the work, too
		_ = e.Close()
		f()
	}()
	return nil
}
