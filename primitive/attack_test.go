package primitive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/testutil"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
	"github.com/goccl/goccl/transport/tcp"
	"github.com/goccl/goccl/transport/wire"
)

// set in the processes of TestAttacks: "victim", "listener" or "flood ADDRESS…"
const attackVariable = "GOCCL_TEST_ATTACK"

// attacked is one of the two victims. It connects, puts once in each direction, reports "ready", and connects again for
// each input line. At the end of its input it checks that its memory holds the peer's data and that its Context has no
// failure.
func attacked() error {
	bg, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	env, err := bootstrap.FromEnv()
	if err != nil {
		return err
	}
	bs, err := bootstrap.Join(bg, env)
	if err != nil {
		return err
	}
	defer func() { _ = bs.Close() }()
	dev, err := host.Open(0)
	if err != nil {
		return err
	}
	defer func() { _ = dev.Close() }()
	comm := NewCommunicator(bs, nil)
	defer func() { _ = comm.Close() }()
	const size = 1 << 20
	a, err := dev.Alloc(2 * size)
	if err != nil {
		return err
	}
	src, err1 := comm.Context().RegisterMemory(dev, a.Ptr(), size, Flags(Ethernet))
	dst, err2 := comm.Context().RegisterMemory(dev, a.Ptr().Add(size), size, Flags(Ethernet))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	me, peer := bs.Rank(), 1-bs.Rank()
	fill(device.Bytes(src.Data(), size), me)
	connecting := comm.Connect(EndpointConfig{Transport: Ethernet, Device: dev}, peer, 0)
	comm.SendMemory(dst, peer, 0)
	theirs, err1 := comm.RecvMemory(peer, 0).Get(bg)
	conn, err2 := connecting.Get(bg)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := errors.Join(conn.Write(theirs, 0, src, 0, size/2), conn.AtomicAdd(theirs, size-8, 1),
		conn.Flush(10*time.Second), bs.Barrier(bg)); err != nil {
		return err
	}
	fmt.Println("ready")
	orders := bufio.NewScanner(os.Stdin)
	for tag := 1; orders.Scan(); tag++ {
		c, err := comm.Connect(EndpointConfig{Transport: Ethernet, Device: dev}, peer, tag).Get(bg)
		if err != nil {
			return fmt.Errorf("connect during %s: %w", orders.Text(), err)
		}
		if err := errors.Join(c.Write(theirs, 0, src, 0, size/2), c.Flush(10*time.Second)); err != nil {
			return err
		}
		fmt.Println("connected")
	}
	if err := orders.Err(); err != nil {
		return err
	}
	want := make([]byte, size)
	fill(want[:size/2], peer)
	want[size-8] = 1
	got := device.Bytes(dst.Data(), size)
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("byte %d of the memory is %#x and was never put by the peer", i, got[i])
		}
	}
	return errors.Join(comm.Context().Err(), bs.Barrier(bg))
}

// flow is one direction of a TCP connection.
type flow struct{ from, to netip.AddrPort }

// listen captures the network traffic by flow, in order, until its input ends. It needs root.
func listen() (map[flow][]byte, error) {
	nic, err := net.InterfaceByName(testutil.Cable)
	if err != nil {
		return nil, err
	}
	const all = uint16(syscall.ETH_P_ALL << 8) // big endian; other protocols do not capture outgoing packets
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, int(all))
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.Close(fd) }()
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 64<<20)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: nic.Index}),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 20000})); err != nil {
		return nil, err
	}
	fmt.Println("listening")
	over := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		close(over)
	}()
	flows := map[flow][]byte{}
	for b := make([]byte, 1<<17); ; {
		n, _, err := syscall.Recvfrom(fd, b, 0)
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
			select {
			case <-over:
				return flows, nil
			default:
				continue
			}
		case err != nil:
			return nil, err
		}
		const ether = 14
		p := b[ether:n]
		if b[12] != 8 || b[13] != 0 || len(p) < 20 || p[9] != syscall.IPPROTO_TCP {
			continue
		}
		p = p[:min(len(p), int(p[2])<<8|int(p[3]))]
		t := p[int(p[0]&15)*4:]
		port := func(at int) uint16 { return uint16(t[at])<<8 | uint16(t[at+1]) }
		f := flow{netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[12:16])), port(0)),
			netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[16:20])), port(2))}
		flows[f] = append(flows[f], t[int(t[12]>>4)*4:]...)
	}
}

