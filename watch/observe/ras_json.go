package observe

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/fault"
)

// The JSON of RAS, with the verdicts behind it.
type rasReport struct {
	NCCL          string    `json:"nccl_version"`
	Runtime       int       `json:"cuda_runtime_version"`
	Driver        int       `json:"cuda_driver_version"`
	Timestamp     string    `json:"timestamp"`
	Count         int       `json:"communicators_count"`
	Communicators []rasComm `json:"communicators"`
	RAS           struct {
		Seconds  float64 `json:"collection_time_sec"`
		Timeouts int     `json:"timeouts_count"`
	} `json:"ras"`
	Verdicts []*fault.Verdict `json:"verdicts"`
}

type rasComm struct {
	Hash      string    `json:"hash"`
	Secondary string    `json:"secondary_hash"`
	Size      int       `json:"size"`
	Ranks     int       `json:"ranks_count"`
	Missing   int       `json:"missing_ranks_count"`
	Present   []rasRank `json:"ranks"`
	Absent    []rasGone `json:"missing_ranks"`
}

type rasPeer struct {
	Rank int    `json:"rank"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	CUDA int    `json:"cuda_dev"`
	NVML int    `json:"nvml_dev"`
}

type rasRank struct {
	rasPeer
	Status struct {
		Init     int  `json:"init_state"`
		Async    int  `json:"async_error"`
		Finalize bool `json:"finalize_called"`
		Destroy  bool `json:"destroy_flag"`
		Abort    bool `json:"abort_flag"`
	} `json:"status"`
	Counts map[string]uint64 `json:"collective_counts"`
}

type rasGone struct {
	rasPeer
	Status struct {
		Unresponsive bool `json:"unresponsive"`
		Dead         bool `json:"considered_dead"`
	} `json:"status"`
}

// rasFuncs are the collectives that RAS counts, in its order.
var rasFuncs = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}

// counts are the calls of each collective that RAS counts.
func (r *Rank) counts() map[string]uint64 {
	n := map[string]uint64{}
	for _, f := range rasFuncs {
		n[f] = 0
	}
	for i := range r.Sums {
		if f := ncclNames[r.Sums[i].Collective]; slices.Contains(rasFuncs, f) {
			n[f] += r.Sums[i].Begun
		}
	}
	return n
}

func rasJSON(w io.Writer, s *Snapshot) error {
	out := rasReport{NCCL: "goccl " + buildinfo.Read().Version, Timestamp: s.Time.Format(rasTime),
		Count: len(s.Communicators), Communicators: []rasComm{}, Verdicts: s.Verdicts}
	for _, c := range s.Communicators {
		x := rasComm{Hash: "0x" + strings.TrimLeft(c.ID, "0"), Secondary: "0x0:0x0", Size: c.Size, Present: []rasRank{},
			Absent: []rasGone{}}
		for _, r := range c.Ranks {
			peer := rasPeer{r.Rank, r.Host, r.PID, r.GPU, r.GPU}
			if r.State == Dead || r.State == Stopped {
				gone := rasGone{rasPeer: peer}
				gone.Status.Unresponsive, gone.Status.Dead = true, r.State == Dead
				x.Absent = append(x.Absent, gone)
				continue
			}
			here := rasRank{rasPeer: peer, Counts: r.counts()}
			here.Status.Abort = r.aborted()
			x.Present = append(x.Present, here)
		}
		for _, n := range c.Unseen {
			gone := rasGone{rasPeer: rasPeer{Rank: n, CUDA: -1, NVML: -1}}
			gone.Status.Unresponsive = true
			x.Absent = append(x.Absent, gone)
		}
		x.Ranks, x.Missing = len(x.Present), len(x.Absent)
		out.Communicators = append(out.Communicators, x)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
