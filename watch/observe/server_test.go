package observe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fault"
)

// hang returns a watcher of a job whose rank 2 does not call the fourth all-reduce, and its snapshot.
func hang(t *testing.T) (*Watcher, *Snapshot) {
	t.Helper()
	w, _ := play(t, 5, "held", "held", "idle", "held")
	s, _ := until(t, w, fault.VerdictMissing)
	return w, s
}

// The page needs nothing from elsewhere, the data is the snapshot, and another watch reads it.
func TestHTTP(t *testing.T) {
	w, s := hang(t)
	var server Server
	server.Show(s)
	h := httptest.NewServer(server.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some metrics")
	}), ""))
	defer h.Close()
	get := func(path string) (string, http.Header) {
		resp, err := http.Get(h.URL + path) //nolint:noctx // a test's own server
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(path, resp.Status, err)
		}
		return string(b), resp.Header
	}
	html, header := get("/")
	if m := regexp.MustCompile(`(?i)(src|href)\s*=|https?://|@import|innerHTML`).FindString(html); m != "" {
		t.Errorf("the page has %q", m)
	}
	if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error(header)
	}
	text, _ := get("/metrics")
	if text != "some metrics" {
		t.Error(text)
	}
	other := &Watcher{Sources: []Source{&Remote{URLs: []string{h.URL, "http://127.0.0.1:1"}}}, Stall: w.Stall}
	far := other.Look()
	if len(far.Verdicts) != 1 || far.Verdicts[0].Kind != fault.VerdictMissing || len(far.Notes) != 1 ||
		!slices.Equal(far.Verdicts[0].Blamed(), []int{2}) {
		t.Errorf("%+v %v", far.Verdicts, far.Notes)
	}
}

func rasServer(t *testing.T, s *Snapshot) (*Server, func(commands string) string) {
	t.Helper()
	server := &Server{}
	server.Show(s)
	l, err := Listen(":0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ras := RAS{Look: server.Snapshot, Every: time.Millisecond}
	go func() { done <- ras.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server, func(commands string) string {
		if commands == "address" {
			return l.Addr().String()
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, commands); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if strings.Contains(commands, "MONITOR") {
			in, text := bufio.NewReader(c), ""
			for !strings.Contains(text, "PEER_") {
				line, err := in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				text += line
			}
			return text
		}
		b, err := io.ReadAll(c)
		if err != nil && len(commands) < rasLine { // a line that is too long ends the connection before it was read
			t.Fatal(err)
		}
		return string(b)
	}
}

// RAS's clients get their protocol's answers, in text and JSON, with the verdict.
func TestRAS(t *testing.T) {
	_, s := hang(t)
	_, ask := rasServer(t, s)
	text := ask("client protocol 2\nTimeout 5\r\nverbose STATUS\n")
	rank := s.Communicators[0].Ranks[2]
	for _, want := range []string{"SERVER PROTOCOL 2\nOK\n", "Job summary\n===========", "Communicators... (",
		"    0         1         1         4         4         4   RUNNING  ERROR,MISMATCH\n", "Errors\n======",
		"#0-0 (" + s.Communicators[0].ID + ") MISSING\n", "Communicator ranks have different AllReduce operation counts",
		"  3 ranks have launched up to operation 4\n",
		fmt.Sprintf("  Rank 2 has launched up to operation 3 -- GPU -1 managed by process %d on node %s\n", rank.PID,
			rank.Host)} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	answer := ask("SET FORMAT json\nSTATUS\n")
	var report rasReport
	if err := json.Unmarshal([]byte(strings.TrimPrefix(answer, "OK\n")), &report); err != nil {
		t.Fatalf("%v in\n%s", err, answer)
	}
	if report.Count != 1 || report.Communicators[0].Ranks != 4 || report.Communicators[0].Size != 4 ||
		report.Communicators[0].Present[2].Counts["AllReduce"] != 3 || len(report.Verdicts) != 1 {
		t.Errorf("%s", answer)
	}
	for command, want := range map[string]string{"TIMEOUT x\nstatus\n": "ERROR: Invalid timeout value x\n",
		"SET FORMAT xml\nstatus\n": "ERROR: Invalid format xml\n", "HELLO\nstatus\n": "ERROR: Unknown command HELLO\n",
		"MONITOR\n":                        "OK\n[" + s.Time.Format(rasTime) + "] PEER_MISSING: Process",
		"SET FORMAT JSON\nMONITOR all\n":   "\"event\": \"PEER_MISSING\"",
		strings.Repeat("x", 2000) + "\n\n": ""} {
		if got := ask(command); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%.20q: %s", command, got)
		}
	}
}

// Held connections shut nobody out: a new one ends the oldest.
func TestHeldConnections(t *testing.T) {
	_, s := hang(t)
	_, ask := rasServer(t, s)
	address := ask("address")
	for range 3 * mostConnections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	if text := ask("STATUS\n"); !strings.Contains(text, "Job summary") {
		t.Errorf("%q", text)
	}
}

// A page in a browser that reaches this host by a foreign name gets nothing (DNS rebinding).
func TestHostHeader(t *testing.T) {
	var server Server
	h := server.Handler(nil, "node1.example.com")
	own, _ := os.Hostname()
	for host, want := range map[string]int{"localhost:9401": 200, "127.0.0.1:9401": 200, "[::1]:9401": 200, "[::1]": 200,
		"10.1.2.3": 200, "NODE1.example.com.:9401": 200, own + ":1": 200, "evil.example.com:9401": 421, "evil": 421, "": 421,
		"127.0.0.1.evil.com": 421} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/snapshot.json", nil)
		r.Host = host
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}

// The log has a line of JSON for what comes and goes, each once, with its level.
func TestLog(t *testing.T) {
	_, s := hang(t)
	var b bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&b, nil))
	empty := &Snapshot{Time: s.Time}
	for _, pair := range [][2]*Snapshot{{nil, empty}, {empty, s}, {s, s}, {s, empty}} {
		Log(t.Context(), log, pair[0], pair[1])
	}
	var lines []string
	for in := json.NewDecoder(&b); ; {
		var line struct{ Level, Msg, Verdict string }
		if err := in.Decode(&line); err != nil {
			break
		}
		lines = append(lines, strings.TrimSpace(line.Level+" "+line.Msg+" "+line.Verdict))
	}
	want := []string{"INFO communicator seen", "ERROR hang missing", "INFO communicator ended", "INFO over missing"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}
