package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/driver/nvml"
	"github.com/goccl/goccl/job/topo"
)

func well() nvml.Health {
	return nvml.Health{BusID: "0000:1a:00.0", State: nvml.State{Persistence: 1, ECC: 1, PCIeGen: 5, PCIeGenMost: 5,
		PCIeWidth: 16, PCIeWidthMost: 16, BAR1Total: 256 << 30, BAR1Free: 255 << 30, Memory: 141 << 30}}
}

// Each fault of a GPU is a separate line, with a remedy; healthy GPUs that are well share one for each check.
func TestHealth(t *testing.T) {
	examine := func(gpus ...nvml.Health) []Finding {
		return Source{Health: func() ([]nvml.Health, error) { return gpus, nil }}.Check(t.Context())
	}
	fs := examine(well(), well())
	if len(fs) != len(checks) || Worst(fs) != OK || !strings.HasPrefix(fs[0].Detail, "2 GPUs: ") {
		t.Errorf("%+v", fs)
	}
	for name, c := range map[string]struct {
		spoil  func(h *nvml.Health)
		status Status
		detail string
	}{
		"GPU memory":    {func(h *nvml.Health) { h.RowsFailed = 1 }, Fail, "could not be replaced"},
		"ECC":           {func(h *nvml.Health) { h.ECC = 0 }, Warn, "is off"},
		"PCIe link":     {func(h *nvml.Health) { h.PCIeWidth = 4 }, Warn, "4 lanes of 16"},
		"PCIe replays":  {func(h *nvml.Health) { h.PCIeReplays = 5000 }, Warn, "5000 packets"},
		"NVLink errors": {func(h *nvml.Health) { h.LinkCRCFlit, h.LinkReplays = 3, 2 }, Warn, "2 replays, 3 CRC errors"},
		"BAR1":          {func(h *nvml.Health) { h.BAR1Total = 256 << 20 }, Warn, "256 MiB of 141 GiB"},
		"persistence":   {func(h *nvml.Health) { h.Persistence = 0 }, Warn, "is off"},
		"clocks": {func(h *nvml.Health) {
			h.Throttle, h.SMClock, h.SMClockMost = nvml.ThrottleHardwareHeat, 990, 1980
		}, Warn, "heat (hardware): 990 of 1980 MHz"},
		"compute mode": {func(h *nvml.Health) { h.ComputeMode = 3 }, Warn, "Exclusive"},
	} {
		ill := well()
		c.spoil(&ill)
		fs := examine(well(), ill)
		bad := slices.DeleteFunc(slices.Clone(fs), func(f Finding) bool { return f.Status == OK })
		if len(bad) != 1 || bad[0].Name != name || bad[0].Status != c.status || bad[0].Fix == "" ||
			!strings.Contains(bad[0].Detail, "GPU 1 (0000:1a:00.0): ") || !strings.Contains(bad[0].Detail, c.detail) {
			t.Errorf("%s: %+v", name, bad)
		}
	}
	nothing := nvml.Health{State: nvml.State{Persistence: -1, ECC: -1, ComputeMode: -1, PCIeWidth: -1, RowsFailed: -1,
		Throttle: unread, BAR1Total: unread, PCIeReplays: unread,
		ECCUncorrected: unread, LinkReplays: unread, LinkRecoveries: unread,
		LinkCRCFlit: unread}}
	if fs := examine(nothing); len(fs) != 0 {
		t.Errorf("%+v", fs)
	}
	dead := Source{Health: func() ([]nvml.Health, error) {
		return []nvml.Health{well()}, errors.New("GPU 1 does not answer")
	}}.Check(t.Context())
	if find(dead, "GPU 1").Status != Fail {
		t.Errorf("%+v", dead)
	}
}

// write makes files below a folder.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		p := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// bridge is the registers of a bridge with access control; control is its control register.
func bridge(control uint16) string {
	b := make([]byte, 4096)
	binary.LittleEndian.PutUint32(b[0x100:], 0x0001|0x200<<20) // another capability first
	binary.LittleEndian.PutUint32(b[0x200:], 0x000d)
	binary.LittleEndian.PutUint16(b[0x206:], control)
	return string(b)
}

// ACS and the IOMMU are read from /sys for the bridges above the GPUs, and from those only.
func TestBridges(t *testing.T) {
	for _, c := range []struct {
		config, kind string
		acs, iommu   Status
	}{{bridge(0), "identity", OK, OK}, {bridge(0x1d), "DMA-FQ", Warn, Warn}, {bridge(0x1d)[:64], "identity", Warn, OK}} {
		root := t.TempDir()
		const upper, gpu = "sys/devices/pci0000:00/0000:00:01.0", "0000:1a:00.0"
		write(t, root, map[string]string{upper + "/config": c.config, upper + "/" + gpu + "/config": bridge(0x1d),
			upper + "/" + gpu + "/iommu_group/type": c.kind + "\n", "proc/self/status": "Name:\tx\nSeccomp:\t2\n"})
		link := filepath.Join(root, "sys/bus/pci/devices", gpu)
		err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(filepath.Join(root, upper, gpu), link))
		if err != nil {
			t.Fatal(err)
		}
		m := &topo.Machine{GPUs: []topo.GPU{{BusID: gpu}, {Index: 1, BusID: "0000:2a:00.0"}}}
		var r report
		Source{Isolation: func(m *topo.Machine) Isolation { return isolated(root, m) }}.isolation(&r, m)
		fs := r.findings
		if find(fs, "ACS").Status != c.acs || find(fs, "IOMMU").Status != c.iommu || find(fs, "system calls").Status != OK {
			t.Errorf("%+v", fs)
		}
		if c.acs == Warn && len(c.config) > 64 && !strings.Contains(find(fs, "ACS").Detail, "0000:00:01.0") {
			t.Errorf("%+v", find(fs, "ACS"))
		}
	}
	var r report
	Source{Isolation: func(*topo.Machine) Isolation {
		return Isolation{Seccomp: "2", Refused: map[string]string{"pidfd_open": "notice of a death"},
			Namespaces: []string{"ipc"}}
	}}.isolation(&r, nil)
	fs := r.findings
	if f := find(fs, "system calls"); f.Status != Warn || !strings.Contains(f.Detail, "pidfd_open (notice of a death)") {
		t.Errorf("%+v", fs)
	}
}

