package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/setting"
)

// counted counts the frames of a transport.
type counted struct {
	transport
	frames *atomic.Int64
}

func (c counted) send(ctx context.Context, peer int, kind frameKind, space, tag uint64, data []byte) error {
	c.frames.Add(1)
	return c.transport.send(ctx, peer, kind, space, tag, data)
}

// partOf is what a rank gives: parts of any length.
func partOf(r, most int) []byte { return bytes.Repeat([]byte{byte(r), byte(r >> 8)}, r*most/97%most) }

// Large groups gather over relays: every rank gets every part, and sends a message for each bit of the number of ranks.
func TestRelays(t *testing.T) {
	sizes := []int{relayFrom, 65, 127, 128, 300}
	if setting.Lenient().Full != "" {
		sizes = append(sizes, 1024)
	}
	for _, n := range sizes {
		l := NewLocal(n, quiet(), WithTimeout(time.Minute))
		var frames atomic.Int64
		for _, e := range l.endpoints {
			e.t = counted{e.t, &frames}
		}
		begin := time.Now()
		each(t, l.Ranks, func(b Bootstrap) error { return b.Barrier(context.Background()) })
		if want := int64(n * bits.Len(uint(n-1))); frames.Load() != want {
			t.Errorf("%d ranks send %d messages in a barrier, want %d", n, frames.Load(), want)
		}
		each(t, l.Ranks, func(b Bootstrap) error {
			got, err := b.AllGather(context.Background(), partOf(b.Rank(), 50))
			for r := range got {
				if !bytes.Equal(got[r], partOf(r, 50)) || got[r] == nil {
					return fmt.Errorf("rank %d has %d bytes of rank %d", b.Rank(), len(got[r]), r)
				}
			}
			return err
		})
		t.Logf("%d ranks: a barrier and an all-gather in %v", n, time.Since(begin))
		closeAll(l.Ranks)
	}
}

// A bundle of large parts travels in several messages.
func TestRelaysOfLargeParts(t *testing.T) {
	l := NewLocal(relayFrom, quiet(), WithTimeout(time.Minute))
	defer closeAll(l.Ranks)
	each(t, l.Ranks, func(b Bootstrap) error {
		mine := bytes.Repeat([]byte{byte(b.Rank())}, 70<<10)
		got, err := b.AllGather(context.Background(), mine)
		for r := range got {
			if len(got[r]) != len(mine) || got[r][0] != byte(r) || got[r][len(mine)-1] != byte(r) {
				return fmt.Errorf("rank %d has other bytes of rank %d", b.Rank(), r)
			}
		}
		return err
	})
}

// What goes wrong ends the collective on all ranks, and each names the rank that is to blame.
func TestRelaysFail(t *testing.T) {
	const bad = 37
	for what, c := range map[string]struct {
		timeout time.Duration
		does    func(l *Local) error
		want    func(err error, e *Error) bool
	}{
		"dies": {time.Hour, func(l *Local) error {
			time.Sleep(20 * time.Millisecond)
			l.Kill(bad)
			return nil
		}, func(err error, e *Error) bool { return errors.Is(err, ErrPeerDead) && e.Peer == bad }},
		"leaves": {time.Hour, func(l *Local) error {
			time.Sleep(20 * time.Millisecond)
			return l.Ranks[bad].Close()
		}, func(err error, e *Error) bool { return errors.Is(err, ErrClosed) && e.Peer == bad }},
		"does something else": {time.Hour, func(l *Local) error {
			if err := l.Ranks[bad].Barrier(context.Background()); !errors.Is(err, ErrProtocol) {
				return fmt.Errorf("the other rank: %w", err)
			}
			return nil
		}, func(err error, _ *Error) bool { return errors.Is(err, ErrProtocol) }},
		"does not come": {8 * time.Second, func(*Local) error { return nil },
			func(err error, e *Error) bool {
				return errors.Is(err, ErrTimeout) && e.Peer == bad && strings.Contains(err.Error(), fmt.Sprint("[", bad, "]"))
			}},
	} {
		t.Run(what, func(t *testing.T) {
			l := NewLocal(relayFrom+7, quiet(), WithTimeout(c.timeout))
			defer closeAll(l.Ranks)
			done := make(chan error, 1)
			go func() { done <- c.does(l) }()
			others := slices.Delete(slices.Clone(l.Ranks), bad, bad+1)
			each(t, others, func(b Bootstrap) error {
				_, err := b.AllGather(context.Background(), []byte("x"))
				var e *Error
				if !errors.As(err, &e) || !c.want(err, e) {
					return fmt.Errorf("rank %d: %w", b.Rank(), err)
				}
				return nil
			})
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A rank that comes late, after others have called, is waited for; and their calls do not stay.
func TestRelaysWaitForTheLate(t *testing.T) {
	const timeout = 8 * time.Second
	l := NewLocal(relayFrom, quiet(), WithTimeout(timeout))
	defer closeAll(l.Ranks)
	each(t, l.Ranks, func(b Bootstrap) error {
		if b.Rank() == 5 {
			time.Sleep(timeout/4 + 300*time.Millisecond)
		}
		for range 3 {
			if err := b.Barrier(context.Background()); err != nil {
				return err
			}
		}
		return nil
	})
	for r, e := range l.endpoints {
		if n := len(e.box.queues); n > relayFrom {
			t.Errorf("rank %d keeps %d queues", r, n)
		}
	}
}

// Over connections, a death in the middle is blamed on the rank that died.
func TestRelaysOverTCP(t *testing.T) {
	if testing.Short() {
		t.Skip("2,016 handshakes under the race detector outlast their deadlines on a busy machine")
	}
	const bad = 11
	begin := time.Now()
	bs := tcpGroup(t, relayFrom, WithTimeout(5*time.Minute)) // a busy machine takes a minute
	t.Logf("%d ranks have joined after %v", relayFrom, time.Since(begin))
	each(t, bs, func(b Bootstrap) error {
		got, err := b.AllGather(context.Background(), partOf(b.Rank(), 5000))
		for r := range got {
			if !bytes.Equal(got[r], partOf(r, 5000)) {
				return fmt.Errorf("rank %d has other bytes of rank %d", b.Rank(), r)
			}
		}
		return err
	})
	killed := time.AfterFunc(20*time.Millisecond, func() { abort(bs[bad]) })
	defer killed.Stop()
	each(t, survivors(bs, bad), func(b Bootstrap) error { return wantDead(b.Barrier(context.Background()), bad) })
}
