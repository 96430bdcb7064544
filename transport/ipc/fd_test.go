package ipc

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"testing"

	"github.com/goccl/goccl/device"
)

// If a process never answers, for example because it is stopped, the mapping fails at the set-up timeout if the caller
// has no deadline.
func TestMappingWithoutADeadlineEnds(t *testing.T) {
	t.Setenv("GOCCL_TIMEOUT", "100ms")
	ticket := make([]byte, 64) // see package fdshare
	copy(ticket, "GCFD\x01")
	copy(ticket[16:32], t.Name())
	l, err := net.Listen("unix", "@goccl-fd-"+hex.EncodeToString(ticket[16:32]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	d := open(t)
	s := Share{Handle: device.Handle{Type: device.HandleFD, Owner: d.ID(), FD: -1, Size: 1}, Process: ID{1}, Ticket: ticket}
	var im Importer
	if _, err := im.Map(context.Background(), d, &s); !errors.Is(err, context.DeadlineExceeded) || im.Len() != 0 {
		t.Fatal(err)
	}
	t.Setenv("GOCCL_TIMEOUT", "junk")
	if _, err := im.Map(context.Background(), d, &s); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