func TestContradictions(t *testing.T) {
	for env, want := range map[string]string{
		"NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1":    "NCCL_P2P_DISABLE, NCCL_SHM_DISABLE",
		"NCCL_MIN_CTAS=8 NCCL_MAX_CTAS=4":          "NCCL_MAX_CTAS, NCCL_MIN_CTAS",
		"NCCL_IB_DISABLE=1 NCCL_NET=IB":            "NCCL_IB_DISABLE, NCCL_NET",
		"GOCCL_NET=tcp NCCL_NET=IB":                "GOCCL_NET, NCCL_NET",
		"NCCL_NET_PLUGIN=/nowhere/libnccl-net.so":  "NCCL_NET_PLUGIN",
		"NCCL_PROFILER_PLUGIN=/nowhere/profile.so": "NCCL_PROFILER_PLUGIN",
		"NCCL_SOCKET_IFNAME=nosuch0":               "NCCL_SOCKET_IFNAME",
		"NCCL_MIN_CTAS=4 NCCL_MAX_CTAS=8":          "",
		"GOCCL_NET=tcp NCCL_NET=tcp":               "",
		"NCCL_SOCKET_IFNAME=^docker":               "",
	} {
		r := report{area: "environment"}
		variables := map[string]string{}
		for _, kv := range strings.Fields(env) {
			k, v, _ := strings.Cut(kv, "=")
			variables[k] = v
		}
		contradict(&r, variables, &topo.Machine{NICs: []topo.NIC{{Name: "eth0"}}}, exists)
		if want == "" && len(r.findings) != 0 || want != "" && (len(r.findings) != 1 || r.findings[0].Name != want ||
			r.findings[0].Status == OK || r.findings[0].Fix == "") {
			t.Errorf("%s: %+v", env, r.findings)
		}
	}
}

// A process is examined by its files: two NCCLs, a driver library that is not the module's, a deleted one, its limits
// and variables.
func TestProcess(t *testing.T) {
	root := t.TempDir()
	line := "7f00-7f01 r-xp 00000000 00:00 1                 "
	write(t, root, map[string]string{
		"proc/7/comm": "python\n",
		"proc/7/maps": line + "/venv/nccl/libnccl.so.2\n" + line + "/opt/goccl/libnccl.so.2\n" + line +
			"/usr/lib/libcuda.so.570.10.01\n" + line + "/tmp/libcudart.so.12 (deleted)\n" + line + "/usr/lib/libc.so.6\n",
		"proc/7/limits":  "Limit    Soft Limit  Hard Limit Units\nMax open files   200  4096 files\n",
		"proc/7/environ": "NCCL_P2P_DISABLE=1\x00NCCL_SHM_DISABLE=1\x00",
		"proc/7/root/venv/nccl/libnccl.so.2": "\x7fELF" + strings.Repeat("\x00", 1<<20-10) +
			"NCCL version 2.27.5+cuda12.9\x00",
		"proc/7/root/opt/goccl/libnccl.so.2": "\x7fELF..NCCL version %d.%d.%d by goccl %s",
		"sys/module/nvidia/version":          "580.159.04\n",
	})
	fs := CheckProcess(t.Context(), root, 7)
	for name, want := range map[string]string{"libnccl": "/venv/nccl/libnccl.so.2, /opt/goccl/libnccl.so.2",
		"libcuda": "the kernel module of 580.159.04", "libcudart.so.12 (deleted)": "replaced or removed",
		"open files": "200", "NCCL_P2P_DISABLE, NCCL_SHM_DISABLE": "network alone", "records": "cannot see"} {
		if f := find(fs, name); f.Status == OK || f.Fix == "" || !strings.Contains(f.Detail, want) {
			t.Errorf("%s: %+v in %+v", name, f, fs)
		}
	}
	var texts []string
	for _, f := range fs {
		texts = append(texts, f.Detail)
	}
	all := strings.Join(texts, "\n")
	if !strings.Contains(all, "/venv/nccl/libnccl.so.2, NCCL version 2.27.5+cuda12.9") ||
		!strings.Contains(all, "/opt/goccl/libnccl.so.2, goccl's") || strings.Contains(all, "libc.so.6") {
		t.Error(all)
	}
	if fs := CheckProcess(t.Context(), root, 8); Worst(fs) != Fail {
		t.Errorf("%+v", fs)
	}
	if fs := CheckProcess(context.Background(), "/", os.Getpid()); find(fs, "open files").Detail == "" {
		t.Errorf("%+v", fs)
	}
}

// The plugin of the network is named, or is a failure if it is asked for; one that hangs does not hold doctor up.
func TestPlugin(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
		err  error
		want Status
	}{{"ofi, with the adapters rdmap0s6", true, nil, OK}, {"", true, errors.New("cannot be opened"), Fail},
		{"", false, errors.New("none"), ""}} {
		var r report
		Source{Plugin: func() (string, bool, error) { return c.text, c.ok, c.err }}.plugin(t.Context(), &r)
		fs := r.findings
		if find(fs, "plugin").Status != c.want {
			t.Errorf("%+v", fs)
		}
	}
}
