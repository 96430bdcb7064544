package hosts

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccl/goccl/collective"
)

const someTables = `{"version": 2, "gpu": "some GPU", "across_hosts": [
 {"device": "host", "network": "tcp", "hosts": 2, "ranks": 8, "collectives":
  {"all_reduce": [{"bytes": 100, "algorithm": "leaders"}, {"bytes": 0, "algorithm": "rails"}]}},
 {"device": "host", "network": "tcp", "hosts": 2, "ranks": 4, "collectives":
  {"all_reduce": [{"bytes": 4096, "algorithm": "whole"}, {"bytes": 65536, "algorithm": "rails"}]}},
 {"device": "host", "network": "ib", "hosts": 2, "ranks": 4, "collectives": {}}]}`

func TestTableOfTheNearestHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tables.json")
	if err := os.WriteFile(path, []byte(someTables), 0o600); err != nil {
		t.Fatal(err)
	}
	tables, err := LoadTables(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		network      string
		hosts, ranks int
		want         *Table
	}{{"tcp", 2, 7, &tables[0]}, {"tcp", 4, 4, &tables[1]}, {"ib", 9, 9, &tables[2]}, {"roce", 2, 4, nil}} {
		if got := nearest(tables, "host", c.network, c.hosts, c.ranks); got != c.want {
			t.Errorf("%s, %d hosts, %d ranks: %+v", c.network, c.hosts, c.ranks, got)
		}
	}
	// Without a wire that reduces in place nothing goes as a whole: that row is dropped, and the last row is for any size.
	top := newTopology(0, []int{0, 0, 1, 1})
	r := top.measured(false)
	if err := r.apply(top, false, &tables[1]); err != nil {
		t.Fatal(err)
	}
	if want := []Row{{0, nameRails}}; !reflect.DeepEqual(r[collective.AllReduce], want) {
		t.Errorf("rows %v, want %v", r[collective.AllReduce], want)
	}
	if err := r.apply(top, false, &tables[0]); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		force string
		bytes int64
		want  string
	}{{"", 0, nameLeaders}, {"", 100, nameLeaders}, {"", 101, nameRails}, {"rails", 1, nameRails},
		{"whole", 1, nameLeaders}} {
		if got := r.choose(top, collective.AllReduce, false, c.force, c.bytes); got != c.want {
			t.Errorf("%d bytes, %q forced: %s, want %s", c.bytes, c.force, got, c.want)
		}
	}
	spans := spans(r[collective.AllReduce], nameRails)
	if want := []collective.Span{{Least: 101, Most: collective.AnySize}}; !reflect.DeepEqual(spans, want) {
		t.Errorf("spans %v, want %v", spans, want)
	}
}

func TestBadTables(t *testing.T) {
	top := newTopology(0, []int{0, 0, 1, 1})
	for _, c := range []struct {
		name string
		rows []Row
		want string
	}{
		{"all_reduce", []Row{{0, "pairs"}}, "has no algorithm"},
		{"gather", []Row{{0, "rails"}}, "has no algorithm"},
		{"all_redoo", []Row{{0, "rails"}}, "unknown collective"},
		{"all_reduce", []Row{{0, "rails"}, {5, "leaders"}}, "sizes ascend"},
		{"all_reduce", []Row{{5, "rails"}, {5, "leaders"}}, "sizes ascend"},
		{"all_reduce", []Row{{-1, "rails"}}, "sizes ascend"},
	} {
		err := top.measured(true).apply(top, true, &Table{Collectives: map[string][]Row{c.name: c.rows}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v", c.name, c.rows, err)
		}
	}
}
