package observe

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fault"
)

// dumper writes a dump of PyTorch's flight recorder of rank argv[2], as its C++ code pickles it (protocol 2): three
// all-reduces and a broadcast, and except on rank 1 an all-reduce that does not end. Rank 0 also sends to rank 2.
const dumper = `
import json, pickle, sys, time
path, rank = sys.argv[1], int(sys.argv[2])
def entry(seq, name, state, p2p=False, types=["Float"]):
    now = time.time_ns()
    return {"frames": [{"name": "f", "filename": "train.py", "line": 3}], "record_id": seq, "pg_id": 0,
        "process_group": ("0", "default_pg"), "collective_seq_id": 0 if p2p else seq, "p2p_seq_id": seq if p2p else 0,
        "op_id": seq, "profiling_name": name, "time_created_ns": now - 60 * 10**9, "duration_ms": 1.5,
        "input_sizes": ((100, 10),), "input_dtypes": types, "output_sizes": ((100, 10),), "output_dtypes": types,
        "state": state, "time_discovered_started_ns": None if state == "scheduled" else now,
        "time_discovered_completed_ns": now if state == "completed" else None, "retired": state == "completed",
        "timeout_ms": 600000, "is_p2p": p2p}
entries = [entry(i, "nccl:all_reduce", "completed") for i in (1, 2, 3)] + [entry(4, "nccl:broadcast", "completed")]
if rank == 0:
    entries.append(entry(1, "nccl:send 0->2", "completed", True))
if rank != 1:
    entries.append(entry(5, "nccl:all_reduce", "started"))
dump = {"version": "2.9", "comm_lib_version": "2.27.5", "pg_config": {"0": {"name": "0", "desc": "default_pg",
    "ranks": "[0, 1, 2]"}}, "pg_status": {"0": {"last_enqueued_collective": 5}}, "entries": entries}
if path.endswith("json"):
    json.dump(dump, open(path, "w"))
else:
    pickle.dump(dump, open(path, "wb"), 2)
`

// Dumps of a hang, as pickles and as JSON, name the rank that did not call the collective.
func TestDumps(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("needs python3: %v", err)
	}
	dir := t.TempDir()
	for i, name := range []string{"trace_0", "trace_1", "trace_2.json"} {
		out, err := exec.Command(python, "-c", dumper, filepath.Join(dir, name), string(rune('0'+i))).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "trace_3"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &Watcher{Stall: time.Second,
		Sources: []Source{&Dumps{Patterns: []string{filepath.Join(dir, "trace_*"), "/nowhere/*"}}}}
	s := w.Look()
	if len(s.Communicators) != 1 || len(s.Verdicts) != 1 || len(s.Notes) != 2 {
		t.Fatalf("%+v %+v %v", s.Communicators, s.Verdicts, s.Notes)
	}
	v, c := s.Verdicts[0], s.Communicators[0]
	if v.Kind != fault.VerdictMissing || v.Rank != 1 || v.Operation != "all_reduce" || v.Number != 5 ||
		!slices.Equal(v.Waiting, []int{0, 2}) || v.For < 59*time.Second || v.For > 90*time.Second {
		t.Errorf("%+v", v)
	}
	r := c.Ranks[0].Record
	if c.Name != "default_pg" || c.Size != 3 || r.Collectives != 5 || r.Messages != 1 || len(r.Operations) != 6 ||
		r.Operations[0].Count != 1000 || r.Operations[0].Bytes != 4000 || r.Operations[4].Collective != "send" ||
		r.Operations[4].Peer != 2 {
		t.Errorf("%+v", r)
	}
	var b strings.Builder
	if err := Table(&b, s, nil, false); err != nil || !strings.Contains(b.String(), "MISSING  rank 1") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
