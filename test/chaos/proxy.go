package chaos

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

// slice is what each rank puts to each peer.
const slice = 1 << 16

// proxy puts to every peer, over TCP, by the proxy's thread, and checks what the peers put.
func (r *rank) proxy() (err error) {
	mem, err := r.dev.Alloc(slice * int64(r.Ranks))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mem.Close()) }()
	ctx := primitive.NewContext(primitive.WithSpinLimit(r.Hold))
	defer func() { err = errors.Join(err, ctx.Close()) }()
	comm := primitive.NewCommunicator(r.boot, ctx)
	defer func() { err = errors.Join(err, comm.Close()) }()
	service, err := primitive.NewProxyService(ctx, r.dev, primitive.ProxyOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Stop()) }()
	handles, err := r.mesh(comm, service, mem)
	if err != nil {
		return err
	}
	if err := service.Start(); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := r.again(i, 30); err != nil {
			return fine(err)
		}
		if err := r.exchange(ctx, handles, device.Bytes(mem.Ptr(), slice*int64(r.Ranks)), i); err != nil {
			return comm.Culprit(context.Background(), err)
		}
	}
}

// mesh makes a port channel to each peer; this rank's own entry is zero.
func (r *rank) mesh(comm *primitive.Communicator, service *primitive.ProxyService, mem device.Allocation) (
	[]primitive.PortChannelHandle, error,
) {
	bg, n := context.Background(), r.Ranks
	own, err := comm.Context().RegisterMemory(r.dev, mem.Ptr(), slice*int64(n), primitive.Flags(primitive.Ethernet))
	if err != nil {
		return nil, err
	}
	src, err := service.AddMemory(own)
	if err != nil {
		return nil, err
	}
	conns := make([]*primitive.Future[*primitive.Connection], n)
	remotes := make([]*primitive.Future[*primitive.RegisteredMemory], n)
	for p := range n {
		if p == r.Rank {
			continue
		}
		conns[p] = comm.Connect(primitive.EndpointConfig{Transport: primitive.Ethernet, Device: r.dev}, p, 0)
		comm.SendMemory(own, p, 0)
		remotes[p] = comm.RecvMemory(p, 0)
	}
	semaphores := make([]primitive.SemaphoreID, n)
	for p := range n {
		if p == r.Rank {
			continue
		}
		c, err := conns[p].Get(bg)
		if err != nil {
			return nil, err
		}
		if semaphores[p], err = service.BuildAndAddSemaphore(comm, c); err != nil {
			return nil, err
		}
	}
	handles := make([]primitive.PortChannelHandle, n)
	for p := range n {
		if p == r.Rank {
			continue
		}
		m, err := remotes[p].Get(bg)
		if err != nil {
			return nil, err
		}
		dst, err := service.AddMemory(m)
		if err != nil {
			return nil, err
		}
		c, err := service.PortChannel(semaphores[p], dst, src)
		if err != nil {
			return nil, err
		}
		handles[p] = c.DeviceHandle()
	}
	return handles, nil
}

// exchange is one round: to each peer, from each peer, a check, and a barrier by signals alone, so that no rank
// overwrites what a peer still checks.
func (r *rank) exchange(ctx *primitive.Context, handles []primitive.PortChannelHandle, buf []byte, round int) error {
	mine := buf[r.Rank*slice:][:slice]
	for i := range mine {
		mine[i] = byte(round*31 + r.Rank*7 + i)
	}
	steps := []func(p int) primitive.Status{
		func(p int) primitive.Status {
			return handles[p].PutWithSignalAndFlush(uint64(r.Rank*slice), uint64(r.Rank*slice), slice)
		},
		func(p int) primitive.Status { return handles[p].Wait() },
		func(p int) primitive.Status {
			for i, v := range buf[p*slice:][:slice] {
				if v != byte(round*31+p*7+i) {
					return wrongData
				}
			}
			return handles[p].Signal()
		},
		func(p int) primitive.Status { return handles[p].Wait() },
	}
	for _, step := range steps {
		for p := range handles {
			if p == r.Rank {
				continue
			}
			switch s := step(p); {
			case s == wrongData:
				return fmt.Errorf("%w: of rank %d in round %d", errWrong, p, round)
			case s != primitive.StatusOK:
				return ctx.Err()
			}
		}
	}
	return nil
}

// wrongData is no status of goccl's.
const wrongData = primitive.Status(0xbad)
