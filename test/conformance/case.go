package conformance

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
)

// Case is one collective call by all ranks.
type Case struct {
	Collective collective.Collective
	Type       datatype.Type
	Op         datatype.Op
	Count      int64
	Root       int
	InPlace    bool
	// Shift moves every buffer by this number of elements from its natural alignment.
	Shift int64
	Seed  uint64
	// Skip begins the data further on in the sequence of the seed.
	Skip int64
	// Repeat runs the call this many more times on the same buffers before the check of the result (not in place).
	Repeat int
	// Known gives an all_to_all_v the counts of all ranks.
	Known bool
	// Near makes elements of types with infinities positive and near the type's limit.
	Near bool
	// Exact makes the sums of elements depend on the order of terms, and results must have the bits of the reference:
	// floats only.
	Exact bool
}

// String names the case for t.Run.
func (c Case) String() string {
	s := fmt.Sprintf("%v/%v/%d", c.Collective, c.Type, c.Count)
	switch c.Collective {
	case collective.AllReduce, collective.Reduce, collective.ReduceScatter:
		s += "/" + c.Op.String()
	}
	if c.InPlace {
		s += "/in-place"
	}
	if c.Known {
		s += "/known"
	}
	if c.Near {
		s += "/near"
	}
	if c.Exact {
		s += "/exact"
	}
	if c.Shift != 0 {
		s += fmt.Sprintf("/shift%d", c.Shift)
	}
	return s
}

const (
	guard  = 256
	poison = 0xA5
	// Timeout bounds one case.
	Timeout = 60 * time.Second
)

// scalar is PreMulSum's factor on a rank. Ranks have different factors, and all products and sums of the test data are
// exact, unless the case is Exact: then products round.
func (c Case) scalar(rank int) [8]byte {
	if c.Exact {
		return hostreduce.ScalarOf(c.Type, 0.7-0.9*float64(rank%5))
	}
	switch t := c.Type; t {
	case datatype.Float16, datatype.Bfloat16, datatype.Float32, datatype.Float64, datatype.Float8E4M3, datatype.Float8E5M2:
		return hostreduce.ScalarOf(t, 0.5/float64(1+rank%2))
	}
	return hostreduce.ScalarOf(c.Type, float64(2+rank%2))
}

// sizes returns the number of elements in send and recv for rank r of n; 0: the rank has no such buffer.
func (c Case) sizes(r, n int) (send, recv int64) {
	all := c.Count * int64(n)
	root := r == c.Root
	pick := func(cond bool, v int64) int64 {
		if cond {
			return v
		}
		return 0
	}
	switch c.Collective {
	case collective.AllReduce:
		return c.Count, c.Count
	case collective.Reduce:
		return c.Count, pick(root, c.Count)
	case collective.Broadcast:
		return pick(root, c.Count), c.Count
	case collective.AllGather:
		return c.Count, all
	case collective.Gather:
		return c.Count, pick(root, all)
	case collective.ReduceScatter:
		return all, c.Count
	case collective.Scatter:
		return pick(root, all), c.Count
	case collective.AllToAll:
		return all, all
	case collective.AllToAllV, collective.AllToAllVDevice:
		for p := range n {
			send += vCount(c.Count, r, p)
			recv += vCount(c.Count, p, r)
		}
		return send, recv
	case collective.Send: // a ring: every rank sends to the next
		return c.Count, c.Count
	}
	return 0, 0
}

// vCount is the number of elements that rank s sends to rank d in an all-to-all-v: uneven, with zeros.
func vCount(count int64, s, d int) int64 {
	return count * int64((s*3+d*5)%4) / 3
}

// expect returns the expected contents of recv on rank r, given the inputs of all ranks.
func (c Case) expect(r, n int, inputs [][]byte) ([]byte, error) {
	size := c.Type.Size()
	_, recv := c.sizes(r, n)
	out := make([]byte, recv*size)
	if recv == 0 {
		return out, nil
	}
	part := func(p int, from, count int64) []byte { return inputs[p][from*size : (from+count)*size] }
	fold := func(from, count int64) error {
		srcs := make([][]byte, n)
		for p := range n {
			srcs[p] = part(p, from, count)
		}
		op := c.Op
		for p := 0; c.Op == datatype.PreMulSum && p < n; p++ {
			scaled := make([]byte, len(srcs[p]))
			if err := hostreduce.Scale(scaled, srcs[p], c.Type, c.scalar(p)); err != nil {
				return err
			}
			op, srcs[p] = datatype.Sum, scaled
		}
		if c.Exact {
			return inRankOrder(out, srcs, c.Type, op)
		}
		return hostreduce.Reduce(out, srcs, c.Type, op, [8]byte{}, n)
	}
	switch c.Collective {
	case collective.AllReduce, collective.Reduce:
		return out, fold(0, c.Count)
	case collective.ReduceScatter:
		return out, fold(int64(r)*c.Count, c.Count)
	case collective.Broadcast:
		copy(out, inputs[c.Root])
	case collective.AllGather, collective.Gather:
		for p := range n {
			copy(out[int64(p)*c.Count*size:], inputs[p])
		}
	case collective.Scatter:
		copy(out, part(c.Root, int64(r)*c.Count, c.Count))
	case collective.AllToAll:
		for p := range n {
			copy(out[int64(p)*c.Count*size:], part(p, int64(r)*c.Count, c.Count))
		}
	case collective.AllToAllV, collective.AllToAllVDevice:
		at := int64(0)
		for p := range n {
			from := int64(0)
			for d := range r {
				from += vCount(c.Count, p, d)
			}
			k := vCount(c.Count, p, r)
			copy(out[at*size:], part(p, from, k))
			at += k
		}
	case collective.Send:
		copy(out, inputs[(r+n-1)%n])
	}
	return out, nil
}

