package setting

import (
	"strconv"
	"time"
)

var table = []Variable{
	{Name: "GOCCL_TIMEOUT", Default: "`30s`; through NCCL's ABI `10m`", Want: wantPositive,
		Brief: "deadline of waits on the host",
		Doc:   "how long set-up and host calls wait for other ranks",
		set:   positive(func(c *Config) *time.Duration { return &c.Timeout })},
	{Name: "GOCCL_OP_TIMEOUT", Default: "`30m`; through NCCL's ABI `0`", Want: wantDuration,
		Brief: "deadline of one collective",
		Doc: "how long a collective may wait for its peers before it fails and names the rank that did not come. `0`: " +
			"without a limit, as NCCL waits; then only the death of a peer or an abort ends the wait",
		set: duration(func(c *Config) *time.Duration { return &c.OpTimeout })},
	{Name: "GOCCL_STALL_WARNING", Default: "`30s`", Want: wantDuration, Brief: "wait after which a warning names the peer",
		Doc: "how long an operation waits for a peer before one line in the log (WARN) says which rank waits for which " +
			"peer, in which operation; the wait goes on. `0`: never",
		set: duration(func(c *Config) *time.Duration { return &c.StallWarning })},
	{Name: "GOCCL_BLIP", Default: "`3s`", Want: wantPositive, Brief: "how long a network may be down",
		Doc: "how long no packet may pass between two hosts without a failure. One second later, for longer times up to " +
			"the same time later, the other host's ranks count as dead. The end of a process is noticed at once in any " +
			"case. RDMA adapters have `GOCCL_IB_TIMEOUT`",
		set: positive(func(c *Config) *time.Duration { return &c.Blip })},
	{Name: "GOCCL_SPIN_LIMIT", Default: "`10m`", Want: wantDuration, Brief: "deadline of one wait in a kernel",
		Doc: "how long one wait inside a kernel may take before it gives up; `0`: until an abort",
		set: duration(func(c *Config) *time.Duration { return &c.SpinLimit })},
	{Name: "GOCCL_RECORD", Default: "`512`", Want: "a number from 0 to 65536", Brief: "size of the flight recorder",
		Doc: "how many of the last collectives, and of the last sends and receives, of each communicator the " +
			"[flight recorder](flight-recorder.md) holds; `0`: it is off, and there are no verdicts",
		set: number(func(c *Config) *int { return &c.Record }, 0, 65536)},
	{Name: "GOCCL_RECORD_DIR", Default: "memory", Brief: "folder for records that remain after a crash",
		Doc: "a folder in which the flight recorder has its file, which remains when the process crashes, is killed or a " +
			"communicator fails; `goccl trace` reads it. Without it the records are in memory",
		set: text(func(c *Config) *string { return &c.RecordDir })},
	{Name: "GOCCL_RECORD_SIGNAL", Default: "none", Want: "USR1, USR2, HUP, WINCH or a number from 1 to 64",
		Brief: "signal that writes the records",
		Doc: "a signal, as `USR2`, at which the process writes its records and stacks, as text into the log and as files " +
			"into `GOCCL_RECORD_DIR` if that is set",
		set: signalOf(func(c *Config) *string { return &c.RecordSignal })},
	{Name: "GOCCL_VERDICT_AFTER", Default: "`2s`", Want: wantDuration, Brief: "wait after which ranks find out the reason",
		Doc: "how long an operation waits, and at least 20 times its usual time, before the ranks compare their records " +
			"and log which rank it waits for, why, and what to do. `0`: never. With `GOCCL_OP_TIMEOUT` it is at most " +
			"half of that",
		set: duration(func(c *Config) *time.Duration { return &c.VerdictAfter })},
	{Name: "GOCCL_RAS_ADDR", Alias: "NCCL_RAS_ADDR", Default: "none", Brief: "where the job answers clients of RAS",
		Doc: "`HOST:PORT` at which each process of the job answers clients of NCCL's RAS, such as `ncclras`, for all of " +
			"them ([watching jobs](watch.md)), as `NCCL_RAS_ADDR`, which is read when this one is not set. " +
			"`NCCL_RAS_ENABLE=1` alone is `localhost:28028`, NCCL's own; `NCCL_RAS_ENABLE=0` is none",
		set: text(func(c *Config) *string { return &c.RASAddr })},
	{Name: "GOCCL_SECRET", Default: "derived from address and user, which is weak", Brief: "secret of the job",
		Doc: "what ranks prove to each other when they join by address; without it goccl warns once, because others can " +
			"pose as ranks. `goccl run` sets a fresh one",
		set: text(func(c *Config) *string { return &c.Secret })},
	{Name: "GOCCL_SOCKET_IFNAME", Alias: "NCCL_SOCKET_IFNAME", Default: "chosen", Brief: "network interface",
		Doc: "network interfaces: a comma-separated list of name prefixes in the order of preference, as " +
			"`NCCL_SOCKET_IFNAME`, which is read when this one is not set",
		set: text(func(c *Config) *string { return &c.Interface })},
	{Name: "GOCCL_SOCKET_FAMILY", Alias: "NCCL_SOCKET_FAMILY", Default: "either", Want: "AF_INET or AF_INET6",
		Brief: "IPv4 or IPv6",
		Doc: "`AF_INET` or `AF_INET6`, as `NCCL_SOCKET_FAMILY`, which is read when this one is not set; anything else " +
			"is refused",
		set: choice(func(c *Config) *int { return &c.Family }, map[string]int{"AF_INET": 4, "4": 4, "AF_INET6": 6, "6": 6})},
	{Name: "GOCCL_NET", Alias: "NCCL_NET", Default: "the first that every rank has: plugin, ib, tcp",
		Brief: "network between hosts",
		Doc: "forces the network between hosts: `tcp` (or `Socket`), `ib`, `plugin` or the plugin's own name; the same on " +
			"every rank. As `NCCL_NET`, which is read when this one is not set",
		set: text(func(c *Config) *string { return &c.Net })},
	{Name: "GOCCL_NET_PLUGIN", Alias: "NCCL_NET_PLUGIN", Default: "`libnccl-net.so`", Brief: "plugin of the network",
		Doc: "the plugin that carries data between hosts: a file, or the NAME of `libnccl-net-NAME.so`; `none`: no plugin. " +
			"As `NCCL_NET_PLUGIN`, which is read when this one is not set",
		set: text(func(c *Config) *string { return &c.NetPlugin })},
	{Name: "GOCCL_NET_SOCKETS", Default: "a quarter of the processors, 1 to 8", Want: "a number from 1 to 63",
		Brief: "TCP connections for large messages",
		Doc: "over TCP, how many connections carry the large messages of a pair of ranks, beside one for small messages. " +
			"The smaller number of the two sides holds",
		set: number(func(c *Config) *int { return &c.NetSockets }, 1, 63)},
	{Name: "GOCCL_NET_ENCRYPT", Default: "`0`", Want: wantSwitch, Brief: "encrypts data between hosts",
		Doc: "`1`: over TCP, data between hosts is encrypted, at a fraction of the speed. Connections are authenticated in " +
			"any case. It is enough if one side of a connection wants it",
		set: flag(func(c *Config) *bool { return &c.NetEncrypt })},
	{Name: "GOCCL_HOSTID", Alias: "NCCL_HOSTID", Default: "found out", Brief: "identity of the host",
		Doc: "which ranks are on one host, as `NCCL_HOSTID`, which is read when this one is not set. Without either, " +
			"ranks are on one host if a unix socket leads from one to the other: containers need one network namespace, " +
			"names do not matter",
		set: text(func(c *Config) *string { return &c.HostID })},
	{Name: "GOCCL_QUORUM", Default: "`off`", Want: WantQuorum, Brief: "which part of a job goes on after a partition",
		Doc: "which part of a communicator `Shrink` lets [go on](hosts.md#partitions) without the rest. `off`: every part, " +
			"so that both halves of a partition go on. `majority`: more than half of the ranks, or exactly half of them " +
			"with the lowest rank. `rank N`: the part with rank N of the job; in a communicator without it, the " +
			"majority. The other part gets an error. The same on every rank",
		set: quorum},
	{Name: "GOCCL_CHECK", Default: "`0`", Want: "0, 1 or 2", Brief: "ranks compare their calls",
		Doc: "`1`: ranks compare their calls before every operation, which is slow and finds mistakes. `2`: " +
			"they also compare the data afterwards, by checksums, which finds flipped bits",
		set: choice(func(c *Config) *Checks { return &c.Check }, map[string]Checks{"0": CheckNothing, "false": CheckNothing,
			"1": CheckCalls, "true": CheckCalls, "2": CheckData})},
	{Name: "GOCCL_ALGO", Default: "measured choice", Brief: "forces an algorithm",
		Doc: "forces algorithms: `all_reduce:two_shot_ll128`, several separated by commas",
		set: text(func(c *Config) *string { return &c.Algorithms })},
	{Name: "GOCCL_OVERLAP", Default: "`1`", Want: wantSwitch, Brief: "launches that overlap on GPUs",
		Doc: "`0`: on GPUs, no operation takes its place before the one ahead of it on its stream has ended " +
			"(programmatic dependent launch)",
		set: flag(func(c *Config) *bool { return &c.Overlap })},
	{Name: "GOCCL_TUNING", Default: "embedded tables", Brief: "file of measured choices",
		Doc: "a file of measured choices, on GPUs in the form of `engine/nvlink/tables`, and across hosts; the same on " +
			"every rank",
		set: text(func(c *Config) *string { return &c.Tuning })},
	{Name: "GOCCL_PLAN_DIR", Default: "none", Brief: "folder of plans to register",
		Doc: "a folder of plans (`*.json`) that communicators of the plan's size register; the same on all ranks",
		set: text(func(c *Config) *string { return &c.PlanDir })},
	{Name: "GOCCL_MAX_CTAS", Alias: "NCCL_MAX_CTAS", Default: "the fastest number",
		Want:  "a number of thread blocks, from 1 to 65535",
		Brief: "the most thread blocks of a collective on GPUs",
		Doc: "on GPUs, the most thread blocks of a collective's kernel (packets, the ring; a stream of messages has a " +
			"sending and a receiving block for each channel). The smallest number of any rank holds. Fewer leave more of " +
			"the GPU to others: kernels of two communicators that run at the same time, in another order on another " +
			"rank, must fit on it together, or they wait for each other until `GOCCL_OP_TIMEOUT`",
		set: blocks(func(c *Config) *uint16 { return &c.MaxCTAs })},
	{Name: "GOCCL_MIN_CTAS", Alias: "NCCL_MIN_CTAS", Default: "the fastest number",
		Want:  "a number of thread blocks, from 1 to 65535",
		Brief: "the fewest thread blocks of a collective on GPUs",
		Doc: "on GPUs, the fewest thread blocks of a collective's kernel (packets, the ring), as far as each of them " +
			"still has work and `GOCCL_MAX_CTAS` allows. The largest number of any rank holds",
		set: blocks(func(c *Config) *uint16 { return &c.MinCTAs })},
	{Name: "GOCCL_CTA_POLICY", Alias: "NCCL_CTA_POLICY", Default: "`DEFAULT`",
		Want:  "DEFAULT, EFFICIENCY or ZERO, or 0, 1 or 2",
		Brief: "how far collectives spare the SMs of GPUs",
		Doc: "on GPUs, how far collectives spare the SMs: `DEFAULT` (0): the fastest launch; `EFFICIENCY` (1): at most 8 " +
			"thread blocks, and copy engines from 1 MiB a slice; `ZERO` (2): copy engines wherever they can do the work, " +
			"even if they are slower. The last two use copy engines only where `GOCCL_COPY_ENGINE` is not `0`. The policy " +
			"that spares most of any rank's holds",
		set: setCTAPolicy},
	{Name: "GOCCL_EXACT", Default: "`run`", Want: "run, batch, placement or reference",
		Brief: "on what the bits of a reduction may depend",
		Doc: "on what the bits of a [reduction](exact.md) of floats may depend. `run`: not on timing. `batch`: nor on " +
			"count, position, alignment and algorithm. `placement`: nor on which ranks share a host. `reference`: they " +
			"are the sum in rank order, rounded once. The furthest promise that any rank asks for holds for all",
		set: choice(func(c *Config) *Exact { return &c.Exact }, map[string]Exact{"run": ExactRun, "batch": ExactBatch,
			"placement": ExactPlacement, "reference": ExactReference})},
	{Name: "GOCCL_COPY_ENGINE", Default: "large slices", Want: "0 (never), 1 (from 1 MiB a slice), or nothing (large " +
		"slices)",
		Brief: "from where copy engines do what kernels do, in windows on GPUs",
		Doc: "on GPUs, all-gathers from 64 MiB a slice and all-to-alls from 32 MiB whose recv lies in a " +
			"[window](windows.md) go by the copy engines. `0`: never; `1`: from 1 MiB. The least that any rank wants holds " +
			"for all",
		set: choice(func(c *Config) *Copies { return &c.CopyEngine }, map[string]Copies{"0": CopyNever, "1": CopyAlways})},
	{Name: "GOCCL_REGISTER", Default: "`auto`", Want: "auto or off",
		Brief: "reductions read the users' buffers of other GPUs in place",
		Doc: "on GPUs, `auto`: the ranks of a host map each other's buffers from their first use on, large reductions " +
			"read them in place, and large messages are stored there. Memory that is freed is only free when the other " +
			"ranks have unmapped it, 0.1 s later, so no more buffers are mapped while less than 1/16 of a GPU's memory " +
			"is free. `off`: never, as with `NCCL_P2P_DIRECT_DISABLE=1`, and with PyTorch's allocators whose memory " +
			"cannot be mapped (`expandable_segments`, `cudaMallocAsync` in `PYTORCH_CUDA_ALLOC_CONF`). One rank that has " +
			"it off is enough",
		set: choice(func(c *Config) *bool { return &c.NoRegister }, map[string]bool{"auto": false, "off": true})},
	{Name: "GOCCL_MOE_STAGES", Default: "`1`", Want: wantSwitch, Brief: "bulk copies of mixtures of experts",
		Doc: "on GPUs of compute capability 9.0 and later, the rows of a rank of many tokens go by bulk copies (TMA) " +
			"through shared memory ([mixtures of experts](moe.md)). `0`: by loads and stores. Ranks may differ",
		set: flag(func(c *Config) *bool { return &c.MoEStages })},
	{Name: "GOCCL_LINK", Default: "the best that works", Want: "nvlink, pcie, host or net",
		Brief: "forces the link between the GPUs of a host",
		Doc: "forces the link between the GPUs of a host: `nvlink`, `pcie` (peer access), `host` (page-locked host " +
			"memory), `net`. Set-up fails, with the reason, if it does not work. The same on every rank",
		set: choice(func(c *Config) *Link { return &c.Link }, map[string]Link{"nvlink": LinkNVLink, "pcie": LinkPCIe,
			"host": LinkHost, "net": LinkNet})},
	{Name: "GOCCL_IB_DISABLE", Alias: "NCCL_IB_DISABLE", Default: "`0`", Want: wantSwitch, Brief: "no RDMA adapters",
		Doc: "`1`: RDMA adapters (InfiniBand, RoCE) are not used",
		set: flag(func(c *Config) *bool { return &c.IB.Disabled })},
	{Name: "GOCCL_IB_HCA", Alias: "NCCL_IB_HCA", Default: "all with a link", Brief: "RDMA adapters",
		Doc: "RDMA adapters to use: a comma-separated list of name prefixes, each with `:port` if wanted, as " +
			"`NCCL_IB_HCA`; `=` in front means whole names, `^` all except these",
		set: text(func(c *Config) *string { return &c.IB.Adapters })},
	{Name: "GOCCL_IB_GID_INDEX", Alias: "NCCL_IB_GID_INDEX", Default: "chosen", Want: "a number from 0 to 255",
		Brief: "address of an RDMA port",
		Doc: "index in the table of addresses of an RDMA port. Else on Ethernet the first of RoCE v2 with an IPv4 " +
			"address, then RoCE v2 with an IPv6 address; on InfiniBand the first",
		set: number(func(c *Config) *int { return &c.IB.GIDIndex }, 0, 255)},
	{Name: "GOCCL_IB_SL", Alias: "NCCL_IB_SL", Default: "`0`", Want: "a number from 0 to 15",
		Brief: "service level of RDMA packets", Doc: "service level of RDMA packets",
		set: number(func(c *Config) *int { return &c.IB.ServiceLevel }, 0, 15)},
	{Name: "GOCCL_IB_TC", Alias: "NCCL_IB_TC", Default: "`0`", Want: "a number from 0 to 255",
		Brief: "traffic class of RDMA packets", Doc: "traffic class of RDMA packets (DSCP and ECN bits of RoCE v2)",
		set: number(func(c *Config) *int { return &c.IB.TrafficClass }, 0, 255)},
	{Name: "GOCCL_IB_TIMEOUT", Alias: "NCCL_IB_TIMEOUT", Default: "`17`", Want: "a number from 1 to 31",
		Brief: "time until an RDMA packet is sent again",
		Doc: "an RDMA packet is sent again after 4.096 µs · 2^this, 537 ms by default. With `GOCCL_IB_RETRY_CNT` it says " +
			"when a silent peer counts as dead: after 3.8 s; with NCCL's defaults after 34 s",
		set: number(func(c *Config) *int { return &c.IB.Timeout }, 1, 31)},
	{Name: "GOCCL_IB_RETRY_CNT", Alias: "NCCL_IB_RETRY_CNT", Default: "`6`", Want: "a number from 0 to 7",
		Brief: "how often an RDMA packet is sent again",
		Doc:   "how often an RDMA packet is sent again. Software RDMA (rxe) takes 7 for always",
		set:   number(func(c *Config) *int { return &c.IB.Retries }, 0, 7)},
	{Name: "GOCCL_CACHE_DIR", Default: "the user's cache folder", Brief: "cache of compiled kernels",
		Doc: "where kernels compiled at run time are kept; `off`: nowhere",
		set: text(func(c *Config) *string { return &c.CacheDir })},
	{Name: "GOCCL_CUDA_LIB", Default: "`libcuda.so.1`", Brief: "opens another libcuda",
		Doc: "opens another driver library",
		set: text(func(c *Config) *string { return &c.CUDALib })},
	{Name: "GOCCL_NVML_LIB", Default: "`libnvidia-ml.so.1`", Brief: "opens another libnvidia-ml",
		Doc: "opens another NVML",
		set: text(func(c *Config) *string { return &c.NVMLLib })},
	{Name: "GOCCL_NVRTC", Default: "searched", Brief: "opens another libnvrtc", Doc: "opens another libnvrtc, for " +
		"users' kernels",
		set: text(func(c *Config) *string { return &c.NVRTC })},
	{Name: "GOCCL_RUN_ID", Brief: "set by goccl run", Doc: "set by `goccl run`: tells jobs apart"},

	{Name: "CUDA_HOME", Section: Foreign, set: addToolkit,
		Doc: "a toolkit in which libnvrtc and CUDA's headers are looked for, after the packages of PyPI"},
	{Name: "CUDA_PATH", Section: Foreign, set: addToolkit, Doc: "as `CUDA_HOME`, after it"},
	{Name: "MASTER_ADDR", Section: Foreign, set: text(func(c *Config) *string { return &c.MasterAddr }),
		Doc: "besides its meaning for joining: Ethernet endpoints of primitives listen at the address from which this " +
			"host reaches it"},
	{Name: "GOGC", Section: Foreign, Default: "`400` in `libgoccl.so`",
		set: text(func(c *Config) *string { return &c.GOGC }),
		Doc: "how much garbage Go's collector lets grow"},
	{Name: "CI", Section: Foreign, set: given(func(c *Config) *bool { return &c.NoProgress }),
		Doc: "set to anything: `goccl perf` shows no progress"},
	{Name: "NO_COLOR", Section: Foreign, set: given(func(c *Config) *bool { return &c.NoColor }),
		Doc: "set to anything: no colours in a terminal"},
	{Name: "TERM", Section: Foreign, set: setTerm, Doc: "`dumb`: neither progress nor colours"},

	{Name: "GOCCL_DEVICE", Section: Doors, Default: "`cuda` where there is a GPU, else `host`", Want: "cuda or host",
		Brief: "host device or GPU, for C and Python",
		Doc: "`host`: everything runs on host memory, without a GPU; `cudaStream_t` is then NULL. `cuda`: without a GPU " +
			"there is an error",
		set: choice(func(c *Config) *Device { return &c.Device }, map[string]Device{"cuda": CUDA, "host": Host})},
	{Name: "GOCCL_LIBRARY", Section: Doors, Default: "beside `libnccl.so.2` or `libmscclpp.so`",
		Brief: "opens another libgoccl.so",
		Doc:   "where `libgoccl.so` is: the file, or for Python also its folder"},
	{Name: "GOCCL_NCCL_VERSION", Section: Doors, Default: "`2.28.9`", Brief: "version that libnccl.so.2 claims",
		Doc: "the version that `ncclGetVersion` reports, as `2.30.7` or `23007`"},
	{Name: "GOCCL_DEBUG", Alias: "NCCL_DEBUG", Section: Doors, Default: "`NCCL_DEBUG`",
		Brief: "log level, for C and Python",
		Doc:   "level of goccl's own log: `WARN`, `INFO`, `TRACE`",
		set:   text(func(c *Config) *string { return &c.Debug })},

	{Name: "GOCCL_FULL", Section: Tests, Brief: "long tests", set: text(func(c *Config) *string { return &c.Full }),
		Doc: "`1`: `make test` and `go test` also run what takes long: kernels of every architecture, plans of 64 " +
			"ranks, soaks"},
	{Name: "GOCCL_FAKE_SEED", Section: Tests, Default: "many seeds",
		Doc: "of tests over the fake network: runs the schedule of this seed only; a test that fails names it"},
	{Name: "GOCCL_AGAINST", Section: Tests, Default: "the library that pip installed",
		Doc: "of `gpu.sh`: the `libnccl.so.2` to measure beside"},
	{Name: "GOCCL_PEERS", Section: Tests, Default: "none", Doc: "of `gpu.sh` and `bench/inference`: a folder of peers " +
		"of [inference](inference.md#beside-other-libraries)"},
	{Name: "NCCL_TESTS", Section: Tests, Default: "none", Doc: "of `gpu.sh`: the folder of nccl-tests' programs"},
	{Name: "GOCCL_BENCH", Section: Tests, Doc: "of `gpu.sh`: `quick` measures fewer sizes and types"},
	{Name: "GOCCL_BENCH_SECONDS", Section: Tests, Doc: "of `gpu.sh`: steps that would begin later are left out"},
	{Name: "GOCCL_ORDER_OPERATIONS", Section: Tests, Default: "`100000`", Doc: "of `gpu.sh`: random operations of " +
		"each step `order`"},
	{Name: "GOCCL_RANKS", Section: Tests, Default: "one a GPU", Doc: "of `capi/testdata/torch/run_all.sh`: ranks"},
	{Name: "GOCCL_TOTAL", Section: Tests, Default: "`540`", Doc: "of `capi/testdata/torch/run_all.sh`: seconds for " +
		"all steps together"},

	// Variables of NCCL with the same meaning here; `honoured` documents them.
	{Name: "NCCL_COMM_ID", Section: Internal, set: text(func(c *Config) *string { return &c.CommID })},
	{Name: "NCCL_DEBUG_FILE", Section: Internal, set: text(func(c *Config) *string { return &c.DebugFile })},
	{Name: "NCCL_GRAPH_MIXING_SUPPORT", Section: Internal, set: setGraphMixing},
	{Name: "NCCL_COMM_BLOCKING", Section: Internal},
	{Name: "NCCL_GRAPH_STREAM_ORDERING", Section: Internal},
	{Name: "NCCL_PROFILER_PLUGIN", Section: Internal},
	{Name: "NCCL_TUNER_PLUGIN", Section: Internal},
	{Name: "NCCL_RAS_ENABLE", Section: Internal, set: func(c *Config, s string) bool {
		n, err := strconv.Atoi(s)
		if c.RASEnable = 1; n == 0 {
			c.RASEnable = -1
		}
		return err == nil
	}},
	{Name: "NCCL_P2P_DISABLE", Section: Internal, set: ncclSwitch(func(c *Config) *bool { return &c.NoP2P })},
	{Name: "NCCL_P2P_DIRECT_DISABLE", Section: Internal, set: setP2PDirect},
	{Name: "PYTORCH_CUDA_ALLOC_CONF", Section: Internal, set: setAllocator},
	{Name: "PYTORCH_ALLOC_CONF", Section: Internal, set: setAllocator},
	{Name: "NCCL_SHM_DISABLE", Section: Internal, set: ncclSwitch(func(c *Config) *bool { return &c.NoHostMemory })},
	{Name: "NCCL_P2P_LEVEL", Section: Internal, set: setP2PLevel},
	{Name: "GOCCL_PERF_TERMINAL", Section: Internal, set: text(func(c *Config) *string { return &c.Terminal })},
}
