package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
)

// Operations of other engines are compared with the peers' calls as collectives are: GOCCL_CHECK finds a rank that
// calls another one, and the communicator stays usable with the same numbers on all ranks.
func TestOperationsAreChecked(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.Check = true })
	buffers, fusions := make([]*goccl.MoE, 2), make([]*goccl.Fusion, 2)
	if err := commtest.Each(2, func(r int) (err error) {
		if buffers[r], err = comms[r].NewMoE(context.Background(), moe.Size{Bytes: 1 << 20}); err == nil {
			fusions[r], err = comms[r].NewFusion(context.Background(), goccl.FusionConfig{})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const tokens, hidden = 4, 128
	notify := func(r int) error {
		p := commtest.Scratch(t, comms[r])
		h := moe.Handle{Shape: moe.Shape{Hidden: hidden, TopK: 1, Experts: 2}, Tokens: tokens, Memory: p.Add(1 << 16)}
		return buffers[r].Notify(moe.NotifyArgs{Handle: h, TopKIndex: p})
	}
	fuse := func(r int) error {
		p := commtest.Scratch(t, comms[r])
		return fusions[r].AllReduce(goccl.FusedRequest{Tokens: tokens, Hidden: hidden, Type: datatype.Float32, Input: p,
			Norm: p.Add(1 << 16)})
	}
	reduce := func(r int) error {
		p := commtest.Scratch(t, comms[r])
		return comms[r].AllReduce(p, p, tokens*hidden, datatype.Float32, datatype.Sum, nil)
	}
	for _, c := range []struct {
		name  string
		calls [2]func(int) error
		wants [2]string // what each rank says of its peer
	}{
		{"notify, all-reduce", [2]func(int) error{notify, reduce}, [2]string{"calls all_reduce", "calls moe_notify"}},
		{"fusion, all-reduce", [2]func(int) error{fuse, reduce}, [2]string{"calls all_reduce(", "calls all_reduce_fusion"}},
		{"fusion, notify", [2]func(int) error{fuse, notify}, [2]string{"calls moe_notify", "calls all_reduce_fusion"}},
	} {
		if err := commtest.Each(2, func(r int) error {
			err := c.calls[r](r)
			var ae *goccl.Error
			if !errors.Is(err, goccl.ErrMismatch) || !errors.As(err, &ae) || ae.Peer != 1-r || ae.Seq == 0 ||
				!strings.Contains(err.Error(), c.wants[r]) {
				return fmt.Errorf("rank %d: %w; want that the peer %s", r, err, c.wants[r])
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, call := range map[string]func(int) error{"notify": notify, "fusion": fuse, "all-reduce": reduce} {
		if err := commtest.Each(2, call); err != nil {
			t.Errorf("%s after the mismatches: %v", name, err)
		}
	}
}
