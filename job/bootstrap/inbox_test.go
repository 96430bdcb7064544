package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestInboxAgainstModel compares an inbox with a map of slices.
func TestInboxAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const peers, spaces, tags = 3, 2, 2
		box := newInbox(peers)
		model := map[key][]string{}
		gone := map[int]bool{}
		closed := map[uint64]bool{}
		genKey := rapid.Custom(func(t *rapid.T) key {
			return key{rapid.IntRange(0, peers-1).Draw(t, "peer"), frameData, rapid.Uint64Range(0, spaces-1).Draw(t, "space"),
				rapid.Uint64Range(0, tags-1).Draw(t, "tag")}
		})
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k := genKey.Draw(t, "key")
				n++
				box.put(k, fmt.Append(nil, n))
				if !closed[k.space] {
					model[k] = append(model[k], fmt.Sprint(n))
				}
			},
			"collect": func(t *rapid.T) {
				k := genKey.Draw(t, "key")
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				var got string
				_, err := box.collect(ctx, []key{k}, func(_ int, b []byte) { got = string(b) })
				switch {
				case len(model[k]) > 0:
					if err != nil || got != model[k][0] {
						t.Fatalf("%+v: got %q, %v; want %q", k, got, err, model[k][0])
					}
					model[k] = model[k][1:]
				case closed[k.space] || gone[k.peer]:
					if !errors.Is(err, ErrClosed) {
						t.Fatalf("%+v: %v", k, err)
					}
				default:
					if !errors.Is(err, context.Canceled) {
						t.Fatalf("%+v: got %q, %v", k, got, err)
					}
				}
			},
			"lose": func(t *rapid.T) {
				p := rapid.IntRange(0, peers-1).Draw(t, "peer")
				if (box.gone(p) != nil) != gone[p] {
					t.Fatalf("gone: %v, before the loss", box.gone(p))
				}
				box.lose(p, ErrClosed)
				gone[p] = true
			},
			"close": func(t *rapid.T) {
				s := rapid.Uint64Range(0, spaces-1).Draw(t, "space")
				box.close(s, ErrClosed)
				closed[s] = true
				for k := range model {
					if k.space == s {
						delete(model, k)
					}
				}
			},
			"": func(t *rapid.T) {
				want := [peers]int{}
				queues := 0
				for k, m := range model {
					for _, s := range m {
						want[k.peer] += len(s)
					}
					if len(m) > 0 {
						queues++
					}
				}
				for p := range peers {
					if box.peers[p].queued != want[p] || box.peers[p].waiters != 0 {
						t.Fatalf("peer %d: %d bytes queued, want %d; %d waiters", p, box.peers[p].queued, want[p], box.peers[p].waiters)
					}
				}
				if len(box.queues) != queues {
					t.Fatalf("%d queues, want %d", len(box.queues), queues)
				}
			},
		})
	})
}

// TestBackPressure: a peer that sends without end is blocked, but a waiting receiver and the report of a death are not.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	bs := tcpGroup(t, 2, WithTimeout(3*time.Second), WithStallTimeout(time.Minute))
	ctx := context.Background()
	bs[0].(*group).e.box.limit = 1 << 20
	chunk := make([]byte, 256<<10)
	var err error
	sent := 0
	for ; sent < 100 && err == nil; sent++ {
		err = bs[1].Send(ctx, 0, 1, chunk)
	}
	if !errors.Is(err, ErrTimeout) || sent < 5 || sent > 50 {
		t.Fatalf("%d chunks were sent: %v", sent, err)
	}
	// A receiver of another tag gets its message; the frame that was partly sent when Send gave up arrives complete.
	late := make(chan error, 1)
	go func() { late <- bs[1].Send(ctx, 0, 2, []byte("urgent")) }()
	if got, err := bs[0].Recv(ctx, 1, 2); err != nil || string(got) != "urgent" {
		t.Fatal(got, err)
	}
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	for i := range sent {
		if got, err := bs[0].Recv(ctx, 1, 1); err != nil || len(got) != len(chunk) {
			t.Fatalf("chunk %d: %d bytes, %v", i, len(got), err)
		}
	}
	if err := bs[0].Send(ctx, 1, 0, nil); err != nil {
		t.Fatal(err)
	}
}
