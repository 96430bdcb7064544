package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// hostsOf is the number of hosts of a job.
func hostsOf(boot bootstrap.Bootstrap) int { return slices.Max(boot.Hosts()) + 1 }

// across measures the algorithms of engine/hosts on one rank, eagerly and with floats. Rank 0 writes the table. It
// closes boot.
func (o *TuneOptions) across(ctx context.Context, kinds []Kind, boot bootstrap.Bootstrap, kind device.Kind) (
	err error,
) {
	defer func() { err = errors.Join(err, boot.Close()) }()
	r, closer, err := rankOf(boot, kind, bootstrap.LocalRank(boot), bootstrap.LocalSize(boot), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer()) }()
	available, network, err := o.available(ctx, boot, r.Device)
	if err != nil {
		return err
	}
	n := boot.WorldSize()
	table := hosts.Table{Device: kind.String(), Network: network, Hosts: hostsOf(boot), Ranks: n,
		Collectives: map[string][]hosts.Row{},
		Note:        fmt.Sprintf("measured by goccl tune %s on %s", buildinfo.Read().Version, r.Device.Name())}
	if boot.Rank() == 0 {
		r.Reporter = &tuneReporter{w: o.Stdout, progress: NewProgress(o.Stderr)}
		if _, err := fmt.Fprintf(o.Stdout, "# %s\n# %d ranks on %d hosts, network %s\n# %12s %11s  fastest\n", table.Note, n,
			table.Hosts, network, "size (B)", "time (us)"); err != nil {
			return err
		}
	}
	measured := map[string][]Row{}
	for _, k := range kinds {
		names := available[k.Collective]
		if len(names) < 2 {
			continue
		}
		r.Libraries = nil
		for _, name := range names {
			r.Libraries = append(r.Libraries, &ours{algo: name, kind: k, timeout: o.Timeout})
		}
		if boot.Rank() == 0 {
			if _, err := fmt.Fprintf(o.Stdout, "# %v\n", k); err != nil {
				return err
			}
		}
		c := Config{Kind: k, Types: []datatype.Type{datatype.Float32}, MinBytes: o.MinBytes, MaxBytes: o.MaxBytes,
			Factor: o.Factor, Cycles: o.Cycles, Warmup: 1, Check: o.Check, OutOfPlace: true, Prune: pruneFactor,
			PruneFrom: pruneFrom, Timeout: o.Timeout}
		if err := c.normalize(n); err != nil {
			return err
		}
		rows, err := Measure(ctx, c, r)
		if err != nil {
			return err
		}
		if s := Summarize(rows); !s.OK() {
			return fmt.Errorf("tune: %v: %d elements wrong, %d bytes changed outside, %d impossible times: no table is written",
				k, s.Wrong, s.Stray, s.Refused)
		}
		measured[k.String()] = rows
		for _, row := range fastest(rows) {
			table.Collectives[k.String()] = append(table.Collectives[k.String()],
				hosts.Row{Bytes: row.Bytes, Algorithm: strings.TrimPrefix(row.Algorithm, "goccl:")})
		}
	}
	// The relays of both carry the same messages.
	if rows, ok := table.Collectives[collective.AllToAll.String()]; ok {
		table.Collectives[collective.AllToAllV.String()] = rows
	}
	if boot.Rank() != 0 {
		return nil
	}
	if err := writeJSON(o.Rows, measured, o.files); err != nil {
		return err
	}
	return o.enterHosts(&table)
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

// enterHosts writes the file that GOCCL_TUNING names now, if any, with the table in place of an earlier table of the
// same hosts.
func (o *TuneOptions) enterHosts(table *hosts.Table) error {
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
			return fmt.Errorf("tune: GOCCL_TUNING: %w", err)
		}
	}
	tables = slices.DeleteFunc(tables, func(t hosts.Table) bool {
		return t.Device == table.Device && t.Network == table.Network && t.Hosts == table.Hosts && t.Ranks == table.Ranks
	})
	file["across_hosts"] = append(tables, *table)
	return writeJSON(o.Out, file, o.files)
}
