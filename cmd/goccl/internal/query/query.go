// Package query bounds questions that nothing else ends: to drivers, plugins, and searches that take no context.
package query

import "context"

// Ask runs a query that may hang. Its goroutine outlives ctx if the query does.
func Ask[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	c := make(chan answer, 1)
	go func() {
		v, err := f()
		c <- answer{v, err}
	}()
	select {
	case a := <-c:
		return a.v, a.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
