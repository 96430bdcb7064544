package watch

import (
	"bytes"
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
	mostObjects     = 2 << 20
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
			if c == nil {
				continue
			}
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
	// A host that was named to be joined does not send this one elsewhere.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, largestSnapshot))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(b, []byte("{")); n > mostObjects { // each takes much more memory than text
		return nil, fmt.Errorf("its snapshot has %d objects, at most %d are read", n, mostObjects)
	}
	s := new(Snapshot)
	return s, json.Unmarshal(b, s)
}
