package hosts

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// allToAllV: inside the host the local engine does it; a message goes straight to each rank of another host, also if it
// is empty, so that two ranks with different counts find that out. If all ranks know all counts, relays may carry the
// messages instead: relayV.
func (e *Engine) allToAllV(s device.Stream, op wire.Op, r *collective.Request) error {
	if relayed, err := e.relayed(s, op, r); relayed || err != nil {
		return err
	}
	if err := e.connectAll(); err != nil {
		return err
	}
	remote := e.remote()
	op.Tag = signature(&collective.Request{Collective: r.Collective, Type: r.Type}, op.Seq)
	inside := *r
	fill := func(p *wire.Phase, r *collective.Request) {
		size := r.Type.Size()
		for _, q := range remote {
			p.Sends = append(p.Sends, send(q, r.Send.Add(r.SendDispls[q]*size), r.SendCounts[q]*size))
			p.Recvs = append(p.Recvs, send(q, r.Recv.Add(r.RecvDispls[q]*size), r.RecvCounts[q]*size))
		}
	}
	p := &wire.Phase{}
	c := &chunk{phases: []*wire.Phase{p}}
	if r.Collective == collective.AllToAllV {
		fill(p, r)
		do(&c.before, e.insideV(r))
		return e.chain(s, op, c)
	}
	if d := r.DeviceCounts; e.dev.ID().Kind != device.Host {
		for _, q := range remote {
			p.Sends, p.Recvs = append(p.Sends, wire.Part{Peer: q}), append(p.Recvs, wire.Part{Peer: q})
		}
		p.Counted = &wire.Counted{Send: r.Send, Recv: r.Recv, SendCounts: d.SendCounts,
			SendDispls: d.SendDispls, RecvCounts: d.RecvCounts, RecvDispls: d.RecvDispls, SendElements: d.SendElements,
			RecvElements: d.RecvElements, Size: r.Type.Size()}
	} else {
		request, counts := *r, make([]int64, 4*e.size())
		p.Fill = func(p *wire.Phase) error {
			if err := request.ReadDeviceCounts(e.size(), counts); err != nil {
				return err
			}
			fill(p, &request)
			return nil
		}
	}
	copies, err := e.ownCounts(&inside.DeviceCounts)
	if err != nil {
		return err
	}
	c.before = []work{{copies: copies, reqs: []collective.Request{inside}}}
	return e.chain(s, op, c)
}

// relayed runs an all-to-all-v over relays, if it is one for them.
func (e *Engine) relayed(s device.Stream, op wire.Op, r *collective.Request) (bool, error) {
	if r.AllCounts == nil {
		return false, nil
	}
	b := builder{topology: e.topology, r: r, elem: r.Type.Size(), inPlace: e.inPlace, rules: e.rules}
	room := int64(smallRoom)
	if e.scratch.small == nil {
		room = gpuRoom
	}
	if !b.relaysV(room) {
		return false, nil
	}
	var err error
	if b.scratch, b.room, err = e.scratch.areas(0); err != nil {
		return true, err
	}
	op.Tag = signature(&collective.Request{Collective: r.Collective, Type: r.Type, Count: b.digest()}, op.Seq)
	return true, e.chain(s, op, b.relayV(e.insideV(r)))
}

// digest is a hash of all counts: ranks that were given different ones get an error.
func (b *builder) digest() int64 {
	h := uint64(len(b.r.AllCounts))
	for _, n := range b.r.AllCounts {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return int64(h)
}

// insideV is the part of an all-to-all-v between the ranks of this host.
func (e *Engine) insideV(r *collective.Request) collective.Request {
	inside := *r
	inside.AllCounts, inside.Algorithm = nil, ""
	for _, list := range []*[]int64{&inside.SendCounts, &inside.SendDispls, &inside.RecvCounts, &inside.RecvDispls} {
		own := make([]int64, len(e.mine()))
		for i, q := range e.mine() {
			own[i] = (*list)[q]
		}
		*list = own
	}
	return inside
}

// remote are the ranks of other hosts.
func (t *topology) remote() (list []int) {
	t.others(func(h int) { list = append(list, t.members[h]...) })
	return list
}

// connectAll makes sure that the wire can reach all ranks of other hosts.
func (e *Engine) connectAll() error { return e.wire.Connect(context.Background(), e.remote()) }

// ownCounts points d at the counts of the ranks of this host. If their numbers are not consecutive, the copies bring
// them together.
func (e *Engine) ownCounts(d *collective.DeviceCounts) (copies []copying, err error) {
	mine := e.mine()
	lists := []*device.Ptr{&d.SendCounts, &d.SendDispls, &d.RecvCounts, &d.RecvDispls}
	if e.isContiguous(e.here()) {
		for _, at := range lists {
			*at = at.Add(8 * int64(mine[0]))
		}
		return nil, nil
	}
	if e.counts == nil {
		if e.counts, err = e.dev.Alloc(int64(8 * len(lists) * len(mine))); err != nil {
			return nil, err
		}
	}
	for k, at := range lists {
		own := e.counts.Ptr().Add(int64(8 * k * len(mine)))
		for i, q := range mine {
			copies = append(copies, copying{own.Add(int64(8 * i)), at.Add(int64(8 * q)), 8})
		}
		*at = own
	}
	return copies, nil
}
