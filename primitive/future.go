package primitive

import "context"

// Future is the result of a call that runs in the background. Futures complete in any order. Every future completes:
// with its value, or with an error when its deadline passes, its peer dies or its Context is aborted.
type Future[T any] struct {
	done chan struct{}
	v    T
	err  error
}

func newFuture[T any]() *Future[T] { return &Future[T]{done: make(chan struct{})} }

// complete is called once.
func (f *Future[T]) complete(v T, err error) {
	f.v, f.err = v, err
	close(f.done)
}

// Done returns a channel that is closed when the future is complete.
func (f *Future[T]) Done() <-chan struct{} { return f.done }

// Get waits for the value. It may be called repeatedly and from several goroutines.
func (f *Future[T]) Get(ctx context.Context) (T, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		select {
		case <-f.done:
		default:
			return *new(T), failure("future", NoRank, NoRank, asCause(ctx.Err()))
		}
	}
	return f.v, f.err
}

func (f *Future[T]) wait(ctx context.Context) error {
	_, err := f.Get(ctx)
	return err
}
