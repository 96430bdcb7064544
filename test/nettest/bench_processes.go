package nettest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/transport"
)

// BenchProcesses measures messages between two processes: "pingpong" (time per direction), and "exchange", in which
// both send at the same time. With "wait" one goroutine puts and waits. With "proxy" it is as between GPUs
// (engine/hosts/cudawire): a kernel, which is a goroutine here, posts the chunks of a message and polls for the chunks
// of the answer, and a goroutine puts the posted chunks and takes the arrivals. ctxsw is the number of context switches
// of this process for a message.
func BenchProcesses(b *testing.B, net func(testing.TB) transport.Net) {
	if r := childRole(); r != nil {
		r.echo(b, net(b))
		return
	}
	run := func(by, pattern string, size, ways int) {
		b.Run(fmt.Sprint(by, "/", pattern, "/", size), func(b *testing.B) {
			if by == "proxy" && runtime.GOMAXPROCS(0) < 8 {
				b.Skip("the goroutines that poll need eight processors")
			}
			s := Half(b, Open(b, net(b)), benchMemory)
			name := strings.SplitN(b.Name(), "/", 2)[0]
			s.spawn(b, fmt.Sprint(by, " ", pattern, " ", size), "-test.run=^$", "-test.bench=^"+name+"$",
				"-test.benchtime=1x")
			p := newPinger(s, by == "proxy", size)
			defer p.close()
			round := func() {
				err := p.send()
				if err == nil {
					err = p.await(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			for range 100 {
				round()
			}
			before := switches()
			b.ResetTimer()
			for range b.N {
				round()
			}
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(ways*b.N), "ns/put")
			b.ReportMetric(float64(switches()-before)/float64(b.N), "ctxsw")
			b.ReportMetric(0, "ns/op")
		})
	}
	for _, by := range []string{"wait", "proxy"} {
		for _, size := range []int{8, 1 << 10, 16 << 10, 64 << 10} {
			run(by, "pingpong", size, 2)
			run(by, "exchange", size, 1)
		}
	}
}

const (
	benchMemory = 64 << 10
	benchChunk  = 16 << 10 // the least chunk of a message of cudawire's, of which each is in a lane
)

// echo answers until the parent is gone.
func (r *role) echo(b *testing.B, n transport.Net) {
	var by, pattern string
	var size int
	if _, err := fmt.Sscan(r.task, &by, &pattern, &size); err != nil {
		b.Fatal(err)
	}
	s := r.join(b, n, benchMemory)
	p := newPinger(s, by == "proxy", size)
	defer p.close()
	first, then := func() error { return p.await(b.Context()) }, p.send
	if pattern == "exchange" {
		first, then = then, first
	}
	for {
		if first() != nil || then() != nil {
			return
		}
	}
}

// switches is the number of context switches of this process.
func switches() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Nvcsw + u.Nivcsw
}

// pinger sends messages and waits for messages of the same size.
type pinger struct {
	*Side
	proxied        bool
	size, chunks   int
	sent, received uint64
	post, flag     [benchMemory / benchChunk]struct {
		atomic.Uint64
		_ [120]byte
	}
	stop atomic.Bool
	done chan struct{}
}

func newPinger(s *Side, proxied bool, size int) *pinger {
	p := &pinger{Side: s, proxied: proxied, size: size, chunks: 1, done: make(chan struct{})}
	if !proxied {
		return p
	}
	p.chunks = (size + benchChunk - 1) / benchChunk
	for c := range p.chunks {
		flag := &p.flag[c].Uint64
		s.OnArrival(uint32(c), flag.Store)
		flag.Store(s.Arrived(uint32(c)))
	}
	go p.serve()
	return p
}

func (p *pinger) close() {
	if p.stop.Store(true); p.proxied {
		<-p.done
	}
}

func (p *pinger) send() error {
	p.sent++
	if !p.proxied {
		return p.Put(p.Src, 0, p.Dst, 0, int64(p.size), 0, nil)
	}
	for c := range p.chunks {
		p.post[c].Store(p.sent)
	}
	return p.Err()
}

func (p *pinger) await(ctx context.Context) error {
	p.received++
	if !p.proxied {
		return p.Wait(ctx, 0, p.received)
	}
	for c := range p.chunks {
		for polls := 1; p.flag[c].Load() < p.received; polls++ {
			if err := p.Err(); err != nil {
				return err
			}
			p.yield(polls)
		}
	}
	return nil
}

// yield is what a goroutine that polls does after each look.
func (p *pinger) yield(polls int) {
	if runtime.GOMAXPROCS(0) < 8 || polls%1024 == 0 {
		runtime.Gosched()
	}
}

// serve puts the posted chunks and takes the arrivals.
func (p *pinger) serve() {
	defer close(p.done)
	batch, _ := p.Peer.(transport.Batcher)
	var put [benchMemory / benchChunk]uint64
	port, ok := p.Port.(transport.Poller)
	if ok {
		port.Polling(1)
		defer port.Polling(-1)
	}
	for polls := 1; !p.stop.Load(); polls++ {
		if ok {
			port.Poll()
		}
		held := false
		for c := range p.chunks {
			if p.post[c].Load() == put[c] {
				continue
			}
			if batch != nil && !held {
				batch.Hold()
				held = true
			}
			at := int64(c * benchChunk)
			put[c]++
			if p.Put(p.Src, at, p.Dst, at, min(benchChunk, int64(p.size)-at), uint32(c), nil) != nil {
				return
			}
		}
		if held {
			batch.Release()
		}
		p.yield(polls)
	}
}
