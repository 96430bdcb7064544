package core

import (
	"sync"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/plan/simulate"
)

// machine is the simulator's model of eight H200, on which estimates are based, whatever the GPUs are.
var machine = sync.OnceValues(func() (*simulate.Machine, error) { return simulate.NamedMachine("h200") })

// Estimate returns the microseconds that a group of requests takes, by the closed form of the simulator's machine: the
// collectives of a communicator one after another, its messages together, different communicators at the same time.
func Estimate(reqs []Request) (float64, error) {
	m, err := machine()
	if err != nil {
		return 0, err
	}
	type sums struct{ collectives, sent, received float64 }
	all := map[Handle]*sums{}
	longest := 0.0
	for i := range reqs {
		q := &reqs[i]
		c, _, err := usable(q.Comm, stateOpen)
		if err != nil {
			return 0, err
		}
		var r collective.Request
		if err := c.translate(q, &r); err != nil {
			return 0, err
		}
		s := all[q.Comm]
		if s == nil {
			s = new(sums)
			all[q.Comm] = s
		}
		switch r.Collective {
		case collective.Send:
			s.sent += float64(r.Bytes())
		case collective.Recv:
			s.received += float64(r.Bytes())
		default:
			s.collectives += estimate(m, &r, c.size)
		}
		total := s.collectives
		if moved := max(s.sent, s.received); moved > 0 {
			total += m.Launch + m.Op + m.Flag + m.Finish + moved/(m.NVLink.Port*m.NVLink.Put)*1e-3
		}
		longest = max(longest, total)
	}
	return longest, nil
}

// estimate is the time of one collective of n ranks: the least of one shot and two shots by packets, and of the ring.
// A way has steps, each of which takes the time of a flag, and bytes that leave a rank.
func estimate(m *simulate.Machine, r *collective.Request, n int) float64 {
	bytes, ranks := float64(r.Bytes()), float64(n)
	if n == 1 {
		return m.Launch + m.Finish + 2*bytes/m.Memory*1e-3
	}
	once := bytes * (ranks - 1) // every rank's buffer to all others
	type way struct{ steps, bytes, rate float64 }
	packets, stores := m.NVLink.Port*m.NVLink.Packet, m.NVLink.Port*m.NVLink.Put
	ways := []way{{1, once, packets}, {1, once, stores}}
	switch r.Collective {
	case collective.AllToAllV, collective.AllToAllVDevice:
		sum := 0.0
		for _, count := range r.SendCounts {
			sum += float64(count * r.Type.Size())
		}
		ways = []way{{1, sum, packets}, {1, sum, stores}}
	case collective.AllReduce, collective.Reduce, collective.Broadcast:
		slices := 2 * bytes * (ranks - 1) / ranks
		ways = append(ways, way{2, slices, packets}, way{2 * (ranks - 1), slices, stores})
	}
	least := 0.0
	for i, w := range ways {
		t := m.Launch + m.Finish + w.steps*(m.Op+m.Flag) + w.bytes/w.rate*1e-3
		if i == 0 || t < least {
			least = t
		}
	}
	return least
}
