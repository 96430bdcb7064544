package nvlink

import "context"

// Drain waits for the latest work that was enqueued or launched in a graph. All earlier work has ended by then, because
// each operation waits for the one before it. It does not wait for separate graphs. After an abort, Drain returns nil
// unless a kernel was cut short.
func (e *Engine) Drain(ctx context.Context) error {
	if err := e.launcher.Order.Wait(ctx); err != nil {
		return err
	}
	err := e.Err()
	if !e.Unfinished() {
		return nil
	}
	return err
}

// Leave implements collective.Engine. The communicator notifies the peers (SeesAborts).
func (e *Engine) Leave() { e.pieces.Leave() }
