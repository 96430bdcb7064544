package topo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/driver/nvml"
	"github.com/goccl/goccl/internal/sysfile"
	"github.com/goccl/goccl/test/mutate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func fixture(t testing.TB, name string) *Machine {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every fixture decodes, encodes back to the same bytes, and renders as its golden file.
func TestFixtures(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.json")
	if len(files) < 3 {
		t.Fatal("fixtures are missing")
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		m := fixture(t, name)
		want, _ := os.ReadFile(f)
		got, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m, again) {
			t.Errorf("%s: decoded %+v, want %+v", name, again, m)
		}
		if *update {
			_ = os.WriteFile(f, got, 0o644)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not in the form that Encode writes: run with -update", f)
		}
		var table bytes.Buffer
		if err := m.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			_ = os.WriteFile(golden, table.Bytes(), 0o644)
		}
		text, _ := os.ReadFile(golden)
		if table.String() != string(text) {
			t.Errorf("%s: not what WriteTable writes:\n%s", golden, table.String())
		}
		var svg bytes.Buffer
		if err := m.WriteSVG(&svg); len(m.GPUs) == 0 {
			if err == nil {
				t.Errorf("%s: a drawing without GPUs", name)
			}
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for _, n := range m.NICs {
			if !strings.Contains(svg.String(), ">NUMA node ") || !strings.Contains(svg.String(), cmp.Or(n.RDMA, n.Name)) {
				t.Errorf("%s: the legend lacks %s", name, n.Name)
			}
		}
		lines := 0
		for d := xml.NewDecoder(&svg); ; {
			tok, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: the drawing is not XML: %v", name, err)
			}
			if s, ok := tok.(xml.StartElement); ok && s.Name.Local == "line" {
				lines++
			}
		}
		if lines != len(m.Links) {
			t.Errorf("%s: %d lines for %d links", name, lines, len(m.Links))
		}
	}
}

func TestQuestions(t *testing.T) {
	h, p, l := fixture(t, "8xh200"), fixture(t, "4xpcie"), fixture(t, "laptop")
	if !h.FullMesh() || p.FullMesh() || l.FullMesh() {
		t.Error("FullMesh")
	}
	if k, ok := h.Link(7, 2); !ok || k.String() != "NV18" {
		t.Errorf("Link(7,2) = %v", k)
	}
	if _, ok := h.Link(3, 3); ok {
		t.Error("a GPU linked to itself")
	}
	if g, ok := h.GPU("0000:ba:00.0"); !ok || g.Index != 6 {
		t.Errorf("GPU by bus id: %+v", g)
	}
	if _, ok := h.GPU(""); ok {
		t.Error("a GPU without a bus id")
	}
	for g := range h.GPUs {
		if n, ok := h.NearestNIC(g); !ok || n.Name != "mlx5_"+string(rune('0'+g)) {
			t.Errorf("NIC of GPU %d is %s", g, n.Name)
		}
	}
	if n, _ := p.NearestNIC(3); n.Name != "enp65s0f0np0" {
		t.Errorf("a NIC that is down was chosen: %s", n.Name)
	}
	if _, ok := (&Machine{}).NearestNIC(0); ok {
		t.Error("a NIC of nothing")
	}
}

func TestValidate(t *testing.T) {
	for name, spoil := range map[string]func(*Machine){
		"source":     func(m *Machine) { m.Source = "guessed" },
		"index":      func(m *Machine) { m.GPUs[2].Index = 5 },
		"pair twice": func(m *Machine) { m.Links[1] = m.Links[0] },
		"pair order": func(m *Machine) { m.Links[0].A, m.Links[0].B = 1, 0 },
		"range":      func(m *Machine) { m.Links[0].B = 99 },
		"missing":    func(m *Machine) { m.Links = m.Links[1:] },
		"path":       func(m *Machine) { m.Links[0].Path = 77 },
		"NV without": func(m *Machine) { m.Links[0].NVLinks = 0 },
		"too many":   func(m *Machine) { m.Links[0].NVLinks = 19 },
		"NIC kind":   func(m *Machine) { m.NICs[0].Kind = "token ring" },
		"NIC paths":  func(m *Machine) { m.NICs[0].Paths = m.NICs[0].Paths[1:] },
		"memory":     func(m *Machine) { m.GPUs[0].MemoryMiB = -1 },
	} {
		m := fixture(t, "8xh200")
		spoil(m)
		if err := m.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Encode(m); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, n := range []string{"4xpcie", "laptop"} { // the small ones: the fuzzer is faster
		b, _ := os.ReadFile(filepath.Join("testdata", n+".json"))
		f.Add(b)
	}
	f.Add([]byte(`{"source":"detected","gpus":[],"nics":[],"surprise":1}`))
	mutate.Fuzz(f, func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if _, err := Encode(m); err != nil {
			t.Fatal(err)
		}
		_ = m.WriteTable(io.Discard)
		_ = m.WriteSVG(io.Discard)
		m.NearestNIC(0)
	})
}

