package setting

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config holds what the environment sets. A variable that is not set, or has a bad value, has its default.
type Config struct {
	Timeout      time.Duration // 0: not set; see TimeoutOr
	OpTimeout    time.Duration // 0: none; negative: not set; see OpTimeoutOr
	StallWarning time.Duration // 0: never
	Blip         time.Duration // 0: not set; see Unreachable
	SpinLimit    time.Duration // 0: none

	Record       int           // operations; 0: none
	RecordDir    string        // "": records are not written to files
	RecordSignal string        // the signal that writes them; "": none
	VerdictAfter time.Duration // 0: never
	RASAddr      string        // "": NCCL's
	RASEnable    int           // NCCL_RAS_ENABLE: 1, or -1 for 0; 0: not set

	Secret    string // of the job's connections; "": none
	Interface string // names to take or, behind ^, to leave
	Family    int    // 4, 6, or 0 for either
	HostID    string // "": the machine's
	Quorum    Quorum // see ParseQuorum

	Net        string // "": the first that every rank has
	NetPlugin  string // "": libnccl-net.so
	NetSockets int    // 0: chosen
	NetEncrypt bool   // TCP encrypts, beside authenticating
	CommID     string // the root's address, in place of a unique ID's

	Check          Checks    // what ranks compare
	Algorithms     string    // GOCCL_ALGO; see collective.ParseForced
	Overlap        bool      // kernels may start before the previous one has ended
	Tuning         string    // a file
	PlanDir        string    // "": no plans are loaded
	MinCTAs        uint16    // 0: no limit
	MaxCTAs        uint16    // 0: no limit
	CTAPolicy      CTAPolicy // how far SMs are spared
	Exact          Exact     // on what bits may depend
	CopyEngine     Copies    // whether windows go by copy engines
	NoRegister     bool      // GOCCL_REGISTER=off, or NCCL_P2P_DIRECT_DISABLE
	SeparateGraphs bool      // NCCL_GRAPH_MIXING_SUPPORT=0
	MoEStages      bool      // GOCCL_MOE_STAGES

	Link         Link     // the best link that is tried
	NoP2P        bool     // NCCL_P2P_DISABLE
	NoHostMemory bool     // NCCL_SHM_DISABLE
	P2PLevel     P2PLevel // NCCL_P2P_LEVEL

	CacheDir string   // of compiled kernels; "": the user's
	CUDALib  string   // libcuda; "": the loader's
	NVMLLib  string   // likewise
	NVRTC    string   // likewise
	Toolkits []string // CUDA_HOME, CUDA_PATH

	Device    Device // of the tools: auto, cuda or host
	Debug     string // NCCL_DEBUG
	DebugFile string // NCCL_DEBUG_FILE
	GOGC      string // Go's own

	IB IB // of InfiniBand and RoCE

	MasterAddr string // torchrun's
	Terminal   string // a file of goccl perf
	NoProgress bool   // no progress line on a terminal
	NoColor    bool   // no colours there
	Full       string // not empty: long tests run
}

// IB holds what the environment sets for RDMA adapters.
type IB struct {
	Disabled     bool
	Adapters     string // names and ports, as NCCL_IB_HCA
	GIDIndex     int    // -1: chosen
	ServiceLevel int
	TrafficClass int
	Timeout      int // 4.096 µs · 2^Timeout until a packet is sent again
	Retries      int
}

// DefaultIB is IB with nothing set. A packet is sent seven times, the last time after 3.2 s (DefaultBlip); after 3.8 s
// the peer counts as dead.
var DefaultIB = IB{GIDIndex: -1, Timeout: 17, Retries: 6}

// Quorum says which part of a communicator goes on without the rest: QuorumRank + n is the part with rank n of the job.
type Quorum uint32

// The values of Quorum.
const (
	QuorumOff      Quorum = iota // every part
	QuorumMajority               // more than half of the ranks, or half of them and among them the lowest
	QuorumRank
)

// Checks is what ranks compare with each other: GOCCL_CHECK.
type Checks uint8

// The values of Checks.
const (
	CheckNothing Checks = iota
	CheckCalls
	CheckData // and calls
)

// Copies says when copy engines run all-gathers and all-to-alls into windows. Smaller is less.
type Copies uint8

// The values of Copies.
const (
	CopyNever  Copies = iota
	CopyLarge         // from the sizes where they measured no slower than kernels
	CopyAlways        // from the sizes where they work
)

// CTAPolicy says how far collectives spare the SMs of a GPU. Larger is further.
type CTAPolicy uint8

// The values of CTAPolicy.
const (
	CTAPolicyUnset      CTAPolicy = iota
	CTAPolicyDefault              // the fastest launch
	CTAPolicyEfficiency           // few SMs, at little loss of speed
	CTAPolicyZero                 // copy engines wherever they can do the work, even if they are slower
)

