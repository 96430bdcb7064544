package peercred

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestUID(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"client": c, "server": s} {
		if uid, err := UID(c.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
			t.Errorf("the %s's peer: user %d, %v; want %d", name, uid, err, os.Geteuid())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if uid, err := UID(s.(*net.UnixConn)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of a closed connection: user %d, %v", uid, err)
	}
}