// records finds the sealed records of this package in captured data.
func records(heard []byte) (endpoints []*Endpoint, memories []*RegisteredMemory) {
	for {
		i := bytes.Index(heard, []byte("gccl"))
		if i < 0 || len(heard) < i+16 {
			return endpoints, memories
		}
		heard = heard[i:]
		if n := int(heard[8]) | int(heard[9])<<8 + 16; n <= len(heard) && heard[10] == 0 {
			if ep, err := DeserializeEndpoint(heard[:n]); err == nil {
				endpoints = append(endpoints, ep)
			} else {
				r := wire.Open(heard[:n], kindMemory, memoryVersion)
				if m := (&Context{}).getMemory(r); r.Done() == nil {
					memories = append(memories, m)
				}
			}
		}
		heard = heard[4:]
	}
}

// attack captures until its input ends and then uses the captured data in every possible way.
func attack() error {
	flows, err := listen()
	if err != nil {
		return err
	}
	var endpoints []*Endpoint
	var memories []*RegisteredMemory
	heard, listeners := 0, map[netip.AddrPort]bool{}
	for f, b := range flows {
		heard += len(b)
		e, m := records(b)
		endpoints, memories = append(endpoints, e...), append(memories, m...)
		// A connection carries a greeting to the listener first. The port numbers do not show which side listens, so
		// both are tried.
		listeners[f.to] = true
	}
	if heard < 1<<20 {
		return fmt.Errorf("the attack is none: only %d bytes were heard", heard)
	}
	fmt.Printf("heard %d endpoints and %d memories\n", len(endpoints), len(memories))

	// 1. Use the captured secrets to write.
	port, err := tcp.NewNet(tcp.NetOptions{Timeout: 5 * time.Second}).OpenAt(netip.MustParseAddr("10.207.0.1"))
	if err != nil {
		return err
	}
	defer func() { _ = port.Close() }()
	junk := bytes.Repeat([]byte{0xee}, 4096)
	dev, err := host.Open(0)
	if err != nil {
		return err
	}
	a, err := dev.Alloc(4096)
	if err != nil {
		return err
	}
	copy(device.Bytes(a.Ptr(), 4096), junk)
	for _, e := range endpoints {
		for _, m := range memories {
			l, err := link.Dial(context.Background(), port, func(ctx context.Context, request []byte) ([]byte, error) {
				return port.Exchange(ctx, e.addr, e.cred, 99, request)
			}, link.Options{Source: dev})
			if err == nil {
				_ = errors.Join(l.Import(m.origin.name, m.origin.keys[Ethernet]),
					l.Write(transport.Remote{Region: m.origin.name}, a.Ptr(), 4096), l.Flush(context.Background()), l.Close())
			}
		}
	}
	// 2. Replay the captured data, 3. and replay it with the attacker's frames appended.
	for f, b := range flows {
		for _, more := range [][]byte{nil, junk} {
			c, err := net.DialTimeout("tcp", f.to.String(), time.Second)
			if err != nil {
				break // not a listener
			}
			_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
			_, _ = c.Write(append(bytes.Clone(b), more...))
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
			fmt.Println("open", f.to)
		}
	}
	return nil
}

