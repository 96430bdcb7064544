package nettest

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/transport"
)

// childVariable makes a test binary the other process of a test: it holds the peer's address and key, and a task.
const childVariable = "GOCCL_NETTEST_CHILD"

type role struct {
	address, key []byte
	task         string
}

// childRole is the role of this process, or nil.
func childRole() *role {
	f := strings.Fields(setting.Get(childVariable))
	if len(f) < 2 {
		return nil
	}
	r := &role{task: strings.Join(f[2:], " ")}
	r.address, _ = hex.DecodeString(f[0])
	r.key, _ = hex.DecodeString(f[1])
	return r
}

// join tells the parent this side's address and key, and connects the two.
func (r *role) join(t testing.TB, n transport.Net, size int) *Side {
	s := Half(t, Open(t, n), size)
	fmt.Printf("CHILD %s %s\n", hex.EncodeToString(s.Address()), hex.EncodeToString(s.Own.Key()))
	s.join(t, r)
	return s
}

func (s *Side) join(t testing.TB, other *role) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Connect(ctx, other.address); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Dst, err = s.Import(other.key); err != nil {
		t.Fatal(err)
	}
}

// spawn starts this test binary with arguments that lead to childRole there, and joins the two. The process is killed
// after the test.
func (s *Side) spawn(t testing.TB, task string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "-test.timeout=2m")...)
	cmd.Env = append(setting.Environ(), childVariable+"="+hex.EncodeToString(s.Address())+" "+
		hex.EncodeToString(s.Own.Key())+" "+task)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var address, key string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "CHILD %s %s", &address, &key); err == nil {
			break
		}
	}
	a, _ := hex.DecodeString(address)
	k, _ := hex.DecodeString(key)
	s.join(t, &role{address: a, key: k})
	return cmd
}
