package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

// orderStep is a call of the host that every rank makes, on streams that each rank chooses.
type orderStep struct {
	kind  orderKind
	ops   []orderOp // of a call or of a graph
	graph int
}

type orderKind int

const (
	orderEager   orderKind = iota
	orderBegin             // of the capture of a graph
	orderCapture           // one more call of it
	orderEnd
	orderLaunch
)

// orderScript generates steps from a seed. The first communicator has operations of all sizes. Operations of the others
// are small, so that one of each fits on a GPU at a time, and graphs hold operations of one communicator: order between
// communicators is not guaranteed.
type orderScript struct {
	r        *rand.Rand
	n, comms int
	graphs   [][]orderOp // nil: no graph of that number
	open     int         // the graph that is being captured, or -1
	comm     int         // its communicator
}

func newOrderScript(seed uint64, n, comms int) *orderScript {
	return &orderScript{r: rand.New(rand.NewPCG(seed, 0)), n: n, comms: comms, graphs: make([][]orderOp, 6), open: -1}
}

func (p *orderScript) ops(comm int) []orderOp {
	large := 1 << 20
	if comm > 0 {
		large = 256
	}
	ops := []orderOp{randomOp(p.r, p.n, comm, large)}
	for p.r.IntN(8) == 0 && ops[0].coll != collective.Send { // a group: messages come last in one
		o := randomOp(p.r, p.n, comm, min(large, 2048))
		if o.coll == collective.Send {
			break
		}
		ops = append(ops, o)
	}
	return ops
}

// round returns steps of at least want operations, and their number. Captures end within the round; graphs persist.
func (p *orderScript) round(want int) (steps []orderStep, ops int) {
	for ops < want || p.open >= 0 {
		switch k := p.r.IntN(16); {
		case p.open < 0 && k == 0:
			p.open, p.comm = p.r.IntN(len(p.graphs)), p.r.IntN(p.comms)
			p.graphs[p.open] = []orderOp{}
			steps = append(steps, orderStep{kind: orderBegin, graph: p.open})
		case p.open >= 0 && k < 6:
			s := orderStep{kind: orderCapture, ops: p.ops(p.comm), graph: p.open}
			p.graphs[p.open] = append(p.graphs[p.open], s.ops...)
			steps = append(steps, s)
		case p.open >= 0 && (k == 6 || ops > 2*want):
			steps = append(steps, orderStep{kind: orderEnd, graph: p.open})
			p.open = -1
		case k < 12:
			g := p.r.IntN(len(p.graphs))
			if g == p.open || len(p.graphs[g]) == 0 {
				continue
			}
			steps, ops = append(steps, orderStep{kind: orderLaunch, ops: p.graphs[g], graph: g}), ops+len(p.graphs[g])
		default:
			s := orderStep{kind: orderEager, ops: p.ops(p.r.IntN(p.comms))}
			steps, ops = append(steps, s), ops+len(s.ops)
		}
	}
	return steps, ops
}

// orderRank runs the steps of a rank.
type orderRank struct {
	comms   []*goccl.Comm
	mem     []device.Allocation // of each communicator
	streams []*cuda.Stream
	graphs  []*cuda.Exec
	capture []*cuda.Stream // streams of the open capture
	r       *rand.Rand
}

func newOrderRank(comms []*goccl.Comm, seed uint64) (k *orderRank, err error) {
	k = &orderRank{comms: comms, graphs: make([]*cuda.Exec, 6), r: rand.New(rand.NewPCG(seed, 1+uint64(comms[0].Rank())))}
	for range comms {
		m, e := comms[0].Device().Alloc(4 * orderWords)
		if e != nil {
			return k, e
		}
		k.mem = append(k.mem, m)
	}
	for range 5 {
		s, e := commtest.GPUStream(comms[0])
		if e != nil {
			return k, e
		}
		k.streams = append(k.streams, s)
	}
	return k, nil
}

func (k *orderRank) close() error {
	var errs []error
	for _, x := range k.graphs {
		if x != nil {
			errs = append(errs, x.Close())
		}
	}
	for _, s := range k.streams {
		errs = append(errs, s.Close())
	}
	for _, m := range k.mem {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

func (k *orderRank) submit(ops []orderOp, s device.Stream) error {
	var calls []goccl.Call
	for i := range ops {
		o := &ops[i]
		calls = append(calls, o.calls(k.comms[o.comm], k.mem[o.comm].Ptr(), s)...)
	}
	return goccl.Submit(calls)
}

// free returns a stream that is not capturing.
func (k *orderRank) free() *cuda.Stream {
	for {
		if s := k.streams[k.r.IntN(len(k.streams))]; !slices.Contains(k.capture, s) {
			return s
		}
	}
}

// streamAfter makes later work on s wait for the work on other.
func streamAfter(s, other *cuda.Stream) error {
	ev, err := other.Record()
	if err != nil {
		return err
	}
	return errors.Join(s.WaitEvent(ev), ev.Close())
}

func (k *orderRank) step(s *orderStep) error {
	switch s.kind {
	case orderEager:
		return k.submit(s.ops, k.free())
	case orderLaunch:
		return k.graphs[s.graph].Launch(k.free())
	case orderCapture:
		return k.submit(s.ops, k.capture[k.r.IntN(len(k.capture))])
	case orderBegin:
		perm := k.r.Perm(len(k.streams))
		first := k.streams[perm[0]]
		if err := first.BeginCapture(cuda.CaptureRelaxed); err != nil {
			return err
		}
		k.capture = []*cuda.Stream{first}
		for _, i := range perm[1 : 1+k.r.IntN(3)] { // forked streams without edges to each other
			if err := streamAfter(k.streams[i], first); err != nil {
				return err
			}
			k.capture = append(k.capture, k.streams[i])
		}
		return nil
	}
	first := k.capture[0] // orderEnd
	for _, s := range k.capture[1:] {
		if err := streamAfter(first, s); err != nil {
			return err
		}
	}
	k.capture = nil
	g, err := first.EndCapture()
	if err != nil {
		return err
	}
	x, err := g.Instantiate()
	old := k.graphs[s.graph]
	k.graphs[s.graph] = x
	if old != nil { // its pending launches must end
		err = errors.Join(err, old.Close())
	}
	return errors.Join(err, g.Close())
}

// run makes the host's calls and waits for all of them.
func (k *orderRank) run(steps []orderStep, within time.Duration) error {
	for i := range steps {
		if err := k.step(&steps[i]); err != nil {
			return fmt.Errorf("rank %d: step %d, %v: %w", k.comms[0].Rank(), i, steps[i], err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var errs []error
	for _, s := range k.streams {
		errs = append(errs, s.Synchronize(ctx))
	}
	for _, c := range k.comms {
		errs = append(errs, c.Drain(ctx))
	}
	return errors.Join(errs...)
}

func bytesOf(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 4*len(words))
}
