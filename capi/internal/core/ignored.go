package core

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
)

// ignoredVariables change results, placement or waiting in NCCL; goccl does not read them. docs/environment.md says what takes their place, and a test
// compares the two lists. Names that end in _ are prefixes.
var ignoredVariables = []string{
	"NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_MIN_CTAS", "NCCL_CTA_POLICY", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_TUNER_",
	"NCCL_P2P_", "NCCL_SHM_DISABLE", "NCCL_TOPO_", "NCCL_GRAPH_FILE", "NCCL_NET", "NCCL_NET_", "NCCL_IB_", "NCCL_CROSS_NIC", "NCCL_COLLNET_ENABLE", "NCCL_CUMEM_",
	"NCCL_WIN_ENABLE", "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_LAUNCH_MODE", "NCCL_TIMEOUT", "NCCL_CONF_FILE",
}

// ignored lists, sorted, the variables of environ that are set and have no effect.
func ignored(environ []string) (names []string) {
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if value != "" && slices.ContainsFunc(ignoredVariables, func(v string) bool { return name == v || strings.HasSuffix(v, "_") && strings.HasPrefix(name, v) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// warnOfIgnored logs one line per process.
var warnOfIgnored = sync.OnceFunc(func() {
	if names := ignored(os.Environ()); names != nil {
		slog.Warn("NCCL's variables that goccl does not read are set; docs/environment.md says what takes their place", "variables", strings.Join(names, " "))
	}
})