// flood holds silent connections to each address until its input ends.
func flood(addrs []string) error {
	for range 400 {
		for _, a := range addrs {
			c, err := net.Dial("tcp", a)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
		}
	}
	fmt.Println("flooding")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

func beAttack(what string) error {
	switch name, args, _ := strings.Cut(what, " "); name {
	case "victim":
		return attacked()
	case "listener":
		return attack()
	default:
		return flood(strings.Fields(args))
	}
}

// actor is a process of TestAttacks.
type actor struct {
	name  string
	in    io.WriteCloser
	lines *bufio.Scanner
	wait  func() error
	out   bytes.Buffer
}

func act(t *testing.T, ns, name, what string, uid uint32, env ...string) *actor {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"netns", "exec", ns, self}
	if uid != 0 {
		args = []string{"netns", "exec", ns, "setpriv", fmt.Sprintf("--reuid=%d", uid), "--clear-groups", self}
	}
	cmd := exec.CommandContext(t.Context(), "ip", args...)
	cmd.Env = append(append(os.Environ(), attackVariable+"="+what), env...)
	a := &actor{name: name}
	cmd.Stderr = &a.out
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	a.in, a.lines = in, bufio.NewScanner(out)
	a.wait = sync.OnceValue(func() error {
		_ = in.Close()
		for a.lines.Scan() {
			fmt.Fprintln(&a.out, a.lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, &a.out)
		}
		return nil
	})
	t.Cleanup(func() { _ = a.wait() })
	return a
}

func (a *actor) expect(t *testing.T, line string) string {
	t.Helper()
	if !a.lines.Scan() || !strings.HasPrefix(a.lines.Text(), line) {
		t.Fatalf("%s says %q where %q is due: %v", a.name, a.lines.Text(), line, a.wait())
	}
	return a.lines.Text()
}

// TestAttacks lets two ranks in two network namespaces put into each other's memory while an eavesdropper captures
// every byte. Afterwards the eavesdropper writes with the captured secrets, replays all captured data, and appends its
// own frames; and another user holds 400 silent connections to each listener while the ranks connect again.
func TestAttacks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to listen to a network interface")
	}
	for name, secret := range map[string]string{"with a secret": "GOCCL_SECRET=attacked",
		"without a secret": "GOCCL_SECRET="} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := testutil.Hosts(t)
			listener := act(t, a, "the listener", "listener", 0)
			listener.expect(t, "listening")
			var victims []*actor
			for i, ns := range []string{a, b} {
				victims = append(victims, act(t, ns, fmt.Sprintf("rank %d", i), "victim", 0, fmt.Sprintf("RANK=%d", i),
					"WORLD_SIZE=2", "LOCAL_RANK=0",
					"LOCAL_WORLD_SIZE=1", "MASTER_ADDR=10.207.0.1", "MASTER_PORT=29779", secret))
			}
			for _, v := range victims {
				v.expect(t, "ready")
			}
			_, _ = fmt.Fprintln(listener.in, "enough")
			if heard := listener.expect(t, "heard"); heard != "heard 0 endpoints and 0 memories" {
				t.Errorf("the listener %s", heard)
			}
			open := map[string]bool{}
			for listener.lines.Scan() {
				open[strings.TrimPrefix(listener.lines.Text(), "open ")] = true
			}
			if err := listener.wait(); err != nil {
				t.Error(err)
			}
			// The victims' nodes listen, and so does the rank that was dialed: its bootstrap connection may have to be made
			// again.
			if len(open) != 3 {
				t.Errorf("the intruder has found %v, want three listeners", open)
			}
			const nobody = 65534
			what := "flood"
			for addr := range open {
				what += " " + addr
			}
			crowd := act(t, b, "the flood", what, nobody)
			crowd.expect(t, "flooding")
			for _, v := range victims {
				_, _ = fmt.Fprintln(v.in, "the flood")
			}
			for _, v := range victims {
				v.expect(t, "connected")
			}
			for _, v := range victims {
				_ = v.in.Close()
			}
			for _, v := range append(victims, crowd) {
				if err := v.wait(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
