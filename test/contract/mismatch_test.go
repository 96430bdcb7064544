package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

var base = collective.Request{Collective: collective.AllReduce, Count: 100, Type: datatype.Float32, Op: datatype.Sum}

// One rank calls odd while the others call base, or right.
var mismatches = []struct {
	name       string
	right, odd func(r *collective.Request)
	onlyCheck  bool // not detected on the host without Check
}{
	{name: "count", odd: func(r *collective.Request) { r.Count = 101 }},
	{name: "zero count", odd: func(r *collective.Request) { r.Count = 0 }},
	{name: "large count", odd: func(r *collective.Request) { r.Count = 200_000 }},
	{name: "type", odd: func(r *collective.Request) { r.Type = datatype.Int32 }},
	{name: "op", odd: func(r *collective.Request) { r.Op = datatype.Max }},
	{name: "collective", odd: func(r *collective.Request) {
		r.Collective, r.Send = collective.AllGather, r.Recv.Add(r.Count*r.Type.Size()) // rank 1, in place
	}},
	{name: "barrier", odd: func(r *collective.Request) { r.Collective = collective.Barrier }},
	{name: "root", right: func(r *collective.Request) { r.Collective = collective.Broadcast },
		odd: func(r *collective.Request) { r.Collective, r.Root = collective.Broadcast, 1 }},
	{name: "reduce", right: func(r *collective.Request) { r.Collective = collective.Reduce },
		odd: func(r *collective.Request) { r.Collective = collective.AllReduce }},
}

func TestMismatch(t *testing.T) {
	for _, m := range mismatches {
		t.Run(m.name, func(t *testing.T) {
			const wrong = 1
			run := func(t *testing.T, comms []*goccl.Comm) {
				ptr := make([]device.Ptr, len(comms))
				for r, c := range comms {
					ptr[r] = commtest.Scratch(t, c)
				}
				if err := commtest.Each(len(comms), func(r int) error {
					req := base
					req.Send, req.Recv = ptr[r], ptr[r]
					if m.right != nil {
						m.right(&req)
					}
					blamed := []int{wrong}
					if r == wrong {
						m.odd(&req)
						blamed = commtest.Others(len(comms), wrong)
					}
					s, err := comms[r].Device().NewStream()
					if err != nil {
						return err
					}
					defer func() { _ = s.Close() }()
					req.Stream = s
					if err = comms[r].Submit(req); err == nil {
						err = comms[r].Synchronize(context.Background(), s)
					}
					return commtest.Blames(err, goccl.ErrMismatch, req.Collective.String(), blamed...)
				}); err != nil {
					t.Error(err)
				}
			}
			t.Run("host", func(t *testing.T) { run(t, commtest.New(t, 3, commtest.Host, nil)) })
			t.Run("checked", func(t *testing.T) {
				commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
					// Check on one rank turns it on for all
					comms := commtest.New(t, n, open, func(r int, cfg *goccl.Config) { cfg.Check = r == n-1 })
					run(t, comms)
					run(t, comms) // the call was refused, the communicator still works
					if err := conformance.Run(comms, conformance.Case{Collective: collective.AllReduce, Type: datatype.Float32,
						Count: 1000}); err != nil {
						t.Errorf("after refusals: %v", err)
					}
				})
			})
		})
	}
}

func TestMismatchedMessages(t *testing.T) {
	commtest.OnKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.Check = true })
		ptr := []device.Ptr{commtest.Scratch(t, comms[0]), commtest.Scratch(t, comms[1])}
		for _, wrong := range []collective.Request{{Count: 11, Type: datatype.Int8}, {Count: 10, Type: datatype.Uint8}} {
			if err := commtest.Each(2, func(r int) error {
				req := collective.Request{Collective: collective.Send, Send: ptr[r], Recv: ptr[r], Count: 10, Type: datatype.Int8,
					Peer: 1 - r}
				if r == 1 {
					req.Collective, req.Count, req.Type = collective.Recv, wrong.Count, wrong.Type
				}
				return commtest.Blames(comms[r].Submit(req), goccl.ErrMismatch, req.Collective.String(), 1-r)
			}); err != nil {
				t.Error(err)
			}
		}
		// All-to-all-v: rank 0 sends 5 and rank 1 expects 6.
		if err := commtest.Each(2, func(r int) error {
			counts := []int64{1, 5}
			if r == 1 {
				counts = []int64{5, 1}
			}
			expects := append([]int64{}, counts...)
			if r == 1 {
				expects[0] = 6
			}
			err := comms[r].AllToAllV(ptr[r], counts, []int64{0, 8}, ptr[r].Add(100), expects, []int64{0, 8}, datatype.Int8, nil)
			return commtest.Blames(err, goccl.ErrMismatch, "all_to_all_v", 1-r)
		}); err != nil {
			t.Error(err)
		}
		for _, coll := range []collective.Collective{collective.Send, collective.AllToAllV, collective.AllReduce} {
			if err := conformance.Run(comms, conformance.Case{Collective: coll, Type: datatype.Int8, Count: 1000}); err != nil {
				t.Errorf("after refusals: %v", err)
			}
		}
	})
}

