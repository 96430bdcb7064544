package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Remote is the Source of other hosts on which `goccl watch --http` runs.
type Remote struct {
	// URLs are their addresses, like http://host:9401.
	URLs []string
}

// Close does nothing.
func (s *Remote) Close() error { return nil }

const (
	remoteTimeout   = 3 * time.Second
	largestSnapshot = 256 << 20
)

// Ranks asks all of them at once.
func (s *Remote) Ranks() (found []Found, notes []string) {
	type answer struct {
		snapshot *Snapshot
		err      error
	}
	answers := make([]answer, len(s.URLs))
	var wg sync.WaitGroup
	for i, url := range s.URLs {
		wg.Go(func() { answers[i].snapshot, answers[i].err = fetch(url) })
	}
	wg.Wait()
	for i, a := range answers {
		if a.err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v: run goccl watch --http there", s.URLs[i], a.err))
			continue
		}
		notes = append(notes, a.snapshot.Notes...)
		for _, c := range a.snapshot.Communicators {
			for _, r := range c.Ranks {
				if r == nil || r.Record == nil { // of another release
					notes = append(notes, fmt.Sprintf("%s: it has ranks without records: use goccl watch of one release", s.URLs[i]))
					continue
				}
				found = append(found, Found{ID: c.ID, Name: c.Name, Size: c.Size, Nodes: c.Nodes, Rank: r})
			}
		}
	}
	return found, notes
}

func fetch(url string) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), remoteTimeout)
	defer cancel()
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/snapshot.json", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	s := new(Snapshot)
	if err := json.NewDecoder(io.LimitReader(resp.Body, largestSnapshot)).Decode(s); err != nil {
		return nil, err
	}
	return s, nil
}
