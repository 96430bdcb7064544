package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/topo"
)

// pair is two variables that cannot both have their way.
type pair struct {
	a, b  string
	wrong func(a, b string) bool
	why   string
}

func less(a, b string) bool {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return errX == nil && errY == nil && x < y
}

func both(a, b string) bool { return on(a) && on(b) }

// contradictions is in the order of the report.
var contradictions = []pair{
	{"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", both, "ranks of one host are left with the network alone"},
	{"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", func(a, b string) bool { return on(a) && b != "LOC" && b != "0" },
		"the level has no effect while peer access is off"},
	{"NCCL_IB_DISABLE", "NCCL_IB_HCA", func(a, _ string) bool { return on(a) },
		"the adapters that are named are not used"},
	{"NCCL_IB_DISABLE", "NCCL_NET", func(a, b string) bool { return on(a) && strings.EqualFold(b, "IB") },
		"the network that is asked for is off"},
	{"NCCL_MAX_CTAS", "NCCL_MIN_CTAS", less, "the most is below the least"},
	{"NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", less, "the most is below the least"},
	{"NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE", func(a, b string) bool { return a == "0" && on(b) },
		"NVLS needs memory of the driver's virtual memory API"},
	{"NCCL_NVLS_ENABLE", "GOCCL_MULTICAST", func(a, b string) bool { return a == "0" && on(b) },
		"multicast stays off"},
	{"TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING", both,
		"waits throw in the calling thread, and the watchdog ends the process as well"},
	{"GOCCL_DEVICE", "CUDA_VISIBLE_DEVICES", func(a, b string) bool { return a == "cuda" && (b == "" || b == "-1") },
		"GPUs are asked for and hidden"},
	{"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", func(a, b string) bool {
		return (a == "void" || a == "none") && b != "" && b != "-1"
	}, "the container has no GPUs, and some are asked for"},
}

// contradict reports variables that work against each other, or name missing devices and files.
func contradict(r *report, env map[string]string, m *topo.Machine, exists func(path string) bool) {
	for _, v := range setting.Variables() {
		a, okA := env[v.Name]
		b, okB := env[v.Alias]
		if v.Alias != "" && okA && okB && a != b {
			r.warn(v.Name+", "+v.Alias, "unset one of the two, or give both the same value",
				"are %q and %q: goccl takes the first, NCCL the second", a, b)
		}
	}
	for _, c := range contradictions {
		a, okA := env[c.a]
		b, okB := env[c.b]
		if okA && okB && c.wrong(a, b) {
			r.warn(c.a+", "+c.b, "unset one of the two", "are %q and %q: %s", a, b, c.why)
		}
	}
	if m != nil {
		names(r, env, m)
	}
	for _, p := range []struct{ variable, kind string }{{"NCCL_NET_PLUGIN", "net"}, {"GOCCL_NET_PLUGIN", "net"},
		{"NCCL_TUNER_PLUGIN", "tuner"}, {"NCCL_PROFILER_PLUGIN", "profiler"}} {
		v := env[p.variable]
		if strings.Contains(v, "/") && !exists(v) {
			r.fail(p.variable, "give the path of a library, or the x of libnccl-"+p.kind+"-x.so, or unset it",
				"is %s: there is no such file", v)
		}
	}
}

func names(r *report, env map[string]string, m *topo.Machine) {
	for _, variable := range []string{"NCCL_SOCKET_IFNAME", "GOCCL_SOCKET_IFNAME", "NCCL_IB_HCA"} {
		v := env[variable]
		if v == "" || strings.HasPrefix(v, "^") || len(m.NICs) == 0 {
			continue
		}
		exact := strings.HasPrefix(v, "=")
		var missing []string
		for _, name := range strings.Split(strings.TrimPrefix(v, "="), ",") {
			name, _, _ = strings.Cut(strings.TrimSpace(name), ":")
			if name != "" && name != "lo" && !named(m, name, variable == "NCCL_IB_HCA", exact) {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			r.warn(variable, "name what ip link or ibv_devices list", "is %s: this host has no adapter %s", v,
				strings.Join(missing, ", "))
		}
	}
}

func named(m *topo.Machine, name string, rdma, exact bool) bool {
	for _, n := range m.NICs {
		have := n.Name
		if rdma {
			have = n.RDMA
		}
		if have == name || !exact && strings.HasPrefix(have, name) {
			return true
		}
	}
	return !rdma && virtual(name, exact)
}

// virtual tells whether there is an interface without hardware, which topo does not list: a bridge, a bond.
func virtual(name string, exact bool) bool {
	all, err := filepath.Glob("/sys/class/net/" + name + "*")
	return err != nil || slices.ContainsFunc(all, func(p string) bool { return !exact || filepath.Base(p) == name })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
