package nettest

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/transport"
)

// childVariable makes a test binary the other process of a test: it holds the peer's address and key.
const childVariable = "GOCCL_NETTEST_CHILD"

type role struct{ address, key []byte }

func childRole() *role {
	a, k, ok := strings.Cut(setting.Get(childVariable), " ")
	if !ok {
		return nil
	}
	r := &role{}
	r.address, _ = hex.DecodeString(a)
	r.key, _ = hex.DecodeString(k)
	return r
}

// run connects to the parent, tells its own address and key, puts once and then waits to be killed.
func (r *role) run(t *testing.T, c Config) {
	s := half(t, Open(t, c.Net(t)), 4096)
	fmt.Printf("CHILD %s %s\n", hex.EncodeToString(s.Address()), hex.EncodeToString(s.Own.Key()))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Connect(ctx, r.address); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Dst, err = s.Import(r.key); err != nil {
		t.Fatal(err)
	}
	fill(s.Out, 1)
	s.put(t, 0, 4096, 1)
	<-ctx.Done()
}

// killedPeer kills the other process: waiters and puts end with ErrPeerGone.
func killedPeer(t *testing.T, c Config) {
	s := half(t, Open(t, c.Net(t)), 4096)
	name := strings.SplitN(t.Name(), "/", 2)[0]
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.timeout=2m")
	cmd.Env = append(setting.Environ(), childVariable+"="+hex.EncodeToString(s.Address())+" "+
		hex.EncodeToString(s.Own.Key()))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var address, key string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "CHILD %s %s", &address, &key); err == nil {
			break
		}
	}
	a, _ := hex.DecodeString(address)
	k, _ := hex.DecodeString(key)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Connect(ctx, a); err != nil {
		t.Fatal(err)
	}
	if s.Dst, err = s.Import(k); err != nil {
		t.Fatal(err)
	}
	s.wait(t, 1, 1)
	fill(s.Out, 1)
	if at := differ(s.In, s.Out); at >= 0 {
		t.Fatalf("byte %d from the other process is wrong", at)
	}
	s.put(t, 0, 4096, 1)
	s.flush(t)
	errs := make(chan error, 1)
	go func() { errs <- s.Wait(ctx, 1, 2) }()
	start := time.Now()
	_ = cmd.Process.Kill()
	if err := <-errs; !errors.Is(err, transport.ErrPeerGone) {
		t.Fatalf("the waiter gets %v, want ErrPeerGone", err)
	}
	t.Logf("the death was noticed after %v", time.Since(start).Round(time.Millisecond))
	if err := s.Put(s.Src, 0, s.Dst, 0, 8, 0, nil); err == nil {
		t.Error("a broken Peer takes a put")
	}
	if err := s.Flush(ctx); err == nil {
		t.Error("a broken Peer flushes")
	}
}
