package executor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/tcp"
)

// twoHosts loads an all-reduce of two ranks on two hosts.
func twoHosts(t *testing.T, f *netfake.Fabric, limit time.Duration) (*job, []*executor.ExecutionPlan) {
	t.Helper()
	t.Cleanup(f.Close)
	j := fill(t, &job{boots: bootstrap.NewLocalHosts([]int{0, 1}).Ranks}, openHost, func(r int, c *executor.Config) {
		c.OpTimeout, c.Net = limit, f.Net(fmt.Sprint(r))
	})
	prog, err := programs.Lookup("allreduce_ring")
	if err != nil {
		t.Fatal(err)
	}
	p, err := prog.Build(programs.Options{Ranks: 2, Hosts: 2, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	return j, j.load(t, p)
}

// A fullNet is a network whose ports make no connection.
type fullNet struct{ transport.Net }

type fullPort struct{ transport.Port }

func (n fullNet) Open(nic int) (transport.Port, error) {
	p, err := n.Net.Open(nic)
	return fullPort{p}, err
}

func (fullPort) NewPeer() (transport.Peer, error) { return nil, errors.New("no more queue pairs") }

// TestRankThatCannotConnect: all ranks of a plan fail at once if one of them has no connection to give, and name it.
func TestRankThatCannotConnect(t *testing.T) {
	f := netfake.New(netfake.Options{Seed: 1})
	t.Cleanup(f.Close)
	j := fill(t, &job{boots: bootstrap.NewLocalHosts([]int{0, 1}).Ranks}, openHost, func(r int, c *executor.Config) {
		c.Net = f.Net(fmt.Sprint(r))
		if r == 1 {
			c.Net = fullNet{c.Net}
		}
	})
	prog, err := programs.Lookup("allreduce_ring")
	if err != nil {
		t.Fatal(err)
	}
	p, err := prog.Build(programs.Options{Ranks: 2, Hosts: 2, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	_ = j.each(func(r int) error {
		_, err := j.execs[r].Load(bounded(t), p)
		if err == nil || errors.Is(err, collective.ErrTimeout) || !strings.Contains(err.Error(), "rank "+fmt.Sprint(1-r)) {
			t.Errorf("rank %d: %v", r, err)
		}
		return nil
	})
}

// execute runs the plan once on a rank, with a message of the given size.
func execute(t *testing.T, j *job, x *executor.ExecutionPlan, r int, message int64) error {
	mem, err := j.devs[r].Alloc(2 * message)
	if err != nil {
		t.Fatal(err)
	}
	s, err := j.devs[r].NewStream()
	if err != nil {
		t.Fatal(err)
	}
	err = x.Execute(bounded(t), executor.Args{Send: mem.Ptr(), Recv: mem.Ptr().Add(message), Message: uint64(message),
		Type: datatype.Int32, Op: datatype.Sum, Stream: s, Seq: 7})
	if err == nil {
		err = s.Synchronize(bounded(t))
	}
	return errors.Join(err, s.Close(), mem.Close())
}

// TestAbsentRankOfAnotherHost: the error names the rank, the host and the network.
func TestAbsentRankOfAnotherHost(t *testing.T) {
	j, xs := twoHosts(t, netfake.New(netfake.Options{Seed: 1}), 300*time.Millisecond)
	err := execute(t, j, xs[0], 0, 4096)
	var ce *collective.Error
	if !errors.As(err, &ce) || !errors.Is(err, collective.ErrTimeout) || ce.Peer != 1 || ce.Seq != 7 ||
		!strings.Contains(err.Error(), "rank 1, on another host (fake link)") {
		t.Errorf("%+v", err)
	}
}

// TestHostsDisagree: ranks that execute messages of different sizes get an error that names the other one.
func TestHostsDisagree(t *testing.T) {
	j, xs := twoHosts(t, netfake.New(netfake.Options{Seed: 1}), 10*time.Second)
	var errs [2]error
	_ = j.each(func(r int) error {
		errs[r] = execute(t, j, xs[r], r, 4096<<r)
		return nil
	})
	wrong := 0
	for r, err := range errs {
		var ce *collective.Error
		if !errors.As(err, &ce) {
			t.Errorf("rank %d: %v", r, err)
		}
		if errors.Is(err, collective.ErrMismatch) && (ce.Peer == 1-r || ce.Peer == -1) {
			wrong++
		}
	}
	if wrong == 0 {
		t.Errorf("nobody reports the mismatch: %v", errs)
	}
}

// TestBrokenLinkEndsAPlan: both ranks get an error that names the other, before any deadline, and a later Execute gets
// it at once.
func TestBrokenLinkEndsAPlan(t *testing.T) {
	j, xs := twoHosts(t, netfake.New(netfake.Options{Seed: 2, Break: 400}), time.Minute)
	_ = j.each(func(r int) error {
		var err error
		for err == nil {
			err = execute(t, j, xs[r], r, 1<<16)
		}
		var ce *collective.Error
		if !errors.As(err, &ce) || !errors.Is(err, collective.ErrPeerDead) || ce.Peer != 1-r {
			t.Errorf("rank %d: %v", r, err)
		}
		if execute(t, j, xs[r], r, 1<<16) == nil {
			t.Errorf("rank %d goes on after %v", r, err)
		}
		return nil
	})
}

// TestSenderLeavesFirst: what a rank has sent arrives although it closes its executor as soon as its launch has ended.
func TestSenderLeavesFirst(t *testing.T) {
	c := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "one_way", RanksPerNode: 1,
		Collective: dsl.Broadcast(2, 1, 0, false)})
	there, back, tb := c.PortChannel(1, 0), c.PortChannel(0, 1), dsl.TB(0)
	back.Signal(tb)
	there.Wait(tb)
	in := c.Rank(0).Input().Chunk(0)
	there.PutWithSignal(c.Rank(1).Output().Chunk(0), in, tb)
	c.Rank(0).Copy(c.Rank(0).Output().Chunk(0), in, tb)
	back.Wait(tb)
	p, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		j := fill(t, &job{boots: bootstrap.NewLocalHosts([]int{0, 1}).Ranks}, openHost, func(_ int, c *executor.Config) {
			c.OpTimeout, c.Net = 3*time.Second, tcp.NewNet(tcp.NetOptions{})
		})
		xs := j.load(t, p)
		if err := j.each(func(r int) error {
			err := execute(t, j, xs[r], r, 32<<20)
			if r == 0 {
				err = errors.Join(err, j.execs[r].Close())
			}
			return err
		}); err != nil {
			t.Fatalf("time %d: %v", i, err)
		}
	}
}
