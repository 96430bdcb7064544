package nvlink

import "context"

// Drain waits for the latest work that was enqueued outside a capture, which is the last to end since each waits for the one before. Abort
// ends it.
func (e *Engine) Drain(ctx context.Context) error {
	if !e.busy {
		return e.Err()
	}
	if err := e.done.Wait(ctx); err != nil {
		return err
	}
	return e.Err()
}
