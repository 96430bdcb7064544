package setting

import (
	"slices"
	"strings"
)

var honoured = []Honoured{
	{"`NCCL_DEBUG`", "`VERSION` prints the version at the first use, `WARN` also the text of every failure, `INFO` " +
		"and `TRACE` also what goccl logs, such as a line for each communicator (rank, size, device, table, time of " +
		"set-up); unset, nothing is printed. Output goes to stderr"},
	{"`NCCL_DEBUG_FILE`", "the log goes to this file; `%h` is the host, `%p` the process"},
	{"`NCCL_COMM_ID`", "`ip:port`, `[ipv6]:port` or `host:port`: every `ncclGetUniqueId` names this address, and " +
		"rank 0 serves it. Set `GOCCL_SECRET` too, or strangers who know the address and the user's id can join"},
	{"`NCCL_SOCKET_IFNAME`, `NCCL_SOCKET_FAMILY`", "as in NCCL; `GOCCL_…` of the same names win"},
	{"`NCCL_HOSTID`", "as `GOCCL_HOSTID`, which wins"},
	{"`NCCL_NET`, `NCCL_NET_PLUGIN`", "as `GOCCL_NET` and `GOCCL_NET_PLUGIN`, which win"},
	{"`NCCL_RAS_ADDR`, `NCCL_RAS_ENABLE`", "as in NCCL, where RAS is on without them: here one of them turns it on. " +
		"`GOCCL_RAS_ADDR` wins ([watching jobs](watch.md#several-hosts-a-page-other-tools))"},
	{"`NCCL_MIN_CTAS`, `NCCL_MAX_CTAS`, `NCCL_CTA_POLICY`", "as `GOCCL_…` of the same names, which win"},
	{"`NCCL_PROFILER_PLUGIN`, `NCCL_TUNER_PLUGIN`", "a library, or the x of `libnccl-profiler-x.so` and " +
		"`libnccl-tuner-x.so`; `none`: no plugin ([from NCCL](nccl-migration.md#plugins))"},
	{"`NCCL_GRAPH_STREAM_ORDERING`", "`0`: as `ncclConfig_t.graphStreamOrdering` 0, which wins"},
	{"`NCCL_IB_DISABLE`, `NCCL_IB_HCA`, `NCCL_IB_GID_INDEX`, `NCCL_IB_SL`, `NCCL_IB_TC`, `NCCL_IB_TIMEOUT`, " +
		"`NCCL_IB_RETRY_CNT`", "as in NCCL, but for other defaults of the last two; `GOCCL_…` of the same names win"},
	{"`NCCL_GRAPH_MIXING_SUPPORT`", "`0`: launches of CUDA graphs are not ordered with other work of their " +
		"communicator ([what that means](nccl-migration.md#streams-and-cuda-graphs)); also " +
		"`ncclConfig_t.graphUsageMode` 0 and 1"},
	{"`NCCL_COMM_BLOCKING`", "`0` or `1` overrides `ncclConfig_t.blocking`"},
	{"`NCCL_P2P_DISABLE`, `NCCL_P2P_LEVEL`", "as in NCCL: GPUs whose peer access is disabled, or that are further " +
		"apart than the level, exchange data through host memory ([links](links.md))"},
	{"`NCCL_P2P_DIRECT_DISABLE`", "`1`: as `GOCCL_REGISTER=off`"},
	{"`NCCL_SHM_DISABLE`", "as in NCCL: no link through host memory"},
	{"`NCCL_NVLS_ENABLE`", "there is no multicast in goccl, so `0` holds always; other values change nothing"},
}

var ignored = []Ignored{
	{Warns: true,
		Names: []string{"NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_MIN_NCHANNELS",
			"NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE"}, Why: "`GOCCL_ALGO` and `GOCCL_TUNING` choose"},
	{Warns: true, Names: []string{"NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_P2P_READ_ENABLE",
		"NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SHM_LOCALITY", "NCCL_TOPO_*", "NCCL_GRAPH_FILE"},
		Why: "each pair of GPUs uses the best link that works, found by a probe; `GOCCL_LINK` forces one"},
	{Warns: true, Names: []string{"NCCL_NET_*", "NCCL_IB_*", "NCCL_CROSS_NIC", "NCCL_COLLNET_ENABLE"},
		Why: "`GOCCL_NET` chooses the network between hosts; the other `NCCL_NET_…` and `NCCL_IB_…` have no counterpart"},
	{Warns: true, Names: []string{"NCCL_CUMEM_*", "NCCL_WIN_ENABLE"}, Why: "every buffer works, registered or not"},
	{Names: []string{"NCCL_GRAPH_REGISTER", "NCCL_LOCAL_REGISTER"}, Why: "registration is a hint"},
	{Warns: true, Names: []string{"NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_LAUNCH_MODE"},
		Why: "communicators are independent; each launches its own kernels"},
	{Warns: true, Names: []string{"NCCL_TIMEOUT"}, Why: "`GOCCL_TIMEOUT` and `GOCCL_OP_TIMEOUT` bound waits"},
	{Names: []string{"NCCL_MULTI_RANK_GPU_ENABLE"}, Why: "several ranks on one GPU are always allowed"},
	{Names: []string{"NCCL_CHECK_POINTERS", "NCCL_CHECK_MODE"},
		Why: "arguments are always checked; `GOCCL_CHECK=1` compares them between ranks, `2` also the data"},
	{Warns: true, Names: []string{"NCCL_CONF_FILE"}, Why: "there are no configuration files, `/etc/nccl.conf` included"},
	{Names: []string{"NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_*", "NCCL_RAS_TIMEOUT_FACTOR"},
		Why: "do not exist here"},
}

// NCCL returns NCCL's variables for the documents: those that are honoured, and those that are not read.
func NCCL() ([]Honoured, []Ignored) { return honoured, ignored }

// Unread lists, sorted, NCCL's variables of environ that are set, would change results, placement or waiting in NCCL,
// and have no effect here.
func Unread(environ []string) (names []string) {
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if value != "" && !read(name) &&
			slices.ContainsFunc(ignored, func(g Ignored) bool { return g.Warns && g.covers(name) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// read reports whether the table has a name of NCCL's: a pattern of ignored names may cover it too.
func read(name string) bool {
	return slices.ContainsFunc(table, func(v Variable) bool { return v.Alias == name })
}

// covers reports whether a row has a name, or a pattern for it.
func (g Ignored) covers(name string) bool {
	return slices.ContainsFunc(g.Names, func(row string) bool {
		prefix, wild := strings.CutSuffix(row, "*")
		return row == name || wild && strings.HasPrefix(name, prefix)
	})
}
