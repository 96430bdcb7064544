package hosts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/job/bootstrap"
)

// Table has measured rows for one kind of device, network, and number of hosts and ranks. A GOCCL_TUNING file has a
// list of them under "across_hosts":
//
//	{"across_hosts": [
//	 {"note": "where the numbers come from", "device": "host", "network": "tcp", "hosts": 2, "ranks": 8,
//	  "collectives": {"all_reduce": [{"bytes": 16384, "algorithm": "leaders"}, {"bytes": 0, "algorithm": "rails"}]}}
//	]}
type Table struct {
	Note    string `json:"note,omitempty"`
	Device  string `json:"device"` // host, cuda
	Network string `json:"network"`
	Hosts   int    `json:"hosts"`
	Ranks   int    `json:"ranks"`
	// Collectives maps names like "all_reduce" to rows of ascending sizes.
	Collectives map[string][]Row `json:"collectives"`
}

// mostTable bounds the size of a GOCCL_TUNING file.
const mostTable = 64 << 20

// LoadTables reads the tables in a GOCCL_TUNING file.
func LoadTables(path string) ([]Table, error) {
	data, err := regular.Read(path, mostTable)
	if err != nil {
		return nil, fmt.Errorf("%w: GOCCL_TUNING: %w", collective.ErrInvalidArgument, err)
	}
	var file struct {
		AcrossHosts []Table `json:"across_hosts"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%w: GOCCL_TUNING: %s: %w", collective.ErrInvalidArgument, path, err)
	}
	return file.AcrossHosts, nil
}

// nearest is the table of the device and the network whose numbers of hosts and ranks are nearest; nil if there is
// none.
func nearest(tables []Table, device, network string, hosts, ranks int) (best *Table) {
	off := func(t *Table) int { return 1024*abs(t.Hosts-hosts) + abs(t.Ranks-ranks) }
	for i := range tables {
		t := &tables[i]
		if t.Device == device && t.Network == network && (best == nil || off(t) < off(best)) {
			best = t
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// apply replaces the rows of the collectives in the table. A table may come from another number of hosts, where more
// algorithms can run: rows of those that cannot run here are dropped.
func (r *rules) apply(t *topology, inPlace bool, table *Table) error {
	for name, rows := range table.Collectives {
		c, err := collective.ParseCollective(name)
		if err != nil {
			return fmt.Errorf("%w: GOCCL_TUNING: across_hosts: %w", collective.ErrInvalidArgument, err)
		}
		for i, row := range rows {
			switch {
			case !slices.Contains(Algorithms(c), row.Algorithm):
				return fmt.Errorf("%w: GOCCL_TUNING: across_hosts: %v has no algorithm %q: there are %s",
					collective.ErrInvalidArgument, c, row.Algorithm, strings.Join(Algorithms(c), ", "))
			case row.Bytes < 0 || row.Bytes == 0 && i+1 < len(rows) || i > 0 && row.Bytes != 0 && row.Bytes <= rows[i-1].Bytes:
				return fmt.Errorf("%w: GOCCL_TUNING: across_hosts: %v: row %d, of %d bytes: sizes ascend, and only the last is "+
					"0, any size", collective.ErrInvalidArgument, c, i+1, row.Bytes)
			}
		}
		can := t.choices(c, inPlace)
		rows = slices.DeleteFunc(slices.Clone(rows), func(row Row) bool { return !slices.Contains(can, row.Algorithm) })
		if len(rows) > 0 {
			rows[len(rows)-1].Bytes = 0
			r[c] = rows
		}
	}
	return nil
}

// Algorithms names the algorithms between which a collective may have a choice.
func Algorithms(c collective.Collective) []string {
	even := newTopology(0, []int{0, 0, 1, 1})
	return even.choices(c, true)
}

// load makes the rules of this rank from GOCCL_TUNING and GOCCL_ALGO.
func (e *Engine) load(cfg *Config) error {
	e.rules = e.measured(e.inPlace)
	if cfg.Environment().Tuning != "" {
		tables, err := LoadTables(cfg.Environment().Tuning)
		if err != nil {
			return err
		}
		if t := nearest(tables, e.dev.ID().Kind.String(), cfg.NetworkName, len(e.members), e.size()); t != nil {
			if err := e.rules.apply(e.topology, e.inPlace, t); err != nil {
				return err
			}
		}
	}
	forced, err := collective.ParseForced(cfg.Environment().Algorithms)
	if err != nil {
		return err
	}
	for _, f := range forced {
		if slices.Contains(e.choices(f.Collective, e.inPlace), f.Name) {
			e.rules[f.Collective] = []Row{{0, f.Name}}
		}
	}
	return nil
}

// agree loads the rules and compares them with the rules of all ranks: ranks that differ would send each other other
// messages than they expect.
func (e *Engine) agree(ctx context.Context, cfg *Config) error {
	own := e.load(cfg)
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, e.rules, own != nil)
	all, err := cfg.Bootstrap.AllGather(ctx, h.Sum(nil))
	if err != nil || own != nil {
		return cmp.Or(own, err)
	}
	for r, b := range all {
		if string(b) != string(h.Sum(nil)) {
			return fmt.Errorf("%w: rank %d has another GOCCL_TUNING or GOCCL_ALGO than rank %d: set the same on all hosts",
				collective.ErrMismatch, bootstrap.NameOf(cfg.Bootstrap, r), bootstrap.NameOf(cfg.Bootstrap, e.rank))
		}
	}
	return nil
}
