package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// row is one contender's measurement of one size in one turn, as all_reduce.c prints it.
type row struct {
	Library string  `json:"library"`
	Version string  `json:"version,omitempty"`
	Size    int64   `json:"size_bytes"`
	Time    float64 `json:"time_us"` // median over batches of the slowest rank
	Min     float64 `json:"min_us"`  // of the best batch; 0 if it is not known
	Wrong   int64   `json:"wrong"`   // elements
}

// planLine matches a line of `goccl plan run`, which fails when a result is wrong.
var planLine = regexp.MustCompile(`(\d+) bytes +\S+ +\S+ +([\d.]+) us .*right`)

// parse reads the output of `goccl perf --json` or of `goccl plan run`. Empty input gives no rows: the plan does not
// support the size.
func parse(name string, in io.Reader) ([]row, error) {
	data, err := io.ReadAll(in)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	var rows []row
	if data[0] == '{' {
		var perf struct {
			Rows  []row  `json:"rows"`
			Error string `json:"error"`
		}
		if err := json.Unmarshal(data, &perf); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if perf.Error != "" || len(perf.Rows) == 0 {
			return nil, fmt.Errorf("%s: measured nothing: %s", name, perf.Error)
		}
		for _, r := range perf.Rows {
			r.Library = name
			rows = append(rows, r)
		}
		return rows, nil
	}
	for line := range strings.Lines(string(data)) {
		m := planLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s: not a line of goccl plan run: %q", name, line)
		}
		size, err1 := strconv.ParseInt(m[1], 10, 64)
		took, err2 := strconv.ParseFloat(m[2], 64)
		if err1 != nil || err2 != nil || took <= 0 {
			return nil, fmt.Errorf("%s: not a measurement: %q", name, line)
		}
		rows = append(rows, row{Library: name, Size: size, Time: took})
	}
	return rows, nil
}

// readTurns reads lines of JSON and skips comments, which begin with #.
func readTurns(in io.Reader) ([]row, error) {
	var rows []row
	s := bufio.NewScanner(in)
	for s.Scan() {
		if s.Text() == "" || s.Text()[0] == '#' {
			continue
		}
		var r row
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%q: %w", s.Text(), err)
		}
		if r.Wrong != 0 {
			return nil, fmt.Errorf("%s, %d bytes: %d elements are wrong", r.Library, r.Size, r.Wrong)
		}
		rows = append(rows, r)
	}
	return rows, s.Err()
}