// A synthetic /sys: two NUMA nodes, a switch with a GPU and a NIC, a second switch level, a GPU on its own root port,
// one on the other node.
func fakeSys(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(path, text string) {
		p := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	symlink := func(to, path string) {
		p := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.Symlink(filepath.Join(root, to), p)); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\nprocessor\t: 1\nmodel name\t: Test CPU")
	for n, cpus := range []string{"0", "1"} {
		d := "sys/devices/system/node/node" + string(rune('0'+n))
		write(d+"/cpulist", cpus)
		write(d+"/meminfo", "Node "+string(rune('0'+n))+" MemTotal:       2097152 kB\nNode 0 MemFree: 1 kB")
	}
	dev := func(chain, numa string) {
		d := "sys/devices/" + chain
		write(d+"/numa_node", numa)
		symlink(d, "sys/bus/pci/devices/"+filepath.Base(chain))
	}
	sw := "pci0000:17/0000:17:01.0/0000:18:00.0/"
	dev(sw+"0000:19:00.0/0000:1a:00.0", "0")                           // GPU 0
	dev(sw+"0000:19:01.0/0000:1b:00.0", "0")                           // NIC on the same switch
	dev(sw+"0000:19:02.0/0000:1c:00.0/0000:1d:00.0/0000:1e:00.0", "0") // GPU 1, one switch further
	dev("pci0000:17/0000:17:05.0/0000:30:00.0", "0")                   // GPU 2, another root port
	dev("pci0000:a0/0000:a0:01.0/0000:a1:00.0", "1")                   // GPU 3, other node
	dev("pci0000:40/0000:40:01.0/0000:41:00.0", "0")                   // NIC: same node, another host bridge
	link := func(chain, speed, lanes string) {
		write("sys/devices/"+chain+"/max_link_speed", speed)
		write("sys/devices/"+chain+"/max_link_width", lanes)
	}
	link(sw+"0000:19:00.0/0000:1a:00.0", "32.0 GT/s PCIe", "16")
	link("pci0000:17/0000:17:05.0/0000:30:00.0", "5.0 GT/s PCIe", "8")
	link("pci0000:a0/0000:a0:01.0/0000:a1:00.0", "Unknown", "16")
	nic := func(name, chain string) {
		symlink("sys/devices/"+chain, "sys/class/net/"+name+"/device")
	}
	nic("ib0", sw+"0000:19:01.0/0000:1b:00.0")
	write("sys/class/net/ib0/type", "32")
	write("sys/class/net/ib0/operstate", "up")
	write("sys/class/net/ib0/speed", "400000")
	symlink("sys/devices/"+sw+"0000:19:01.0/0000:1b:00.0", "sys/class/infiniband/mlx5_0/device")
	nic("eth0", "pci0000:40/0000:40:01.0/0000:41:00.0")
	write("sys/class/net/eth0/operstate", "down")
	write("sys/class/net/eth0/speed", "-1")
	write("sys/class/net/lo/type", "772")
	return root
}

func TestDetectFromFakeSys(t *testing.T) {
	gpu := func(bus string, links ...nvml.Link) nvml.GPU {
		return nvml.GPU{Name: "NVIDIA Test", BusID: bus, Memory: 80 << 30, Major: 9, Links: links}
	}
	direct := nvml.Link{Kind: nvml.ToGPU, Remote: "0000:1e:00.0"}
	back := nvml.Link{Kind: nvml.ToGPU, Remote: "0000:1a:00.0"}
	other := nvml.Link{Kind: nvml.ToOther}
	info := &nvml.Info{Driver: "580.1", CUDA: 13000,
		GPUs: []nvml.GPU{gpu("0000:1a:00.0", direct, direct, other), gpu("0000:1e:00.0", back), gpu("0000:30:00.0"),
			gpu("0000:a1:00.0")}}
	for range 4 {
		info.P2P = append(info.P2P, []bool{true, true, true, false})
		info.Known = append(info.Known, []bool{true, true, true, true})
		info.Ancestor = append(info.Ancestor, []nvml.Level{nvml.Unknown, nvml.Unknown, nvml.Unknown, nvml.Unknown})
	}
	m, err := Source{Root: fakeSys(t), NVML: func() (*nvml.Info, error) { return info, nil }}.Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.CPU != (CPU{"Test CPU", 2}) || len(m.NUMA) != 2 || m.NUMA[1] != (NUMA{1, "1", 2048}) || m.GPUs[3].NUMA != 1 ||
		m.GPUs[0].NVLinks != 3 {
		t.Errorf("%+v", m)
	}
	for i, want := range []float64{63, 0, 4, 0} {
		if got := m.GPUs[i].PCIeGBps; got != want {
			t.Errorf("GPU %d has %v GB/s of PCIe, want %v", i, got, want)
		}
	}
	for _, c := range []struct {
		a, b int
		want string
	}{{0, 1, "NV1"}, {0, 2, "PHB"}, {1, 2, "PHB"}, {0, 3, "SYS"}} {
		if l, _ := m.Link(c.a, c.b); l.String() != c.want || l.P2P != (c.b != 3) {
			t.Errorf("%d–%d: %+v, want %s", c.a, c.b, l, c.want)
		}
	}
	want := []NIC{{Name: "eth0", Kind: "ethernet", BusID: "0000:41:00.0",
		Paths: []Path{PathNode, PathNode, PathNode, PathSys}},
		{Name: "ib0", Kind: "infiniband", BusID: "0000:1b:00.0", SpeedMbps: 400000, Up: true, RDMA: "mlx5_0",
			Paths: []Path{PathPIX, PathPXB, PathPHB, PathSys}}}
	if !reflect.DeepEqual(m.NICs, want) {
		t.Errorf("%+v, want %+v", m.NICs, want)
	}
}

func TestNearest(t *testing.T) {
	s := sysfs{sysfile.Root(fakeSys(t))}
	const far, near, none = "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0",
		"/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:01.0/0000:1b:00.0/virtio3", ""
	for _, c := range []struct {
		bus      string
		adapters []string
		want     []int
	}{
		{"0000:1a:00.0", []string{far, near}, []int{1}},
		{"0000:1a:00.0", []string{near, far, none, near}, []int{0, 3}},
		{"0000:1a:00.0", []string{none, far}, []int{1}},
		{"0000:a1:00.0", []string{near, far}, []int{0, 1}}, // both on the other node
		{"0000:1a:00.0", []string{none, none}, []int{0, 1}},
		{"", []string{far, near}, []int{0, 1}},
		{"0000:1a:00.0", nil, nil},
	} {
		if got := s.nearest(c.bus, c.adapters); !slices.Equal(got, c.want) {
			t.Errorf("of %q to %s: %v, want %v", c.adapters, c.bus, got, c.want)
		}
	}
}

func TestSwitchedLinks(t *testing.T) {
	sw := nvml.Link{Kind: nvml.ToSwitch, Remote: "0000:07:00.0"}
	info := &nvml.Info{GPUs: []nvml.GPU{{BusID: "0000:01:00.0", Links: []nvml.Link{sw, sw, sw}},
		{BusID: "0000:02:00.0", Links: []nvml.Link{sw, sw}}}}
	for range 2 {
		info.P2P = append(info.P2P, []bool{true, true})
		info.Ancestor = append(info.Ancestor, []nvml.Level{nvml.Node, nvml.Node})
	}
	if l := link(info, sysfs{sysfile.Root(t.TempDir())}, 0, 1); l.String() != "NV2" || !l.P2P {
		t.Errorf("%+v", l)
	}
}

func TestDetectWithoutAnything(t *testing.T) {
	no := func() (*nvml.Info, error) { return nil, nvml.ErrUnavailable }
	m, err := Source{Root: t.TempDir(), NVML: no, CUDA: no}.Detect(t.Context())
	if err != nil || len(m.GPUs) != 0 || len(m.Notes) != 1 {
		t.Fatalf("%+v %v", m, err)
	}
	if _, err := Encode(m); err != nil {
		t.Error(err)
	}
}

// A driver that hangs must not hang Detect.
func TestDetectEndsWithTheContext(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Source{Root: "/", NVML: func() (*nvml.Info, error) { <-release; return nil, nvml.ErrUnavailable }}.Detect(
		ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestDetectThisMachine(t *testing.T) {
	m, err := Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.CPU.Threads < 1 {
		t.Errorf("%+v", m.CPU)
	}
	var b bytes.Buffer
	if err := m.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + b.String())
}
