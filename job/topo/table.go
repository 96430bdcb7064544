package topo

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccl/goccl/internal/printable"
)

// WriteTable writes m as text: a line about the host, the GPUs with their matrix of connections, the NICs, and the
// notes.
func (m *Machine) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %s", cmp.Or(m.CPU.Model, "unknown CPU"),
		printable.Count(m.CPU.Threads, "thread"), printable.Count(len(m.NUMA), "NUMA node"))
	if m.Driver != "" {
		fmt.Fprintf(&b, ", NVIDIA driver %s", m.Driver)
	}
	if m.CUDA > 0 {
		fmt.Fprintf(&b, " (CUDA %d.%d)", m.CUDA/1000, m.CUDA%1000/10)
	}
	if m.Source != "detected" {
		fmt.Fprintf(&b, " [%s]", m.Source)
	}
	b.WriteString("\n")
	if len(m.GPUs) == 0 {
		b.WriteString("No GPU: goccl runs on the host device.\n")
	} else {
		b.WriteString(m.gpuTable() + "\n" + m.verdict() + "\n")
	}
	if len(m.NICs) > 0 {
		b.WriteString(m.nicTable() + "\n")
	}
	for _, n := range m.Notes {
		b.WriteString("note: " + n + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// columns formats rows as aligned columns, with a line under the head.
func columns(rows [][]string) string {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for r, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(" " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if r == 0 {
			total := 0
			for _, w := range width {
				total += w + 2
			}
			b.WriteString(strings.Repeat("─", total) + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cell returns a cell of the matrix. A pair without peer access is marked, whatever its path.
func (m *Machine) cell(a, b int) string {
	if a == b {
		return "X"
	}
	l, _ := m.Link(a, b)
	if !l.P2P {
		return l.String() + "!"
	}
	return l.String()
}

func (m *Machine) gpuTable() string {
	head := []string{"GPU", "Name", "Bus", "NUMA", "Memory", "sm"}
	for j := range m.GPUs {
		head = append(head, "GPU"+strconv.Itoa(j))
	}
	rows := [][]string{head}
	for _, g := range m.GPUs {
		name := g.Name
		if g.MIG {
			name += " (MIG)"
		}
		row := []string{strconv.Itoa(g.Index), name, g.BusID, node(g.NUMA), fmt.Sprintf("%d MiB", g.MemoryMiB), g.Compute}
		for j := range m.GPUs {
			row = append(row, m.cell(g.Index, j))
		}
		rows = append(rows, row)
	}
	return columns(rows)
}

func (m *Machine) nicTable() string {
	head := []string{"NIC", "Kind", "Bus", "NUMA", "Speed", "State", "RDMA"}
	for j := range m.GPUs {
		head = append(head, "GPU"+strconv.Itoa(j))
	}
	rows := [][]string{head}
	for _, n := range m.NICs {
		speed, state := "?", "down"
		if n.SpeedMbps > 0 {
			speed = strconv.FormatFloat(float64(n.SpeedMbps)/1000, 'g', -1, 64) + " Gb/s"
		}
		if n.Up {
			state = "up"
		}
		row := []string{n.Name, n.Kind, n.BusID, node(n.NUMA), speed, state, n.RDMA}
		for j := range n.Paths {
			row = append(row, n.Paths[j].String())
		}
		rows = append(rows, row)
	}
	return columns(rows)
}

// verdict explains in a sentence what the matrix means for goccl.
func (m *Machine) verdict() string {
	switch {
	case len(m.GPUs) == 1:
		return "One GPU: nothing to connect."
	case m.FullMesh():
		return fmt.Sprintf("Every GPU reaches every other over %d NVLinks.", m.Links[0].NVLinks)
	}
	without := 0
	for _, l := range m.Links {
		if !l.P2P {
			without++
		}
	}
	if without == 0 {
		return "Every GPU reaches every other, over different paths."
	}
	return fmt.Sprintf("%d of %d pairs (marked !) have no peer access: kernels cannot reach the other's memory there.",
		without, len(m.Links))
}

func node(n int) string {
	if n < 0 {
		return "?"
	}
	return strconv.Itoa(n)
}
