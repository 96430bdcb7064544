package hosts_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/transport"
)

// A fullNet is a network whose ports make no connection.
type fullNet struct{ transport.Net }

type fullPort struct{ transport.Port }

var errFull = errors.New("the adapter has no more queue pairs")

func (n fullNet) Open(nic int) (transport.Port, error) {
	p, err := n.Net.Open(nic)
	return fullPort{p}, err
}

func (fullPort) NewPeer() (transport.Peer, error) { return nil, errFull }

// TestRefusal: if one rank cannot connect, all ranks fail at once, not after Timeout. A rank that is connected with it
// says why.
func TestRefusal(t *testing.T) {
	commtest.NoLeak(t)
	f := netfake.New(netfake.Options{Seed: 1})
	defer f.Close()
	hosts := []int{0, 0, 1, 1}
	local := bootstrap.NewLocalHosts(hosts)
	const bad = 3
	errs := make([]error, len(hosts))
	ended := make(chan error)
	go func() {
		ended <- commtest.Each(len(hosts), func(r int) error {
			dev, err := commtest.Host(r)
			if err != nil {
				return err
			}
			net := f.Net([]string{"a", "b"}[hosts[r]])
			if r == bad {
				net = fullNet{net}
			}
			c, err := goccl.NewComm(context.Background(), goccl.Config{Bootstrap: local.Ranks[r], Device: dev, Net: net,
				Timeout: time.Hour})
			if errs[r] = err; err == nil {
				err = c.Close()
			} else {
				err = nil
			}
			return errors.Join(err, dev.Close(), local.Ranks[r].Close())
		})
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("ranks wait for one that has failed")
	}
	told := 0
	for r, err := range errs {
		if err == nil {
			t.Errorf("rank %d has a communicator", r)
		} else if strings.Contains(err.Error(), errFull.Error()) {
			told++
		}
		t.Logf("rank %d: %v", r, err)
	}
	if told < 2 { // the rank itself and its rail's other rank
		t.Errorf("%d ranks say why", told)
	}
}
