package observe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/watch/observe/records"
	"github.com/goccl/goccl/watch/record"
)

// listed is a Source of ranks that a test makes up.
type listed []Found

func (l listed) Ranks() ([]Found, []string) { return l, []string{"a note\x1b[2J"} }

// Sizes and ranks of other users' processes are checked, and their texts reach no terminal as they are.
func TestDamagedRanks(t *testing.T) {
	rank := func(r int) *Rank {
		return &Rank{Rank: r, Host: "h\x1b]0;x\a", Record: &record.Communicator{ID: "1", Rank: r, Collectives: 1,
			Waits: []record.Wait{{Flag: "\x1b[1m"}},
			Operations: []record.Operation{{Number: 1, Collective: "all\nreduce", State: record.Started,
				Algorithm: "\x9b2J"}}}}
	}
	var all listed
	for _, c := range []struct{ size, rank int }{{-1, 0}, {0, 0}, {1<<31 - 1, 0}, {1 << 17, 3}, {2, 2}, {2, -1}} {
		all = append(all, Found{ID: fmt.Sprint(c.size), Name: "x", Size: c.size, Rank: rank(c.rank)})
	}
	all = append(all, Found{ID: "n", Size: 2}, Found{ID: "m", Size: 2, Rank: &Rank{}},
		Found{ID: "good", Name: "na\x1b[31mme\n", Size: 2, Rank: rank(1)})
	w := &Watcher{Sources: []Source{all}, Stall: 1}
	s := w.Look()
	if len(s.Communicators) != 1 || len(s.Communicators[0].Ranks) != 1 || len(s.Notes) != 9 {
		t.Fatalf("%d communicators, notes %q", len(s.Communicators), s.Notes)
	}
	var table, ras bytes.Buffer
	if err := Table(&table, s, nil, false); err != nil {
		t.Fatal(err)
	}
	if err := rasText(&ras, s, true); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{table.String(), ras.String()} {
		if strings.ContainsAny(text, "\x1b\a\u009b") || !strings.Contains(text, "good") {
			t.Errorf("%q", text)
		}
	}
}

// A host that answers nonsense does not end the one that has joined it.
func TestHostileHost(t *testing.T) {
	for name, body := range map[string]string{
		"nulls": `{"communicators":[null,{"id":"a","size":1,"ranks":[null,{"rank":0}]}],"verdicts":[null]}`,
		"sizes": `{"communicators":[{"id":"a","size":-1,"ranks":[{"rank":0,"record":{}}]}]}`,
		"numbers": `{"communicators":[{"id":"a","size":2,` +
			`"ranks":[{"rank":0,"record":{"collectives":2,"operations":[` +
			`{"number":1},{"number":1}]}},{"rank":1,"record":{"collectives":2,"operations":[` +
			`{"number":1,"enqueued_ns":2000000},{"number":1,"enqueued_ns":9000000}]}}]}]}`,
		"objects": `{"communicators":[` + strings.Repeat(`{},`, mostObjects) + `{}]}`,
		"text":    "hello",
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(body))
			}))
			defer h.Close()
			w := &Watcher{Sources: []Source{&Remote{URLs: []string{h.URL}}}, Stall: 1}
			if s := w.Look(); name != "numbers" && len(s.Communicators) != 0 || name != "numbers" && len(s.Notes) == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	left := new(share)
	left.bytes.Store(10)
	all := &shared{strings.NewReader("123456789012"), largestSnapshot, &left.bytes}
	if _, err := io.ReadAll(all); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("the last host's snapshot has no room: %v", err)
	}
	asked := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer inside.Close()
	h := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusFound))
	defer h.Close()
	if _, notes := (&Remote{URLs: []string{h.URL}}).Ranks(); len(notes) != 1 || asked {
		t.Errorf("a redirect was followed: %q", notes)
	}
}

// A memory file of another user has sizes that are not there, and is no reason to take memory or to end.
func TestCraftedRecords(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOCCL_RECORD_DIR", dir)
	x := record.Open(record.Meta{ID: 7, Rank: 0, Size: 2, Device: "host:0"}, record.Options{Entries: 16, Folder: dir})
	if x == nil {
		t.Fatal("no records")
	}
	files, _ := filepath.Glob(filepath.Join(dir, record.FileName+"*"))
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	x.Close(false)
	const region = 64 << 10 // see record/layout.go
	for name, c := range map[string]struct{ at, value uint32 }{
		"rank -1": {region + 4, 0xffffffff}, "size -1": {region + 8, 0xffffffff}, "size 2^31-1": {region + 8, 1<<31 - 1},
		"rank 5 of 2": {region + 4, 5}, "size of a region": {28, 0xfffffff8}, "entries": {24, 1 << 31},
		"regions": {32, 0xffffffff},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good)
			binary.NativeEndian.PutUint32(b[c.at:], c.value)
			path := filepath.Join(dir, "crafted")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := readRecords(path)
			if err == nil && len(found) != 0 {
				t.Errorf("%+v", found[0])
			}
		})
	}
	path := filepath.Join(dir, "good")
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := readRecords(path); err != nil || len(found) != 1 || found[0].Size != 2 {
		t.Errorf("%+v, %v", found, err)
	}
}

// What the processes of a user make goccl watch keep is bounded in total, and other users keep their share.
func TestMemoryOfAUserIsBounded(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOCCL_RECORD_DIR", dir)
	x := record.Open(record.Meta{ID: 7, Rank: 0, Size: 2, Device: "host:0"}, record.Options{Entries: 16, Folder: dir})
	files, _ := filepath.Glob(filepath.Join(dir, record.FileName+"*"))
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	x.Close(false)
	const header, regions, each = 64 << 10, 100, perCommunicator + mostRanks/16 // see record/layout.go
	region := good[header : header+binary.NativeEndian.Uint32(good[28:])]
	binary.NativeEndian.PutUint32(region[8:], mostRanks)
	binary.NativeEndian.PutUint32(good[32:], regions)
	crafted := append(bytes.Clone(good[:header]), bytes.Repeat(region, regions)...)
	s := NewProcesses(os.Getpid())
	defer func() { _ = s.Close() }()
	for range 3 {
		fd, err := unix.MemfdCreate(records.Recorder, unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "crafted")
		defer func() { _ = f.Close() }()
		if _, err := f.Write(crafted); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		found, notes := s.Ranks()
		want := "user " + strconv.Itoa(os.Getuid())
		if u, err := user.Current(); err == nil {
			want = fmt.Sprintf("user %s (%s)", u.Username, u.Uid)
		}
		if n := len(found); n < 100 || n > userItems/each || len(notes) != 1 || !strings.Contains(notes[0], want) {
			t.Errorf("%d communicators, at most %d have room; %q", n, userItems/each, notes)
		}
	}
	b := newBudget(3, 5)
	if !b.take(1, 3) || b.take(1, 1) || !b.take(2, 2) || b.take(3, 1) || len(b.notes("x")) != 2 {
		t.Errorf("%+v", b)
	}
}

// An operation that hangs has not ended.
func TestHangingOperationsHaveNotEnded(t *testing.T) {
	j := waiting(2)
	c := j[0].Communicators[0]
	c.Totals = []record.Total{{Collective: "all_reduce", Operations: 5, Bytes: 160}}
	begun, ended := uint64(0), uint64(0)
	for _, s := range fromRecord(j[0], c, nil, Running).Rank.Sums {
		begun, ended = begun+s.Begun, ended+s.Ended
	}
	if begun != 5 || ended != 4 {
		t.Errorf("%d begun, %d ended", begun, ended)
	}
}
