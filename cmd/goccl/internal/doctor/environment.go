package doctor

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/network"
	"github.com/goccl/goccl/job/topo"
)

// known maps the variables of goccl itself to their purpose.
var known = func() map[string]string {
	m := map[string]string{}
	for _, v := range setting.Variables() {
		if v.Brief != "" {
			m[v.Name] = v.Brief
		}
	}
	return m
}()

type rule struct {
	// check reports on a variable that is set.
	name  string
	check func(r *report, value string, env map[string]string, m *topo.Machine)
}

func on(v string) bool {
	return v == "1" || strings.EqualFold(v, "true") || strings.EqualFold(v, "yes")
}

// warned returns a rule for a variable of which some values are bad.
func warned(name, fix, why string, bad func(v string, m *topo.Machine) bool) rule {
	return rule{name, func(r *report, v string, _ map[string]string, m *topo.Machine) {
		if bad(v, m) {
			r.warn(name, fix, "is %s: %s", v, why)
		} else {
			r.ok(name, "is %s", v)
		}
	}}
}

// discourage returns a rule for a switch that is harmful when it is on.
func discourage(name, why string) rule {
	return warned(name, "unset "+name, why, func(v string, _ *topo.Machine) bool { return on(v) })
}

// has returns what says whether a value has a part.
func has(part string) func(string, *topo.Machine) bool {
	return func(v string, _ *topo.Machine) bool { return strings.Contains(v, part) }
}

// rules is in the order of the report.
var rules = []rule{
	{"CUDA_VISIBLE_DEVICES", func(r *report, v string, _ map[string]string, m *topo.Machine) {
		list := strings.Split(v, ",")
		slices.Sort(list)
		switch {
		case v == "" || v == "-1" || v == "NoDevFiles":
			r.warn("CUDA_VISIBLE_DEVICES", "unset CUDA_VISIBLE_DEVICES, or list the GPUs to use", "is %q: it hides every GPU", v)
		case len(slices.Compact(slices.Clone(list))) != len(list):
			r.fail("CUDA_VISIBLE_DEVICES", "name each GPU once: CUDA shows none when one is repeated",
				"is %s: a GPU is named twice", v)
		case m != nil && len(m.GPUs) > 0 && outOfRange(list, len(m.GPUs)):
			r.warn("CUDA_VISIBLE_DEVICES", "use numbers below "+strconv.Itoa(len(m.GPUs)),
				"is %s: it names a GPU that is not there, and hides all after it", v)
		default:
			r.ok("CUDA_VISIBLE_DEVICES", "is %s", v)
		}
	}},
	warned("CUDA_DEVICE_ORDER", "set CUDA_DEVICE_ORDER=PCI_BUS_ID", "on a machine with different GPUs CUDA's order "+
		"differs from goccl topo and nvidia-smi",
		func(v string, m *topo.Machine) bool { return v != "PCI_BUS_ID" && mixed(m) }),
	discourage("CUDA_LAUNCH_BLOCKING", "a process that drives several GPUs hangs, because a launch waits for a kernel "+
		"that waits for the next launch"),
	warned("CUDA_DEVICE_MAX_CONNECTIONS", "set it to 8 or more, or unset it, unless a training framework asks for 1",
		"streams of a GPU queue behind each other, so a kernel that waits for a peer holds up the others",
		func(v string, _ *topo.Machine) bool { return v == "1" }),
	discourage("CUDA_DISABLE_PTX_JIT", "GPUs for which goccl has no cubin cannot be used"),
	discourage("CUDA_FORCE_PTX_JIT", "every start compiles all kernels"),
	{"GOCCL_TIMEOUT", func(r *report, v string, _ map[string]string, _ *topo.Machine) {
		switch d, _ := setting.ParseDuration(v); {
		case v == "":
			r.ok("GOCCL_TIMEOUT", "is empty, as if it were not set")
		case d < time.Second:
			r.warn("GOCCL_TIMEOUT", "give starting ranks some seconds", "is %v: ranks that start a little later are given up", d)
		default:
			r.ok("GOCCL_TIMEOUT", "is %v", d)
		}
	}},
	{"GOCCL_SECRET", func(r *report, v string, _ map[string]string, _ *topo.Machine) {
		if len(v) < 16 {
			r.warn("GOCCL_SECRET", "use 16 random characters or more, the same for every rank",
				"is set, but can be guessed (%d characters)", len(v))
		} else {
			r.ok("GOCCL_SECRET", "is set")
		}
	}},
	networkRule("GOCCL_NET"),
	networkRule("NCCL_NET"),
	warned("GOCCL_TUNING", "name a table that goccl tune --out wrote, or unset it", "ranks cannot read it",
		func(v string, _ *topo.Machine) bool {
			_, err := nvlink.LoadTable(v, nvlink.GPU{}, 1)
			return err != nil
		}),
	{"MASTER_ADDR", unprotected("MASTER_ADDR")},
	{"NCCL_COMM_ID", unprotected("NCCL_COMM_ID")},
	warned("GOCCL_CUDA_LIB", "unset GOCCL_CUDA_LIB, unless this is a test", "not the system's driver library", has("")),
	{"NCCL_NVLS_ENABLE", func(r *report, v string, _ map[string]string, _ *topo.Machine) {
		if v == "0" {
			r.ok("NCCL_NVLS_ENABLE", "is 0: multicast stays off in NCCL; goccl has none")
		} else {
			r.ok("NCCL_NVLS_ENABLE", "is %s: NCCL may use multicast; goccl has none", v)
		}
	}},
	discourage("NCCL_P2P_DISABLE", "GPUs exchange data through host memory, which is much slower than NVLink"),
	discourage("NCCL_SHM_DISABLE", "GPUs without peer access are left with the network"),
	allocator("PYTORCH_CUDA_ALLOC_CONF"),
	allocator("PYTORCH_ALLOC_CONF"),
	warned("LD_PRELOAD", "unset LD_PRELOAD, or be sure that this is the library you mean",
		"it stands before the libnccl that programs load", has("nccl")),
}

