package moe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/watch/record"
)

// fixed is a case that ranks can run by hand.
var fixed = moe.Shape{Hidden: 64, TopK: 2, Experts: 24}

// notify enqueues a Notify of some tokens and waits for it.
func (r *Rank) notify(shape moe.Shape, tokens int) error {
	n, err := r.M.HandleBytes(shape)
	if err != nil {
		return err
	}
	err = r.M.Notify(moe.NotifyArgs{Handle: moe.Handle{Shape: shape, Memory: r.memory(int(n), nil), Tokens: tokens},
		TopKIndex: r.memory(tokens*shape.TopK*8, put(make([]int64, tokens*shape.TopK))), Stream: r.Stream})
	return errors.Join(err, r.sync())
}

// A victim dies between operations; the others get an error that names it and the operation, within the time of a wait.
func survive(k *commtest.Process) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	r, err := NewRank(c, size)
	if err != nil {
		return err
	}
	if err := all(r, k.Seed, 5); err != nil {
		return err
	}
	k.Say("running", nil)
	if k.Rank == k.Victim {
		time.Sleep(time.Minute)
	}
	for err == nil {
		err = r.notify(fixed, 4)
	}
	k.Say("error", err)
	return errors.Join(r.Close(), c.Close())
}

func TestDeath(t *testing.T) {
	const n, victim = 3, 1
	j := commtest.Start(t, commtest.Task{Do: "survive", Size: n, Victim: victim, OpTimeout: 30 * time.Second})
	j.Await("running", commtest.Everyone(n), time.Minute)
	j.Signal(victim, syscall.SIGKILL)
	for rank, report := range j.Await("error", commtest.Others(n, victim), 20*time.Second) {
		// A rank that is between two operations has no number to name.
		inside := report.Op == "moe_notify" && report.Seq != 0
		if report.Peer != victim || !inside && report.Op != "communicator" || report.Kind != goccl.ErrPeerDead.Error() {
			t.Errorf("rank %d: %+v", rank, report)
		}
	}
}

