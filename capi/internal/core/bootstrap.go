package core

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/job/bootstrap"
)

// Bootstrap is a bootstrap that C holds. Each rank of a process has one. job names the communicators made of it; ranks
// that were created by one call share the name.
type Bootstrap struct {
	bootstrap.Bootstrap
	job       string
	executors atomic.Uint32 // so far; rank 0's number tells the executors of a bootstrap apart
}

var bootstraps = table[*Bootstrap]{kind: kindBootstrap, name: "bootstrap"}

func addBootstrap(b bootstrap.Bootstrap, job string) (Handle, error) {
	return bootstraps.add(func(Handle) *Bootstrap { return &Bootstrap{Bootstrap: b, job: job} })
}

// joined makes a handle of what join gives with a timeout; job names the communicators made of it.
func joined(timeout time.Duration, job string, join func(context.Context, bootstrap.Option) (bootstrap.Bootstrap,
	error)) (Handle, error) {
	cfg, err := Config{Timeout: timeout}.withDefaults(defaultStep)
	if err != nil {
		return 0, err
	}
	b, err := join(context.Background(), bootstrap.WithTimeout(cfg.Timeout))
	if err != nil {
		return 0, err
	}
	return addBootstrap(b, job)
}

func BootstrapJoinID(id bootstrap.UniqueID, rank, size int, timeout time.Duration) (Handle, error) {
	return joined(timeout, string(id[:]), func(ctx context.Context, o bootstrap.Option) (bootstrap.Bootstrap, error) {
		return bootstrap.JoinID(ctx, id, rank, size, o)
	})
}

func BootstrapJoinAddress(address string, rank, size int, timeout time.Duration) (Handle, error) {
	return joined(timeout, "address "+address, func(ctx context.Context, o bootstrap.Option) (bootstrap.Bootstrap,
		error) {
		return bootstrap.JoinAddress(ctx, address, rank, size, o)
	})
}

func BootstrapJoinEnv(timeout time.Duration) (Handle, error) {
	return joined(timeout, nextJob(), func(ctx context.Context, o bootstrap.Option) (bootstrap.Bootstrap, error) {
		env, err := bootstrap.FromEnv()
		if err != nil {
			return nil, err
		}
		return bootstrap.Join(ctx, env, o)
	})
}

func BootstrapLocal(size int) ([]Handle, error) {
	if size < 1 || size > bootstrap.MaxWorldSize {
		return nil, fmt.Errorf("%w: %d ranks", ErrInvalidArgument, size)
	}
	job := nextJob()
	out := make([]Handle, size)
	for i, b := range bootstrap.NewLocalGroup(size) {
		h, err := addBootstrap(b, job)
		if err != nil {
			return nil, err
		}
		out[i] = h
	}
	return out, nil
}

func BootstrapInfo(b *Bootstrap) (rank, size, localRank, localSize int, err error) {
	return b.Rank(), b.WorldSize(), bootstrap.LocalRank(b), bootstrap.LocalSize(b), nil
}

func BootstrapAllGather(ctx context.Context, b *Bootstrap, mine []byte, all unsafe.Pointer) error {
	if len(mine) > bootstrap.MaxMessage {
		return fmt.Errorf("%w: %d bytes of each rank, at most %d", ErrInvalidArgument, len(mine), bootstrap.MaxMessage)
	}
	parts, err := b.AllGather(ctx, mine)
	if err != nil {
		return err
	}
	for r, p := range parts {
		if len(p) != len(mine) {
			return fmt.Errorf("%w: rank %d gave %d bytes, this rank %d", ErrInvalidArgument, r, len(p), len(mine))
		}
	}
	if joined := bytes.Join(parts, nil); len(joined) > 0 {
		copy(unsafe.Slice((*byte)(all), len(joined)), joined)
	}
	return nil
}

func BootstrapClose(h Handle) error {
	b, err := bootstraps.get(h)
	if err != nil {
		return err
	}
	if !bootstraps.remove(h) {
		return nil
	}
	return b.Close()
}
