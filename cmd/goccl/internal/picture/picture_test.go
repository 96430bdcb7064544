package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccl/goccl/cmd/goccl/internal/perf"
)

// For any rows, the picture is XML, and every point lies in its own half.
func TestPlotStaysInside(t *testing.T) {
	for name, rows := range map[string][]perf.Row{
		"one point":    {{Library: "goccl", Size: 8, Time: 3}},
		"no bandwidth": {{Library: "goccl", Size: 8, Time: 3}, {Library: "goccl", Size: 16, Time: 3}},
		"wide": {{Library: "a<&b", Size: 1, Time: 0.001, BusBW: 1e-9},
			{Library: "a<&b", Size: 1 << 40, Time: 1e9, BusBW: 950}},
		"odd sizes": {{Library: "x", Size: 3, Time: 9.99, BusBW: 7},
			{Library: "x", Size: 1001, Time: 10, BusBW: 8.1, InPlace: true}, {Library: "y", Size: 77, Time: 10.1, BusBW: 3}},
		"types and operators": {{Library: "x", Size: 4, Time: 9, BusBW: 7, Type: "half", Op: "sum"},
			{Library: "x", Size: 8, Time: 9, BusBW: 7, Type: "half", Op: "sum"},
			{Library: "x", Size: 4, Time: 9, BusBW: 7, Type: "half", Op: "max"},
			{Library: "x", Size: 4, Time: 9, BusBW: 7, Type: "int8", Op: "sum"}},
		"beside refused": {{Library: "x", Size: 3, Time: 9, BusBW: 7},
			{Library: "x", Size: 4, Time: 1e-300, BusBW: 1e300, Refused: "impossible"}},
	} {
		path := filepath.Join(t.TempDir(), "p.svg")
		if err := Draw(path, "a < title", rows, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var texts string
		lines := 0
		for d := xml.NewDecoder(strings.NewReader(string(raw))); ; {
			tok, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch e := tok.(type) {
			case xml.CharData:
				texts += string(e) + "\n"
			case xml.StartElement:
				attr := map[string]string{}
				for _, a := range e.Attr {
					attr[a.Name.Local] = a.Value
				}
				if !strings.Contains(attr["style"], "stroke-width:2") { // of a curve, and of its line in the legend
					continue
				}
				low := 420.0 // upwards from the bottom of the page
				if lines >= linesOf(rows) {
					low = 0
				}
				lines++
				for _, p := range strings.FieldsFunc(attr["d"], func(r rune) bool { return r == 'M' || r == 'L' }) {
					xs, ys, _ := strings.Cut(p, ",")
					x, errX := strconv.ParseFloat(xs, 64)
					y, errY := strconv.ParseFloat(ys, 64)
					if errX != nil || errY != nil || !(x >= 0 && x <= 760 && y >= low && y <= low+420) {
						t.Errorf("%s: line %d goes to %s", name, lines, p)
					}
				}
			}
		}
		if lines != 2*linesOf(rows) || !strings.Contains(texts, "a < title") ||
			slices.ContainsFunc(rows, func(r perf.Row) bool { return !strings.Contains(texts, r.Library) }) {
			t.Errorf("%s: %d lines, and the words %q", name, lines, texts)
		}
	}
	if err := Draw(filepath.Join(t.TempDir(), "p.svg"), "empty", nil, nil); err == nil {
		t.Error("an empty picture succeeds")
	}
}

// linesOf counts the lines of a picture: one in the legend for each curve, and the curve if it has two points.
func linesOf(rows []perf.Row) (n int) {
	points := map[curve]int{}
	for _, r := range rows {
		if c := (curve{series(r, rows), r.InPlace}); r.Refused == "" && points[c] < 2 {
			points[c]++
			n++
		}
	}
	return n
}
