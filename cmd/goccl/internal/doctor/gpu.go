package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/cmd/goccl/internal/links"
	"github.com/goccl/goccl/cmd/goccl/internal/query"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/driver"
	"github.com/goccl/goccl/job/topo"
)

// The oldest drivers, by the CUDA version they support. goccl's cubins are built with CUDA 12: any driver of CUDA 12.0
// and later (branch 525) runs them on GPUs it knows, by minor-version compatibility. PTX, for GPUs without a cubin and
// for kernels compiled at run time with a 12.8 NVRTC, needs a driver at least as new as the compiler.
const (
	oldestCUDA = 12000
	ptxCUDA    = 12080
)

func version(cuda int) string { return fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10) }

// driver reports whether GPUs can be used at all.
func (s Source) driver(ctx context.Context, r *report) bool {
	if s.Driver == nil {
		return false
	}
	r.area = "driver"
	cuda, err := query.Ask(ctx, s.Driver)
	hardware := s.Hardware != nil && s.Hardware()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		r.fail("libcuda", "see dmesg for Xid errors; a GPU may have to be reset by the administrator",
			"the driver does not answer: %v", err)
		return false
	case errors.Is(err, driver.ErrNoDriver) && !hardware:
		r.warn("libcuda", "nothing, if this machine has no NVIDIA GPU; in a container, start it with --gpus all",
			"%v: goccl runs on the host device", err)
		return false
	case errors.Is(err, driver.ErrNoDriver):
		r.fail("libcuda", "install the NVIDIA driver (branch 525 or later; 570 or later for Blackwell); in a container, "+
			"use the NVIDIA container toolkit and --gpus all", "an NVIDIA GPU is plugged in, but %v", err)
		return false
	default:
		r.fail("libcuda", driverFix(err), "%v", err)
		return false
	}
	r.ok("libcuda", "loads and starts")
	switch {
	case cuda < oldestCUDA:
		r.fail("version", "update the driver to branch 525 or later",
			"supports CUDA %s; goccl's kernels are built with CUDA 12 and need a driver of CUDA 12.0", version(cuda))
	case cuda < ptxCUDA:
		r.warn("version", "update the driver to branch 570 or later",
			"supports CUDA %s: the built-in kernels for sm_80 and sm_90 run; PTX of CUDA 12.8 (other GPUs, kernels compiled "+
				"at run time) does not", version(cuda))
	default:
		r.ok("version", "supports CUDA %s", version(cuda))
	}
	return true
}

func driverFix(err error) string {
	for code, fix := range map[driver.Code]string{
		driver.NoDevice: "check CUDA_VISIBLE_DEVICES, and in a container that it was started with --gpus",
		802:             "start nvidia-fabricmanager (machines with NVSwitch need it) and look at its log",
		803: "the kernel module and libcuda are of different versions: reboot after the driver update, or fix " +
			"the library mounted into the container",
		804: "remove CUDA's forward-compatibility package (cuda-compat) from the library path, or update " +
			"the driver",
		driver.Unknown: "reload the nvidia_uvm module and check the permissions of /dev/nvidia*",
	} {
		if driver.IsCode(err, code) {
			return fix
		}
	}
	return "run nvidia-smi and see dmesg for errors of NVRM"
}

// gpus reports the devices and the connections between them. usable: the CUDA driver works.
func (s Source) gpus(ctx context.Context, r *report, usable bool) *topo.Machine {
	r.area = "gpu"
	var m *topo.Machine
	if s.Machine != nil {
		var err error
		if m, err = s.Machine(ctx); err != nil {
			r.fail("topology", "see dmesg for Xid errors", "%v", err)
		}
	}
	if !usable || s.Visible == nil {
		return m
	}
	n, err := query.Ask(ctx, s.Visible)
	if err != nil || n == 0 {
		r.fail("visible", "check CUDA_VISIBLE_DEVICES, and in a container that it was started with --gpus",
			"this process sees no GPU (%v)", err)
		return m
	}
	if m == nil || len(m.GPUs) == 0 {
		r.ok("visible", "%d", n)
	} else {
		names := map[string]int{}
		var order []string
		for _, g := range m.GPUs {
			if names[g.Name]++; names[g.Name] == 1 {
				order = append(order, g.Name)
			}
			if g.MIG {
				r.warn(fmt.Sprintf("GPU %d", g.Index), "disable MIG for jobs on several GPUs (nvidia-smi -mig 0, as the "+
					"administrator)", "MIG is on: its slices have no peer access")
			}
		}
		for i, name := range order {
			order[i] = fmt.Sprintf("%d × %s", names[name], name)
		}
		r.ok("visible", "%d of %s", n, strings.Join(order, ", "))
	}
	s.peers(ctx, r, n)
	wires(r, m)
	s.pairs(ctx, r, m, n)
	tuning(r, m, s.variables())
	return m
}

