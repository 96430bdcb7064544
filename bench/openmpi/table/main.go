// Command table converts the measurements of bench/openmpi/compare.sh to one JSON file and a table.
//
//	table row NAME < output            a line of JSON for each size: of `goccl perf --json`, or of `goccl plan run`
//	table merge -ranks N -dir DIR -goccl VERSION < turns
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/goccl/goccl/internal/buildinfo"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "row":
		rows, err := parse(args[1], in)
		if err != nil {
			return err
		}
		e := json.NewEncoder(out)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	case len(args) > 0 && args[0] == "merge":
		return mergeCommand(args[1:], in)
	}
	return fmt.Errorf("say row NAME or merge, not %q", args)
}

func mergeCommand(args []string, in io.Reader) error {
	f := flag.NewFlagSet("merge", flag.ContinueOnError)
	ranks := f.Int("ranks", 0, "processes")
	dir := f.String("dir", ".", "where comparison.json and table.md go")
	version := f.String("goccl", "", "what was measured")
	if err := f.Parse(args); err != nil {
		return err
	}
	rows, err := readTurns(in)
	if err != nil {
		return err
	}
	c := merge(rows)
	c.Ranks, c.Time, c.Goccl, c.Commit, c.Machine = *ranks, time.Now().UTC().Truncate(time.Second), *version,
		buildinfo.Read().Commit, machine()
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*dir, "comparison.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*dir, "table.md"), c.table(), 0o644)
}