// Inputs returns the send data of n ranks. It depends only on the seed, so it is the same in every process.
func (c Case) Inputs(n int) [][]byte {
	inputs := make([][]byte, n)
	for r := range n {
		send, _ := c.sizes(r, n)
		inputs[r] = make([]byte, (c.Skip+send)*c.Type.Size())
		hostreduce.Fill(inputs[r], c.Type, c.Seed, r)
		if c.Near {
			raise(inputs[r], c.Type)
		}
		if c.Exact {
			roughen(inputs[r], c.Type, c.Seed+uint64(r))
		}
		inputs[r] = inputs[r][c.Skip*c.Type.Size():]
	}
	return inputs
}

// raise multiplies magnitudes from 0.5 to 2 by the power of two that takes them to the limit of the type.
func raise(b []byte, t datatype.Type) {
	size := int(t.Size())
	for i := 0; i < len(b); i += size {
		switch e := b[i:]; t {
		case datatype.Float16:
			binary.LittleEndian.PutUint16(e, binary.LittleEndian.Uint16(e)&0x7fff+15<<10)
		case datatype.Bfloat16:
			binary.LittleEndian.PutUint16(e, binary.LittleEndian.Uint16(e)&0x7fff+127<<7)
		case datatype.Float32:
			binary.LittleEndian.PutUint32(e, binary.LittleEndian.Uint32(e)&0x7fffffff+127<<23)
		case datatype.Float64:
			binary.LittleEndian.PutUint64(e, binary.LittleEndian.Uint64(e)&^(1<<63)+1023<<52)
		}
	}
}

// Averages returns averages of elements near the limits of types, for every collective that reduces.
func Averages(n int, sizes ...int64) (list []Case) {
	for _, coll := range Collectives {
		for _, t := range []datatype.Type{datatype.Float16, datatype.Bfloat16, datatype.Float32, datatype.Float64} {
			for k, size := range sizes {
				if Reduces(coll) {
					list = append(list, Case{Collective: coll, Type: t, Op: datatype.Avg, Count: size, Root: k % n,
						InPlace: k%2 == 1, Near: true})
				}
			}
		}
	}
	return list
}

// inPlaceOffset returns the offset of send in recv (or, negative, of recv in send, minus one), in bytes; nil when not
// in place.
func (c Case) inPlaceOffset(r, n int, size int64) *int64 {
	if !c.InPlace {
		return nil
	}
	var off int64
	switch c.Collective {
	case collective.AllGather:
		off = int64(r) * c.Count * size
	case collective.ReduceScatter:
		off = -1 - int64(r)*c.Count*size
	case collective.Gather:
		if r != c.Root {
			return nil
		}
		off = int64(r) * c.Count * size
	case collective.Scatter:
		if r != c.Root {
			return nil
		}
		off = -1 - int64(r)*c.Count*size
	case collective.Reduce, collective.Broadcast:
		if r != c.Root {
			return nil
		}
	case collective.AllToAll, collective.AllToAllV, collective.AllToAllVDevice, collective.Send:
		return nil
	}
	return &off
}

func (c Case) requests(r, n int, send, recv device.Ptr, s device.Stream) []collective.Request {
	req := collective.Request{Collective: c.Collective, Send: send, Recv: recv, Count: c.Count, Type: c.Type, Op: c.Op,
		Root: c.Root, Stream: s, Scalar: c.scalar(r)}
	switch c.Collective {
	case collective.AllToAllV, collective.AllToAllVDevice:
		var so, ro int64
		for p := range n {
			req.SendCounts = append(req.SendCounts, vCount(c.Count, r, p))
			req.SendDispls = append(req.SendDispls, so)
			so += vCount(c.Count, r, p)
			req.RecvCounts = append(req.RecvCounts, vCount(c.Count, p, r))
			req.RecvDispls = append(req.RecvDispls, ro)
			ro += vCount(c.Count, p, r)
		}
		if c.Collective == collective.AllToAllV && c.Known {
			for s := range n {
				for d := range n {
					req.AllCounts = append(req.AllCounts, vCount(c.Count, s, d))
				}
			}
		}
	case collective.Send:
		out, in := req, req
		out.Peer = (r + 1) % n
		in.Collective, in.Peer = collective.Recv, (r+n-1)%n
		if r%2 == 0 {
			return []collective.Request{in, out}
		}
		return []collective.Request{out, in}
	}
	return []collective.Request{req}
}