func (s Source) peers(ctx context.Context, r *report, n int) {
	if n < 2 || s.PeerAccess == nil {
		return
	}
	without, err := query.Ask(ctx, func() (without []string, err error) {
		for a := range n {
			for b := range n {
				if a == b {
					continue
				}
				ok, err := s.PeerAccess(a, b)
				if err != nil {
					return nil, err
				}
				if !ok {
					without = append(without, fmt.Sprintf("%d→%d", a, b))
				}
			}
		}
		return without, nil
	})
	switch {
	case err != nil:
		r.fail("peer access", "see dmesg for Xid errors", "%v", err)
	case len(without) == 0:
		r.ok("peer access", "all %d pairs", n*(n-1))
	default:
		shown := without
		if len(shown) > 6 {
			shown = append(append([]string{}, shown[:6]...), "…")
		}
		r.warn("peer access", "use GPUs that are connected (goccl topo), or turn off ACS and IOMMU translation in the "+
			"firmware; on NVSwitch machines check nvidia-fabricmanager",
			"%d of %d pairs have none: %s", len(without), n*(n-1), strings.Join(shown, " "))
	}
}

func wires(r *report, m *topo.Machine) {
	if m == nil || len(m.GPUs) < 2 {
		return
	}
	fewest, most := m.GPUs[0].NVLinks, m.GPUs[0].NVLinks
	for _, g := range m.GPUs {
		fewest, most = min(fewest, g.NVLinks), max(most, g.NVLinks)
	}
	switch {
	case most == 0:
		r.warn("nvlink", "nothing, if the machine has none: expect PCIe bandwidth, and no LL128, which needs NVLink",
			"no active NVLink")
	case fewest != most:
		r.warn("nvlink", "see nvidia-smi nvlink -s and the fabric manager's log",
			"GPUs have between %d and %d active links: some are down", fewest, most)
	default:
		r.ok("nvlink", "%d links on every GPU", most)
	}
}

func (s Source) sharing(ctx context.Context, r *report) {
	if s.Share == nil {
		return
	}
	r.area = "sharing"
	type both struct{ vmm, legacy error }
	b, err := query.Ask(ctx, func() (b both, err error) {
		b.vmm, b.legacy = s.Share(ctx)
		return b, nil
	})
	if err != nil {
		b = both{err, err}
	}
	if b.vmm == nil {
		r.ok("VMM handles", "GPU memory can be exported as a file descriptor")
	} else {
		r.fail("VMM handles", "update the driver; on a virtual GPU ask for one with unified memory and IPC", "%v", b.vmm)
	}
	if b.legacy == nil {
		r.ok("legacy IPC", "cudaMalloc memory can be exported")
	} else {
		r.warn("legacy IPC", "share one IPC and PID namespace (--ipc=host --pid=host), or allocate through goccl; WSL and "+
			"virtual GPUs have none", "%v: buffers of cudaMalloc are staged", b.legacy)
	}
}

// slowMicros is the time of a small exchange from which a pair is reported as slow. Three links take 5 to 15 µs.
const slowMicros = 60

