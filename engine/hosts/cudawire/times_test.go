package cudawire

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/transport/tcp"
)

var sockets = flag.Int("sockets", 0, "connections of TestTimes")

// timesOf are the phases of a collective of two ranks for n bytes from p to p + 128 MiB.
var timesOf = map[string]func(r int, p device.Ptr, n int64) []*wire.Phase{
	"send_recv": func(r int, p device.Ptr, n int64) []*wire.Phase {
		q := p.Add(128 << 20)
		return []*wire.Phase{{Sends: []wire.Part{{Peer: 1 - r, Ptr: p, Bytes: n}},
			Recvs: []wire.Part{{Peer: 1 - r, Ptr: q, Bytes: n}}}}
	},
	"all_reduce": func(r int, p device.Ptr, n int64) []*wire.Phase {
		q, half := p.Add(128<<20), n/2
		sum := func(own, dst device.Ptr, bytes int64) []wire.Reduction {
			return []wire.Reduction{{Peers: []int{0, 1}, Own: own, Dst: dst, Count: bytes / 4, Type: datatype.Float32,
				Op: datatype.Sum, Ranks: 2}}
		}
		if n <= 64<<10 {
			return []*wire.Phase{{Sends: []wire.Part{{Peer: 1 - r, Ptr: p, Bytes: n}}, Reduces: sum(p, q, n)}}
		}
		mine, theirs := int64(r)*half, int64(1-r)*half
		return []*wire.Phase{
			{Sends: []wire.Part{{Peer: 1 - r, Ptr: p.Add(theirs), Bytes: half}},
				Reduces: sum(p.Add(mine), q.Add(mine), half)},
			{Sends: []wire.Part{{Peer: 1 - r, Ptr: q.Add(mine), Bytes: half}},
				Recvs: []wire.Part{{Peer: 1 - r, Ptr: q.Add(theirs), Bytes: half}}}}
	},
}

// TestTimes prints how long phases take on two GPUs over TCP. It asserts nothing about speed.
func TestTimes(t *testing.T) {
	if os.Getenv("GOCCL_FULL") == "" {
		t.Skip("prints times: GOCCL_FULL=1 runs it")
	}
	if mock {
		t.Skip("the times of an emulation say nothing")
	}
	all := ranks(t, 2, tcp.NewNet(tcp.NetOptions{Sockets: *sockets}), nil)
	for _, r := range all {
		m, err := r.dev.Alloc(256 << 20)
		must(t, err)
		r.arena = m
	}
	for _, what := range []string{"send_recv", "all_reduce"} {
		for _, n := range []int64{1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20} {
			rounds := 200
			if n > 1<<20 {
				rounds = 20
			}
			run := func() {
				for range rounds {
					for r, w := range all {
						for _, p := range timesOf[what](r, w.arena.Ptr(), n) {
							must(t, w.Run(w.stream, someOp, p))
						}
					}
				}
				for _, w := range all {
					w.wait(t)
				}
			}
			run()
			begin := time.Now()
			run()
			each := time.Since(begin) / time.Duration(rounds)
			t.Logf("%-10s %9d bytes %9.1f us %6.2f GB/s", what, n, float64(each.Nanoseconds())/1e3,
				float64(n)/float64(each.Nanoseconds()))
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for _, w := range all {
		must(t, w.Drain(ctx))
	}
}
