package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// record holds the fields of goccl perf's JSON (docs/perf.md) that this program reads.
type record struct {
	Build     struct{ Commit string }
	Libraries []struct{ Name, Version string }
	Setup     struct {
		Collective, Product string
		Ranks               int
		Env                 map[string]string
	}
	Rows []struct {
		Library   string
		SizeBytes int64 `json:"size_bytes"`
		Type      string
		InPlace   bool    `json:"in_place"`
		TimeUs    float64 `json:"time_us"`
		BusbwGBps float64 `json:"busbw_GBps"`
		Wrong     int64
		Stray     int64
		Refused   string
	}
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// times holds the out-of-place times of one file: by size, goccl's figures first, then the other library's.
type times struct {
	commit, product, other string
	table                  string // a selection table that was used in place of the commit's own
	ranks                  int
	us, busbw              map[int64][2]float64
}

func readTimes(path string) (*times, error) {
	var r record
	if err := readJSON(path, &r); err != nil {
		return nil, err
	}
	if len(r.Libraries) != 2 {
		return nil, fmt.Errorf("%s: %d libraries, not two", path, len(r.Libraries))
	}
	t := &times{commit: r.Build.Commit, table: r.Setup.Env["GOCCL_TUNING"], product: r.Setup.Product,
		other: r.Libraries[1].Name, ranks: r.Setup.Ranks, us: map[int64][2]float64{}, busbw: map[int64][2]float64{}}
	for _, row := range r.Rows {
		if row.Wrong != 0 || row.Stray != 0 {
			return nil, fmt.Errorf("%s: %s at %d bytes is wrong: it has no time", path, row.Library, row.SizeBytes)
		}
		if row.InPlace || row.Refused != "" {
			continue
		}
		i := 0
		if row.Library != r.Libraries[0].Name {
			i = 1
		}
		us, busbw := t.us[row.SizeBytes], t.busbw[row.SizeBytes]
		us[i], busbw[i] = row.TimeUs, row.BusbwGBps
		t.us[row.SizeBytes], t.busbw[row.SizeBytes] = us, busbw
	}
	return t, nil
}

// sizes lists the sizes for which every list has a complete row.
func sizes(list ...*times) []int64 {
	var out []int64
	for size := range list[0].us {
		if !slices.ContainsFunc(list, func(t *times) bool { u := t.us[size]; return u[0] == 0 || u[1] == 0 }) {
			out = append(out, size)
		}
	}
	slices.Sort(out)
	return out
}

// measured returns a table of times, eager and in graphs, with links to their files. dir is the document's directory.
func measured(root, dir, folder, collective, typ string) (string, error) {
	var modes [2]*times
	var links [2]string
	for i, mode := range []string{"eager", "graph"} {
		file := filepath.Join(folder, fmt.Sprintf("perf.%s.%s.%s.json", collective, typ, mode))
		t, err := readTimes(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		link, err := filepath.Rel(dir, file)
		if err != nil {
			return "", err
		}
		modes[i], links[i] = t, fmt.Sprintf("[%s](%s)", mode, link)
	}
	eager, graph := modes[0], modes[1]
	if eager.commit != graph.commit || eager.other != graph.other || eager.table != graph.table {
		return "", fmt.Errorf("%s: eager and graph are of different commits, libraries or tables", folder)
	}
	at := eager.commit
	if eager.table != "" {
		at += fmt.Sprintf(" (`GOCCL_TUNING=%s`)", eager.table)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d × %s, a process per GPU, `%s`, out of place. goccl at commit %s and %s in turns in one run\n"+
		"(%s,\n%s).\nTimes in µs; × is the other library's time divided by goccl's.\n\n",
		eager.ranks, eager.product, typ, at, eager.other, links[0], links[1])
	fmt.Fprintf(&b, "| size | eager: goccl | %[1]s | × | graph: goccl | %[1]s | × | busbw, graph, GB/s "+
		"|\n|---:|---:|---:|---:|---:|---:|---:|---:|\n", eager.other)
	union := map[int64]bool{}
	for _, t := range modes {
		for _, s := range sizes(t) {
			union[s] = true
		}
	}
	all := make([]int64, 0, len(union))
	for s := range union {
		all = append(all, s)
	}
	slices.Sort(all)
	for _, size := range all {
		fmt.Fprintf(&b, "| %s |", bytesText(size))
		for _, t := range modes {
			u := t.us[size]
			if u[0] == 0 || u[1] == 0 {
				b.WriteString(" | | |")
				continue
			}
			fmt.Fprintf(&b, " %s | %s | %.2f |", microseconds(u[0]), microseconds(u[1]), u[1]/u[0])
		}
		if bw := graph.busbw[size][0]; bw > 0 {
			fmt.Fprintf(&b, " %.3g |\n", bw)
		} else {
			b.WriteString(" |\n")
		}
	}
	return b.String(), nil
}

func microseconds(us float64) string {
	if us < 100 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

func bytesText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// limitText is bytesText, rounded when a limit lies between two measured sizes.
func limitText(n int64) string {
	switch {
	case n < 10<<10 || n%(1<<10) == 0:
		return bytesText(n)
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// tuning holds the fields of a selection table (engine/nvlink) that this program reads.
type tuning struct {
	Note, GPU   string
	Ranks       int
	Collectives map[string][]choice
	Special     []struct {
		Collective, Mode string
		Width            int
		Rows             []choice
	}
}

type choice struct {
	Bytes     int64
	Algorithm string
}

// chosen lists the algorithms of a collective by size, for every embedded table.
func chosen(root, collective string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(root, "engine/nvlink/tables/*.json"))
	if err != nil {
		return "", err
	}
	var list []tuning
	for _, p := range paths {
		var t tuning
		if err := readJSON(p, &t); err != nil {
			return "", err
		}
		list = append(list, t)
	}
	sort.SliceStable(list, func(i, j int) bool {
		return list[i].GPU < list[j].GPU || list[i].GPU == list[j].GPU && list[i].Ranks < list[j].Ranks
	})
	var b strings.Builder
	b.WriteString("| table | | algorithm, up to the size of the whole buffer |\n|---|---|---|\n")
	found := false
	for _, t := range list {
		line := func(when string, rows []choice) {
			if len(rows) > 0 {
				found = true
				fmt.Fprintf(&b, "| %s, %d ranks: %s | %s | %s |\n", t.GPU, t.Ranks, t.Note, when, spans(rows))
			}
		}
		line("", t.Collectives[collective])
		for _, s := range t.Special {
			if s.Collective != collective {
				continue
			}
			when := s.Mode
			if s.Width > 0 {
				when = strings.TrimSpace(fmt.Sprintf("%s %d-byte elements", when, s.Width))
			}
			line(when, s.Rows)
		}
	}
	if !found {
		return "", fmt.Errorf("no table chooses for %q", collective)
	}
	return b.String(), nil
}

// spans merges rows that differ only in the number of threads.
func spans(rows []choice) string {
	var parts []string
	for i, r := range rows {
		name, _, _ := strings.Cut(r.Algorithm, "/")
		if i+1 < len(rows) {
			if next, _, _ := strings.Cut(rows[i+1].Algorithm, "/"); next == name {
				continue
			}
		}
		switch {
		case r.Bytes > 0:
			parts = append(parts, fmt.Sprintf("`%s` to %s", name, limitText(r.Bytes)))
		case len(parts) > 0:
			parts = append(parts, fmt.Sprintf("`%s` above", name))
		default:
			parts = append(parts, fmt.Sprintf("`%s`", name))
		}
	}
	return strings.Join(parts, ", ")
}

// primitives returns a table of figures and targets.
func primitives(root, dir, file string) (string, error) {
	var figures []struct {
		Name, Unit, Detail, Commit string
		Value                      float64
		Ranks                      int
		Target                     *struct {
			AtMost  *float64 `json:"at_most"`
			AtLeast *float64 `json:"at_least"`
		}
		Met bool
	}
	if err := readJSON(filepath.Join(root, file), &figures); err != nil {
		return "", err
	}
	link, err := filepath.Rel(dir, file)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| figure, %d GPUs, commit %s ([%s](%s)) | reached | target for 8 |\n|---|---:|---|\n",
		figures[0].Ranks, figures[0].Commit, filepath.Base(file), link)
	for _, f := range figures {
		if f.Commit != figures[0].Commit || f.Ranks != figures[0].Ranks {
			return "", fmt.Errorf("%s: %s is of another commit or number of ranks than %s", file, f.Name, figures[0].Name)
		}
		if f.Target == nil {
			continue
		}
		target, verdict := "", "missed"
		if f.Target.AtMost != nil {
			target = fmt.Sprintf("≤ %g", *f.Target.AtMost)
		} else if f.Target.AtLeast != nil {
			target = fmt.Sprintf("≥ %g", *f.Target.AtLeast)
		}
		if f.Met {
			verdict = "met"
		}
		detail, _, _ := strings.Cut(f.Detail, ";")
		detail, _, _ = strings.Cut(detail, ",")
		fmt.Fprintf(&b, "| %s: %s | %.3g %s | %s %s: %s |\n", strings.ReplaceAll(f.Name, "_", " "), detail, f.Value,
			strings.Replace(f.Unit, "us", "µs", 1), target,
			strings.Replace(f.Unit, "us", "µs", 1), verdict)
	}
	return b.String(), nil
}
