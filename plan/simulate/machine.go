package simulate

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"

	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/internal/shipped"
	"github.com/goccl/goccl/plan/symmetry"
)

// Machine is the model of a cluster of equal hosts. Times are in microseconds, rates in GB/s (10⁹ bytes per second),
// efficiencies are fractions (0, 1] of a rate. Every parameter tagged `fit` can be fitted.
type Machine struct {
	Name         string `json:"name"`
	Source       string `json:"source,omitempty"` // origin of the values
	RanksPerHost int    `json:"ranks_per_host"`   // consecutive ranks; a host is one NVLink domain
	NICsPerHost  int    `json:"nics_per_host"`    // NIC i of a host is on rail i; rank l uses NIC l mod NICsPerHost

	Launch float64 `json:"launch_us" fit:"launch_us"` // from the start of a launch to a block's first op
	Finish float64 `json:"finish_us" fit:"finish_us"` // from the last op to the end of the launch
	// added to Launch where the quick kernel, which runs even messages through plans of packets alone, does not take the
	// launch
	General float64 `json:"general_us,omitempty" fit:"general_us"`
	// added to Launch where blocks access peers' input or output, whose addresses ranks exchange in each launch
	Exchange float64 `json:"exchange_us,omitempty" fit:"exchange_us"`

	// The caller's work beside a plan with hooks: it raises input hook k of a rank (k+1) times this after the launch. It
	// takes nothing from the GPU.
	Hook float64 `json:"hook_us,omitempty"`

	Op float64 `json:"op_us" fit:"op_us"` // to decode and start an op
	// added for every source and destination of an op that moves data
	Operand   float64 `json:"operand_us" fit:"operand_us"`
	Nop       float64 `json:"nop_us" fit:"nop_us"`             // a block's threads synchronize
	Fence     float64 `json:"fence_us" fit:"fence_us"`         // to order earlier stores before a signal
	Flag      float64 `json:"flag_us" fit:"flag_us"`           // one way: a store or signal until a spinning peer sees it
	Pull      float64 `json:"pull_us" fit:"pull_us"`           // a round of a block's threads that load from a peer
	Barrier   float64 `json:"barrier_us" fit:"barrier_us"`     // blocks of a rank synchronize
	Semaphore float64 `json:"semaphore_us" fit:"semaphore_us"` // release until a waiting block of the rank sees it

	NVLink NVLink  `json:"nvlink"`
	Block  Block   `json:"block"`
	Memory float64 `json:"memory_gbps" fit:"memory_gbps"` // a GPU's own memory, reads and writes together
	Rail   Rail    `json:"rail"`

	// Fabric, if any, is what connects the ranks, instead of the hosts, NVLink ports, NICs and rails above. The rates of
	// its edges apply to stores; packets and loads are slower by the ratios of the NVLink efficiencies.
	Fabric *fabric.Graph `json:"-"`
}

// NVLink is a GPU's port into the switches of its host. Each direction has the rate Port.
type NVLink struct {
	Port   float64 `json:"port_gbps" fit:"nvlink.port_gbps"`
	Put    float64 `json:"put_efficiency" fit:"nvlink.put_efficiency"`       // stores by threads
	Get    float64 `json:"get_efficiency" fit:"nvlink.get_efficiency"`       // loads by threads
	Packet float64 `json:"packet_efficiency" fit:"nvlink.packet_efficiency"` // of packets, flags counted as data
	Copy   float64 `json:"copy_efficiency" fit:"nvlink.copy_efficiency"`     // copy engine
	// Collide models contention: where k GPUs that send to several others use one port at once, with b blocks per sender,
	// a transfer takes 1 + Collide·(1 − 1/k)/b times as long.
	Collide float64 `json:"collide" fit:"nvlink.collide"`
}