// On the host wrong counts are detected without Check, too.
func TestMismatchedCountsOnHost(t *testing.T) {
	comms := commtest.New(t, 3, commtest.Host, nil)
	if err := commtest.Each(3, func(r int) error {
		counts := []int64{4, 4, 4}
		if r == 2 {
			counts = []int64{3, 4, 4}
		}
		p := commtest.Scratch(t, comms[r])
		err := comms[r].AllToAllV(p, []int64{4, 4, 4}, []int64{0, 4, 8}, p.Add(100), counts, []int64{0, 4, 8}, datatype.Int8,
			nil)
		return commtest.Blames(err, goccl.ErrMismatch, "all_to_all_v", 0, 2)
	}); err != nil {
		t.Error(err)
	}
	comms = commtest.New(t, 2, commtest.Host, nil)
	if err := commtest.Each(2, func(r int) error {
		p := commtest.Scratch(t, comms[r])
		if r == 0 { // the message is under way before the receiver checks it; the sender gets the error at its next call
			if err := comms[0].Send(p, 10, datatype.Int8, 1, nil); err != nil {
				return err
			}
			return commtest.Blames(comms[0].Barrier(nil), goccl.ErrMismatch, "barrier", 1)
		}
		return commtest.Blames(comms[1].Recv(p, 11, datatype.Int8, 0, nil), goccl.ErrMismatch, "recv", 0)
	}); err != nil {
		t.Error(err)
	}
}

// A rank that never calls is named, with the operation and its number, and gets an error when it calls at last.
func TestDesync(t *testing.T) {
	for _, check := range []bool{false, true} {
		t.Run(fmt.Sprintf("check=%v", check), func(t *testing.T) {
			commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
				late := n - 1
				comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) {
					cfg.OpTimeout, cfg.Check = 4*time.Second, check
				})
				ptr := make([]device.Ptr, n)
				for r, c := range comms {
					ptr[r] = commtest.Scratch(t, c)
				}
				reduce := func(r int) error {
					s, err := comms[r].Device().NewStream()
					if err != nil {
						return err
					}
					defer func() { _ = s.Close() }()
					if err := comms[r].AllReduce(ptr[r], ptr[r], 100, datatype.Float32, datatype.Sum, s); err != nil {
						return err
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					return comms[r].Synchronize(ctx, s)
				}
				if err := commtest.Each(n, reduce); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if err := commtest.Each(n-1, func(r int) error {
					err := reduce(r)
					if d := time.Since(start); d < 3500*time.Millisecond {
						return fmt.Errorf("rank %d gave up after %v: %v", r, d, err)
					}
					var ge *goccl.Error
					if errors.As(err, &ge) && ge.Seq != 2 {
						return fmt.Errorf("the second operation is named #%d: %v", ge.Seq, err)
					}
					return commtest.Blames(err, goccl.ErrTimeout, "all_reduce", late)
				}); err != nil {
					t.Error(err)
				}
				// On a GPU the operation may already have all its data before the others give up; then the next
				// operation fails.
				var err error
				for i := 0; err == nil && i < 3; i++ {
					err = reduce(late)
				}
				if err := commtest.Blames(err, goccl.ErrTimeout, "all_reduce", commtest.Others(n, late)...); err != nil {
					t.Error("the late rank: ", err)
				}
			})
		})
	}
}

// A rank whose settings are wrong tells its peers, which name it at once and do not wait for it.
func TestWrongSettingsOfAPeer(t *testing.T) {
	const n, wrong = 3, 1
	boots := bootstrap.NewLocalGroup(n)
	errs := make([]error, n)
	_ = commtest.Each(n, func(r int) error {
		dev, err := commtest.Host(r)
		if err != nil {
			return err
		}
		defer func() { _ = dev.Close() }()
		cfg := goccl.Config{Bootstrap: boots[r], Device: dev, Timeout: 10 * time.Minute}
		if r == wrong {
			cfg.Algorithms = "nothing:direct"
		}
		_, errs[r] = goccl.NewComm(t.Context(), cfg)
		return nil
	})
	for r, err := range errs {
		var e *goccl.Error
		switch {
		case !strings.Contains(fmt.Sprint(err), "nothing:direct"):
			t.Errorf("rank %d: %v", r, err)
		case r == wrong && !errors.Is(err, goccl.ErrInvalidArgument):
			t.Errorf("the rank itself: %v", err)
		case r != wrong && (!errors.As(err, &e) || e.Peer != wrong):
			t.Errorf("rank %d blames another: %v", r, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("GOCCL_OP_TIMEOUT", "250ms")
	comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 0 })
	start := time.Now()
	if err := comms[0].Barrier(nil); !errors.Is(err, goccl.ErrTimeout) || time.Since(start) < 200*time.Millisecond {
		t.Errorf("GOCCL_OP_TIMEOUT=250ms: after %v %v", time.Since(start), err)
	}
	t.Setenv("GOCCL_CHECK", "1")
	comms = commtest.New(t, 2, commtest.Host, nil)
	if err := commtest.Each(2, func(r int) error {
		p := commtest.Scratch(t, comms[r])
		err := comms[r].AllReduce(p, p, int64(1+r), datatype.Int8, datatype.Sum, nil)
		if err == nil || !strings.Contains(err.Error(), "all_reduce(sum) of 1 × int8") {
			return fmt.Errorf("got %v", err)
		}
		return comms[r].AsyncError()
	}); err != nil {
		t.Error(err)
	}
	for name, value := range map[string]string{"GOCCL_OP_TIMEOUT": "soon", "GOCCL_CHECK": "perhaps"} {
		t.Setenv(name, value)
		dev, err := commtest.Host(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := goccl.NewComm(context.Background(),
			goccl.Config{Bootstrap: bootstrap.NewLocalGroup(1)[0], Device: dev}); !errors.Is(err, goccl.ErrInvalidArgument) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		_ = dev.Close()
		t.Setenv(name, "")
	}
}
