package bootstrap

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/badnet"
	"github.com/goccl/goccl/test/testutil"
)

// twoHosts returns two hosts with an interface each that leads nowhere.
func twoHosts(t *testing.T) []string {
	t.Helper()
	a, b := testutil.Hosts(t)
	for i, ns := range []string{a, b} {
		if err := badnet.Aside(ns, i); err != nil {
			t.Fatal(err)
		}
	}
	return []string{a, b}
}

// created makes an id on a host. Its process stays.
func created(t *testing.T, ns string, vars ...string) string {
	t.Helper()
	c := startRank(t, "create", 0, 1, ns, vars...)
	return "GOCCL_TEST_ID=" + strings.TrimPrefix(c.expect(t, "id ", time.Minute), "id ")
}

// TestSecondInterface: the first interface of the list leads to no other host. Ranks use the other one.
func TestSecondInterface(t *testing.T) {
	t.Parallel()
	for _, large := range []string{"", largeVariable + "=1"} {
		hosts := twoHosts(t)
		vars := []string{"GOCCL_SOCKET_IFNAME=aside,cable", large}
		vars = append(vars, created(t, hosts[0], vars...))
		var ranks []*child
		for r, ns := range []string{hosts[0], hosts[1], hosts[0], hosts[1]} {
			ranks = append(ranks, startRank(t, "barrier", r, 4, ns, vars...))
		}
		for _, r := range ranks {
			r.expect(t, "joined [0 1 0 1]", time.Minute)
			r.expect(t, "done", time.Minute)
		}
	}
}

