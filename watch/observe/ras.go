package observe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/fault"
)

// The protocol of NCCL's RAS clients (ncclras, and scripts that use its port): lines of text from the client, which are
// the same in any case.
//
//	CLIENT PROTOCOL n     SERVER PROTOCOL 2
//	TIMEOUT seconds       OK
//	SET FORMAT text|json  OK
//	STATUS                the report, and the end of the connection; VERBOSE STATUS names more ranks
//	MONITOR [groups]      OK, then a line or an object for each event until the client goes
const (
	rasProtocol = 2
	rasIdle     = 30 * time.Second // without a command
	rasLine     = 1 << 10
	// rasTime is how RAS writes a time.
	rasTime = "2006-01-02 15:04:05"
)

// RAS answers clients by the snapshots that Look returns, which it may be called for at once.
type RAS struct {
	Look func() *Snapshot
	// Every is the time between two looks for a client that monitors.
	Every time.Duration
}

// Serve answers clients until the context ends.
func (s *RAS) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		clients.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer end()
			defer func() { _ = c.Close() }()
			s.client(ctx, c)
		})
	}
}

func (s *RAS) client(ctx context.Context, c net.Conn) {
	in := bufio.NewReaderSize(c, rasLine)
	asJSON := false
	for {
		_ = c.SetDeadline(time.Now().Add(rasIdle))
		line, err := in.ReadSlice('\n') // fails if it is longer
		if err != nil {
			return
		}
		command := strings.TrimRight(string(line), "\r\n")
		lower := strings.ToLower(command)
		answer := "OK\n"
		switch {
		case strings.HasPrefix(lower, "client protocol "):
			answer = fmt.Sprintf("SERVER PROTOCOL %d\n", rasProtocol)
		case strings.HasPrefix(lower, "timeout "):
			if n, err := strconv.Atoi(lower[len("timeout "):]); err != nil || n < 0 {
				answer = "ERROR: Invalid timeout value " + command[len("timeout "):] + "\n"
			}
		case lower == "set format text" || lower == "set format json":
			asJSON = lower == "set format json"
		case strings.HasPrefix(lower, "set format "):
			answer = "ERROR: Invalid format " + command[len("set format "):] + "\n"
		case lower == "status" || lower == "verbose status":
			if asJSON {
				_ = rasJSON(c, s.Look())
			} else {
				_ = rasText(c, s.Look(), lower != "status")
			}
			return
		case lower == "monitor" || strings.HasPrefix(lower, "monitor "):
			if _, err := io.WriteString(c, answer); err == nil {
				s.monitor(ctx, c, asJSON)
			}
			return
		default:
			answer = "ERROR: Unknown command " + command + "\n"
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// monitor reports verdicts that come and go.
func (s *RAS) monitor(ctx context.Context, c net.Conn, asJSON bool) {
	gone := make(chan struct{})
	_ = c.SetDeadline(time.Time{})
	go func() { // a monitor says nothing more; its end is the only news
		defer close(gone)
		_, _ = io.Copy(io.Discard, c)
	}()
	tick := time.Tick(s.Every)
	var before *Snapshot
	for {
		now := s.Look()
		if now != before {
			for _, e := range Events(before, now) {
				_ = c.SetWriteDeadline(time.Now().Add(rasIdle))
				if _, err := io.WriteString(c, rasEvent(&e, asJSON)); err != nil {
					return
				}
			}
			before = now
		}
		select {
		case <-tick:
		case <-gone:
			return
		case <-ctx.Done():
			return
		}
	}
}

func rasEvent(e *Event, asJSON bool) string {
	at := e.Time.Format(rasTime)
	name := "PEER_" + strings.ToUpper(string(e.Verdict.Kind))
	if e.Over {
		name += "_OVER"
	}
	if !asJSON {
		peer := ""
		if e.Verdict.Process != 0 {
			peer = fmt.Sprintf("Process %d on node %s ", e.Verdict.Process, e.Verdict.Host)
		}
		return fmt.Sprintf("[%s] %s: %s%s: %s\n", at, name, peer, who(e.Verdict), e.Verdict.What)
	}
	type peer struct {
		Host string `json:"host"`
		PID  int    `json:"pid"`
		CUDA []int  `json:"cuda_devs"`
		NVML []int  `json:"nvml_devs"`
	}
	b, _ := json.MarshalIndent(struct { // never fails: numbers and texts
		Timestamp string         `json:"timestamp"`
		Group     string         `json:"group"`
		Event     string         `json:"event"`
		Peer      peer           `json:"peer"`
		Details   string         `json:"details"`
		Verdict   *fault.Verdict `json:"verdict"`
	}{at, "LIFECYCLE", name, peer{e.Verdict.Host, e.Verdict.Process, []int{}, []int{}}, e.Verdict.What, e.Verdict},
		"", "  ")
	return string(b) + "\n"
}

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
