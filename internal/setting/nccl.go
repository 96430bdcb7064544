package setting

import (
	"slices"
	"strings"
)

// unread are NCCL's variables that change results, placement or waiting in NCCL and that goccl does not read:
// docs/environment.md says why. A name that ends in * stands for all that begin so.
var unread = []string{"NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
	"NCCL_BUFFSIZE", "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_P2P_READ_ENABLE", "NCCL_SHM_USE_CUDA_MEMCPY",
	"NCCL_SHM_LOCALITY", "NCCL_TOPO_*", "NCCL_GRAPH_FILE", "NCCL_NET_*", "NCCL_IB_*", "NCCL_CROSS_NIC",
	"NCCL_COLLNET_ENABLE", "NCCL_CUMEM_*", "NCCL_WIN_ENABLE", "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_LAUNCH_MODE",
	"NCCL_TIMEOUT", "NCCL_CONF_FILE"}

// Unread lists, sorted, NCCL's variables of environ that are set and would have an effect in NCCL, but none here.
func Unread(environ []string) (names []string) {
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if value != "" && !read(name) && slices.ContainsFunc(unread, func(row string) bool {
			prefix, wild := strings.CutSuffix(row, "*")
			return row == name || wild && strings.HasPrefix(name, prefix)
		}) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// read reports whether the table has a name of NCCL's: a pattern of unread names may cover it too.
func read(name string) bool {
	return slices.ContainsFunc(Variables(), func(v Variable) bool { return v.Alias == name })
}
