package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/datatype"
)

// torchVersion is the format version of PyTorch's dumps, which torchfrtrace (torch.distributed.flight_recorder) reads.
const torchVersion = "2.10"

// TorchPrefix begins the names of the files that WriteTorch writes; the rank follows.
const TorchPrefix = "goccl_trace_rank_"

// torchNames are the names of PyTorch's operations on single tensors.
var torchNames = map[string]string{"all_gather": "_all_gather_base", "reduce_scatter": "_reduce_scatter_base",
	"all_to_all_v": "all_to_all", "all_to_all_v_device": "all_to_all"}

var torchTypes = map[string]string{"int8": "Char", "uint8": "Byte", "int32": "Int", "uint32": "UInt32", "int64": "Long",
	"uint64": "UInt64", "half": "Half", "float": "Float", "double": "Double", "bfloat16": "BFloat16",
	"f8e4m3": "Float8_e4m3fn", "f8e5m2": "Float8_e5m2"}

// fromTorch maps the names of PyTorch's operations to collectives where torchNames has no such entry.
var fromTorch = map[string]string{"_all_gather_base": "all_gather", "_reduce_scatter_base": "reduce_scatter",
	"all_gather_into_tensor_coalesced": "all_gather", "reduce_scatter_tensor_coalesced": "reduce_scatter",
	"all_to_allv": "all_to_all_v", "allreduce_coalesced": "all_reduce"}

var torchMessage = regexp.MustCompile(`^(send|recv) \d+(?:->|<-)(\d+)$`)

// FromTorch is the inverse of the names in dumps: of "nccl:_all_gather_base" it is all_gather, of "nccl:send 0->1" send
// and the peer. The peer of a collective is -1.
func FromTorch(name string) (collective string, peer int) {
	if _, after, ok := strings.Cut(name, ":"); ok {
		name = after
	}
	if m := torchMessage.FindStringSubmatch(name); m != nil {
		peer, _ = strconv.Atoi(m[2])
		return m[1], peer
	}
	return cmp.Or(fromTorch[name], name), -1
}

// TypeFromTorch is goccl's name of an element type of PyTorch, like Float or torch.bfloat16.
func TypeFromTorch(name string) string {
	for ours, theirs := range torchTypes {
		if theirs == name {
			return ours
		}
	}
	name = strings.ToLower(strings.TrimPrefix(name, "torch."))
	if t, err := datatype.ParseType(name); err == nil {
		return t.String()
	}
	return name
}

var torchStates = map[string]string{Enqueued: "scheduled", Started: "started", Ended: "completed", Failed: "started"}

