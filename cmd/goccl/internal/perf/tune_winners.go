package perf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/plan"
)

// planLibrary implements Library with goccl and one registered plan, which runs where it accepts the request.
type planLibrary struct {
	ours
	plan      *plan.Plan
	algorithm collective.Algorithm // of the last Open
}

func (l *planLibrary) Name() string { return l.plan.Name }

func (l *planLibrary) Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error) {
	c, err := l.ours.Open(ctx, peers, dev)
	if err != nil {
		return nil, err
	}
	comm := c.(*goccl.Comm)
	if err := comm.RegisterPlan(ctx, l.plan); err != nil {
		_ = comm.Close()
		return nil, err
	}
	l.algorithm = comm.Algorithms()[0]
	return comm, nil
}

// ran reports whether the plan ran a row. Where it does not accept a message, goccl's own choice runs.
func (l *planLibrary) ran(row Row) bool {
	least, most := l.algorithm.MessageRange()
	return uint64(row.Size) >= least && uint64(row.Size) <= most && l.algorithm.Accepts(&collective.Request{
		Collective: l.kind.Collective, Count: row.Count, Type: datatype.Float32, Op: datatype.Sum}) == nil
}

// planScore collects the gains of plans by size, in the order of the sizes.
type planScore struct {
	sizes []int64
	// By index of the plan: goccl's time over the plan's, where the plan did worst: by mode, and in place or not.
	gains []map[int]float64
}

func (s *planScore) at(size int64) int {
	if i := slices.Index(s.sizes, size); i >= 0 {
		return i
	}
	s.sizes, s.gains = append(s.sizes, size), append(s.gains, map[int]float64{})
	return len(s.sizes) - 1
}

// add compares the rows of one measurement.
func (s *planScore) add(rows []Row, plans []*planLibrary) {
	type point struct {
		size    int64
		inPlace bool
	}
	base := map[point]float64{}
	index := map[string]int{}
	for i, l := range plans {
		index[l.Name()] = i
	}
	for _, r := range rows {
		i, isPlan := index[r.Library]
		at := s.at(r.Size)
		if !isPlan {
			base[point{r.Size, r.InPlace}] = r.Time
			continue
		}
		own, ok := base[point{r.Size, r.InPlace}] // goccl's own row comes first
		if !ok || r.Time <= 0 || !plans[i].ran(r) {
			continue
		}
		if least, again := s.gains[at][i]; !again || own/r.Time < least {
			s.gains[at][i] = own / r.Time
		}
	}
}

// planRange is a range of message sizes, both ends included, where a plan wins.
type planRange struct {
	plan     int
	from, to int64
	gain     float64 // the least
}

// winners lists the ranges in which a plan is faster than goccl's own choice at every measured size, in every mode, by
// more than the noise of a measurement. A plan stays until another one is faster by more than the noise.
func (s *planScore) winners() []planRange {
	var out []planRange
	last := -1 // plan of the previous size
	for i, size := range s.sizes {
		best, gain := -1, keepFactor
		for p, g := range s.gains[i] {
			if g > gain || g == gain && p < best {
				best, gain = p, g
			}
		}
		if g, ok := s.gains[i][last]; ok && best >= 0 && g > keepFactor && g*keepFactor >= gain {
			best, gain = last, g
		}
		switch {
		case best < 0:
		case best == last:
			r := &out[len(out)-1]
			r.to, r.gain = size, min(r.gain, gain)
		default:
			out = append(out, planRange{best, size, size, gain})
		}
		last = best
	}
	return out
}

// writePlans replaces the plans of a collective that an earlier run wrote into the folder.
func (o *TuneOptions) writePlans(k Kind, ranks int, list []*planLibrary, won []planRange,
	printf func(string, ...any)) error {
	prefix := fmt.Sprintf("tuned_%v_%d_ranks_", k, ranks)
	old, err := filepath.Glob(filepath.Join(o.Plans, prefix+"*.json"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("tune: remove the plan of an earlier run: %w", err)
		}
	}
	if len(won) == 0 {
		printf("# %v: none of %d plans is faster than goccl's own choice\n", k, len(list))
		return nil
	}
	if err := os.MkdirAll(o.Plans, 0o755); err != nil {
		return fmt.Errorf("tune: make the folder of plans: %w", err)
	}
	for _, w := range won {
		p := *list[w.plan].plan
		p.Name = fmt.Sprintf("%s%d_to_%d", prefix, w.from, w.to)
		p.MinSize, p.MaxSize = uint64(w.from), uint64(w.to)
		path := filepath.Join(o.Plans, p.Name+".json")
		if err := regular.Save(path, p.Encode(), o.Stdout); err != nil {
			return err
		}
		printf("# %v of %d to %d bytes: %s, at least %.2f times as fast; written to %s\n", k, w.from, w.to,
			list[w.plan].plan.Name, w.gain, path)
	}
	return nil
}
