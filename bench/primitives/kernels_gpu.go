package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goccl/goccl/bench/internal/ranks"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels/bench"
	"github.com/goccl/goccl/primitive"
)

// gpuKernels launches the measure_ kernels of kernels/bench, one at a time.
type gpuKernels struct {
	mesh   *mesh
	dev    *cuda.Device
	stream *cuda.Stream
	module *cuda.Module
	mem    device.Allocation
	used   int64
	args   cuda.Args
	sms    int
	optin  int // the largest dynamic shared memory of a block

	// In mem:
	status, ns, epoch device.Ptr
	small, large      []handles // by peer
	largeTable        device.Ptr
	flagTable         device.Ptr
	abort             device.Ptr
}

// handles are the device addresses of the channels to one peer.
type handles struct{ memory, port device.Ptr }

const gpuScratch = 64 << 10

func newGPUKernels(r *rank) (k *gpuKernels, err error) {
	dev, ok := r.dev.(*cuda.Device)
	if !ok {
		return nil, fmt.Errorf("no kernels for %v", r.dev.ID())
	}
	p := dev.Properties()
	k = &gpuKernels{mesh: r.mesh, dev: dev, sms: p.SMs, optin: p.SharedOptin}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	image, err := bench.Group.Image(p.Major, p.Minor)
	if err != nil {
		return nil, err
	}
	if k.module, err = dev.LoadModule(image); err != nil {
		return nil, err
	}
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	k.stream = s.(*cuda.Stream)
	if k.mem, err = dev.Alloc(gpuScratch); err != nil {
		return nil, err
	}
	if k.abort, err = k.mesh.ctx.AbortBlock(dev); err != nil {
		return nil, err
	}
	for _, at := range []*device.Ptr{&k.status, &k.ns, &k.epoch} {
		if *at, err = k.upload(make([]byte, 8)); err != nil {
			return nil, err
		}
	}
	n := len(k.mesh.peers)
	k.small, k.large = make([]handles, n), make([]handles, n)
	flags := binary.LittleEndian.AppendUint64(nil, 0)
	flags = append(flags, make([]byte, 8*(n-1))...)
	binary.LittleEndian.PutUint64(flags[8*k.mesh.me:], uint64(k.mesh.window.Data().Add(flagsOffset)))
	for q := range k.mesh.others() {
		e := &k.mesh.peers[q]
		if k.small[q], err = k.ends(&e.small); err != nil {
			return nil, err
		}
		window, err := e.window.Map(context.Background(), dev)
		if err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint64(flags[8*q:], uint64(window.Add(flagsOffset)))
	}
	k.flagTable, err = k.upload(flags)
	return k, err
}

// upload copies to the device's scratch memory, aligned to 256.
func (k *gpuKernels) upload(b []byte) (device.Ptr, error) {
	if k.used+int64(len(b)) > gpuScratch {
		return 0, fmt.Errorf("%d bytes more do not fit the scratch memory", len(b))
	}
	p := k.mem.Ptr().Add(k.used)
	k.used = (k.used + int64(len(b)) + 255) &^ 255
	return p, k.dev.CopyIn(p, b)
}

// view copies a handle to bytes for kernels. It is a copy, since the handle may lie beside Go pointers, which must not
// be passed to C.
func view[T any](v *T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
}

func (k *gpuKernels) ends(e *ends) (h handles, err error) {
	if h.memory, err = k.upload(view(&e.memory)); err != nil {
		return h, err
	}
	h.port, err = k.upload(view(&e.port))
	return h, err
}

func (k *gpuKernels) uploadLarge() (err error) {
	var table []byte
	for q := range k.mesh.peers {
		e := &k.mesh.peers[q].large
		table = append(table, view(&e.memory)...)
		if q == k.mesh.me {
			continue
		}
		if k.large[q], err = k.ends(e); err != nil {
			return err
		}
	}
	k.largeTable, err = k.upload(table)
	return err
}

func (k *gpuKernels) close() error {
	var errs []error
	if k.stream != nil {
		errs = append(errs, k.stream.Close())
	}
	if k.mem != nil {
		errs = append(errs, k.mem.Close())
	}
	if k.module != nil {
		errs = append(errs, k.module.Close())
	}
	return errors.Join(errs...)
}

// wait waits for the stream and turns a kernel's status into an error.
func (k *gpuKernels) wait(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), ranks.Wait)
	defer cancel()
	if err := k.stream.Synchronize(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, errors.Join(err, k.mesh.ctx.Err()))
	}
	v, err := k.word(k.status)
	if err != nil {
		return err
	}
	if s := primitive.Status(uint32(v)); s != primitive.StatusOK {
		return fmt.Errorf("%s: %w", name, errors.Join(s.Err(), k.mesh.ctx.Err()))
	}
	return nil
}

func (k *gpuKernels) word(p device.Ptr) (uint64, error) {
	var b [8]byte
	err := k.dev.CopyOut(b[:], p)
	return binary.LittleEndian.Uint64(b[:]), err
}

// pingPong launches a kernel that measures its own time.
func (k *gpuKernels) pingPong(name string, threads int, fill func(*cuda.Args)) (float64, error) {
	f, err := k.module.Function(name)
	if err != nil {
		return 0, err
	}
	if err := k.dev.CopyIn(k.status, make([]byte, 4)); err != nil {
		return 0, err
	}
	fill(k.args.Reset())
	if err := k.stream.Launch(f, cuda.Launch1D(1, threads, 0), &k.args); err != nil {
		return 0, err
	}
	if err := k.wait(name); err != nil {
		return 0, err
	}
	ns, err := k.word(k.ns)
	return float64(ns) / 1e9, err
}

