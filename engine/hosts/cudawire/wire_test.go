package cudawire

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/test/testutil"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/tcp"
)

// small rings, so that messages take many laps.
func small(g *geometry) { *g = geometry{lanes: 3, slots: 4, slotBytes: 512, least: 64} }

func random(rng *rand.Rand, n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// message is one of a phase of all ranks.
type message struct {
	from, to int
	b        []byte
	src, dst device.Ptr
}

// Random messages between all pairs, several in a direction, of any size and alignment, arrive whole and in order.
func TestMessages(t *testing.T) {
	const n, phases = 3, 12
	for i, shape := range []func(*geometry){small, nil} {
		all := ranks(t, n, []transport.Net{newMemNet(1), tcp.NewNet(tcp.NetOptions{})}[i], shape)
		rng := rand.New(rand.NewPCG(7, 1))
		sizes := []int64{0, 1, 16, 63, 64, 65, 1000, 4096, 20000}
		if shape == nil {
			sizes = append(sizes, 3<<20+5)
		}
		var sent []message
		for range phases {
			per := make([]wire.Phase, n)
			for range 1 + rng.IntN(8) {
				m := message{from: rng.IntN(n), b: random(rng, sizes[rng.IntN(len(sizes))])}
				m.to = (m.from + 1 + rng.IntN(n-1)) % n
				size, shift := int64(len(m.b)), rng.Int64N(17)
				m.src, m.dst = all[m.from].memory(t, size+32).Add(shift), all[m.to].memory(t, size+32).Add(16-shift)
				all[m.from].fill(t, m.src, m.b)
				per[m.from].Sends = append(per[m.from].Sends, wire.Part{Peer: m.to, Ptr: m.src, Bytes: size})
				per[m.to].Recvs = append(per[m.to].Recvs, wire.Part{Peer: m.from, Ptr: m.dst, Bytes: size})
				sent = append(sent, m)
			}
			for r := range n {
				must(t, all[r].Run(all[r].stream, someOp, &per[r]))
			}
		}
		for _, r := range all {
			r.wait(t)
		}
		for i, m := range sent {
			if got := all[m.to].read(t, m.dst, int64(len(m.b))); !bytes.Equal(got, m.b) {
				t.Fatalf("message %d of %d bytes from %d to %d is wrong", i, len(m.b), m.from, m.to)
			}
		}
	}
}

// For every type and operator, in place or not, fused with the sends or not, all ranks get the same bits: the result of
// the reduction in rank order.
func TestReductions(t *testing.T) {
	const n = 3
	for _, shape := range []func(*geometry){small, nil} {
		all := ranks(t, n, newMemNet(2), shape)
		for ty := range datatype.NumTypes {
			for _, op := range []datatype.Op{datatype.Sum, datatype.Prod, datatype.Max, datatype.Min, datatype.Avg} {
				for _, count := range []int64{1, 37, 1000, 5000} {
					reduceAll(t, all, ty, op, count, (int64(ty)+count)%2 == 0)
				}
			}
		}
	}
}

func reduceAll(t *testing.T, all []*rank, ty datatype.Type, op datatype.Op, count int64, inPlace bool) {
	t.Helper()
	n, bytes_ := len(all), count*ty.Size()
	var peers []int
	for r := range n {
		peers = append(peers, r)
	}
	dst := make([]device.Ptr, n)
	for r, w := range all {
		w.reset()
		own := w.memory(t, bytes_+16).Add(ty.Size() % 16)
		if dst[r] = own; !inPlace {
			dst[r] = w.memory(t, bytes_)
		}
		b := make([]byte, bytes_)
		hostreduce.Fill(b, ty, 5, r)
		w.fill(t, own, b)
		p := wire.Phase{Reduces: []wire.Reduction{{Peers: peers, Own: own, Dst: dst[r], Count: count, Type: ty, Op: op,
			Ranks: n}}}
		for q := range n {
			if q != r {
				p.Sends = append(p.Sends, wire.Part{Peer: q, Ptr: own, Bytes: bytes_})
			}
		}
		must(t, w.Run(w.stream, wire.Op{Name: "all_reduce", Seq: 1}, &p))
	}
	want := make([]byte, bytes_)
	must(t, testutil.Expected(want, ty, op, 5, n))
	var first []byte
	for r, w := range all {
		w.wait(t)
		got := w.read(t, dst[r], bytes_)
		if wrong, i := hostreduce.Check(got, want, ty, op, n); wrong != 0 {
			t.Fatalf("%v %v × %d on rank %d: %d elements are wrong, the first at %d", op, ty, count, r, wrong, i)
		}
		if r == 0 {
			first = got
		} else if !bytes.Equal(got, first) {
			t.Fatalf("%v %v × %d: rank %d has other bits than rank 0", op, ty, count, r)
		}
	}
}

// Receives and reductions from one peer in one phase match its sends in that order.
func TestReceivesBeforeReductions(t *testing.T) {
	all := ranks(t, 2, newMemNet(3), small)
	const count = 700
	var out [2][2]device.Ptr
	for r, w := range all {
		peer := 1 - r
		first, second := make([]byte, 4*count), make([]byte, 4*count)
		hostreduce.Fill(first, datatype.Int32, 1, r)
		hostreduce.Fill(second, datatype.Int32, 2, r)
		a, b := w.memory(t, 4*count), w.memory(t, 4*count)
		w.fill(t, a, first)
		w.fill(t, b, second)
		out[r] = [2]device.Ptr{w.memory(t, 4*count), w.memory(t, 4*count)}
		must(t, w.Run(w.stream, someOp, &wire.Phase{
			Sends: []wire.Part{{Peer: peer, Ptr: a, Bytes: 4 * count}, {Peer: peer, Ptr: b, Bytes: 4 * count}},
			Recvs: []wire.Part{{Peer: peer, Ptr: out[r][0], Bytes: 4 * count}},
			Reduces: []wire.Reduction{{Peers: []int{0, 1}, Own: b, Dst: out[r][1], Count: count, Type: datatype.Int32,
				Op: datatype.Sum, Ranks: 2}}}))
	}
	sum := make([]byte, 4*count)
	must(t, testutil.Expected(sum, datatype.Int32, datatype.Sum, 2, 2))
	for r, w := range all {
		w.wait(t)
		want := make([]byte, 4*count)
		hostreduce.Fill(want, datatype.Int32, 1, 1-r)
		if !bytes.Equal(w.read(t, out[r][0], 4*count), want) || !bytes.Equal(w.read(t, out[r][1], 4*count), sum) {
			t.Fatalf("rank %d has wrong data", r)
		}
	}
}

// What the last kernel posts just before it ends is sent, although no other phase follows.
func TestLastPost(t *testing.T) {
	var all []*rank
	var ready atomic.Bool
	ended = func() (bool, error) {
		if ready.Load() {
			all[0].kernel.done.Wait()
		}
		return true, nil
	}
	all = ranks(t, 2, newMemNet(12), nil)
	ended = nil
	if !mock {
		t.Skip("the emulation has the time of the post in hand")
	}
	all[0].kernel.delay = 20 * time.Millisecond
	ready.Store(true)
	for _, w := range all {
		w.captured.Store(false)
	}
	p, q := all[0].memory(t, 64), all[1].memory(t, 64)
	must(t, all[0].Run(all[0].stream, someOp, &wire.Phase{Sends: []wire.Part{{Peer: 1, Ptr: p, Bytes: 64}}}))
	must(t, all[1].Run(all[1].stream, someOp, &wire.Phase{Recvs: []wire.Part{{Peer: 0, Ptr: q, Bytes: 64}}}))
	arrived := make(chan struct{})
	go func() { all[1].kernel.done.Wait(); close(arrived) }()
	select {
	case <-arrived:
	case <-time.After(time.Minute):
		t.Fatal("the message does not arrive")
	}
}

// A receive of another size than the send is an error that names the peer.
func TestOtherSize(t *testing.T) {
	all := ranks(t, 2, newMemNet(4), nil)
	p := all[0].memory(t, 128)
	must(t, all[0].Run(all[0].stream, wire.Op{Name: "send", Seq: 3},
		&wire.Phase{Sends: []wire.Part{{Peer: 1, Ptr: p, Bytes: 128}}}))
	q := all[1].memory(t, 128)
	must(t, all[1].Run(all[1].stream, wire.Op{Name: "recv", Seq: 3},
		&wire.Phase{Recvs: []wire.Part{{Peer: 0, Ptr: q, Bytes: 64}}}))
	err := failure(t, all[1])
	if !errors.Is(err, collective.ErrMismatch) || err.Peer != 0 || err.Op != "recv" || err.Seq != 3 {
		t.Fatalf("%v", err)
	}
}

// A rank in another collective than its peer is an error that names the peer.
func TestOtherCollective(t *testing.T) {
	all := ranks(t, 2, newMemNet(7), nil)
	p := all[0].memory(t, 128)
	must(t, all[0].Run(all[0].stream, wire.Op{Name: "all_gather", Seq: 3, Tag: 5},
		&wire.Phase{Sends: []wire.Part{{Peer: 1, Ptr: p, Bytes: 128}}}))
	q := all[1].memory(t, 128)
	must(t, all[1].Run(all[1].stream, wire.Op{Name: "broadcast", Seq: 3, Tag: 6},
		&wire.Phase{Recvs: []wire.Part{{Peer: 0, Ptr: q, Bytes: 128}}}))
	if err := failure(t, all[1]); !errors.Is(err, collective.ErrMismatch) || err.Peer != 0 || err.Op != "broadcast" {
		t.Fatalf("%v", err)
	}
}

// failure waits for the error of a rank.
func failure(t *testing.T, r *rank) *collective.Error {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err := r.Err(); err != nil {
			var e *collective.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v", err)
			}
			return e
		}
	}
	t.Fatal("no error")
	return nil
}

