package perf

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// For any rows, the picture is XML, and every point lies in its own half.
func TestPlotStaysInside(t *testing.T) {
	for name, rows := range map[string][]Row{
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
		if err := Plot(path, "a < title", rows, nil); err != nil {
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
				for _, a := range e.Attr {
					if e.Name.Local != "polyline" || a.Name.Local != "points" {
						continue
					}
					top := plotTop + plotNext*float64(lines/curvesOf(rows))
					lines++
					for _, p := range strings.Fields(a.Value) {
						xs, ys, _ := strings.Cut(p, ",")
						x, errX := strconv.ParseFloat(xs, 64)
						y, errY := strconv.ParseFloat(ys, 64)
						if errX != nil || errY != nil || !(x >= plotLeft-1 && x <= plotLeft+plotWide+1 && y >= top-1 &&
							y <= top+plotHigh+1) {
							t.Errorf("%s: curve %d goes to %s", name, lines, p)
						}
					}
				}
			}
		}
		if lines != 2*curvesOf(rows) || !strings.Contains(texts, "a < title") || !strings.Contains(texts, rows[0].Library) {
			t.Errorf("%s: %d curves, and the words %q", name, lines, texts)
		}
	}
}

func curvesOf(rows []Row) int {
	all := map[curve]bool{}
	for _, r := range rows {
		if r.Refused == "" {
			all[curve{r.series(rows), r.InPlace}] = true
		}
	}
	return len(all)
}
