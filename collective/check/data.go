package check

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/tags"
)

// Data compares the data of operations by checksums, on the host, so that a flipped bit is an error and no wrong
// result. Calls wait for their operations.
//
//  1. Wait for the streams, so that sent data is final. Sum what this rank sends to each peer: an operation in place
//     overwrites it.
//  2. Run the operations and wait for them. Sum what came from each peer.
//  3. Exchange the sums: of a collective all ranks see all sums and come to the same result, of a message both ranks.
//
// The results of an all-reduce, which are the same on all ranks, are compared with each other. Other operations that
// compute are not checked, nor are fused ones and those with counts in device memory. The sums are CRC-32C, which finds
// every flip of a single bit.
type Data struct {
	k    *Checker
	reqs []collective.Request
	sent [][]uint32 // by request and rank
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Begin is step 1.
func (k *Checker) Begin(reqs []collective.Request) (d *Data, err error) {
	d = &Data{k: k, reqs: reqs, sent: make([][]uint32, len(reqs))}
	ctx, stop := context.WithTimeout(context.Background(), k.Timeout)
	defer stop()
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	for i := range reqs {
		sent, _ := reqs[i].Parts(k.Boot.Rank(), k.Boot.WorldSize())
		if d.sent[i], err = k.sums(sent); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// wait waits for the streams of the requests.
func (d *Data) wait(ctx context.Context) error {
	for i := range d.reqs {
		if s := d.reqs[i].Stream; i == 0 || s != d.reqs[i-1].Stream {
			if err := s.Synchronize(ctx); err != nil {
				return err
			}
		}
	}
	return d.k.Failure()
}

func (k *Checker) sums(parts []collective.Part) ([]uint32, error) {
	out := make([]uint32, len(parts))
	for i, p := range parts {
		sum, err := sumOf(k.Device, p)
		if err != nil {
			return nil, k.Group.Wrap("check data", err)
		}
		out[i] = sum
	}
	return out, nil
}

func sumOf(dev device.Device, p collective.Part) (sum uint32, err error) {
	buf := make([]byte, min(p.Bytes, 1<<20))
	for done := int64(0); done < p.Bytes; done += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), p.Bytes-done)]
		if err := dev.CopyOut(buf, p.At.Add(done)); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, buf)
	}
	return sum, nil
}

// End is steps 2 and 3, after the operations were enqueued: n collectives, the last of which has number seq, then
// messages, up to number message. It accepts a nil d.
func (d *Data) End(n int, seq, message uint64) error {
	if d == nil {
		return nil
	}
	k := d.k
	ctx, stop := context.WithTimeout(context.Background(), k.Timeout)
	defer stop()
	ctx, stop2 := k.Group.Status.Bound(ctx)
	defer stop2()
	if err := d.wait(ctx); err != nil {
		return err
	}
	ctx, stop3 := k.Group.Bound(ctx, "check data") // not before: an operation that a peer has completed may end well
	defer stop3()
	var damaged []error
	for i := range d.reqs[:n] {
		err := d.collective(ctx, i, seq-uint64(n-1-i))
		if err != nil && !errors.Is(err, collective.ErrCorrupt) {
			return err
		}
		damaged = append(damaged, err)
	}
	return errors.Join(append(damaged, d.messages(ctx, n, message-uint64(len(d.reqs)-n)+1))...)
}

// collective compares the sums of request i.
func (d *Data) collective(ctx context.Context, i int, seq uint64) error {
	k, r := d.k, &d.reqs[i]
	rank, n := k.Boot.Rank(), k.Boot.WorldSize()
	_, parts := r.Parts(rank, n)
	same := r.Collective == collective.AllReduce && r.PartOf == 0
	switch {
	case same:
		parts = []collective.Part{{At: r.Recv, Bytes: r.Bytes()}}
	case parts == nil:
		return nil
	}
	received, err := k.sums(parts)
	if err != nil {
		return err
	}
	var mine []byte
	for _, sum := range append(d.sent[i], received...) {
		mine = binary.LittleEndian.AppendUint32(mine, sum)
	}
	all, err := k.Boot.AllGather(ctx, mine)
	if err != nil {
		return k.failed(ctx, r, seq, err)
	}
	at := func(rank, i int) uint32 { return binary.LittleEndian.Uint32(all[rank][4*i:]) }
	for p, b := range all {
		if len(b) != len(mine) {
			return &collective.Error{Comm: k.Group.Name, Op: r.Collective.String(), Rank: rank, Peer: p, Seq: seq,
				Err: fmt.Errorf("%w: rank %d compares other data", collective.ErrMismatch, p)}
		}
	}
	if same {
		return d.odd(r, seq, func(rank int) uint32 { return at(rank, 0) })
	}
	for to := range n {
		for from := range n {
			if sent, came := at(from, to), at(to, n+from); sent != came && d.moves(i, from, to) {
				return d.corrupt(r, seq, from, to, sent, came)
			}
		}
	}
	return nil
}

