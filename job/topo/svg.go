package topo

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// WriteSVG draws the GPUs on a circle, colored by NUMA node, with a line for each pair: thick and solid for NVLink,
// thin for PCIe, dashed without peer access. Hovering over a line shows its kind.
func (m *Machine) WriteSVG(w io.Writer) error {
	const size, radius, box = 640.0, 230.0, 84.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="13">`+
		"\n", size, size+40)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="white"/>`+"\n", size, size+40)
	at := func(i int) (x, y float64) {
		a := 2*math.Pi*float64(i)/float64(max(len(m.GPUs), 1)) - math.Pi/2
		return size/2 + radius*math.Cos(a), size/2 + radius*math.Sin(a)
	}
	for _, l := range m.Links {
		x1, y1 := at(l.A)
		x2, y2 := at(l.B)
		style := `stroke="#999" stroke-width="1"`
		if l.Path == PathNVLink {
			style = fmt.Sprintf(`stroke="#76b900" stroke-width="%.1f"`, 1+float64(l.NVLinks)/6)
		}
		title := fmt.Sprintf("GPU %d – GPU %d: %s", l.A, l.B, l)
		if !l.P2P {
			style += ` stroke-dasharray="6 5"`
			title += ", no peer access"
		}
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s><title>%s</title></line>`+"\n", x1, y1, x2, y2,
			style, html.EscapeString(title))
	}
	fills := []string{"#dceefb", "#fde8d7", "#e3f4df", "#efe3f7"}
	for i, g := range m.GPUs {
		x, y := at(i)
		fill := "#eee"
		if g.NUMA >= 0 {
			fill = fills[g.NUMA%len(fills)]
		}
		fmt.Fprintf(&b, `<g><title>%s</title><rect x="%.1f" y="%.1f" width="%g" height="44" rx="6" fill="%s" stroke="#444"/>`,
			html.EscapeString(g.Name+" "+g.BusID), x-box/2, y-22, box, fill)
		fmt.Fprintf(&b,
			`<text x="%.1f" y="%.1f" text-anchor="middle">GPU %d</text>`+
				`<text x="%.1f" y="%.1f" text-anchor="middle" font-size="10">%s</text></g>`+"\n",
			x, y-3, g.Index, x, y+13, html.EscapeString(strings.TrimPrefix(g.Name, "NVIDIA ")))
	}
	captions := []string{"no GPU"}
	if len(m.GPUs) > 0 {
		captions = []string{m.verdict(),
			"green: NVLink, gray: PCIe, dashed: no peer access; boxes of one colour: one NUMA node"}
	}
	for i, c := range captions {
		fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", size/2, size+10+20*float64(i),
			html.EscapeString(c))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
