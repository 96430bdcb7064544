package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/test/mutate"
	"github.com/goccl/goccl/watch/record"
)

func open(t testing.TB, o record.Options) (*record.Recorder, device.Stream) {
	t.Helper()
	dev, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	x := record.Open(record.Meta{ID: 0xabc, Name: "dp", Rank: 1, Size: 4, Device: "host:0"}, o)
	if x == nil {
		t.Fatal("no records")
	}
	t.Cleanup(func() {
		x.Close(false)
		_ = s.Close()
		_ = dev.Close()
	})
	return x, s
}

func allReduce(s device.Stream, count int64) *collective.Request {
	return &collective.Request{Collective: collective.AllReduce, Count: count, Type: datatype.Float32, Op: datatype.Max,
		Stream: s}
}

func TestTheRingHoldsTheLatestOperations(t *testing.T) {
	x, s := open(t, record.Options{Entries: 32})
	for n := range uint64(100) {
		x.Enqueued(n+1, allReduce(s, int64(n+1)))
		if n < 98 {
			x.Started(allReduce(s, 0), n+1, 1)
			x.Algorithm(false, n+1, x.Index("one_shot"))
			x.Ended(allReduce(s, 0), n+1, 1, nil)
		}
	}
	x.Started(allReduce(s, 0), 99, 1)
	x.Enqueued(7, &collective.Request{Collective: collective.Recv, Peer: 3, Count: 5, Type: datatype.Int8, Stream: s})
	c := x.Snapshot(0)
	if len(c.Operations) != 33 || c.Collectives != 100 || c.Messages != 7 || c.ID != "0000000000000abc" {
		t.Fatalf("%d operations, %+v", len(c.Operations), c)
	}
	for i, o := range c.Operations[:32] {
		want := uint64(69 + i)
		if o.Number != want || o.Count != int64(want) || o.Bytes != 4*int64(want) || o.Op != "max" || o.Type != "float" {
			t.Errorf("entry %d: %+v", i, o)
		}
	}
	first, last, running, recv := c.Operations[0], c.Operations[31], c.Operations[30], c.Operations[32]
	if first.State != record.Ended || first.Algorithm != "one_shot" || first.Enqueued > first.Started ||
		first.Started > first.Ended {
		t.Errorf("an operation that has ended: %+v", first)
	}
	if d := time.Now().UnixNano() - first.Ended; d < 0 || d > int64(time.Minute) {
		t.Errorf("the end was %d ns ago", d)
	}
	if running.State != record.Started || last.State != record.Enqueued {
		t.Errorf("states %s and %s", running.State, last.State)
	}
	if recv.Peer != 3 || recv.Number != 7 || !recv.Message || recv.Root != -1 {
		t.Errorf("a message: %+v", recv)
	}
	if c.Totals[0].Operations != 100 || c.Totals[0].Bytes != 4*5050 {
		t.Errorf("totals %+v", c.Totals)
	}
	if few := x.Snapshot(3); len(few.Operations) != 4 || few.Operations[0].Number != 98 {
		t.Errorf("the latest three: %+v", few.Operations)
	}
}

// An operation that nobody sees run, as across hosts on GPUs, is not taken for one that waits.
func TestUnseenOperationsDoNotWait(t *testing.T) {
	x, s := open(t, record.Options{Entries: 32})
	x.Enqueued(1, allReduce(s, 1))
	x.Unseen(allReduce(s, 0), 1, 1)
	if o := x.Snapshot(0).Operations[0]; o.State != record.Ended || !o.Sampled || o.Ended == 0 {
		t.Errorf("%+v", o)
	}
}

