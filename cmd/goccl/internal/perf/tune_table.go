package perf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/regular"
)

// enter replaces the rows of each measured collective in the table. Where all sweeps of a collective agree, or there
// was only one, its rows apply to every mode and width. Otherwise each sweep has its own rows; they apply to both modes
// if only one was measured, and to every width likewise.
func enter(t *nvlink.Table, sweeps []sweep, best [][]nvlink.Row) {
	t.Version = nvlink.TableVersion
	if t.Collectives == nil {
		t.Collectives = map[string][]nvlink.Row{}
	}
	for len(sweeps) > 0 {
		kind, n := sweeps[0].kind, 1
		modes, widths, same := false, false, true
		for ; n < len(sweeps) && sweeps[n].kind == kind; n++ {
			modes = modes || sweeps[n].mode != sweeps[0].mode
			widths = widths || sweeps[n].width != sweeps[0].width
			same = same && slices.Equal(best[n], best[0])
		}
		t.Special = slices.DeleteFunc(t.Special, func(s nvlink.Special) bool {
			c, err := collective.ParseCollective(s.Collective)
			return err == nil && c == kind.Collective
		})
		t.Collectives[kind.String()] = best[0]
		for i := range n {
			if same {
				break
			}
			s := nvlink.Special{Collective: kind.String(), Rows: best[i]}
			if modes {
				s.Mode = sweeps[i].mode
			}
			if widths {
				s.Width = sweeps[i].width
			}
			t.Special = append(t.Special, s)
		}
		sweeps, best = sweeps[n:], best[n:]
	}
}

// writable returns an error if one of the files cannot be written.
func writable(paths ...string) error {
	for _, path := range paths {
		if path == "" {
			continue
		}
		if _, err := regular.Check(path); err != nil {
			return invalid("%w", err)
		}
	}
	return nil
}

// SaveJSON saves v at path, if that is not empty; stdout is for "-".
func SaveJSON(path string, v any, stdout io.Writer) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return regular.Save(path, append(b, '\n'), stdout)
}

func byTime(a, b Row) int { return cmp.Compare(a.Time, b.Time) }

// fastest converts times to rows of a table. An algorithm that is chosen at one size and not at the next applies up to
// the geometric mean of the two.
func fastest(rows []Row) []nvlink.Row {
	var chosen []nvlink.Row
	var sizes []int64
	for len(rows) > 0 {
		size := rows[0].Size
		end := slices.IndexFunc(rows, func(r Row) bool { return r.Size != size })
		if end < 0 {
			end = len(rows)
		}
		point := rows[:end]
		rows = rows[end:]
		best := slices.MinFunc(point, byTime)
		name := best.Library
		if n := len(chosen); n > 0 {
			for _, r := range point {
				if r.Library == chosen[n-1].Algorithm && r.Time <= keepFactor*best.Time {
					name = r.Library
				}
			}
			if chosen[n-1].Algorithm == name {
				sizes[n-1] = size
				continue
			}
			chosen[n-1].Bytes = max(sizes[n-1], int64(math.Sqrt(float64(sizes[n-1])*float64(size))))
		}
		chosen, sizes = append(chosen, nvlink.Row{Algorithm: name}), append(sizes, size)
	}
	return chosen
}

// tuneReporter prints the fastest algorithm of each size.
type tuneReporter struct {
	w        io.Writer
	progress *Progress
}

func (t *tuneReporter) Progress(what string) {
	t.progress.Show(what)
}

func (t *tuneReporter) Dropped([]int64) {} // tuning has no list of sizes

func (t *tuneReporter) Point(rows []Row) {
	t.progress.Clear()
	best := slices.MinFunc(rows, byTime)
	_, _ = fmt.Fprintf(t.w, "  %12d %11.2f  %-22s of %d\n", best.Size, best.Time, best.Library, len(rows))
}
