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
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// hostsOf is the number of hosts of a job.
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