// A reader sees whole entries or none.
func TestReadersSeeWholeEntries(t *testing.T) {
	x, s := open(t, record.Options{Entries: 4096})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint64(1); ; n++ {
			x.Enqueued(n, allReduce(s, int64(n)))
			x.Started(allReduce(s, 0), n, 1)
			x.Ended(allReduce(s, 0), n, 1, nil)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	seen := 0
	for end := time.Now().Add(30 * time.Second); seen < 100000 && time.Now().Before(end); {
		for _, o := range x.Snapshot(0).Operations {
			if seen++; o.Count != int64(o.Number) {
				t.Errorf("#%d has count %d", o.Number, o.Count)
			}
		}
	}
	close(stop)
	wg.Wait()
	if seen == 0 {
		t.Error("no entry was read")
	}
}

func TestNoRecords(t *testing.T) {
	x := record.Open(record.Meta{}, record.Options{})
	if x != nil {
		t.Fatal("records although they are off")
	}
	x.Enqueued(1, allReduce(nil, 1))
	x.Started(allReduce(nil, 1), 1, 1)
	x.Ended(allReduce(nil, 1), 1, 1, nil)
	if x.Snapshot(0) != nil || x.Verdict() != nil || x.Index("a") != -1 {
		t.Error("a recorder that is off has records")
	}
	x.Close(true)
	if record.Open(record.Meta{}, record.Options{Entries: 16, Folder: "/does/not/exist"}) != nil {
		t.Error("records in a folder that does not exist")
	}
}

// Another process reads by socket, and by the memory file.
func TestAnotherProcessReads(t *testing.T) {
	x, s := open(t, record.Options{Entries: 16})
	x.Enqueued(1, allReduce(s, 5))
	socket, err := record.Socket(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for format, part := range map[string]string{"json": `"collective":"all_reduce"`,
		"text": "#1 all_reduce(max) of 5 × float", "trace": `"ph":"X"`, "torch": "nccl:all_reduce",
		"torch-json": `"profiling_name":"nccl:all_reduce"`,
		"stack":      "TestAnotherProcessReads"} {
		b, err := record.Ask(socket, format)
		if err != nil || !bytes.Contains(b, []byte(part)) {
			t.Errorf("%s: %v: %s", format, err, b)
		}
	}
	if b, err := record.Ask(socket, "no format"); err != nil || len(b) != 0 {
		t.Errorf("of an unknown format: %q, %v", b, err)
	}
	p, err := record.Of(os.Getpid())
	if err != nil || len(p.Communicators) != 1 || p.Communicators[0].Operations[0].Count != 5 || p.PID != os.Getpid() {
		t.Errorf("%+v, %v", p, err)
	}
	x.Close(false)
	if _, err := record.Of(os.Getpid()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the last communicator: %v", err)
	}
	if _, err := record.Socket(os.Getpid()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after the last communicator: %v", err)
	}
}

// A file in a folder remains if a communicator has failed, and only then.
func TestTheFileOfAFailureRemains(t *testing.T) {
	for _, failed := range []bool{false, true} {
		folder := t.TempDir()
		x, s := open(t, record.Options{Entries: 16, Folder: folder})
		x.Enqueued(1, allReduce(s, 5))
		x.Close(failed)
		files, _ := os.ReadDir(folder)
		if (len(files) == 1) != failed {
			t.Fatalf("failed: %v: %v", failed, files)
		}
		if !failed {
			continue
		}
		p, err := record.ReadFile(folder + "/" + files[0].Name())
		if err != nil || len(p.Communicators) != 1 || p.Communicators[0].State != "failed" ||
			p.Communicators[0].Name != "dp" ||
			p.Communicators[0].Operations[0].Count != 5 {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

func TestASignalWritesTheRecords(t *testing.T) {
	folder := t.TempDir()
	x, s := open(t, record.Options{Entries: 16, Folder: folder, Signal: "USR2"})
	x.Enqueued(1, allReduce(s, 5))
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	want := folder + "/" + record.TorchPrefix + "1"
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(want); err == nil && strings.HasSuffix(string(b), ".") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no dump")
		}
	}
	files, _ := os.ReadDir(folder)
	if len(files) != 4 { // the file of the process, text, json, torch
		t.Errorf("files: %v", files)
	}
}

// The keys that torchfrtrace and PyTorch's own readers use.
func TestTorchDumpHasTheSchema(t *testing.T) {
	x, s := open(t, record.Options{Entries: 16})
	x.Enqueued(1, allReduce(s, 5))
	x.Enqueued(1, &collective.Request{Collective: collective.Send, Peer: 3, Count: 5, Type: datatype.Bfloat16, Stream: s})
	var b bytes.Buffer
	if err := record.Write(&b, record.Here(), "torch-json"); err != nil {
		t.Fatal(err)
	}
	var dump struct {
		Version string                    `json:"version"`
		Groups  map[string]map[string]any `json:"pg_config"`
		Entries []map[string]any          `json:"entries"`
	}
	if err := json.Unmarshal(b.Bytes(), &dump); err != nil || dump.Version != "2.10" || len(dump.Entries) != 2 {
		t.Fatalf("%v: %s", err, b.Bytes())
	}
	if g := dump.Groups["0000000000000abc"]; g["ranks"] != "[0, 1, 2, 3]" || g["desc"] != "dp" {
		t.Errorf("groups %v", dump.Groups)
	}
	for _, k := range []string{"record_id", "pg_id", "process_group", "collective_seq_id", "p2p_seq_id", "op_id",
		"profiling_name", "time_created_ns", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes", "state",
		"time_discovered_started_ns", "time_discovered_completed_ns", "retired", "timeout_ms", "is_p2p", "frames"} {
		if _, ok := dump.Entries[0][k]; !ok {
			t.Errorf("an entry without %s", k)
		}
	}
	if n := dump.Entries[1]["profiling_name"]; n != "nccl:send 1->3" {
		t.Errorf("a message is %v", n)
	}
}

func FuzzDecode(f *testing.F) {
	x, s := open(f, record.Options{Entries: 16})
	x.Enqueued(1, allReduce(s, 5))
	f.Add([]byte("goccl"), uint16(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint16(12))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint16(32))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f}, uint16(4096))
	whole, err := record.Copy(os.Getpid())
	if err != nil {
		f.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	mutate.Fuzz(f, func(t *testing.T, change []byte, at uint16) {
		from := min(int(at), len(damaged))
		n := copy(damaged[from:], change)
		defer func() { copy(damaged[from:from+n], whole[from:]) }()
		p, err := record.Decode(damaged[:max(0, len(damaged)-len(change))])
		if err != nil {
			return
		}
		for _, format := range []string{"text", "trace", "torch"} {
			if err := record.Write(new(bytes.Buffer), p, format); err != nil {
				t.Error(err)
			}
		}
	})
}

// What recording costs one operation of the host device, and one of a GPU: alone, and among many.
func BenchmarkOperation(b *testing.B) {
	for name, rapid := range map[string]bool{"each stamped": false, "rapid": true} {
		b.Run(name, func(b *testing.B) {
			x, s := open(b, record.Options{Entries: 512})
			if rapid {
				record.Hurry(x)
			}
			r := allReduce(s, 256)
			for n := uint64(1); b.Loop(); n++ {
				x.Enqueued(n, r)
				x.Started(r, n, 1)
				x.Algorithm(false, n, 0)
				x.Ended(r, n, 1, nil)
			}
		})
		b.Run(name+", on a GPU", func(b *testing.B) {
			x, s := open(b, record.Options{Entries: 512})
			if rapid {
				record.Hurry(x)
			}
			r := allReduce(s, 256)
			for n := uint64(1); b.Loop(); n++ {
				x.Enqueued(n, r)
				x.Marked(r, n, 1, n, false)
			}
		})
	}
}

func BenchmarkTicks(b *testing.B) {
	for b.Loop() {
		record.Ticks()
	}
}
