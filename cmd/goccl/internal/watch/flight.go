package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/cmd/goccl/internal/watch/pickle"
	"github.com/goccl/goccl/record"
)

// Dumps is the Source of files of goccl's recorder (GOCCL_RECORD_DIR), and of dumps that PyTorch's flight recorder has
// written, one a rank: pickles (TORCH_NCCL_DUMP_ON_TIMEOUT, _dump_nccl_trace) or JSON.
type Dumps struct {
	// Patterns name files, as filepath.Match has it.
	Patterns []string
}

// Close does nothing.
func (d *Dumps) Close() error { return nil }

// largestDump bounds what is read of a file.
const largestDump = 256 << 20

// Ranks reads all dumps.
func (d *Dumps) Ranks() (found []Found, notes []string) {
	for _, pattern := range d.Patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			notes = append(notes, fmt.Sprintf("%s: no such file (%v)", pattern, err))
		}
		for _, file := range files {
			own, err := readRecords(file)
			if !errors.Is(err, record.ErrFormat) {
				if err != nil {
					notes = append(notes, err.Error())
				}
				found = append(found, own...)
				continue
			}
			dump, err := readDump(file)
			if err != nil {
				notes = append(notes, fmt.Sprintf("%s: %v", file, err))
				continue
			}
			found = append(found, dump.ranks()...)
		}
	}
	return found, notes
}

// flight is the part of a dump that is used. Other fields may be there.
type flight struct {
	Version  string                 `json:"version"`
	Groups   map[string]flightGroup `json:"pg_config"`
	Entries  []flightEntry          `json:"entries"`
	Rank     *int                   `json:"rank"`
	rank     int
	written  int64 // Unix ns
	fileName string
}

type flightGroup struct {
	Name  string          `json:"name"`
	Desc  string          `json:"desc"`
	Ranks json.RawMessage `json:"ranks"`
}

type flightEntry struct {
	PGID    json.RawMessage   `json:"pg_id"`
	Group   []string          `json:"process_group"`
	Seq     uint64            `json:"collective_seq_id"`
	P2PSeq  uint64            `json:"p2p_seq_id"`
	Name    string            `json:"profiling_name"`
	Created int64             `json:"time_created_ns"`
	Started *int64            `json:"time_discovered_started_ns"`
	Ended   *int64            `json:"time_discovered_completed_ns"`
	Sizes   [][]uint64        `json:"input_sizes"`
	Types   []string          `json:"input_dtypes"`
	OutSize [][]uint64        `json:"output_sizes"`
	State   string            `json:"state"`
	IsP2P   bool              `json:"is_p2p"`
	Frames  []json.RawMessage `json:"frames"`
}

var trailingNumber = regexp.MustCompile(`(\d+)(\.json|\.pkl)?$`)