// moves reports whether a collective moves data from one rank to another.
func (d *Data) moves(i, from, to int) bool {
	r := &d.reqs[i]
	s := r.Collective.Shape()
	return (!s.FromRoot || from == r.Root) && (!s.ToRoot || to == r.Root)
}

// odd names a rank whose result differs from the result of most ranks.
func (d *Data) odd(r *collective.Request, seq uint64, sum func(rank int) uint32) error {
	k, rank, size := d.k, d.k.Boot.Rank(), d.k.Boot.WorldSize()
	count, most := map[uint32]int{}, 0
	for p := range size {
		count[sum(p)]++
		if count[sum(p)] > count[sum(most)] {
			most = p
		}
	}
	for p := range size {
		if sum(p) != sum(most) {
			return &collective.Error{Comm: k.Group.Name, Op: r.Collective.String(), Rank: rank, Peer: p, Seq: seq,
				Err: fmt.Errorf("%w: the result of rank %d differs from the result of %d ranks (checksums %08x and %08x)",
					collective.ErrCorrupt, p, count[sum(most)], sum(p), sum(most))}
		}
	}
	return nil
}

func (d *Data) corrupt(r *collective.Request, seq uint64, from, to int, sent, came uint32) error {
	k, peer, rank := d.k, to, d.k.Boot.Rank()
	if to == rank {
		peer = from
	}
	return &collective.Error{Comm: k.Group.Name, Op: r.Collective.String(), Rank: rank, Peer: peer, Seq: seq,
		Err: fmt.Errorf("%w: what rank %d sent to rank %d arrived changed (checksums %08x and %08x)", collective.ErrCorrupt,
			from, to, sent, came)}
}

// messages compares the sums of sends and receives: requests from n on, of which the first has number seq.
func (d *Data) messages(ctx context.Context, n int, seq uint64) error {
	k, rank := d.k, d.k.Boot.Rank()
	sums := make([]uint32, len(d.reqs))
	for i := n; i < len(d.reqs); i++ {
		r, tag := &d.reqs[i], tags.CheckSent
		if sums[i] = 0; r.Collective == collective.Send {
			sums[i] = d.sent[i][r.Peer]
		} else {
			sum, err := sumOf(k.Device, collective.Part{At: r.Recv, Bytes: r.Bytes()})
			if err != nil {
				return k.Group.Wrap("check data", err)
			}
			sums[i], tag = sum, tags.CheckReceived
		}
		if err := k.Boot.Send(ctx, r.Peer, tag, binary.LittleEndian.AppendUint32(nil, sums[i])); err != nil {
			return k.failed(ctx, r, seq+uint64(i-n), err)
		}
	}
	var damaged []error
	for i := n; i < len(d.reqs); i++ {
		r, tag, from, to := &d.reqs[i], tags.CheckSent, d.reqs[i].Peer, rank
		if r.Collective == collective.Send {
			tag, from, to = tags.CheckReceived, rank, r.Peer
		}
		b, err := k.Boot.Recv(ctx, r.Peer, tag)
		if err != nil || len(b) != 4 {
			return k.failed(ctx, r, seq+uint64(i-n), err)
		}
		if theirs := binary.LittleEndian.Uint32(b); theirs != sums[i] {
			sent, came := theirs, sums[i]
			if from == rank {
				sent, came = came, theirs
			}
			e := d.corrupt(r, seq+uint64(i-n), from, to, sent, came)
			damaged = append(damaged, e)
		}
	}
	return errors.Join(damaged...)
}
