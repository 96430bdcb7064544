package topo

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// WriteTable writes m for people: a line about the host, the GPUs with their matrix of connections, the NICs, and what is not known.
func (m *Machine) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d threads, %d NUMA %s", orUnknown(m.CPU.Model, "unknown CPU"), m.CPU.Threads, len(m.NUMA), plural(len(m.NUMA), "node"))
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

func newTable() table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateColumns = false
	t.Style().Options.DrawBorder = false
	t.Style().Format.Header = text.FormatDefault
	return t
}

// cell of the matrix: a pair without peer access is marked, whatever its path.
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
	t := newTable()
	head := table.Row{"GPU", "Name", "Bus", "NUMA", "Memory", "sm"}
	for j := range m.GPUs {
		head = append(head, "GPU"+strconv.Itoa(j))
	}
	t.AppendHeader(head)
	for _, g := range m.GPUs {
		name := g.Name
		if g.MIG {
			name += " (MIG)"
		}
		row := table.Row{g.Index, name, g.BusID, node(g.NUMA), fmt.Sprintf("%d MiB", g.MemoryMiB), g.Compute}
		for j := range m.GPUs {
			row = append(row, m.cell(g.Index, j))
		}
		t.AppendRow(row)
	}
	return t.Render()
}

func (m *Machine) nicTable() string {
	t := newTable()
	head := table.Row{"NIC", "Kind", "Bus", "NUMA", "Speed", "State", "RDMA"}
	for j := range m.GPUs {
		head = append(head, "GPU"+strconv.Itoa(j))
	}
	t.AppendHeader(head)
	for _, n := range m.NICs {
		speed, state := "?", "down"
		if n.SpeedMbps > 0 {
			speed = strconv.FormatFloat(float64(n.SpeedMbps)/1000, 'g', -1, 64) + " Gb/s"
		}
		if n.Up {
			state = "up"
		}
		row := table.Row{n.Name, n.Kind, n.BusID, node(n.NUMA), speed, state, n.RDMA}
		for j := range n.Paths {
			row = append(row, n.Paths[j].String())
		}
		t.AppendRow(row)
	}
	return t.Render()
}

// verdict says in a sentence what the matrix means for goccl.
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
	return fmt.Sprintf("%d of %d pairs (marked !) have no peer access: kernels cannot reach the other's memory there.", without, len(m.Links))
}

func node(n int) string {
	if n < 0 {
		return "?"
	}
	return strconv.Itoa(n)
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

func orUnknown(s, unknown string) string {
	if s == "" {
		return unknown
	}
	return s
}
