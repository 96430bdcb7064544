// Package ras lets a job answer clients of NCCL's RAS, such as ncclras.
//
//  1. Each process of the job listens at the same address, from its first communicator to its last. The system gives a
//     client to one of them.
//  2. It asks all ranks of its communicators for their records, by the watchdogs. The answers also have the other
//     communicators of these ranks.
//  3. The records are put together and judged as goccl watch does it, and told in the formats of RAS.
//
// Nothing runs between two questions. All functions may be called from any goroutine.
package ras

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/observe"
	"github.com/goccl/goccl/watch/record"
	"github.com/goccl/goccl/watch/watchdog"
)

const (
	address = "localhost:28028" // NCCL's
	// A client that monitors makes all ranks answer again and again.
	every = time.Second
	stall = 2 * time.Second
)

// job is the communicators of this process, and the server that answers for them.
var job struct {
	mu     sync.Mutex
	open   []*watchdog.Watchdog
	stop   context.CancelFunc // nil: nobody listens
	served chan struct{}
}

// Join adds a communicator, if the settings want RAS, and listens with the first one. The function that it returns
// takes the communicator away, before its watchdog is closed.
func Join(s *setting.Config, w *watchdog.Watchdog) (leave func()) {
	at := cmp.Or(s.RASAddr, address)
	if s.RASEnable < 0 || s.RASEnable == 0 && s.RASAddr == "" {
		return func() {}
	}
	job.mu.Lock()
	defer job.mu.Unlock()
	job.open = append(job.open, w)
	if job.stop == nil {
		listen(at)
	}
	return func() {
		job.mu.Lock()
		job.open = slices.DeleteFunc(job.open, func(o *watchdog.Watchdog) bool { return o == w })
		stop, served := job.stop, job.served
		if len(job.open) > 0 || stop == nil {
			job.mu.Unlock()
			return
		}
		job.stop = nil
		job.mu.Unlock()
		stop()
		<-served
	}
}

func listen(at string) {
	l, err := observe.Listen(at, true)
	if err != nil {
		slog.Warn("this process does not answer clients of RAS: name a free address in NCCL_RAS_ADDR", "error", err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	job.stop, job.served = stop, served
	watcher := &observe.Watcher{Sources: []observe.Source{ranks{}}, Stall: stall}
	go func() {
		defer close(served)
		_ = (&observe.RAS{Look: watcher.Look, Every: every}).Serve(ctx, l)
	}()
}

// ranks is the Source of all ranks of this process's communicators.
type ranks struct{}

// Ranks asks all ranks.
func (ranks) Ranks() (found []observe.Found, notes []string) {
	job.mu.Lock()
	open := slices.Clone(job.open)
	job.mu.Unlock()
	answers := make([][]*judge.Report, len(open))
	var asked sync.WaitGroup
	for i, w := range open {
		asked.Go(func() { answers[i] = w.Reports() })
	}
	asked.Wait()
	type place struct {
		id   string
		rank int
	}
	known := map[place]bool{}
	add := func(r *judge.Report, c *record.Communicator, state string) {
		if p := (place{c.ID, c.Rank}); !known[p] {
			known[p] = true
			from := &record.Process{Time: r.Time, Host: r.Host, PID: r.PID}
			found = append(found, observe.FromRecord(from, c, state))
		}
	}
	for i, w := range open { // a rank's answer comes before reports about it
		for _, r := range answers[i] {
			if r != nil && r.Record != nil {
				add(r, r.Record, observe.Running)
				for _, c := range r.Others {
					add(r, c, observe.Running)
				}
			}
		}
		own := w.Record.Snapshot(1) // nil: it has been closed
		for _, r := range answers[i] {
			if state := silent(r); state != "" && own != nil {
				add(r, &record.Communicator{ID: own.ID, Name: own.Name, Rank: r.Rank, Size: own.Size}, state)
			}
		}
	}
	return found, nil
}

// silent is the state of a process that is known not to answer.
func silent(r *judge.Report) string {
	switch {
	case r == nil || r.Record != nil || r.Left:
		return ""
	case r.Dead != "" || r.State == "Z":
		return observe.Dead
	case strings.ContainsAny(r.State, "Tt"):
		return observe.Stopped
	}
	return ""
}