// Block describes one thread block: see work.
type Block struct {
	Threads int `json:"threads"` // at most
	// a round of its threads that load from the GPU's own memory
	Round  float64 `json:"round_us" fit:"block.round_us"`
	Packet float64 `json:"packet_us" fit:"block.packet_us"`   // a round with packets
	Quick  float64 `json:"quick_us" fit:"block.quick_us"`     // the same in the quick kernel
	More   float64 `json:"more_us" fit:"block.more_us"`       // added to a round by each further operand
	Bulk   float64 `json:"bulk_gbps" fit:"block.bulk_gbps"`   // of bulk copies of whole lines
	Split  float64 `json:"split_gbps" fit:"block.split_gbps"` // of others
	Put    float64 `json:"put_gbps" fit:"block.put_gbps"`     // of copies by threads, to or from a peer
	Copy   float64 `json:"copy_gbps" fit:"block.copy_gbps"`   // and within the GPU
}

// Rail is the network between hosts, with the path to it.
type Rail struct {
	Measured  bool    `json:"measured,omitempty"` // fitted to times of several hosts; others are estimates
	NIC       float64 `json:"nic_gbps" fit:"rail.nic_gbps"`
	PCIe      float64 `json:"pcie_gbps" fit:"rail.pcie_gbps"` // GPU to NIC
	Latency   float64 `json:"latency_us" fit:"rail.latency_us"`
	CrossRail float64 `json:"cross_rail_us" fit:"rail.cross_rail_us"` // added when the two NICs are on different rails
	// time of the proxy thread per request; it serves requests one after another
	Proxy float64 `json:"proxy_us" fit:"rail.proxy_us"`

	// The switches. The NICs of one rail of so many hosts in a row are on one leaf switch; 0: all NICs are on one switch
	// that never blocks. Between leaves, transfers share the leaf's cables to the spine. Their rate is the rate of all
	// its NICs, divided by the oversubscription (0: 1).
	HostsPerLeaf     int     `json:"hosts_per_leaf,omitempty"`
	Oversubscription float64 `json:"oversubscription,omitempty"`
	Spine            float64 `json:"spine_us,omitempty" fit:"rail.spine_us"` // added by way of the spine
}

//go:embed machines/*.json
var machineFiles embed.FS

// ErrMachine is the class of all errors in a machine description.
var ErrMachine = errors.New("invalid machine")

var machines = shipped.Folder{Files: machineFiles, Path: "machines"}

// NamedMachine returns a machine that ships with the package, such as "h200".
func NamedMachine(name string) (*Machine, error) {
	data, err := machines.Read(name, "machine", ErrMachine)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return ParseMachine(data)
}

// ParseMachine reads a machine from JSON and validates it. Unknown keys are rejected, so that a misspelt key is not
// ignored.
func ParseMachine(data []byte) (*Machine, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	m := &Machine{}
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("simulate: machine: %w: %w", ErrMachine, err)
	}
	return m, m.Validate()
}

// Validate checks that every parameter is in range.
func (m *Machine) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("simulate: machine %q: %s: %w", m.Name, fmt.Sprintf(format, args...), ErrMachine)
	}
	odd := func(v float64) bool { return !(v >= 0) || math.IsInf(v, 0) }
	switch {
	case m.Block.Threads < 1:
		return bad("block.threads is %d, want 1 or more", m.Block.Threads)
	case m.RanksPerHost < 1 || m.NICsPerHost < 1:
		return bad("ranks_per_host %d, nics_per_host %d, want 1 or more", m.RanksPerHost, m.NICsPerHost)
	case m.Rail.HostsPerLeaf < 0 || odd(m.Rail.Oversubscription):
		return bad("hosts_per_leaf %d, oversubscription %g", m.Rail.HostsPerLeaf, m.Rail.Oversubscription)
	case odd(m.Hook):
		return bad("hook_us is %g", m.Hook)
	}
	for name, f := range m.fields {
		v, efficiency := f.Float(), strings.HasSuffix(name, "_efficiency")
		switch {
		case odd(v) || v == 0 && (efficiency || strings.HasSuffix(name, "_gbps")):
			return bad("%s is %g", name, v)
		case efficiency && v > 1:
			return bad("%s is %g, an efficiency is at most 1", name, v)
		}
	}
	return nil
}

