package nvlink

import (
	"errors"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/kernels"
)

// Numbers of a launch by slices (kernels/collective/slices.cuh).
const (
	sliceDepth    = 4        // slots of a FIFO: more than the lag of the kernels
	sliceMost     = 32 << 10 // bytes of a piece, at most
	sliceFewest   = 4        // turns that a long slice is divided into, so that steps overlap
	sliceChannel  = 8 << 10  // bytes of a slice that justify a channel
	sliceRegion   = streamChannels * streamRingBytes
	sliceUnbulked = 64 // channels without bulk copies
)

// sliceArgs mirrors SliceArgs of kernels/collective/slices.cuh.
type sliceArgs struct {
	collectiveArgs
	mirror, slice                  uint64
	owners, sources, takers, keeps uint32
}

// sliceTable holds the kernels, in a module that is loaded when a table or GOCCL_ALGO names slices. Those of moves are
// at NumTypes.
type sliceTable struct {
	loaded  bool
	workers [datatype.NumTypes + 1]*cuda.Function // any operator and address
	bulk    [datatype.NumTypes + 1]*cuda.Function // addresses and strides that are multiples of 16
	sum     [datatype.NumTypes + 1]*cuda.Function // the same for sum and avg; or bulk
	stream  *cuda.Function
}

func sliceName(t int) string {
	if t == int(datatype.NumTypes) {
		return "move"
	}
	return typeNames[t]
}

// loadSlices loads the kernels if they are not loaded.
func (e *Engine) loadSlices() error {
	k := &e.slices
	if k.loaded {
		return nil
	}
	m, err := launcher.Load(e.dev, "slices")
	if err != nil {
		return err
	}
	k.loaded = true
	exists := kernels.Names("slices")
	// Setting an attribute loads a kernel onto the device now, as kernelTable.load does.
	find := func(name string, shared int) (f *cuda.Function) {
		if name = kernels.Entry(name); err != nil || !slices.Contains(exists, name) {
			return nil
		}
		if f, err = function(m, name); err == nil && e.bulk && shared > 0 {
			err = errors.Join(f.SetSharedCarveout(100), f.SetMaxDynamicShared(shared))
		}
		return f
	}
	for t := range k.bulk {
		name := sliceName(t)
		k.workers[t] = find("slices_"+name, 0)
		k.bulk[t] = find("slices_bulk_"+name, bulkShared)
		if k.sum[t] = find("slices_bulk_"+name+"_sum", bulkShared); k.sum[t] == nil {
			k.sum[t] = k.bulk[t]
		}
	}
	k.stream = find("stream_bulk", streamBulkShared)
	return err
}

// loadChosen loads the kernels if the table may choose them, or if messages of bulk copies may be asked for.
func (e *Engine) loadChosen() error {
	if e.size == 1 || !e.bulk && !e.table.chooses(sliced) {
		return nil
	}
	return e.loadSlices()
}

// chooses reports whether some row names protocol p.
func (s *selection) chooses(p protocol) bool {
	for c := range s.rows {
		for m := range s.rows[c] {
			for w := range s.rows[c][m] {
				if slices.ContainsFunc(s.rows[c][m][w], func(x choice) bool { return x.protocol == p }) {
					return true
				}
			}
		}
	}
	return false
}

// packets is the packet variant that replaces slices if a communicator has one rank.
func (s *selection) packets(c collective.Collective) variant {
	if s.noLines {
		return variant{twoShot: c == collective.AllReduce, protocol: ll, threads: 512}
	}
	return variant{twoShot: c == collective.AllReduce || c == collective.Reduce ||
		c == collective.Broadcast, protocol: ll128, threads: 512}
}

// bySlices runs an all-reduce, reduce-scatter, all-gather, reduce or broadcast. Sets of ranks have a bit for each; a
// slice is that of an owner.
func (e *Engine) bySlices(r *collective.Request, s *cuda.Stream, v variant) error {
	a, bytes, n := e.sliced, r.Bytes(), int64(e.size)
	a.operands(r)
	all, root := uint32(1)<<e.size-1, uint32(1)<<max(r.Root, 0)
	a.owners, a.sources, a.takers, a.keeps, a.mirror = all, all, all, 1, 0
	divide := func(owners int64) {
		slice := uint64(sliceOf(bytes, owners))
		a.bytes, a.slice, a.sendStride, a.recvStride = uint64(bytes), slice, slice, slice
	}
	t := int(r.Type)
	switch r.Collective {
	case collective.AllReduce:
		divide(n)
	case collective.Reduce:
		divide(n - 1)
		a.owners, a.takers, a.keeps = all&^root, root, 0
		if e.rank != r.Root {
			a.recv = 0 // ignored; must not break the alignment
		}
	case collective.Broadcast:
		divide(n - 1)
		a.owners, a.sources, a.takers = all&^root, root, all&^root
		if e.rank != r.Root {
			a.send = a.recv // ignored; must not break the alignment
		} else if a.send != a.recv {
			a.mirror = a.recv
		}
		t = int(datatype.NumTypes)
	default:
		a.bytes, a.slice = uint64(bytes*n), uint64(bytes)
		if r.Collective == collective.ReduceScatter {
			a.sendStride, a.recvStride, a.takers = a.slice, 0, 0
			break
		}
		a.sendStride, a.recvStride, a.sources = 0, a.slice, 0
		a.keeps = uint32(btoi(r.Send != r.Recv.Add(int64(e.rank)*bytes)))
		t = int(datatype.NumTypes)
	}
	return e.launchSlices(r, s, t, v)
}

// launchSlices chooses the kernel by this rank's addresses: all kernels speak one protocol.
func (e *Engine) launchSlices(r *collective.Request, s *cuda.Stream, t int, v variant) error {
	a, k := e.sliced, &e.slices
	f, threads, shared := k.workers[t], sliceWorkers+pipeSignalers, uint32(0)
	if e.bulk && a.aligned() && r.Op != datatype.PreMulSum {
		f, threads, shared = k.bulk[t], bulkThreads, bulkShared
		if r.Op == datatype.Sum || r.Op == datatype.Avg {
			f = k.sum[t]
		}
	}
	if f == nil {
		return missing("slices_" + sliceName(t))
	}
	channels := e.call.channels(int64(a.slice), e.sliceChannels(v), e.sliceBlocks)
	a.slotBytes = slotsOf(int64(a.slice), channels, int64(e.size))
	cfg := cuda.Launch1D(int(channels), threads, shared)
	return s.LaunchInOrder(f, &cfg, launcher.Raw(a), e.launcher.Order)
}

// sliceChannels is the number of blocks that a variant wants. Without bulk copies a block moves less.
func (e *Engine) sliceChannels(v variant) int64 {
	if e.bulk {
		return int64(v.channels())
	}
	return max(int64(v.channels()), sliceUnbulked)
}

// slotsOf lays out the FIFOs of a launch for the kernels: slot sizes are multiples of 128 bytes, so the low bits hold
// the number of slots. All ranks lay them out alike.
func slotsOf(slice, channels, ranks int64) uint32 {
	most := min(sliceMost, sliceRegion/(2*(ranks-1)*channels*sliceDepth)) &^ 127
	piece := (slice/(channels*sliceFewest) + 127) &^ 127
	return uint32(min(most, max(piece, 1024)) | sliceDepth)
}

// aligned reports whether all addresses and strides of the next launch are multiples of 16 bytes. The data on the links
// does not depend on it, so ranks may differ.
func (a *collectiveArgs) aligned() bool { return (a.send|a.recv|a.sendStride|a.recvStride)&15 == 0 }