// pairs reports what data really does between each pair of GPUs.
func (s Source) pairs(ctx context.Context, r *report, m *topo.Machine, n int) {
	if n < 2 || s.Links == nil {
		return
	}
	found, err := s.Links(ctx, n)
	good := map[string][]links.Verdict{}
	for _, v := range found {
		name, promise := "link "+v.Pair(), v.Promise(m)
		figures := fmt.Sprintf("%s, all data right both ways; %.1f µs for 8 bytes, %s", v.Link, v.Micros, bandwidth(v.GBps,
			v.GBps, promise))
		switch {
		case v.Error != "":
			r.fail(name, "leave one of the two out with CUDA_VISIBLE_DEVICES; see dmesg for Xid errors; turn off ACS and "+
				"IOMMU translation in the firmware, or set GOCCL_LINK=host", "%s", v.Error)
		case promise > 0 && v.GBps < promise*0.4:
			r.warn(name, "see nvidia-smi topo -m and nvidia-smi -q -d PCIE,ROW_REMAPPER: a link may be narrow, slow or busy",
				"%s", figures)
		case v.Micros > slowMicros:
			r.warn(name, "stop what else runs on the two GPUs and on this host, and look again", "%s", figures)
		default:
			good[v.Link+v.Reason] = append(good[v.Link+v.Reason], v)
		}
	}
	for _, v := range found {
		if same := good[v.Link+v.Reason]; len(same) > 0 && same[0] == v {
			sameLink(r, m, same)
		}
	}
	if err != nil {
		r.warn("links", "goccl doctor --timeout 2m", "%v", err)
	}
}

// sameLink reports pairs that have the same link for the same reason, and of which none is bad.
func sameLink(r *report, m *topo.Machine, same []links.Verdict) {
	name := "link " + same[0].Pair()
	if len(same) > 1 {
		name = fmt.Sprintf("%d links", len(same))
	}
	slowest := slices.MaxFunc(same, func(a, b links.Verdict) int { return cmp.Compare(a.Micros, b.Micros) })
	least := slices.MinFunc(same, func(a, b links.Verdict) int { return cmp.Compare(a.GBps, b.GBps) })
	most := slices.MaxFunc(same, func(a, b links.Verdict) int { return cmp.Compare(a.GBps, b.GBps) })
	text := fmt.Sprintf("%s, all data right both ways; at most %.1f µs for 8 bytes, %s", same[0].Link, slowest.Micros,
		bandwidth(least.GBps, most.GBps, same[0].Promise(m)))
	if reason := same[0].Reason; reason != "" {
		text += ": " + reason
	}
	r.ok(name, "%s", text)
}

// bandwidth is a text of a range and what the link promises.
func bandwidth(least, most, promise float64) string {
	text := fmt.Sprintf("%.3g GB/s each way", least)
	if fmt.Sprintf("%.3g", least) != fmt.Sprintf("%.3g", most) {
		text = fmt.Sprintf("%.3g to %.3g GB/s each way", least, most)
	}
	if promise > 0 {
		text += fmt.Sprintf(" of %.3g", promise)
	}
	return text
}

// tuning reports the table that selects algorithms on these GPUs, and the GPUs for which there are no kernels.
func tuning(r *report, m *topo.Machine, env map[string]string) {
	if m == nil || len(m.GPUs) == 0 {
		return
	}
	all := nvlink.GPU{Name: m.GPUs[0].Name}
	for i := range m.GPUs {
		g := &m.GPUs[i]
		var major, minor int
		_, _ = fmt.Sscanf(g.Compute, "%d.%d", &major, &minor)
		if i == 0 {
			all.Major, all.Minor = major, minor
		}
		all.Meet(nvlink.GPU{Name: g.Name, Major: major, Minor: minor})
		if major > 0 && major < 8 {
			r.fail(fmt.Sprintf("GPU %d", g.Index), "leave it out with CUDA_VISIBLE_DEVICES",
				"%s has compute capability %s; goccl's kernels need 8.0 or later", g.Name, g.Compute)
		}
	}
	for _, l := range m.Links {
		switch {
		case !l.P2P:
			all.Link = nvlink.HostMemory
		case l.Path != topo.PathNVLink:
			all.Link = max(all.Link, nvlink.PCIe)
		}
	}
	const name = "tuning"
	if path := env["GOCCL_TUNING"]; path != "" {
		r.ok(name, "GOCCL_TUNING chooses algorithms")
		return
	}
	measured, note, err := nvlink.Tuned(all, len(m.GPUs))
	switch {
	case err != nil:
		r.fail(name, "this is an error in goccl: please report it", "%v", err)
	case measured:
		r.ok(name, "a table for these GPUs chooses algorithms: %s", note)
	default:
		r.warn(name, "goccl tune --out FILE, and GOCCL_TUNING=FILE for every rank",
			"algorithms are chosen by a table that is %s", note)
	}
}