// spans reports whether so many ranks are on several hosts.
func (m *Machine) spans(ranks int) bool {
	if m.Fabric != nil {
		return m.Fabric.Hosts() != 1
	}
	return ranks > m.RanksPerHost
}

// JSON encodes the machine for ParseMachine.
func (m *Machine) JSON() []byte {
	out, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // only for values that Validate rejects
	}
	return append(out, '\n')
}

// Parameters returns the names of all parameters that Fit can adjust.
func (m *Machine) Parameters() []string {
	var out []string
	for name := range m.fields {
		out = append(out, name)
	}
	return out
}

// Get returns the value of a parameter.
func (m *Machine) Get(name string) (float64, error) {
	f, err := m.parameter(name)
	if err != nil {
		return 0, err
	}
	return f.Float(), nil
}

// Set changes a parameter.
func (m *Machine) Set(name string, v float64) error {
	f, err := m.parameter(name)
	if err == nil {
		f.SetFloat(v)
	}
	return err
}

func (m *Machine) parameter(name string) (reflect.Value, error) {
	if f, ok := maps.Collect(m.fields)[name]; ok {
		return f, nil
	}
	return reflect.Value{}, fmt.Errorf("simulate: no parameter %q: use one of %s: %w", name,
		strings.Join(m.Parameters(), ", "), ErrMachine)
}

// fields is an iterator over the parameters.
func (m *Machine) fields(yield func(name string, v reflect.Value) bool) {
	var walk func(v reflect.Value) bool
	walk = func(v reflect.Value) bool {
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Tag.Get("fit")
			if f.Kind() == reflect.Struct && !walk(f) || name != "" && !yield(name, f) {
				return false
			}
		}
		return true
	}
	walk(reflect.ValueOf(m).Elem())
}

// RunFolded is Run of a folded plan. It runs one representative of each orbit of ranks. The machine must be symmetric
// too: renamings that split a host, a NIC's ranks or a leaf switch are not used.
//
// What a rank sends to another arrives, renamed, at the rank that stands for that one, in its ports, counters and
// packets. Events of one time are served in another order than in Run, so times differ slightly where ports are
// contended.
func RunFolded(f *symmetry.Folded, m *Machine, size int64) (*Result, error) {
	if m.Fabric != nil {
		return Run(f.Unfold(), m, size)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if f = f.Within(m.keeps); f.Symmetry.Order() == 1 {
		return Run(f.Plan, m, size)
	}
	mod, err := load(f.Plan, f.Symmetry, m, size)
	if err != nil {
		return nil, err
	}
	return mod.run(size)
}

// keeps reports whether a renaming of ranks takes hosts to hosts, NICs to NICs, rails to rails and leaves to leaves.
func (m *Machine) keeps(ranks []int32) bool {
	if len(ranks)%m.RanksPerHost != 0 {
		return ranks[0] == 0 // the last host differs
	}
	for _, part := range []func(int32) int32{m.hostOf, m.nicOf, m.railOf, m.leafOf} {
		image := map[int32]int32{}
		for r, to := range ranks {
			from := part(int32(r))
			if was, ok := image[from]; ok && was != part(to) {
				return false
			}
			image[from] = part(to)
		}
	}
	return true
}

func (m *Machine) hostOf(rank int32) int32 { return rank / int32(m.RanksPerHost) }

// railOf returns the number of a rank's NIC on its host.
func (m *Machine) railOf(rank int32) int32 {
	return rank % int32(m.RanksPerHost) % int32(m.NICsPerHost)
}

// nicOf returns the first rank that uses a rank's NIC.
func (m *Machine) nicOf(rank int32) int32 {
	return rank - rank%int32(m.RanksPerHost) + m.railOf(rank)
}

// leafOf returns the number of the leaf switch that a rank's NIC is on: with rails, one for each rail and group of
// hosts.
func (m *Machine) leafOf(rank int32) int32 {
	if m.Rail.HostsPerLeaf == 0 {
		return 0
	}
	return m.hostOf(rank)/int32(m.Rail.HostsPerLeaf)*int32(m.NICsPerHost) + m.railOf(rank)
}
