package nvlink

import "context"

// Drain waits for the latest work that was enqueued or launched in a graph. All earlier work has ended by then, because each operation waits for the one
// before it. It does not wait for separate graphs. Abort ends the work, and the error is nil unless a kernel has given up.
func (e *Engine) Drain(ctx context.Context) error {
	if err := e.order.Wait(ctx); err != nil {
		return err
	}
	err := e.Err()
	if !e.Unfinished() {
		return nil
	}
	return err
}

// Leave implements algorithm.Engine. Running kernels see nothing of it: peers learn by a notice (algorithm.Unaware).
func (e *Engine) Leave() {}
