// Package tally counts what goccl watch sees, as metrics for Prometheus and OpenTelemetry.
package tally

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/procfs"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/metrics"
	"github.com/goccl/goccl/watch/observe"
)

// Tally turns snapshots into metrics. Count is called with each snapshot; the metrics may be read beside it.
type Tally struct {
	// Root is the root of the file system with /proc and /sys.
	Root  string
	Stall time.Duration

	mu     sync.Mutex
	last   *observe.Snapshot
	waits  map[waitKey]*waited
	counts metrics.Incidents
}

// waitKey is a rank of a communicator.
type waitKey struct {
	id         string
	size, rank int
}

// waited is what a rank has waited, up to collective next.
type waited struct {
	wait, late float64
	next       uint64
}

func New(stall time.Duration) *Tally {
	return &Tally{Root: "/", Stall: stall, waits: map[waitKey]*waited{},
		counts: metrics.Incidents{Verdicts: map[string]float64{}}}
}

func (t *Tally) Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(metrics.NewCollector(t.read))
	return r
}

// Handler serves them as Prometheus' text.
func (t *Tally) Handler() http.Handler {
	return promhttp.HandlerFor(t.Registry(), promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Count adds a snapshot, which must not change afterwards.
func (t *Tally) Count(now *observe.Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range observe.Events(t.last, now) {
		if e.Over {
			continue
		}
		t.counts.Verdicts[string(e.Verdict.Kind)]++
		switch e.Verdict.Kind {
		case fault.VerdictDead:
			t.counts.Deaths += float64(max(1, len(e.Verdict.Blamed())))
		case fault.VerdictAborted:
			t.counts.Aborts++
		}
	}
	for _, c := range now.Communicators {
		t.waited(c)
	}
	t.last = now
}

// waited adds the collectives that all ranks have called since the last look, and remember.
func (t *Tally) waited(c *observe.Communicator) {
	if len(c.Ranks) < 2 {
		return
	}
	arrivals := map[uint64][]int64{}
	for _, r := range c.Ranks {
		for i := range r.Record.Operations {
			if o := &r.Record.Operations[i]; !o.Message && r.Host == c.Ranks[0].Host {
				arrivals[o.Number] = append(arrivals[o.Number], o.Enqueued)
			}
		}
	}
	for _, r := range c.Ranks {
		key := waitKey{c.ID, c.Size, r.Rank}
		w := t.waits[key]
		if w == nil {
			w = &waited{}
			t.waits[key] = w
		}
		next := w.next
		for i := range r.Record.Operations {
			o := &r.Record.Operations[i]
			all := arrivals[o.Number]
			if o.Message || o.Number < w.next || len(all) != len(c.Ranks) {
				continue
			}
			w.wait += float64(slices.Max(all)-o.Enqueued) / 1e9
			w.late += float64(o.Enqueued-slices.Min(all)) / 1e9
			next = max(next, o.Number+1)
		}
		w.next = next
	}
}

func (t *Tally) read() ([]metrics.Communicator, metrics.Incidents) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := t.counts
	counts.Verdicts = maps.Clone(t.counts.Verdicts)
	counts.Retries = retries(t.Root)
	if t.last == nil {
		return nil, counts
	}
	var all []metrics.Communicator
	for _, c := range t.last.Communicators {
		for _, r := range c.Ranks {
			m := metrics.Communicator{ID: c.ID, Name: c.Name, Host: r.Host, Rank: r.Rank, Size: c.Size, PID: r.PID,
				Up: r.State != observe.Dead, Memory: memory(t.Root, r.PID)}
			if w := t.waits[waitKey{c.ID, c.Size, r.Rank}]; w != nil {
				m.Wait, m.Late = w.wait, w.late
			}
			if r.Current != nil && r.State != observe.Dead {
				if held := r.Since(r.Current, t.last.Time); held > t.Stall {
					m.HeldUp = held.Seconds()
				}
			}
			for i := range r.Sums {
				s := &r.Sums[i]
				m.Kinds = append(m.Kinds, metrics.Kind{Collective: s.Collective, Algorithm: s.Algorithm, Protocol: s.Protocol,
					UpTo: s.UpTo, Operations: float64(s.Begun), Bytes: float64(s.Bytes), Ended: float64(s.Ended),
					Busy: float64(s.BusyNs) / 1e9, Queued: float64(s.QueuedNs) / 1e9,
					BusBytes: observe.Factor(s.Collective, c.Size) * float64(s.BusyBytes)})
			}
			all = append(all, m)
		}
	}
	return all, counts
}

// memory is what a process of this host holds.
func memory(root string, pid int) map[string]float64 {
	b, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "statm"))
	f := strings.Fields(string(b))
	if err != nil || pid == 0 || len(f) < 3 {
		return nil
	}
	pages := func(s string) float64 {
		n, _ := strconv.ParseFloat(s, 64)
		return n * float64(os.Getpagesize())
	}
	return map[string]float64{"rss": pages(f[1]), "shared": pages(f[2])}
}

// retryCounters are what RDMA adapters call their retransmissions and timeouts.
var retryCounters = []string{"local_ack_timeout_err", "packet_seq_err", "out_of_sequence", "rnr_nak_retry_err",
	"roce_adp_retrans", "retrans_pkts", "retrans_timeout_events"}

// retries reads the counters of the network devices, and TCP's of this host.
func retries(root string) map[[2]string]float64 {
	all := map[[2]string]float64{}
	ports, _ := filepath.Glob(filepath.Join(root, "sys/class/infiniband/*/ports/*"))
	for _, port := range ports {
		device := filepath.Base(filepath.Dir(filepath.Dir(port)))
		for _, name := range retryCounters {
			b, err := os.ReadFile(filepath.Join(port, "hw_counters", name))
			if n, bad := strconv.ParseFloat(strings.TrimSpace(string(b)), 64); err == nil && bad == nil {
				all[[2]string{fmt.Sprintf("%s:%s", device, filepath.Base(port)), name}] = n
			}
		}
	}
	if fs, err := procfs.NewFS(filepath.Join(root, "proc")); err == nil {
		if self, err := fs.Self(); err == nil {
			if tcp, err := self.Snmp(); err == nil && tcp.RetransSegs != nil {
				all[[2]string{"tcp", "retransmitted_segments"}] = *tcp.RetransSegs
			}
		}
	}
	return all
}