func flag32(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func (k *gpuKernels) signal(peer int, first bool, iterations int, relaxed bool) (float64, error) {
	return k.pingPong("measure_signal", 1, func(a *cuda.Args) {
		a.Ptr(k.small[peer].memory).Uint32(flag32(first)).Uint32(uint32(iterations)).Uint32(flag32(relaxed)).Ptr(k.ns).Ptr(
			k.status)
	})
}

func (k *gpuKernels) packet(peer int, first bool, bytes int64, iterations int) (float64, error) {
	threads := int(max(32, min(512, (bytes/8+31)&^31)))
	return k.pingPong("measure_packet", threads, func(a *cuda.Args) {
		a.Ptr(k.small[peer].memory).Uint32(flag32(first)).Uint32(uint32(bytes)).Uint32(uint32(iterations)).Ptr(k.epoch).Ptr(
			k.ns).Ptr(k.status)
	})
}

func (k *gpuKernels) port(peer int, first bool, bytes int64, iterations int) (float64, error) {
	return k.pingPong("measure_port", 1, func(a *cuda.Args) {
		a.Ptr(k.small[peer].port).Uint32(flag32(first)).Uint64(uint64(bytes)).Uint32(uint32(iterations)).Ptr(k.ns).Ptr(
			k.status)
	})
}

// untimed launches come first: the first launch is slow, and while they run, ranks that began later catch up.
const untimed = 2

// timed launches a kernel times times between two events.
func (k *gpuKernels) timed(name string, s shape, times int, fill func(*cuda.Args)) (float64, error) {
	f, err := k.module.Function(name)
	if err != nil {
		return 0, err
	}
	var shared uint32
	if s.bulk() {
		shared = uint32(s.stages * (s.chunk + 8)) // BulkPipe::sharedBytes
		if err := f.SetMaxDynamicShared(int(shared)); err != nil {
			return 0, err
		}
	}
	if err := k.dev.CopyIn(k.status, make([]byte, 4)); err != nil {
		return 0, err
	}
	fill(k.args.Reset())
	launch := func(n int) error {
		for range n {
			if err := k.stream.Launch(f, cuda.Launch1D(s.blocks, s.threads, shared), &k.args); err != nil {
				return err
			}
		}
		return nil
	}
	if err := launch(untimed); err != nil {
		return 0, err
	}
	begin, err := k.stream.Record()
	if err != nil {
		return 0, err
	}
	defer func() { _ = begin.Close() }()
	if err := launch(times); err != nil {
		return 0, err
	}
	end, err := k.stream.Record()
	if err != nil {
		return 0, err
	}
	defer func() { _ = end.Close() }()
	if err := k.wait(fmt.Sprintf("%s (%v)", name, s)); err != nil {
		return 0, err
	}
	return end.Since(begin)
}

func (k *gpuKernels) put(peer int, bytes int64, s shape, times int) (float64, error) {
	if !s.bulk() {
		return k.timed("measure_put", s, times, func(a *cuda.Args) { a.Ptr(k.large[peer].memory).Uint64(uint64(bytes)) })
	}
	return k.timed("measure_put_bulk", s, times, func(a *cuda.Args) {
		a.Ptr(k.large[peer].memory).Uint64(uint64(bytes)).Uint32(uint32(s.chunk)).Uint32(uint32(s.stages)).Ptr(k.status)
	})
}

// portPut requests all puts in one launch, so that the proxy has the next request while one runs.
func (k *gpuKernels) portPut(peer int, bytes int64, times int) (float64, error) {
	return k.timed("measure_port_put", shape{blocks: 1, threads: 1}, 1, func(a *cuda.Args) {
		a.Ptr(k.large[peer].port).Uint64(uint64(bytes)).Uint32(uint32(times)).Ptr(k.status)
	})
}

func (k *gpuKernels) pushAll(bytes int64, s shape, times int) (float64, error) {
	me, n := uint32(k.mesh.me), uint32(len(k.mesh.peers))
	if !s.bulk() {
		return k.timed("measure_all_to_all", s, times,
			func(a *cuda.Args) { a.Ptr(k.largeTable).Uint32(me).Uint32(n).Uint64(uint64(bytes)) })
	}
	return k.timed("measure_all_to_all_bulk", s, times, func(a *cuda.Args) {
		a.Ptr(k.largeTable).Ptr(k.flagTable).Uint32(me).Uint32(n).Uint64(uint64(bytes)).Uint32(uint32(s.chunk)).Uint32(
			uint32(s.stages)).Ptr(k.abort).Ptr(k.status)
	})
}

// maxFlagBlocks is the number of blocks for whose flags (256 bytes each) the window has room.
const maxFlagBlocks = (windowBytes - flagsOffset) / 256

func (k *gpuKernels) putShapes() []shape {
	var all []shape
	for _, b := range []int{8, 16, 32, 64, k.sms} {
		all = append(all, shape{blocks: b, threads: 512})
	}
	return append(all, k.bulkShapes()...)
}

func (k *gpuKernels) pushShapes() []shape {
	all := k.putShapes()
	for i := range all {
		all[i].blocks = min(all[i].blocks, maxFlagBlocks)
	}
	return all
}

// bulkShapes are for compute capability 9.0 and later; all blocks of a launch must be resident at once.
func (k *gpuKernels) bulkShapes() []shape {
	if k.dev.Properties().Major < 9 {
		return nil
	}
	var all []shape
	for _, c := range []struct{ kib, stages int }{{32, 6}, {16, 12}, {8, 24}} {
		for _, b := range []int{4, 8, 16, 32, 64, k.sms} {
			if s := (shape{blocks: b, threads: 32, chunk: c.kib << 10, stages: c.stages}); s.stages*(s.chunk+8) <= k.optin {
				all = append(all, s)
			}
		}
	}
	return all
}