// An abort ends kernels that wait for a peer.
func TestAbort(t *testing.T) {
	all := ranks(t, 2, newMemNet(5), nil)
	p := all[0].memory(t, 128)
	must(t, all[0].Run(all[0].stream, someOp, &wire.Phase{Recvs: []wire.Part{{Peer: 1, Ptr: p, Bytes: 128}}}))
	cause := errors.New("enough")
	all[0].Abort(cause)
	if all[0].kernel != nil {
		all[0].kernel.done.Wait()
	}
	if err := all[0].Err(); !errors.Is(err, cause) {
		t.Fatal(err)
	}
	err := all[0].Run(all[0].stream, someOp, &wire.Phase{Sends: []wire.Part{{Peer: 1, Ptr: p, Bytes: 8}}})
	if !errors.Is(err, cause) {
		t.Fatal(err)
	}
}

// A broken connection refuses phases with its peer, and names it.
func TestBrokenConnection(t *testing.T) {
	all := ranks(t, 2, newMemNet(6), nil)
	all[0].by[1].Load().peer.(*memPeer).break_(transport.ErrPeerGone)
	p := all[0].memory(t, 128)
	err := all[0].Run(all[0].stream, someOp, &wire.Phase{Sends: []wire.Part{{Peer: 1, Ptr: p, Bytes: 128}}})
	var e *collective.Error
	if !errors.As(err, &e) || e.Peer != 1 || !errors.Is(err, transport.ErrPeerGone) ||
		!errors.Is(err, collective.ErrPeerDead) {
		t.Fatal(err)
	}
}
