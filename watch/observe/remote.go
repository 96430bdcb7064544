package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Remote is the Source of other hosts on which `goccl watch --http` runs.
type Remote struct {
	// URLs are their addresses, like http://host:9401.
	URLs []string
}

// Bounds of what one host answers, and of what all do.
const (
	remoteTimeout                 = 3 * time.Second
	largestSnapshot, allSnapshots = 256 << 20, 1 << 30
	mostObjects, allObjects       = 2 << 20, 1 << 22
)

// share is the number of bytes and of objects that may still be read from all hosts together.
type share struct{ bytes, objects atomic.Int64 }

// shared reads at most limit bytes, and no more than all hosts have left.
type shared struct {
	io.Reader
	limit int64
	all   *atomic.Int64
}

func (r *shared) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.limit -= int64(n)
	if left := r.all.Add(-int64(n)); r.limit < 0 || left < 0 {
		return 0, fmt.Errorf("its snapshot is too large: a host has %d MiB, all hosts that are joined have %d MiB",
			largestSnapshot>>20, allSnapshots>>20)
	}
	return n, err
}

// Ranks asks all of them at once.
func (s *Remote) Ranks() (found []Found, notes []string) {
	type answer struct {
		snapshot *Snapshot
		err      error
	}
	answers := make([]answer, len(s.URLs))
	left := new(share)
	left.bytes.Store(allSnapshots)
	left.objects.Store(allObjects)
	var wg sync.WaitGroup
	for i, url := range s.URLs {
		wg.Go(func() { answers[i].snapshot, answers[i].err = fetch(url, left) })
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

func fetch(url string, left *share) (*Snapshot, error) {
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
	b, err := io.ReadAll(&shared{resp.Body, largestSnapshot, &left.bytes})
	if err != nil {
		return nil, err
	}
	// An object takes much more memory than its text.
	if n := bytes.Count(b, []byte("{")); n > mostObjects || left.objects.Add(-int64(n)) < 0 {
		return nil, fmt.Errorf("its snapshot has %d objects: a host has %d, all hosts that are joined have %d", n,
			mostObjects, allObjects)
	}
	s := new(Snapshot)
	return s, json.Unmarshal(b, s)
}
