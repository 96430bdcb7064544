package core

import (
	"context"

	"github.com/goccl/goccl/device"
)

// ExecutorHook returns the address of the counter of a hook of a loaded plan.
func ExecutorHook(h Handle, id uint32) (uint64, error) {
	p, err := objectOf[*loaded](h)
	if err != nil {
		return 0, err
	}
	at, err := p.x.Hook(int(id))
	return uint64(at), wrong(err)
}

// ExecutorRaiseHook enqueues that the input that a hook guards is there for the first n launches.
func ExecutorRaiseHook(h Handle, id uint32, n uint64, stream uintptr) error {
	return onStream(h, stream, func(p *loaded, s device.Stream) error { return p.x.RaiseHook(s, int(id), n) })
}

// ExecutorAwaitHook enqueues a wait for the output that a hook guards, of the n-th launch.
func ExecutorAwaitHook(h Handle, id uint32, n uint64, stream uintptr) error {
	return onStream(h, stream, func(p *loaded, s device.Stream) error { return p.x.AwaitHook(s, int(id), n) })
}

func onStream(h Handle, stream uintptr, f func(p *loaded, s device.Stream) error) error {
	p, err := objectOf[*loaded](h)
	if err != nil {
		return err
	}
	s, err := p.e.dev.stream(stream)
	if err != nil {
		return err
	}
	return wrong(f(p, s))
}

// ExecutorRegister makes a buffer known to the executors of all ranks; collective.
func ExecutorRegister(h Handle, buffer uintptr) error {
	e, err := objectOf[*exec](h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultStep)
	defer cancel()
	return wrong(e.Register(ctx, device.Ptr(buffer)))
}
