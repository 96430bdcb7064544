package nvlink

import "context"

// Drain waits for the latest work that was enqueued outside a capture, which is the last to end since each waits for the one before. Abort
// ends it.
func (e *Engine) Drain(ctx context.Context) error {
	if err := e.order.Wait(ctx); err != nil {
		return err
	}
	return e.Err()
}