// names writes what /etc/hosts is on a host.
func names(t *testing.T, ns, text string) {
	t.Helper()
	dir := filepath.Join("/etc/netns", ns)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 localhost\n"+text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNamedRoot: ranks meet at a name whose first address is dead on the one host, and the loopback on the root's own,
// by MASTER_ADDR, by NCCL_COMM_ID, and by a UniqueID that NCCL_COMM_ID has made, with and without the variable.
func TestNamedRoot(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	names(t, a, "127.0.1.1 node-a")
	names(t, b, "10.207.0.99 node-a\n10.207.0.1 node-a")
	run := func(t *testing.T, vars func(rank int) []string) {
		var ranks []*child
		for r, ns := range []string{a, b, a, b} {
			ranks = append(ranks, startRank(t, "barrier", r, 4, ns, vars(r)...))
		}
		for _, r := range ranks {
			r.expect(t, "joined [0 1 0 1]", time.Minute)
			r.expect(t, "done", time.Minute)
		}
	}
	t.Run("MASTER_ADDR", func(t *testing.T) {
		run(t, func(int) []string { return []string{"MASTER_ADDR=node-a", "MASTER_PORT=20301"} })
	})
	t.Run("NCCL_COMM_ID", func(t *testing.T) {
		run(t, func(int) []string { return []string{"NCCL_COMM_ID=node-a:20302"} })
	})
	t.Run("UniqueID", func(t *testing.T) {
		id := created(t, a, "NCCL_COMM_ID=node-a:20303", "GOCCL_SOCKET_IFNAME=cable")
		run(t, func(r int) []string {
			if r == 2 {
				return []string{id}
			}
			return []string{id, "NCCL_COMM_ID=node-a:20303"}
		})
	})
	t.Run("UniqueID alone", func(t *testing.T) {
		id := created(t, a, "NCCL_COMM_ID=node-a:20304", "GOCCL_SOCKET_IFNAME=cable")
		run(t, func(int) []string { return []string{id} })
	})
}

// fails starts a rank and checks its words at its end.
func fails(t *testing.T, c *child, want ...string) {
	t.Helper()
	line, _ := c.last(t)
	for _, w := range append(want, "failed") {
		if !strings.Contains(line, w) {
			t.Errorf("rank %d does not say %q: %s", c.rank, w, line)
		}
	}
}

// TestLoopbackID: an id with the loopback address is of no use on other hosts, and both ends say so.
func TestLoopbackID(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	id := created(t, a)
	far := startRank(t, "barrier", 1, 2, b, id)
	fails(t, far, "loopback", "NCCL_SOCKET_IFNAME")
	near := startRank(t, "barrier", 0, 2, a, id, "GOCCL_TIMEOUT=2s")
	fails(t, near, "loopback", "NCCL_SOCKET_IFNAME")
}

// TestOtherFamily: the id has an IPv6 address, and the other host has none.
func TestOtherFamily(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	if err := badnet.Inside(a, func() {}); err != nil {
		t.Skip(err)
	}
	sixth(t, a, "fd00:207::1/64")
	id := created(t, a, "GOCCL_SOCKET_IFNAME=cable", "NCCL_SOCKET_FAMILY=AF_INET6")
	fails(t, startRank(t, "barrier", 1, 2, b, id), "fd00:207::1", "no IPv6 address", "NCCL_SOCKET_FAMILY=AF_INET")
	sixth(t, b, "fd00:207::2/64")
	ranks := []*child{startRank(t, "barrier", 0, 2, a, id), startRank(t, "barrier", 1, 2, b, id)}
	for _, r := range ranks {
		r.expect(t, "joined [0 1]", time.Minute)
		r.expect(t, "done", time.Minute)
	}
}

// TestPlaceOfAThread: the place follows the namespace of the calling thread. The process's main thread may have another
// one.
func TestPlaceOfAThread(t *testing.T) {
	t.Parallel()
	a, _ := testutil.Hosts(t)
	here, err := place()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := badnet.Inside(a, func() {
			there, err := place()
			if err != nil || there == here {
				t.Error("a rank of another network namespace counts as on this host", err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if again, err := place(); err != nil || again != here {
			t.Error("the place changed with another thread's namespace", err)
		}
	}
}

// TestNoInterface: on a host without one, that is what the error says.
func TestNoInterface(t *testing.T) {
	t.Parallel()
	a, _ := testutil.Hosts(t)
	for _, name := range []string{"lo", testutil.Cable} {
		ipCommand(t, "-n", a, "link", "set", name, "down")
	}
	if err := badnet.Inside(a, func() {
		_, err := NewUniqueID(quiet())
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "no network interface is up") {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = errOf(JoinAddress(ctx, "10.207.0.2:2000", 1, 2, quiet()))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "no IPv4 address") {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestIDsExhausted makes ids until the process has no more files: that is no wrong argument.
func TestIDsExhausted(t *testing.T) {
	t.Parallel()
	c := startRankBy(t, []string{"prlimit", "--nofile=100"}, "exhaust", 0, 1)
	c.expect(t, "invalid false", time.Minute)
	fails(t, c, "too many open files", "ulimit -n")
}

// TestPortsExhausted: listening and connecting fail on a host without a free port, and the errors say so.
func TestPortsExhausted(t *testing.T) {
	t.Parallel()
	a, _ := testutil.Hosts(t)
	if err := badnet.Inside(a, func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40003"), 0); err != nil {
			t.Log("untested: ", err)
			return
		}
		var err error
		for i := 0; err == nil && i < 10; i++ {
			_, err = NewUniqueID(quiet(), WithInterface("lo"))
		}
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "ip_local_port_range") {
			t.Error(err)
		}
		l, err := net.Listen("tcp", "10.207.0.1:30000")
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = l.Close() }()
		for err = nil; err == nil; {
			var c net.Conn
			if c, err = net.Dial("tcp", l.Addr().String()); err == nil {
				defer func() { _ = c.Close() }()
			}
		}
		err = errOf(JoinAddress(context.Background(), l.Addr().String(), 1, 2, quiet(), WithTimeout(time.Second)))
		if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "ip_local_port_range") {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// TestIDUsedTwice: an id is of one job.
func TestIDUsedTwice(t *testing.T) {
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	bs := joinAll(t, id, 2)
	each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
	for r := range 2 {
		err := errOf(JoinID(context.Background(), id, r, 2, quiet()))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "by this UniqueID before") {
			t.Error(err)
		}
	}
	err = errOf(JoinID(context.Background(), id, 2, 3, quiet()))
	if !errors.Is(err, ErrPeerDead) || !strings.Contains(err.Error(), "used the id") {
		t.Error(err)
	}
}

func sixth(t *testing.T, ns, address string) {
	t.Helper()
	ipCommand(t, "-n", ns, "addr", "add", address, "dev", testutil.Cable, "nodad")
}

func ipCommand(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Skipf("ip %v: %v: %s", args, err, out)
	}
}