func readDump(file string) (*flight, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if st.Size() > largestDump {
		return nil, fmt.Errorf("%d MiB: the limit is %d", st.Size()>>20, largestDump>>20)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(b); len(trimmed) == 0 || trimmed[0] != '{' {
		v, err := pickle.Load(b)
		if err != nil {
			return nil, err
		}
		if b, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	f := &flight{rank: -1, written: st.ModTime().UnixNano(), fileName: filepath.Base(file)}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("it is no dump of PyTorch's flight recorder: %w", err)
	}
	if f.Version == "" {
		return nil, fmt.Errorf("it is no dump of PyTorch's flight recorder: it has no version")
	}
	if f.Rank != nil {
		f.rank = *f.Rank
	} else if m := trailingNumber.FindStringSubmatch(f.fileName); m != nil {
		f.rank, _ = strconv.Atoi(m[1])
	}
	if f.rank < 0 {
		return nil, fmt.Errorf("its rank is not known: name it with the rank at the end, like trace_3")
	}
	return f, nil
}

// members are the ranks of a group: a list, or the text of one.
func (g *flightGroup) members() (ranks []int) {
	var text string
	if json.Unmarshal(g.Ranks, &ranks) != nil && json.Unmarshal(g.Ranks, &text) == nil {
		_ = json.Unmarshal([]byte(text), &ranks)
	}
	return ranks
}

// ranks returns the rank's part in each process group.
func (f *flight) ranks() (found []Found) {
	byGroup := map[string]*Rank{}
	for i := range f.Entries {
		e := &f.Entries[i]
		id := strings.Trim(string(e.PGID), `"`)
		if len(e.Group) > 0 {
			id = e.Group[0]
		}
		r := byGroup[id]
		if r == nil {
			config := f.Groups[id]
			members := config.members()
			at := slices.Index(members, f.rank)
			if at < 0 {
				at = f.rank
			}
			r = &Rank{Rank: at, Host: f.fileName, GPU: -1, Source: "pytorch flight recorder " + f.Version, State: Unknown,
				asOf: f.written}
			byGroup[id] = r
			name := config.Desc
			if name == "" && len(e.Group) > 1 {
				name = e.Group[1]
			}
			found = append(found, Found{ID: "group " + id, Name: name, Size: len(members), Rank: r})
		}
		r.entry(e)
	}
	return found
}

// entry adds an operation.
func (r *Rank) entry(e *flightEntry) {
	op := Operation{Message: e.IsP2P, Enqueued: e.Created, Root: -1, State: Enqueued}
	seq := e.Seq
	if e.IsP2P {
		seq = e.P2PSeq
	}
	if seq > 0 { // from 1
		op.Call = seq - 1
	}
	op.Func, op.Root = funcOf(e.Name)
	if len(e.Sizes) > 0 {
		op.Count = 1
		for _, n := range e.Sizes[0] {
			op.Count *= n
		}
	}
	if len(e.Types) > 0 {
		op.Type = e.Types[0]
		op.Bytes = op.Count * typeBytes(op.Type)
	}
	switch {
	case e.State == "completed" || e.Ended != nil:
		op.State = Done
	case e.State == "started" || e.Started != nil:
		op.State = OnGPU
	}
	if e.Started != nil {
		op.Started = *e.Started
	}
	if e.Ended != nil {
		op.Ended = *e.Ended
	}
	if op.State == Done { // operations of a group end in their order
		for i := range r.Recent {
			r.Recent[i].State = Done
		}
		r.Current = nil
	}
	r.Recent = append(r.Recent, op)
	last := op
	r.Last = &last
	if op.State != Done && r.Current == nil {
		r.Current = &last
	}
	if op.Message {
		r.Messages = max(r.Messages, op.Call+1)
	} else {
		r.Collectives = max(r.Collectives, op.Call+1)
	}
}

var peerOf = regexp.MustCompile(`^(send|recv) \d+(?:->|<-)(\d+)$`)

// funcOf turns "nccl:all_reduce" into NCCL's name, and "nccl:send 0->1" into Send and the peer.
func funcOf(name string) (collective string, root int) {
	_, name, _ = strings.Cut(name, ":")
	if m := peerOf.FindStringSubmatch(name); m != nil {
		root, _ = strconv.Atoi(m[2])
		name = m[1]
	} else {
		root = -1
	}
	known := map[string]string{"all_reduce": "AllReduce", "all_gather": "AllGather", "_all_gather_base": "AllGather",
		"reduce_scatter": "ReduceScatter", "_reduce_scatter_base": "ReduceScatter", "broadcast": "Broadcast",
		"reduce": "Reduce", "all_to_all": "AlltoAll", "all_to_allv": "AlltoAllv", "gather": "Gather", "scatter": "Scatter",
		"send": "Send", "recv": "Recv"}
	if k := known[name]; k != "" {
		return k, root
	}
	return name, root
}

// typeBytes is the size of a type of PyTorch.
func typeBytes(name string) uint64 {
	switch strings.TrimPrefix(name, "torch.") {
	case "Double", "Long", "float64", "int64":
		return 8
	case "Float", "Int", "float32", "int32":
		return 4
	case "Half", "BFloat16", "Short", "float16", "bfloat16", "int16":
		return 2
	}
	return 1
}
