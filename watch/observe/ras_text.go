package observe

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/judge"
)

// rasText writes the text of RAS: the job, its communicators in groups of the same kind, errors, warnings. Verdicts are
// errors, named as RAS names a communicator: #group-number.
func rasText(w io.Writer, s *Snapshot, verbose bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goccl %s\n\n", buildinfo.Read().Version)
	rasJob(&b, s)
	fmt.Fprintf(&b, "\nCommunicators... (0.00s)\n=============\n\n")
	names := rasComms(&b, s)
	b.WriteString("\nErrors\n======\n\n")
	for _, c := range s.Communicators {
		rasMissing(&b, c, names[c])
	}
	rasVerdicts(&b, s, true, names)
	b.WriteString("\nWarnings\n========\n\n")
	for _, c := range s.Communicators {
		rasMismatch(&b, c, names[c], verbose)
	}
	rasVerdicts(&b, s, false, names)
	_, err := io.WriteString(w, b.String())
	return err
}

// rasJob is the table of nodes and processes.
func rasJob(b *strings.Builder, s *Snapshot) {
	hosts, processes := map[string]map[int]bool{}, 0
	for _, c := range s.Communicators {
		for _, r := range c.Ranks {
			if hosts[r.Host] == nil {
				hosts[r.Host] = map[int]bool{}
			}
			if !hosts[r.Host][r.PID] {
				hosts[r.Host][r.PID] = true
				processes++
			}
		}
	}
	fewest, most := 0, 0
	for _, p := range hosts {
		if fewest == 0 || len(p) < fewest {
			fewest = len(p)
		}
		most = max(most, len(p))
	}
	b.WriteString("Job summary\n===========\n\n" +
		"  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n")
	fmt.Fprintf(b, "%7d  %9s  %11d  %9d  %7d\n", len(hosts), span(fewest, most), 1, processes, processes)
}

func span(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// rasComms is the table of groups; it returns the name of each communicator.
func rasComms(b *strings.Builder, s *Snapshot) map[*Communicator]string {
	type kind struct {
		nodes, size      int
		perNode, present string
		status, errors   string
	}
	var kinds []kind
	groups := map[kind][]*Communicator{}
	for _, c := range s.Communicators {
		perHost := map[string]int{}
		dead := false
		for _, r := range c.Ranks {
			perHost[r.Host]++
			dead = dead || r.State == Dead || r.State == Stopped
		}
		least, most := c.Size, 0
		for _, n := range perHost {
			least, most = min(least, n), max(most, n)
		}
		k := kind{len(perHost), c.Size, span(least, most), fmt.Sprint(c.Size), "RUNNING", ""}
		var errors []string
		if dead || len(c.Unseen) > 0 {
			errors = append(errors, "INCOMPLETE")
		}
		if slices.ContainsFunc(s.Verdicts, func(v *fault.Verdict) bool { return v.Communicator == c.ID && v.Hang() }) {
			errors = append(errors, "ERROR")
		}
		if len(rasCounts(c)) > 0 {
			errors = append(errors, "MISMATCH")
		}
		k.errors = cmp.Or(strings.Join(errors, ","), "OK")
		if slices.ContainsFunc(c.Ranks, (*Rank).aborted) {
			k.status = "ABORT"
		}
		if groups[k] == nil {
			kinds = append(kinds, k)
		}
		groups[k] = append(groups[k], c)
	}
	names := map[*Communicator]string{}
	if len(kinds) == 0 {
		b.WriteString("No communicator data collected!\n")
		return names
	}
	b.WriteString("Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n" +
		"    #  in group  per comm  per node  per comm  in group\n")
	slices.SortStableFunc(kinds, func(x, y kind) int { return cmp.Compare(y.size, x.size) })
	for i, k := range kinds {
		all := groups[k]
		fmt.Fprintf(b, "%5d  %8d  %8d  %8s  %8s  %8d  %8s  %6s\n", i, len(all), k.nodes, k.perNode, k.present,
			k.size*len(all), k.status, k.errors)
		for n, c := range all {
			names[c] = fmt.Sprintf("#%d-%d (%s)", i, n, c.ID)
		}
	}
	return names
}

// rasMissing reports ranks whose processes are dead or not seen.
func rasMissing(b *strings.Builder, c *Communicator, name string) {
	var lines []string
	for _, r := range c.Ranks {
		if r.State == Dead || r.State == Stopped {
			lines = append(lines, fmt.Sprintf("  Rank %d -- GPU %d managed by process %d on node %s (%s)\n", r.Rank, r.GPU,
				r.PID, r.Host, r.State))
		}
	}
	for _, n := range c.Unseen {
		lines = append(lines, fmt.Sprintf("  Rank %d -- [process information not found]\n", n))
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "%s INCOMPLETE\n  Missing communicator data from %d ranks\n%s\n", name, len(lines),
			strings.Join(lines, ""))
	}
}

