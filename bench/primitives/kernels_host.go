package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/primitive"
)

// hostKernels calls the Go versions of the device functions, in this goroutine.
type hostKernels struct {
	mesh  *mesh
	epoch uint32
}

// pingPong times iterations of a step that returns a status.
func pingPong(name string, iterations int, step func() primitive.Status) (float64, error) {
	start := time.Now()
	for range iterations {
		if s := step(); s != primitive.StatusOK {
			return 0, fmt.Errorf("%s: %w", name, s.Err())
		}
	}
	return time.Since(start).Seconds(), nil
}

func (k *hostKernels) signal(peer int, first bool, iterations int, relaxed bool) (float64, error) {
	h := &k.mesh.peers[peer].small.memory
	send, receive := h.Signal, h.Wait
	if relaxed {
		send, receive = h.RelaxedSignal, h.RelaxedWait
	}
	return pingPong("signal", iterations, func() primitive.Status {
		if first {
			send()
		}
		s := receive()
		if !first && s == primitive.StatusOK {
			send()
		}
		return s
	})
}

func (k *hostKernels) packet(peer int, first bool, bytes int64, iterations int) (float64, error) {
	h := &k.mesh.peers[peer].small.memory
	return pingPong("packet", iterations, func() primitive.Status {
		k.epoch++
		at := int64(k.epoch&1) * primitive.LL16.BufferSize(bytes) // the peer may still read the packets of the previous round
		if first {
			h.PutPackets(primitive.LL16, at, 0, bytes, 0, 1, k.epoch)
		}
		s := h.UnpackPackets(primitive.LL16, at, 0, bytes, 0, 1, k.epoch)
		if !first && s == primitive.StatusOK {
			h.PutPackets(primitive.LL16, at, 0, bytes, 0, 1, k.epoch)
		}
		return s
	})
}

func (k *hostKernels) port(peer int, first bool, bytes int64, iterations int) (float64, error) {
	h := &k.mesh.peers[peer].small.port
	return pingPong("port channel", iterations, func() primitive.Status {
		s := primitive.StatusOK
		if first {
			s = h.PutWithSignal(0, 0, uint64(bytes))
		}
		if s == primitive.StatusOK {
			s = h.Wait()
		}
		if !first && s == primitive.StatusOK {
			s = h.PutWithSignal(0, 0, uint64(bytes))
		}
		return s
	})
}

func (k *hostKernels) uploadLarge() error { return nil }

func (k *hostKernels) put(peer int, bytes int64, s shape, times int) (float64, error) {
	h := &k.mesh.peers[peer].large.memory
	step := func() primitive.Status {
		var threads sync.WaitGroup
		for t := 1; t < s.threads; t++ {
			threads.Go(func() { h.Put(0, 0, bytes, t, s.threads) })
		}
		h.Put(0, 0, bytes, 0, s.threads)
		threads.Wait()
		return primitive.StatusOK
	}
	step()
	return pingPong("put", times, step)
}

func (k *hostKernels) portPut(peer int, bytes int64, times int) (float64, error) {
	h := &k.mesh.peers[peer].large.port
	start := time.Now()
	for range times {
		if s := h.Put(0, 0, uint64(bytes)); s != primitive.StatusOK {
			return 0, fmt.Errorf("port channel put: %w", s.Err())
		}
	}
	if s := h.Flush(); s != primitive.StatusOK {
		return 0, fmt.Errorf("port channel flush: %w", s.Err())
	}
	return time.Since(start).Seconds(), nil
}

func (k *hostKernels) pushAll(bytes int64, _ shape, times int) (float64, error) {
	step := func() primitive.Status {
		for p := range k.mesh.others() {
			k.mesh.peers[p].large.memory.Put(int64(k.mesh.me)*bytes, int64(p)*bytes, bytes, 0, 1)
		}
		return primitive.StatusOK
	}
	step()
	return pingPong("push", times, step)
}

func (k *hostKernels) putShapes() []shape {
	return []shape{{blocks: 1, threads: 1}, {blocks: 1, threads: 2}}
}
func (k *hostKernels) pushShapes() []shape { return []shape{{blocks: 1, threads: 1}} }
func (k *hostKernels) close() error        { return nil }
