package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// comparison is the result of a run of compare.sh.
type comparison struct {
	Time       time.Time `json:"time"`
	Commit     string    `json:"commit"`
	Goccl      string    `json:"goccl"`
	OpenMPI    string    `json:"openmpi"`
	Machine    string    `json:"machine"`
	Ranks      int       `json:"ranks"`
	Contenders []string  `json:"contenders"`
	Sizes      []size    `json:"sizes"`
	Rows       []row     `json:"rows"` // every turn
}

// size summarizes all turns of one size: the median and the smallest of their times, and the speed of each contender
// relative to OpenMPI.
type size struct {
	Bytes  int64              `json:"size_bytes"`
	Median map[string]float64 `json:"median_us"`
	Best   map[string]float64 `json:"best_us"`
	Ratio  map[string]float64 `json:"openmpi_over"` // OpenMPI's median / the contender's: above 1, the contender is faster
}

const peer = "openmpi"

func merge(rows []row) *comparison {
	c := &comparison{Rows: rows}
	times := map[int64]map[string][]float64{}
	for _, r := range rows {
		if !slices.Contains(c.Contenders, r.Library) {
			c.Contenders = append(c.Contenders, r.Library)
		}
		if r.Library == peer {
			c.OpenMPI = r.Version
		}
		if times[r.Size] == nil {
			times[r.Size] = map[string][]float64{}
		}
		times[r.Size][r.Library] = append(times[r.Size][r.Library], r.Time)
	}
	for n, by := range times {
		s := size{Bytes: n, Median: map[string]float64{}, Best: map[string]float64{}, Ratio: map[string]float64{}}
		for name, list := range by {
			slices.Sort(list)
			s.Best[name] = list[0]
			s.Median[name] = (list[(len(list)-1)/2] + list[len(list)/2]) / 2
		}
		for name, m := range s.Median {
			if p := s.Median[peer]; name != peer && p > 0 {
				s.Ratio[name] = p / m
			}
		}
		c.Sizes = append(c.Sizes, s)
	}
	slices.SortFunc(c.Sizes, func(a, b size) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return c
}

func (c *comparison) table() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "All-reduce of floats, %d processes of one machine: median time in µs, and how many times faster "+
		"than OpenMPI.\n\n", c.Ranks)
	fmt.Fprintf(&b, "%s; %s; %s; %s\n\n", c.Machine, c.OpenMPI, c.Goccl, c.Time.Format(time.DateTime))
	b.WriteString("| bytes |")
	for _, name := range c.Contenders {
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString("\n|---:|" + strings.Repeat("---:|", len(c.Contenders)) + "\n")
	for _, s := range c.Sizes {
		fmt.Fprintf(&b, "| %d |", s.Bytes)
		for _, name := range c.Contenders {
			m, ok := s.Median[name]
			switch r, compared := s.Ratio[name]; {
			case !ok:
				b.WriteString(" |")
			case compared:
				fmt.Fprintf(&b, " %.1f (%.2f×) |", m, r)
			default:
				fmt.Fprintf(&b, " %.1f |", m)
			}
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// machine returns, for example, "2 × Intel(R) Xeon(R) Processor @ 2.50GHz".
func machine() string {
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s", runtime.NumCPU(), model)
}