// rasVerdicts reports the verdicts that are hangs, or those that are none.
func rasVerdicts(b *strings.Builder, s *Snapshot, hangs bool, names map[*Communicator]string) {
	for _, v := range s.Verdicts {
		if v.Hang() != hangs {
			continue
		}
		name := "(" + v.Communicator + ")"
		for _, c := range s.Communicators {
			if c.ID == v.Communicator {
				name = names[c]
			}
		}
		ranks := "Rank " + judge.List(v.Blamed())
		if len(v.Blamed()) == 0 {
			ranks = "No rank"
		}
		fmt.Fprintf(b, "%s %s\n  %s: %s\n", name, strings.ToUpper(string(v.Kind)), ranks, v.What)
		if len(v.Waiting) > 0 {
			fmt.Fprintf(b, "  Ranks %s wait in %s for %.1f s\n", judge.List(v.Waiting), title(v), v.For.Seconds())
		}
		fmt.Fprintf(b, "  To do: %s\n\n", v.Mend)
	}
}

// rasCounts returns the collectives that ranks have called a different number of times.
func rasCounts(c *Communicator) (different []string) {
	for _, f := range rasFuncs {
		if slices.ContainsFunc(c.Ranks, func(r *Rank) bool { return r.counts()[f] != c.Ranks[0].counts()[f] }) {
			different = append(different, f)
		}
	}
	return different
}

// rasMismatch groups the ranks by their counts, and lists the ranks of small groups.
func rasMismatch(b *strings.Builder, c *Communicator, name string, verbose bool) {
	for _, f := range rasCounts(c) {
		by := map[uint64][]*Rank{}
		var counts []uint64
		for _, r := range c.Ranks {
			n := r.counts()[f]
			if by[n] == nil {
				counts = append(counts, n)
			}
			by[n] = append(by[n], r)
		}
		slices.SortFunc(counts, func(x, y uint64) int { return cmp.Compare(len(by[y]), len(by[x])) })
		fmt.Fprintf(b, "%s MISMATCH\n  Communicator ranks have different %s operation counts\n", name, f)
		for _, n := range counts {
			ranks := by[n]
			few := len(ranks)*4 <= len(c.Ranks) && len(ranks) <= 10 || verbose && len(ranks)*2 < len(c.Ranks)
			if len(ranks) > 1 || !few {
				fmt.Fprintf(b, "  %d ranks have launched up to operation %d\n", len(ranks), n)
			}
			if !few {
				continue
			}
			upTo := ""
			if len(ranks) == 1 {
				upTo = fmt.Sprintf(" has launched up to operation %d", n)
			}
			for _, r := range ranks {
				fmt.Fprintf(b, "  Rank %d%s -- GPU %d managed by process %d on node %s\n", r.Rank, upTo, r.GPU, r.PID, r.Host)
			}
		}
		b.WriteString("\n")
	}
}
