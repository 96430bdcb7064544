package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// initAll calls JoinAddress on n ranks with one address each.
func initAll(t *testing.T, n int, address func(rank int) string) []Bootstrap {
	t.Helper()
	bs := make([]Bootstrap, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			b, err := JoinAddress(context.Background(), address(r), r, n, quiet())
			if err != nil {
				t.Error(err)
			}
			bs[r] = b
		})
	}
	wg.Wait()
	t.Cleanup(func() { closeAll(bs) })
	if t.Failed() {
		t.FailNow()
	}
	return bs
}

func TestAddressForms(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"127.0.0.1:%d", "lo:127.0.0.1:%d", "localhost:%d", "[::1]:%d", hostname + ":%d",
		"unix:@goccl-test-%d"} {
		t.Run(form, func(t *testing.T) {
			port := testutil.Port(t)
			if strings.Contains(form, "::1") {
				l, err := net.Listen("tcp", "[::1]:0")
				if err != nil {
					t.Skip("no IPv6 here: ", err)
				}
				_ = l.Close()
			}
			if form == hostname+":%d" {
				if _, err := net.LookupHost(hostname); err != nil {
					t.Skip(err)
				}
			}
			bs := initAll(t, 3, func(int) string { return fmt.Sprintf(form, port) })
			each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
		})
	}
}

// TestAddressThatCloses: rank 0 finds its address in use, by its predecessor that is ending, and waits for it.
func TestAddressThatCloses(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		at, prefix := "127.0.0.1:0", ""
		if network == "unix" {
			at, prefix = "@goccl-closing-"+portString(t), "unix:"
		}
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			b, err := JoinAddress(context.Background(), prefix+l.Addr().String(), 0, 1, quiet(), WithTimeout(time.Minute))
			if err == nil {
				err = b.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			t.Errorf("%s: rank 0 does not wait: %v", network, err)
		case <-time.After(100 * time.Millisecond): // it has tried by now; otherwise this test covers less
			_ = l.Close()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", network, err)
			}
		}
		_ = l.Close()
	}
}

func TestAddressErrors(t *testing.T) {
	ctx := context.Background()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := errOf(JoinAddress(ctx, l.Addr().String(), 0, 2, quiet(), WithTimeout(time.Second))); !errors.Is(err,
		syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), "MASTER_PORT") {
		t.Error(err)
	}
	if err := errOf(JoinAddress(ctx, "0.0.0.0:5000", 0, 2, quiet())); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := JoinAddress(ctx, fmt.Sprintf("127.0.0.1:%d", testutil.Port(t)), 0, 2, quiet(),
		WithInterface("=nosuchnic")); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "nosuchnic") {
		t.Error(err)
	}
	if _, err := NewUniqueID(WithInterface("=nosuchnic")); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := NewUniqueID(WithTimeout(-1)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestSecrets: one address, two secrets.
func TestSecrets(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", testutil.Port(t))
	bs := make([]Bootstrap, 2)
	done := make(chan error, 1)
	join := func(r int) (err error) {
		bs[r], err = JoinAddress(context.Background(), address, r, 2, quiet(), WithTimeout(30*time.Second),
			WithSecret([]byte("right")))
		return err
	}
	go func() { done <- join(0) }()
	for _, secret := range []Option{WithSecret([]byte("wrong")), WithSecret(nil)} {
		if _, err := JoinAddress(context.Background(), address, 1, 2, quiet(), WithTimeout(30*time.Second),
			secret); !errors.Is(err, ErrAuth) {
			t.Error(err)
		}
	}
	if err := errors.Join(join(1), <-done); err != nil {
		t.Error(err)
	}
	closeAll(bs)
}

func TestCommID(t *testing.T) {
	t.Setenv("NCCL_COMM_ID", fmt.Sprintf("127.0.0.1:%d", testutil.Port(t)))
	// Every process makes the id itself.
	a, err1 := NewUniqueID(quiet())
	b, err2 := NewUniqueID(quiet())
	if err := errors.Join(err1, err2); err != nil || a != b {
		t.Fatalf("%v and %v: %v", a, b, err)
	}
	bs := joinAll(t, a, 3)
	if !t.Failed() {
		each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
	}
	for _, bad := range []string{"nonsense", "unix:@x"} {
		t.Setenv("NCCL_COMM_ID", bad)
		if _, err := NewUniqueID(quiet()); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestListensOnOneAddress tries another address of the same interface.
func TestListensOnOneAddress(t *testing.T) {
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = id.Close() }()
	f, _ := id.decode()
	if !f.addr.Addr().IsLoopback() {
		t.Fatal(f.addr)
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.2:%d", f.addr.Port())); err == nil {
		_ = c.Close()
		t.Error("the root listens on more than its address")
	}
}

// TestTwoHosts runs four ranks on two hosts, then cuts the network.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	start := func(what, master string) []*child {
		var ranks []*child
		for r := range 4 {
			ns := a
			if r >= 2 {
				ns = b
			}
			ranks = append(ranks, startRank(t, what, r, 4, ns, "MASTER_ADDR="+master,
				fmt.Sprintf("MASTER_PORT=%d", 20000+len(what)), "GOCCL_TIMEOUT=1h"))
		}
		return ranks
	}
	for _, r := range start("barrier", "10.207.0.1") {
		r.expect(t, "joined [0 0 1 1]", 30*time.Second)
		r.expect(t, "done", 30*time.Second)
	}

	ranks := start("watch", "10.207.0.1")
	for _, r := range ranks {
		r.expect(t, "joined [0 0 1 1]", 30*time.Second)
	}
	time.Sleep(300 * time.Millisecond)
	if out, err := exec.Command("ip", "-n", b, "link", "set", testutil.Cable, "down").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	for _, r := range ranks { // by the partition timeout of three seconds, not by the ranks' deadline
		line := r.expect(t, "failed peer=", 25*time.Second)
		if other := fmt.Sprintf("peer=%d", 2-2*(r.rank/2)); !strings.Contains(line, other) &&
			!strings.Contains(line, fmt.Sprintf("peer=%d", 3-2*(r.rank/2))) {
			t.Errorf("rank %d: %s", r.rank, line)
		}
	}
}

