package ib

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/wire"
)

// region is registered memory.
type region struct {
	port *Port
	dev  device.ID // of memory that needs a flush; the zero value for host memory
	addr uint64
	size int64
	mr   verbs.MR

	once sync.Once
	err  error
}

// remoteRegion is a peer's region.
type remoteRegion struct {
	addr uint64
	size int64
	rkey uint32
}

func (r *remoteRegion) Size() int64 { return r.size }

// access is what a region allows. Writes of an adapter may pass each other on PCIe: a completion passes none.
const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRelaxed

// exporter is a device whose memory can be exported as a DMA-BUF, in which p is at offset. The caller closes fd.
type exporter interface {
	DMABuf(p device.Ptr, size int64) (fd int, offset int64, err error)
}

// Register registers host memory, or GPU memory by DMA-BUF, or else by address where nvidia-peermem is loaded.
func (p *Port) Register(dev device.Device, ptr device.Ptr, size int64) (transport.Region, error) {
	if size <= 0 {
		return nil, fmt.Errorf("ib: %s: register %d bytes: the size must be positive", p.nic, size)
	}
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	r := &region{port: p, addr: uint64(ptr), size: size}
	if dev == nil || dev.ID().Kind == device.Host {
		if r.mr, err = p.pd.Register(uintptr(ptr), size, access); err != nil {
			return nil, fmt.Errorf("ib: %s: register %d bytes at %#x: %w%s", p.nic, size, ptr, err, lockedHint(err))
		}
	} else {
		r.dev = dev.ID()
		if r.mr, err = p.registerGPU(dev, ptr, size); err != nil {
			return nil, err
		}
	}
	if err := p.keep(r); err != nil {
		return nil, errors.Join(err, r.mr.Close())
	}
	return r, nil
}

func lockedHint(err error) string {
	if errors.Is(err, syscall.ENOMEM) {
		return ": raise the limit of locked memory (ulimit -l)"
	}
	return ""
}

func (p *Port) registerGPU(dev device.Device, ptr device.Ptr, size int64) (verbs.MR, error) {
	why := fmt.Errorf("%v exports no DMA-BUF", dev.ID())
	if e, ok := dev.(exporter); ok {
		fd, offset, err := e.DMABuf(ptr, size)
		if err == nil {
			var mr verbs.MR
			mr, err = p.pd.RegisterDMABuf(fd, offset, size, uintptr(ptr), access&^verbs.AccessRelaxed)
			_ = syscall.Close(fd)
			if err == nil {
				return mr, nil
			}
		}
		why = err
	}
	mr, err := p.pd.Register(uintptr(ptr), size, access)
	if err == nil {
		return mr, nil
	}
	return verbs.MR{}, fmt.Errorf("ib: %s: %w: %d bytes at %#x of %v: by DMA-BUF: %w; by nvidia-peermem: %w: load that "+
		"module, or use a driver with open kernel modules", p.nic, transport.ErrNotReachable, size, ptr, dev.ID(), why, err)
}

const (
	kindKey     = 21
	kindAddress = 22
	keyVersion  = 1
)

// Key names the region for peers.
func (r *region) Key() []byte {
	var w wire.Writer
	w.U64(r.addr)
	w.U64(uint64(r.size))
	w.U32(r.mr.RKey)
	return w.Seal(kindKey, keyVersion)
}

// Import reads a peer's Key.
func (p *Peer) Import(key []byte) (transport.RemoteRegion, error) {
	rd := wire.Open(key, kindKey, keyVersion)
	r := &remoteRegion{addr: rd.U64(), size: int64(rd.U64()), rkey: rd.U32()}
	if r.size <= 0 {
		rd.Fail("size %d", r.size)
	}
	if err := rd.Done(); err != nil {
		return nil, fmt.Errorf("ib: %s: the key of a region: %w", p.port.nic, err)
	}
	return r, nil
}

// Close ends the registration. Puts from it or to it that are not complete fail.
func (r *region) Close() error {
	r.once.Do(func() {
		r.port.drop(r)
		r.err = r.mr.Close()
	})
	return r.err
}
