package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"
)

// Process is what one process has recorded.
type Process struct {
	Host string
	// Profiler is the version of the interface by which NCCL calls the plugin.
	Profiler int
	Comms    []Comm   // the open ones
	Names    []string // by number: Text
}

// Comm is a communicator.
type Comm struct {
	ID                         uint64
	Name                       string
	Rank, Size, Nodes          int
	Ops, Collectives, Messages uint64
	// Channels counts ended kernel events. With 0 NCCL gives none, and the end of operations is not known.
	Channels uint64
	Sums     []Sum
	// Recent holds the last operations, oldest first, and Proxies the last transfers.
	Recent  []Op
	Proxies []Proxy
}

// Text returns the name of a number.
func (p *Process) Text(n uint8) string {
	if int(n) < len(p.Names) {
		return p.Names[n]
	}
	return "?"
}

var errNoRecords = errors.New("these are not records of libgoccl-profiler.so")

// Read decodes the records of one process. r is untrusted: it may change while it is read, and hold anything.
func Read(r io.ReaderAt) (*Process, error) {
	var h rawHeader
	if err := decode(r, 0, &h); err != nil {
		return nil, err
	}
	size := int(unsafe.Sizeof(rawComm{}))
	switch {
	case h.Magic != magic:
		return nil, errNoRecords
	case h.Version != version || int(h.CommBytes) != size:
		return nil, fmt.Errorf("records of version %d, this goccl reads %d: use goccl and libgoccl-profiler.so of one "+
			"release", h.Version, version)
	case h.Comms > commCount || h.Names > nameCount:
		return nil, fmt.Errorf("records are damaged: %d communicators, %d names", h.Comms, h.Names)
	}
	p := &Process{Host: text(h.Host[:]), Profiler: int(h.Profiler)}
	for i := range h.Names {
		p.Names = append(p.Names, text(h.Name[i][:]))
	}
	base := int64(unsafe.Sizeof(h))
	raw := new(rawComm)
	for i := range int64(h.Comms) {
		if err := decode(r, base+i*int64(size), raw); err != nil {
			return nil, err
		}
		if raw.State != commOpen {
			continue
		}
		c, err := comm(r, base+i*int64(size), raw)
		if err != nil {
			return nil, err
		}
		p.Comms = append(p.Comms, *c)
	}
	return p, nil
}

func comm(r io.ReaderAt, at int64, raw *rawComm) (*Comm, error) {
	c := &Comm{ID: raw.ID, Name: text(raw.Name[:]), Rank: int(raw.Rank), Size: int(raw.Size), Nodes: int(raw.Nodes),
		Ops: raw.Ops, Collectives: raw.Collectives, Messages: raw.Messages, Channels: raw.Channels}
	for _, s := range raw.Sums {
		if s.Key != 0 {
			c.Sums = append(c.Sums, s)
		}
	}
	// A slot is whole if its order is the same after it was read.
	again := new(rawComm)
	if err := decode(r, at, again); err != nil {
		return nil, err
	}
	for i, o := range raw.Op {
		if o.Order != 0 && o.Order == again.Op[i].Order {
			c.Recent = append(c.Recent, again.Op[i])
		}
	}
	for i, x := range raw.Proxy {
		if x.Order != 0 && x.Order == again.Proxy[i].Order {
			c.Proxies = append(c.Proxies, x)
		}
	}
	slices.SortFunc(c.Recent, func(a, b Op) int { return cmp.Compare(a.Order, b.Order) })
	slices.SortFunc(c.Proxies, func(a, b Proxy) int { return cmp.Compare(a.Order, b.Order) })
	return c, nil
}

// decode reads a value as it lies in the memory of a process of this machine.
func decode[T any](r io.ReaderAt, at int64, v *T) error {
	b := unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
	if n, err := r.ReadAt(b, at); n < len(b) {
		if errors.Is(err, io.EOF) {
			return errNoRecords
		}
		return err
	}
	return nil
}

func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(bytes.ToValidUTF8(b, []byte("?")))
}