// TestHostDies kills all ranks of a host while they exchange data: each survivor learns of each of them, and none dials
// on where nobody listens.
func TestHostDies(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	const each = 4
	var ranks []*child
	for r := range 2 * each {
		ns := []string{a, b}[r/each]
		ranks = append(ranks, startRank(t, "host", r, 2*each, ns, "MASTER_ADDR=10.207.0.1", "MASTER_PORT=20200",
			"GOCCL_TIMEOUT=1h"))
	}
	for _, r := range ranks {
		r.expect(t, "joined", 30*time.Second)
	}
	time.Sleep(300 * time.Millisecond) // connections are made on demand
	begun := time.Now()
	for _, r := range ranks[each:] {
		r.kill()
	}
	for _, r := range ranks[:each] {
		for range each {
			line := r.expect(t, "lost", 25*time.Second)
			t.Logf("rank %d after %v: %s", r.rank, time.Since(begun).Round(time.Millisecond), line)
			if strings.Contains(line, "attempts in") && !strings.Contains(line, "; 5 attempts in") {
				t.Errorf("rank %d: %s", r.rank, line)
			}
		}
	}
}

// TestPartitionWhileJoining cuts the network while the job waits for its last rank.
func TestPartitionWhileJoining(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	vars := []string{"MASTER_ADDR=10.207.0.1", "MASTER_PORT=20100"}
	ranks := []*child{startRank(t, "barrier", 0, 3, a, vars...), startRank(t, "barrier", 1, 3, b, vars...)}
	for _, r := range ranks {
		r.expect(t, "started", 30*time.Second)
	}
	// The root must know rank 1, and rank 1 must have learnt the root's rank; that takes little longer than connecting.
	connected := func() bool {
		table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", ranks[1].cmd.Process.Pid))
		for line := range strings.Lines(string(table)) {
			// port 20100, established
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[2], ":4E84") && f[3] == "01" {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(20 * time.Second); !connected(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("rank 1 does not reach the root")
		}
	}
	time.Sleep(time.Second)
	if out, err := exec.Command("ip", "-n", b, "link", "set", testutil.Cable, "down").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	ranks[0].expect(t, "failed peer=1 dead=true", 25*time.Second)
	ranks[1].expect(t, "failed peer=0 dead=true", 25*time.Second)
}
