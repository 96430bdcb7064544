package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/regular"
	"github.com/goccl/goccl/watch/observe/pickle"
	"github.com/goccl/goccl/watch/record"
)

// Dumps is the Source of files of goccl's recorder (GOCCL_RECORD_DIR), and of dumps that PyTorch's flight recorder has
// written, one a rank: pickles (TORCH_NCCL_DUMP_ON_TIMEOUT, _dump_nccl_trace) or JSON.
type Dumps struct {
	// Patterns name files, as filepath.Match has it.
	Patterns []string
}

// largestDump bounds the size of a dump file in bytes; larger files are refused.
const largestDump = 256 << 20

// Ranks reads all dumps.
func (d *Dumps) Ranks() (found []Found, notes []string) {
	for _, pattern := range d.Patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			notes = append(notes, fmt.Sprintf("--dump %s: %v", pattern, err))
		} else if len(files) == 0 {
			notes = append(notes, fmt.Sprintf("--dump %s: no such file", pattern))
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
	Desc  string          `json:"desc"`
	Ranks json.RawMessage `json:"ranks"`
}

type flightEntry struct {
	PGID    json.RawMessage `json:"pg_id"`
	Group   []string        `json:"process_group"`
	Seq     uint64          `json:"collective_seq_id"`
	P2PSeq  uint64          `json:"p2p_seq_id"`
	Name    string          `json:"profiling_name"`
	Created int64           `json:"time_created_ns"`
	Started *int64          `json:"time_discovered_started_ns"`
	Ended   *int64          `json:"time_discovered_completed_ns"`
	Sizes   [][]uint64      `json:"input_sizes"`
	Types   []string        `json:"input_dtypes"`
	OutSize [][]uint64      `json:"output_sizes"`
	State   string          `json:"state"`
	IsP2P   bool            `json:"is_p2p"`
}

var trailingNumber = regexp.MustCompile(`(\d+)(\.json|\.pkl)?$`)

func readDump(file string) (*flight, error) {
	b, err := regular.Read(file, largestDump)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(file)
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
			name := config.Desc
			if name == "" && len(e.Group) > 1 {
				name = e.Group[1]
			}
			r = &Rank{Rank: at, Host: f.fileName, GPU: -1, Source: "pytorch flight recorder " + f.Version, State: Unknown,
				AsOf: f.written, Record: &record.Communicator{ID: "group " + id, Name: name, Rank: at, Size: len(members),
					Ranks: members, Engine: record.EngineTorch, State: record.CommunicatorOpen}}
			byGroup[id] = r
			found = append(found, Found{ID: "group " + id, Name: name, Size: len(members), Rank: r})
		}
		e.addTo(r.Record)
	}
	return found
}

// addTo adds the operation.
func (e *flightEntry) addTo(c *record.Communicator) {
	o := record.Operation{Number: e.Seq, Message: e.IsP2P, Enqueued: e.Created, Root: -1, State: record.Enqueued}
	latest := &c.Collectives
	if e.IsP2P {
		o.Number, latest = e.P2PSeq, &c.Messages
	}
	o.Collective, o.Peer = record.FromTorch(e.Name)
	o.Count = e.count(o.Collective, len(c.Ranks))
	if len(e.Types) > 0 {
		o.Type = record.TypeFromTorch(e.Types[0])
		if t, err := datatype.ParseType(o.Type); err == nil {
			o.Bytes = o.Count * t.Size()
		}
	}
	if e.Started != nil { // PyTorch looks at starts if TORCH_NCCL_ENABLE_TIMING or the like is set
		o.State, o.Started, c.Engine = record.Started, *e.Started, record.EngineNCCL
	}
	if e.Ended != nil {
		o.Ended = *e.Ended
	}
	if e.State == "started" && o.State == record.Enqueued {
		o.State = record.Started
	}
	if e.State == "completed" || e.Ended != nil { // operations of a group end in their order
		o.State = record.Ended
		for i := range c.Operations {
			if c.Operations[i].IsOpen() {
				c.Operations[i].State = record.Ended
			}
		}
	}
	c.Operations = append(c.Operations, o)
	*latest = max(*latest, o.Number)
}

// count follows NCCL: output elements for reduce_scatter and scatter, elements per peer for all_to_all.
func (e *flightEntry) count(collective string, size int) int64 {
	sizes := e.Sizes
	if collective == "reduce_scatter" || collective == "scatter" {
		sizes = e.OutSize
	}
	if len(sizes) == 0 {
		return 0
	}
	n := uint64(1)
	for _, k := range sizes[0] {
		n *= k
	}
	if collective == "all_to_all" {
		n /= uint64(max(1, size))
	}
	return int64(min(n, math.MaxInt64))
}
