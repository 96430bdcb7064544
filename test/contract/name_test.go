package contract_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/test/commtest"
)

// A name cannot move a terminal's cursor or forge a line of a log.
func TestNameIsPrintable(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.Name = "a\x1b[2Jb\nlevel=ERROR" })
	comms[0].Abort(nil)
	var e *goccl.Error
	if err := comms[0].Barrier(nil); !errors.As(err, &e) {
		t.Fatal(err)
	}
	for _, s := range []string{comms[0].Name(), e.Comm} {
		if strings.ContainsFunc(s, unicode.IsControl) || !strings.Contains(s, "level=ERROR") {
			t.Errorf("the name %q", s)
		}
	}
}