// WriteTorch writes the dump of each rank of the process to a folder. Files are named by the rank in the job, which is
// the rank in the job's first communicator.
func WriteTorch(folder string, p *Process) error {
	for _, rank := range p.ranks() {
		f, err := os.Create(filepath.Join(folder, TorchPrefix+strconv.Itoa(rank)))
		if err != nil {
			return err
		}
		err = writePickle(f, torchDumpOf(p, rank))
		if err := cmp.Or(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// ranks lists the job's ranks that are in the process.
func (p *Process) ranks() (list []int) {
	for _, c := range p.Communicators {
		if r := c.global(c.Rank); !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// global is the job's number of a rank of the communicator.
func (c *Communicator) global(r int) int {
	if r >= 0 && r < len(c.Ranks) {
		return c.Ranks[r]
	}
	return r
}

// torchDump is the dump of the first rank of the process.
func torchDump(p *Process) map[string]any {
	if list := p.ranks(); len(list) > 0 {
		return torchDumpOf(p, list[0])
	}
	return torchDumpOf(p, 0)
}

func torchDumpOf(p *Process, rank int) map[string]any {
	groups, entries := map[string]any{}, []map[string]any{}
	for _, c := range p.Communicators {
		if c.global(c.Rank) != rank {
			continue
		}
		members := make([]string, c.Size)
		for r := range members {
			members[r] = strconv.Itoa(c.global(r))
		}
		groups[c.ID] = map[string]any{"name": c.ID, "desc": c.description(),
			"ranks": "[" + strings.Join(members, ", ") + "]"}
		for i := range c.Operations {
			entries = append(entries, c.torchEntry(&c.Operations[i]))
		}
	}
	slices.SortStableFunc(entries, func(a, b map[string]any) int {
		return cmp.Compare(a["time_created_ns"].(int64), b["time_created_ns"].(int64))
	})
	list := make([]any, len(entries))
	for i, e := range entries {
		e["record_id"] = i
		list[i] = e
	}
	return map[string]any{"version": torchVersion, "pg_config": groups, "pg_status": map[string]any{}, "entries": list,
		"nccl_comm_state": map[string]any{}}
}

func (c *Communicator) description() string { return cmp.Or(c.Name, "undefined") }

func (c *Communicator) torchEntry(o *Operation) map[string]any {
	name := cmp.Or(torchNames[o.Collective], o.Collective)
	switch o.Collective { // the analyzer knows nccl in every version
	case "send":
		name = fmt.Sprintf("send %d->%d", c.Rank, o.Peer)
	case "recv":
		name = fmt.Sprintf("recv %d<-%d", c.Rank, o.Peer)
	}
	in, out := o.Count, o.Count
	switch o.Collective {
	case "all_gather", "gather":
		out *= int64(c.Size)
	case "reduce_scatter", "scatter":
		in *= int64(c.Size)
	case "all_to_all":
		in, out = in*int64(c.Size), out*int64(c.Size)
	}
	collective, message := int64(o.Number), int64(0)
	if o.Message {
		collective, message = 0, int64(o.Number)
	}
	kind := cmp.Or(torchTypes[o.Type], o.Type)
	e := map[string]any{
		"record_id": 0, "pg_id": 0, "process_group": tuple{c.ID, c.description()}, "collective_seq_id": collective,
		"p2p_seq_id": message, "op_id": int64(o.Number), "profiling_name": "nccl:" + name, "time_created_ns": o.Enqueued,
		"input_sizes": []any{[]any{in}}, "input_dtypes": []any{kind}, "output_sizes": []any{[]any{out}},
		"output_dtypes": []any{kind}, "state": torchStates[o.State], "time_discovered_started_ns": nil,
		"time_discovered_completed_ns": nil, "retired": o.Ended != 0, "timeout_ms": 0, "is_p2p": o.Message,
		"frames": []any{},
	}
	if o.Started != 0 {
		e["time_discovered_started_ns"] = o.Started
	}
	if o.Ended != 0 {
		e["time_discovered_completed_ns"] = o.Ended
		e["duration_ms"] = float64(o.Ended-max(o.Started, o.Enqueued)) / 1e6
	}
	return e
}

// tuple is a Python tuple; JSON has a list instead.
type tuple []any

// writePickle writes v in Python's pickle format, version 2. It knows the types of a torch dump.
func writePickle(w io.Writer, v any) error {
	b := bytes.NewBuffer([]byte{0x80, 2})
	if err := pickle(b, v); err != nil {
		return err
	}
	b.WriteByte('.')
	_, err := w.Write(b.Bytes())
	return err
}

func pickle(b *bytes.Buffer, v any) error {
	items := func(open, end string, list []any) error {
		b.WriteString(open)
		for _, x := range list {
			if err := pickle(b, x); err != nil {
				return err
			}
		}
		b.WriteString(end)
		return nil
	}
	switch v := v.(type) {
	case nil:
		b.WriteByte('N')
	case bool:
		b.WriteByte(map[bool]byte{true: 0x88, false: 0x89}[v])
	case int:
		return pickle(b, int64(v))
	case int64: // eight bytes, little endian, signed
		b.Write([]byte{0x8a, 8})
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	case float64:
		b.WriteByte('G')
		b.Write(binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case string:
		b.WriteByte('X')
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(v))))
		b.WriteString(v)
	case tuple:
		return items("(", "t", v)
	case []any:
		return items("](", "e", v)
	case map[string]any:
		var list []any
		for _, k := range slices.Sorted(maps.Keys(v)) {
			list = append(list, k, v[k])
		}
		return items("}(", "u", list)
	default:
		return fmt.Errorf("record: a pickle of %T", v)
	}
	return nil
}