// Exact says on what the bits of a reduction may depend. Larger is less.
type Exact uint8

// The values of Exact.
const (
	ExactRun       Exact = iota // not on timing: the same call gives the same bits
	ExactBatch                  // nor on count, position, alignment and algorithm
	ExactPlacement              // nor on which ranks share a host
	ExactReference              // the sum in rank order, rounded once
)

func (e Exact) String() string { return [...]string{"run", "batch", "placement", "reference"}[e] }

// Link is a way between the GPUs of a host.
type Link uint8

// The values of Link.
const (
	LinkBest   Link = iota // the best that works
	LinkNVLink             // the others are forced
	LinkPCIe
	LinkHost
	LinkNet
)

// P2PLevel is the longest way over PCIe on which GPUs access each other's memory.
type P2PLevel uint8

// The values of P2PLevel.
const (
	P2PAny        P2PLevel = iota // not set
	P2PNever                      // not even over NVLink
	P2PNVLink                     // only over NVLink
	P2PSwitch                     // one PCIe switch (NCCL's PIX)
	P2PSwitches                   // several PCIe switches (PXB)
	P2PHostBridge                 // host bridges of one NUMA node (PHB)
	P2PSystem                     // between NUMA nodes (SYS)
)

// Device is the kind of device that the C ABI opens.
type Device uint8

// The values of Device.
const (
	AnyDevice Device = iota // CUDA where there is a GPU
	CUDA
	Host
)

// Read parses the environment. The Config is never nil. The error names every variable with a bad value, the value and
// the allowed values; with names, it only covers these variables, for callers that need no others.
func Read(names ...string) (*Config, error) { return Parse(Get, names...) }

// Parse is Read with another source of values.
func Parse(get func(name string) string, names ...string) (*Config, error) {
	c := &Config{OpTimeout: -1, StallWarning: 30 * time.Second, SpinLimit: 10 * time.Minute, Record: 512,
		VerdictAfter: 2 * time.Second, Overlap: true, MoEStages: true, CopyEngine: CopyLarge,
		IB: DefaultIB}
	var errs []error
	for _, v := range table(c) {
		name, value := v.Name, get(v.Name)
		if value == "" && v.Alias != "" {
			name, value = v.Alias, get(v.Alias)
		}
		if value == "" || v.set == nil {
			continue
		}
		if !v.set(value) && (len(names) == 0 || slices.Contains(names, v.Name)) {
			errs = append(errs, fmt.Errorf("%s=%q: want %s", name, value, v.Want))
		}
	}
	return c, errors.Join(errs...)
}

// Lenient is Read for callers that no bad value concerns: they need a text, which is never bad.
func Lenient() *Config {
	c, _ := Read()
	return c
}

// Wanted names the allowed values of a variable, by either of its names, if value is not one of them; else it is "".
// Variables that are not in the table, or that Go does not read, have no bad values.
func Wanted(name, value string) string {
	for _, v := range Variables() {
		if (v.Name == name || v.Alias == name) && v.set != nil && value != "" && !v.set(value) {
			return v.Want
		}
	}
	return ""
}

// DefaultBlip is how long no packet may pass between two hosts without a failure, unless Config.Blip is set.
const DefaultBlip = 3 * time.Second

// Unreachable is how long a host may acknowledge nothing before its ranks count as dead, so that no blip is taken for a
// death; 0 stands for DefaultBlip. The end of a blip is noticed when something is sent again: TCP does that 0.2, 0.6,
// 1.4, 3, 6.2, … seconds after the loss.
func Unreachable(blip time.Duration) time.Duration {
	blip = cmp.Or(blip, DefaultBlip)
	again := 200 * time.Millisecond
	for again < blip {
		again = 2*again + 200*time.Millisecond
	}
	return max(blip+time.Second, again+again/8)
}

// TimeoutOr is the time for which set-up and host calls wait for other ranks: GOCCL_TIMEOUT, or a default of the
// caller.
func (c *Config) TimeoutOr(otherwise time.Duration) time.Duration {
	return cmp.Or(c.Timeout, otherwise)
}

// DefaultOpTimeout is how long an operation waits for its peers by default, except through NCCL's ABI.
// torch.distributed's process groups have the same default.
const DefaultOpTimeout = 30 * time.Minute

// OpTimeoutOr is how long an operation waits for its peers: GOCCL_OP_TIMEOUT, or a default of the caller. 0 is no
// bound.
func (c *Config) OpTimeoutOr(otherwise time.Duration) time.Duration {
	if c.OpTimeout < 0 {
		return otherwise
	}
	return c.OpTimeout
}
