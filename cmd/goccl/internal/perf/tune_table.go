package perf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
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
		for i := 0; i < n && !same; i++ {
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

func hostsOf(boot bootstrap.Bootstrap) int { return slices.Max(boot.Hosts()) + 1 }

// across measures the algorithms of engine/hosts on one rank, eagerly and with floats. Rank 0 writes the table.
func (t *tuning) across(ctx context.Context, kinds []Kind, kind device.Kind) error {
	available, network, err := t.available(ctx, t.boot, t.on.Device)
	if err != nil {
		return err
	}
	table := hosts.Table{Device: kind.String(), Network: network, Hosts: hostsOf(t.boot), Ranks: t.boot.WorldSize(),
		Collectives: map[string][]hosts.Row{},
		Note:        fmt.Sprintf("measured by goccl tune %s on %s", buildinfo.Read().Version, t.on.Device.Name())}
	t.head("%s\n# %d ranks on %d hosts, network %s", table.Note, table.Ranks, table.Hosts, network)
	for _, k := range kinds {
		var libraries []Library
		for _, name := range available[k.Collective] {
			libraries = append(libraries, &ours{algo: name, kind: k, timeout: t.Timeout})
		}
		if len(libraries) < 2 {
			continue
		}
		rows, err := t.measure(ctx, k.String(), "table", t.config(sweep{kind: k, mode: nvlink.ModeEager}), libraries)
		if err != nil {
			return err
		}
		for _, row := range fastest(rows) {
			table.Collectives[k.String()] = append(table.Collectives[k.String()],
				hosts.Row{Bytes: row.Bytes, Algorithm: strings.TrimPrefix(row.Algorithm, "goccl:")})
		}
	}
	// The relays of both carry the same messages.
	if rows, ok := table.Collectives[collective.AllToAll.String()]; ok {
		table.Collectives[collective.AllToAllV.String()] = rows
	}
	if !t.leads() {
		return nil
	}
	file, err := enterHosts(&table)
	if err != nil {
		return errors.Join(t.save(nil), err)
	}
	return t.save(file)
}

// available are the algorithms that can run on the hosts of the job, by collective, and the name of the network.
func (o *TuneOptions) available(ctx context.Context, boot bootstrap.Bootstrap, dev device.Device) (
	map[collective.Collective][]string, string, error,
) {
	opened, err := (&ours{timeout: o.Timeout}).Open(ctx, boot, dev)
	if err != nil {
		return nil, "", err
	}
	c := opened.(*goccl.Comm)
	list := map[collective.Collective][]string{}
	for _, a := range c.Catalog() {
		if a.Forceable && !a.Registered && slices.Contains(hosts.Algorithms(a.Collective), a.Name) {
			list[a.Collective] = append(list[a.Collective], a.Name)
		}
	}
	return list, c.NetworkName(), c.Close()
}

// enterHosts returns the file that GOCCL_TUNING names now, if any, with the table in place of an earlier table of the
// same hosts.
func enterHosts(table *hosts.Table) (map[string]any, error) {
	file := map[string]any{}
	var tables []hosts.Table
	if path := setting.Lenient().Tuning; path != "" {
		data, err := regular.Read(path, 64<<20)
		if err == nil {
			err = json.Unmarshal(data, &file)
		}
		if err == nil {
			tables, err = hosts.LoadTables(path)
		}
		if err != nil {
			return nil, fmt.Errorf("tune: GOCCL_TUNING: %w", err)
		}
	}
	tables = slices.DeleteFunc(tables, func(t hosts.Table) bool {
		return t.Device == table.Device && t.Network == table.Network && t.Hosts == table.Hosts && t.Ranks == table.Ranks
	})
	file["across_hosts"] = append(tables, *table)
	return file, nil
}
