package core

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/collective"
)

// The limits and the policy of a call reach its request; a policy that does not exist is refused.
func TestCallConfigOfCTAs(t *testing.T) {
	all := world(t, 1, Config{MaxCTAs: 16, CTAPolicy: uint32(collective.CTAPolicyEfficiency)})
	c, err := comms.get(all[0])
	if err != nil {
		t.Fatal(err)
	}
	cfg := CallConfig{Size: uint32(unsafe.Sizeof(CallConfig{})), MinCTAs: 2, MaxCTAs: 32,
		CTAPolicy: uint32(collective.CTAPolicyZero), Exact: uint32(collective.ExactBatch)}
	var r collective.Request
	if err := c.configure(&Request{Config: &cfg}, &r); err != nil || r.MinCTAs != 2 || r.MaxCTAs != 16 ||
		r.CTAPolicy != collective.CTAPolicyZero || r.Exact != collective.ExactBatch {
		t.Errorf("%+v, %v", r, err)
	}
	cfg.MaxCTAs = 0 // a lower limit alone
	if err := c.configure(&Request{Config: &cfg}, &r); err != nil || r.MinCTAs != 2 || r.MaxCTAs != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	cfg.Exact = uint32(collective.ExactReference) + 1
	if err := c.configure(&Request{Config: &cfg}, &r); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("exact %d: %v", cfg.Exact, err)
	}
	cfg.Size, r = uint32(unsafe.Offsetof(cfg.Exact)), collective.Request{} // of a caller that does not have the field
	if err := c.configure(&Request{Config: &cfg}, &r); err != nil || r.Exact != collective.ExactRun {
		t.Errorf("%+v, %v", r, err)
	}
	cfg.CTAPolicy++
	if err := c.configure(&Request{Config: &cfg}, &r); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("policy %d: %v", cfg.CTAPolicy, err)
	}
	if got := c.config(nil); got.CTAPolicy != collective.CTAPolicyEfficiency || got.MaxCTAs != 16 {
		t.Errorf("%+v", got)
	}
}
