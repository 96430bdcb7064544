package links_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/hosts/links"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
)

// A port makes peers, or fails.
type port struct {
	transport.Port
	fails error
}

func (p port) NewPeer() (transport.Peer, error) { return peer{}, p.fails }

// A peer waits for the other half, which never comes.
type peer struct{ transport.Peer }

func (peer) Address() []byte { return []byte("here") }
func (peer) Close() error    { return nil }
func (peer) Connect(ctx context.Context, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}

// connected is a peer whose Connect succeeds.
type connected struct{ peer }

func (connected) Connect(context.Context, []byte) error { return nil }

type connectedPort struct{ transport.Port }

func (connectedPort) NewPeer() (transport.Peer, error) { return connected{}, nil }

var errFull = errors.New("the adapter is full")

// A rank that fails in one of the steps tells the other one, which waits for it. Neither waits for its deadline.
func TestAFailureReachesThePeer(t *testing.T) {
	fine := links.Config{Port: port{}, Offer: func(int, transport.Peer) ([]byte, error) { return nil, nil },
		Ready: func(int, transport.Peer, []byte) error { return nil }}
	for _, c := range []struct {
		name string
		set  func(*links.Config)
	}{
		{"its half", func(cfg *links.Config) { cfg.Port = port{fails: errFull} }},
		{"the offer", func(cfg *links.Config) {
			cfg.Offer = func(int, transport.Peer) ([]byte, error) { return nil, errFull }
		}},
		{"a network that is ready", func(cfg *links.Config) {
			cfg.Port = connectedPort{}
			cfg.Ready = func(int, transport.Peer, []byte) error { return errFull }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := fine
			c.set(&bad)
			errs := connect(t, bootstrap.NewLocalHosts([]int{0, 1}), fine, bad)
			for r, err := range errs {
				if fault.PeerOf(err) != 1-r || !strings.Contains(err.Error(), errFull.Error()) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			if !errors.Is(links.Kind(errs[0]), transport.ErrPeerClosed) {
				t.Error(errs[0])
			}
		})
	}
}

// connect connects two ranks, each of which Connect makes wait for the other.
func connect(t *testing.T, local *bootstrap.Local, cfgs ...links.Config) (errs [2]error) {
	t.Helper()
	done := make(chan int)
	var ends [2]*links.Links
	for r, cfg := range cfgs {
		cfg.Bootstrap, cfg.Timeout = local.Ranks[r], time.Hour
		ends[r] = links.New(cfg)
		defer func() { _ = ends[r].Close() }()
	}
	for r := range cfgs {
		go func() {
			errs[r] = ends[r].Connect(context.Background(), []int{1 - r})
			done <- r
		}()
	}
	for range cfgs {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("a rank waits for its deadline")
		}
	}
	return errs
}

// A peer that dies or leaves before its hello ends the wait for it.
func TestAPeerThatIsGone(t *testing.T) {
	for name, leave := range map[string]func(l *bootstrap.Local){
		"dead":   func(l *bootstrap.Local) { l.Kill(1) },
		"closed": func(l *bootstrap.Local) { _ = l.Ranks[1].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			local := bootstrap.NewLocalHosts([]int{0, 1})
			l := links.New(links.Config{Bootstrap: local.Ranks[0], Port: port{}, Timeout: time.Hour,
				Offer: func(int, transport.Peer) ([]byte, error) { return nil, nil }})
			defer func() { _ = l.Close() }()
			ended := make(chan error)
			go func() { ended <- l.Connect(context.Background(), []int{1}) }()
			leave(local)
			select {
			case err := <-ended:
				if !errors.Is(err, bootstrap.ErrPeerDead) && !errors.Is(err, bootstrap.ErrClosed) {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the rank waits for its deadline")
			}
		})
	}
}

// TestKind: a peer that applies nothing is late, not dead.
func TestKind(t *testing.T) {
	for err, want := range map[error]error{link.ErrStuck: collective.ErrTimeout,
		transport.ErrPeerGone: collective.ErrPeerDead, transport.ErrPeerClosed: collective.ErrAborted} {
		if got := links.Kind(fmt.Errorf("a link: %w", err)); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v is %v", err, got)
		}
	}
}