func networkRule(name string) rule {
	return warned(name, "use tcp, ib or plugin, or unset it", "no such network", func(v string, _ *topo.Machine) bool {
		return network.Unknown(&setting.Config{Net: v, NetPlugin: setting.Lenient().NetPlugin}) != nil
	})
}

func allocator(name string) rule {
	return warned(name, "remove backend:cudaMallocAsync", "memory of that pool cannot be shared, so every collective "+
		"copies through staging buffers", has("cudaMallocAsync"))
}

// unprotected warns of an address at which ranks join without a secret. The agent of torchrun on one host needs no
// secret: its ranks connect by a unix socket.
func unprotected(name string) func(*report, string, map[string]string, *topo.Machine) {
	return func(r *report, v string, env map[string]string, _ *topo.Machine) {
		socket := name == "MASTER_ADDR" && env["TORCHELASTIC_RUN_ID"] != "" && env["LOCAL_WORLD_SIZE"] != "" &&
			env["LOCAL_WORLD_SIZE"] == env["WORLD_SIZE"]
		if env["GOCCL_SECRET"] == "" && !socket && v != "" {
			r.warn(name, "set GOCCL_SECRET to the same random text on all ranks",
				"is %s, and GOCCL_SECRET is not set: any process that can reach the address can join the job or impersonate a rank",
				v)
		} else {
			r.ok(name, "is %s", v)
		}
	}
}

// mixed reports whether the GPUs are of different kinds.
func mixed(m *topo.Machine) bool {
	return m != nil && slices.ContainsFunc(m.GPUs, func(g topo.GPU) bool { return g.Name != m.GPUs[0].Name })
}

// outOfRange reports whether a number in list is not the number of a GPU; it ignores names (GPU-…, MIG-…).
func outOfRange(list []string, n int) bool {
	return slices.ContainsFunc(list, func(s string) bool {
		i, err := strconv.Atoi(strings.TrimSpace(s))
		return err == nil && (i < 0 || i >= n)
	})
}

func (s Source) variables() map[string]string {
	env := map[string]string{}
	if s.Environment == nil {
		return env
	}
	for _, kv := range s.Environment() {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	return env
}

// environment reports the variables that change the behaviour of goccl, CUDA or a measured NCCL.
func (s Source) environment(r *report, m *topo.Machine) {
	if s.Environment == nil {
		return
	}
	env, before := s.variables(), len(r.findings)
	r.area = "environment"
	done := map[string]bool{}
	for _, rule := range rules {
		done[rule.name] = true
		v, ok := env[rule.name]
		switch want := setting.Wanted(rule.name, v); {
		case want != "":
			refused(r, rule.name, v, want)
		case ok:
			rule.check(r, v, env, m)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if done[k] || !strings.HasPrefix(k, "GOCCL_") && !strings.HasPrefix(k, "NCCL_") {
			continue
		}
		what, ok := known[k]
		switch want := setting.Wanted(k, env[k]); {
		case want != "":
			refused(r, k, env[k], want)
		case ok:
			r.ok(k, "is %s (%s)", env[k], what)
		case strings.HasPrefix(k, "NCCL_"):
			r.ok(k, "is %s (read by NCCL)", env[k])
		default:
			fix := "unset " + k
			if near := nearest(k); near != "" {
				fix += "; did you mean " + near + "?"
			}
			r.warn(k, fix, "is %s: this version does not know it", env[k])
		}
	}
	contradict(r, env, m, exists)
	if len(r.findings) == before {
		r.ok("variables", "none that matters is set")
	}
}

// refused reports a value that goccl refuses.
func refused(r *report, name, value, want string) {
	r.fail(name, "set it to "+want+", or unset it", "is %q: ranks cannot join", value)
}

// nearest returns the known variable with the smallest edit distance, if that is small.
func nearest(name string) string {
	best, distance := "", 4
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := edits(name, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
