package metrics

import (
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goccl/goccl/internal/plain"
)

// Communicator is one rank of a communicator, as it is now.
type Communicator struct {
	ID, Name, Host  string
	Rank, Size, PID int
	Kinds           []Kind
	// Up is false when the process is gone.
	Up bool
	// HeldUp is how long, in seconds, an operation has been held up; 0: none is.
	HeldUp float64
	// Wait is how long, in seconds, the rank has waited for later ranks in all; Late how long the first ranks have waited
	// for it.
	Wait, Late float64
	// Memory is what the process holds, in bytes, by kind: "rss", "gpu".
	Memory map[string]float64
}

// Kind is the sum over the operations of one kind since the start.
type Kind struct {
	Collective, Algorithm, Protocol string
	// UpTo is the largest size of the class in bytes; 0: no limit; MaxUint64: all sizes.
	UpTo uint64
	// Operations and Bytes count calls; Ended those whose end is known, Busy their seconds from start to end, Queued
	// those from call to start, and BusBytes their bytes times the factor from algorithm to bus bandwidth.
	Operations, Bytes, Ended, Busy, Queued, BusBytes float64
}

// Incidents are counted since the start of the program that watches.
type Incidents struct {
	Deaths, Aborts float64
	// Verdicts by their kind.
	Verdicts map[string]float64
	// Retries by device and counter.
	Retries map[[2]string]float64
}

// Reader returns the communicators and incidents to export.
type Reader func() ([]Communicator, Incidents)

var (
	ofRank = []string{"communicator", "name", "rank", "size", "host"}
	ofKind = append(append([]string{}, ofRank...), "collective", "class", "algorithm", "protocol")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("goccl_"+name, help, labels, nil)
}

// Class is the name of a size class.
func Class(upTo uint64) string {
	switch upTo {
	case 0:
		return "larger"
	case math.MaxUint64:
		return "any"
	}
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if k := uint64(1) << (30 - 10*i); upTo >= k {
			return fmt.Sprintf("to %d %s", upTo/k, unit)
		}
	}
	return fmt.Sprintf("to %d B", upTo)
}

// Collector is a prometheus.Collector.
type Collector struct {
	read  Reader
	kinds []struct {
		desc  *prometheus.Desc
		value func(*Kind) float64
	}
	up, heldUp, wait, late, memory    *prometheus.Desc
	deaths, aborts, verdicts, retries *prometheus.Desc
}

// NewCollector returns a Collector over what read returns.
func NewCollector(read Reader) *Collector {
	c := &Collector{read: read,
		up:       describe("rank_up", "Whether the process of the rank exists.", ofRank...),
		heldUp:   describe("held_up_seconds", "How long an operation has been held up; 0 if none is.", ofRank...),
		wait:     describe("wait_seconds_total", "Time that the rank waited for later ranks in collectives.", ofRank...),
		late:     describe("late_seconds_total", "Time by which the rank came to collectives after the first.", ofRank...),
		memory:   describe("process_memory_bytes", "Memory of the process.", append([]string{"pid", "kind"}, ofRank...)...),
		deaths:   describe("deaths_total", "Processes that ended with open communicators."),
		aborts:   describe("aborts_total", "Communicators that the library has ended."),
		verdicts: describe("verdicts_total", "Verdicts on jobs, by kind.", "kind"),
		retries:  describe("network_retries_total", "Retransmissions that network devices count.", "device", "counter"),
	}
	kind := func(name, help string, value func(*Kind) float64) {
		c.kinds = append(c.kinds, struct {
			desc  *prometheus.Desc
			value func(*Kind) float64
		}{describe(name, help, ofKind...), value})
	}
	kind("operations_total", "Operations called.", func(k *Kind) float64 { return k.Operations })
	kind("operations_ended_total", "Operations whose end is known.", func(k *Kind) float64 { return k.Ended })
	kind("operation_bytes_total", "Bytes of the operations called.", func(k *Kind) float64 { return k.Bytes })
	kind("busy_seconds_total", "Time from the start of operations to their end.", func(k *Kind) float64 { return k.Busy })
	kind("queued_seconds_total", "Time from calls to starts.", func(k *Kind) float64 { return k.Queued })
	kind("bus_bytes_total", "Bytes of ended operations times nccl-tests' factor: over busy_seconds it is bus bandwidth.",
		func(k *Kind) float64 { return k.BusBytes })
	return c
}

// Describe sends the descriptions.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, k := range c.kinds {
		out <- k.desc
	}
	for _, d := range []*prometheus.Desc{c.up, c.heldUp, c.wait, c.late, c.memory, c.deaths, c.aborts, c.verdicts,
		c.retries} {
		out <- d
	}
}

// Collect reads, and sends the values.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	all, incidents := c.read()
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	type key struct {
		id, host   string
		rank, size int
	}
	sent := map[key]bool{} // a rank that was started again under the same name is there twice: the first counts
	for i := range all {
		m := &all[i]
		k := key{m.ID, m.Host, m.Rank, m.Size}
		if sent[k] {
			continue
		}
		sent[k] = true
		rank := []string{m.ID, m.Name, strconv.Itoa(m.Rank), strconv.Itoa(m.Size), m.Host}
		gauge(c.up, plain.Bit[float64](m.Up), rank...)
		gauge(c.heldUp, m.HeldUp, rank...)
		count(c.wait, m.Wait, rank...)
		count(c.late, m.Late, rank...)
		for kind, bytes := range m.Memory {
			gauge(c.memory, bytes, append([]string{strconv.Itoa(m.PID), kind}, rank...)...)
		}
		for n := range m.Kinds {
			k := &m.Kinds[n]
			labels := append(append([]string{}, rank...), k.Collective, Class(k.UpTo), k.Algorithm, k.Protocol)
			for _, d := range c.kinds {
				count(d.desc, d.value(k), labels...)
			}
		}
	}
	count(c.deaths, incidents.Deaths)
	count(c.aborts, incidents.Aborts)
	for kind, n := range incidents.Verdicts {
		count(c.verdicts, n, kind)
	}
	for of, n := range incidents.Retries {
		count(c.retries, n, of[0], of[1])
	}
}