// onHost makes ranks of this process, with a bound of each wait.
func onHost(t *testing.T, n int, limit time.Duration) []*Rank {
	t.Helper()
	comms := commtest.New(t, n, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = limit })
	ranks := make([]*Rank, n)
	if err := commtest.Each(n, func(r int) (err error) {
		ranks[r], err = NewRank(comms[r], size)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return ranks
}

// blamed checks that an error is of a kind and names an operation with its number and a peer.
func blamed(err, kind error, op string, peers ...int) bool {
	var e *goccl.Error
	return errors.Is(err, kind) && errors.As(err, &e) && e.Op == op && e.Seq > 0 && slices.Contains(peers, e.Peer)
}

func TestAbsentRank(t *testing.T) {
	ranks := onHost(t, 2, 200*time.Millisecond)
	if err := ranks[0].notify(fixed, 3); !blamed(err, goccl.ErrTimeout, "moe_notify", 1) {
		t.Errorf("%v", err)
	}
}

func TestOtherShape(t *testing.T) {
	ranks := onHost(t, 2, 20*time.Second)
	err := commtest.Each(2, func(r int) error {
		shape := fixed
		shape.TopK += r
		if err := ranks[r].notify(shape, 3); !blamed(err, goccl.ErrMismatch, "moe_notify", 1-r) &&
			!blamed(err, goccl.ErrAborted, "moe_notify", 1-r) {
			return err
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAbort(t *testing.T) {
	ranks := onHost(t, 2, 20*time.Second)
	done := make(chan error, 1)
	go func() { done <- ranks[0].notify(fixed, 3) }()
	time.Sleep(10 * time.Millisecond)
	ranks[1].C.Abort(nil)
	if err := <-done; !blamed(err, goccl.ErrAborted, "moe_notify", 1) {
		t.Errorf("%v", err)
	}
	if err := ranks[1].notify(fixed, 3); !errors.Is(err, goccl.ErrAborted) {
		t.Errorf("after the abort: %v", err)
	}
	ranks[0].C.Abort(&goccl.Error{Op: "communicator", Peer: 99, Err: goccl.ErrPeerDead}) // there is no such rank
}

// More rows come than the caller has room for: the rank fails, and its peer with it.
func TestTooFewRows(t *testing.T) {
	ranks := onHost(t, 2, 20*time.Second)
	_ = commtest.Each(2, func(r int) error {
		k := ranks[r]
		n, err := k.M.HandleBytes(fixed)
		if err != nil {
			return err
		}
		h := moe.Handle{Shape: fixed, Memory: k.memory(int(n), nil), Tokens: 2}
		index := k.memory(32, put([]int64{0, 1, 1, 0}))
		err = errors.Join(k.M.Notify(moe.NotifyArgs{Handle: h, TopKIndex: index, Stream: k.Stream}),
			k.M.Dispatch(moe.DispatchArgs{Handle: h, X: k.memory(256, nil), Type: datatype.Bfloat16, RecvX: k.memory(256, nil),
				RecvRows: 3, Stream: k.Stream}), k.sync())
		if r == 0 && (!blamed(err, goccl.ErrInvalidArgument, "moe_dispatch", -1) ||
			!strings.Contains(err.Error(), "4 rows")) {
			t.Errorf("rank 0: %v", err)
		}
		return err
	})
}

// Wrong arguments are refused before anything is enqueued, with the name of the bad argument.
func TestArguments(t *testing.T) {
	ranks := onHost(t, 1, 20*time.Second)
	k := ranks[0]
	n, err := k.M.HandleBytes(fixed)
	if err != nil {
		t.Fatal(err)
	}
	h := moe.Handle{Shape: fixed, Memory: k.memory(int(n), nil), Tokens: 2}
	good := k.memory(4096, nil)
	shape := func(f func(*moe.Handle)) moe.Handle {
		x := h
		f(&x)
		return x
	}
	notify := func(f func(*moe.Handle)) error {
		return k.M.Notify(moe.NotifyArgs{Handle: shape(f), TopKIndex: good})
	}
	dispatch := func(f func(*moe.DispatchArgs)) error {
		a := moe.DispatchArgs{Handle: h, X: good, Type: datatype.Bfloat16, RecvX: good, RecvRows: 2}
		f(&a)
		return k.M.Dispatch(a)
	}
	for want, err := range map[string]error{
		"multiple of 8":     notify(func(x *moe.Handle) { x.Hidden = 12 }),
		"up to 16":          notify(func(x *moe.Handle) { x.TopK = 17 }),
		"TopKIndex is NULL": k.M.Notify(moe.NotifyArgs{Handle: h}),
		"up to 100":         notify(func(x *moe.Handle) { x.Tokens = 101 }),
		"a handle at":       notify(func(x *moe.Handle) { x.Memory++ }),
		"rows of float:":    dispatch(func(a *moe.DispatchArgs) { a.Type = datatype.Float32 }),
		"multiple of 128":   dispatch(func(a *moe.DispatchArgs) { a.Quantize = true }),
		"X is at":           dispatch(func(a *moe.DispatchArgs) { a.X = good.Add(2) }),
		"RecvX is NULL":     dispatch(func(a *moe.DispatchArgs) { a.RecvX = 0 }),
		"lists":             dispatch(func(a *moe.DispatchArgs) { a.Lists, a.Layout = true, moe.Experts }),
		"Blocks 1":          dispatch(func(a *moe.DispatchArgs) { a.Blocks = 1 }),
		"Out is NULL":       k.M.Combine(moe.CombineArgs{Handle: h, X: good, Rows: 1}),
		"OutWeights go": k.M.Combine(moe.CombineArgs{Handle: shape(func(x *moe.Handle) { x.Layout = moe.Experts }),
			Out: good, OutWeights: good}),
		"HandleOffsets.Received": dispatch(func(a *moe.DispatchArgs) { a.Layout = moe.ZeroCopy }),
		"give rows of float8e4m3": dispatch(func(a *moe.DispatchArgs) {
			a.Layout, a.Hidden, a.Quantize = moe.ZeroCopy, 128, true
		}),
		"HandleOffsets.Results": k.M.Combine(moe.CombineArgs{X: good, Rows: 1,
			Handle: shape(func(x *moe.Handle) { x.Layout = moe.ZeroCopy })}),
		"weights do not return": k.M.Combine(moe.CombineArgs{X: good, Rows: 1, Weights: good,
			Handle: shape(func(x *moe.Handle) { x.Layout = moe.ZeroCopy })}),
		"at least 64 KiB": func() error {
			_, err := k.C.NewMoE(context.Background(), moe.Size{Bytes: 10})
			return err
		}(),
	} {
		if !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := k.notify(fixed, 3); err != nil {
		t.Errorf("after refused calls: %v", err)
	}
}

// A rank that ends because of a third rank passes the cause on: a peer that waits for it, and does not hear of the
// third rank, blames that one.
func TestAbortNamesTheCause(t *testing.T) {
	for kind, because := range map[error]error{goccl.ErrPeerDead: goccl.ErrPeerDead, goccl.ErrTimeout: goccl.ErrTimeout,
		goccl.ErrMismatch: goccl.ErrMismatch, goccl.ErrAborted: goccl.ErrInvalidArgument} {
		for name, prepare := range map[string]func(r *Rank) error{
			"": func(*Rank) error { return nil }, "after SetMask: ": func(r *Rank) error {
				return r.M.SetMask(context.Background(), moe.Mask{})
			}} {
			ranks := onHost(t, 3, 20*time.Second)
			if err := commtest.Each(3, func(r int) error { return prepare(ranks[r]) }); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- ranks[1].notify(fixed, 3) }()
			open := func(o record.Operation) bool { return o.IsOpen() }
			for len(done) == 0 && !slices.ContainsFunc(ranks[1].C.Records().Operations, open) {
				time.Sleep(time.Millisecond)
			}
			ranks[0].C.Abort(&goccl.Error{Op: "communicator", Rank: 0, Peer: 2, Err: because})
			if err := <-done; !blamed(err, kind, "moe_notify", 2) {
				t.Errorf("%s%v: %v", name, because, err)
			}
		}
	}
}
