package topo

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// WriteSVG draws the GPUs on a circle, colored by NUMA node, with a line for each pair: thick and solid for NVLink,
// thin for PCIe, dashed without peer access. Hovering over a line shows its kind.
// A legend names the NUMA nodes and their NICs.
func (m *Machine) WriteSVG(w io.Writer) error {
	if len(m.GPUs) == 0 {
		return errors.New("topo: no GPU to draw: goccl topo lists the machine")
	}
	const size, radius, box, row = 640.0, 230.0, 84.0, 20.0
	legend := m.legend()
	height := size + 40 + row*float64(len(legend))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="13">`+
		"\n", size, height)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="white"/>`+"\n", size, height)
	at := func(i int) (x, y float64) {
		a := 2*math.Pi*float64(i)/float64(len(m.GPUs)) - math.Pi/2
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
	for i, g := range m.GPUs {
		x, y := at(i)
		fmt.Fprintf(&b, `<g><title>%s</title><rect x="%.1f" y="%.1f" width="%g" height="44" rx="6" fill="%s" stroke="#444"/>`,
			html.EscapeString(g.Name+" "+g.BusID), x-box/2, y-22, box, fill(g.NUMA))
		fmt.Fprintf(&b,
			`<text x="%.1f" y="%.1f" text-anchor="middle">GPU %d</text>`+
				`<text x="%.1f" y="%.1f" text-anchor="middle" font-size="10">%s</text></g>`+"\n",
			x, y-3, g.Index, x, y+13, html.EscapeString(strings.TrimPrefix(g.Name, "NVIDIA ")))
	}
	for i, c := range []string{m.verdict(), "green: NVLink, gray: PCIe, dashed: no peer access"} {
		fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">%s</text>`+"\n", size/2, size+10+row*float64(i),
			html.EscapeString(c))
	}
	for i, l := range legend {
		y := size + 40 + row*float64(i)
		fmt.Fprintf(&b, `<rect x="40" y="%g" width="12" height="12" fill="%s" stroke="#444"/><text x="60" y="%g">%s</text>`+
			"\n", y, fill(l.node), y+11, html.EscapeString(l.text))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// fill is the colour of a NUMA node.
func fill(node int) string {
	if node < 0 {
		return "#eee"
	}
	return []string{"#dceefb", "#fde8d7", "#e3f4df", "#efe3f7"}[node%4]
}

type legendRow struct {
	node int
	text string
}

// legend has a row for each NUMA node that has GPUs or NICs.
func (m *Machine) legend() (rows []legendRow) {
	nics, nodes := map[int][]string{}, []int{}
	for _, g := range m.GPUs {
		nodes = append(nodes, g.NUMA)
	}
	for _, n := range m.NICs {
		nodes = append(nodes, n.NUMA)
		nics[n.NUMA] = append(nics[n.NUMA], cmp.Or(n.RDMA, n.Name))
	}
	slices.Sort(nodes)
	for _, node := range slices.Compact(nodes) {
		text := fmt.Sprintf("NUMA node %d", node)
		if node < 0 {
			text = "NUMA node unknown"
		}
		if len(nics[node]) > 0 {
			text += ", NICs: " + strings.Join(nics[node], ", ")
		}
		rows = append(rows, legendRow{node, text})
	}
	return rows
}
