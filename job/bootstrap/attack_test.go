package bootstrap

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// attackVariable makes a child of this test binary an attacker: its kind and its target.
const attackVariable = "GOCCL_TEST_ATTACK"

// nobody is the user id of attackers.
const nobody = 65534

// attackMain runs an attacker. It prints one line when it is active, or has finished.
func attackMain(what string) error {
	kind, about, _ := strings.Cut(what, " ")
	if kind == "listen" {
		return listen(about)
	}
	address, err := parseAddress(about)
	if err != nil {
		return err
	}
	known := secretFor(address, nil) // derivable from the address and the user
	if err := syscall.Setuid(nobody); err != nil {
		return err
	}
	me := greeting{role: roleJoiner, world: 2, rank: 1, target: -1}
	switch kind {
	case "flood":
		return flood(address)
	case "guess", "forge":
		if kind == "guess" {
			known = secretFor(address, nil) // with its own user id
		}
		d := &dialer{secret: known}
		fc, _, err := d.try(context.Background(), address.targets()[0], me)
		if err == nil {
			fmt.Println("let in")
			fc.close()
			return nil
		}
		fmt.Println("refused:", err)
		return nil
	case "replay":
		raw, err := io.ReadAll(hex.NewDecoder(os.Stdin))
		if err != nil {
			return err
		}
		c, err := net.DialTimeout("tcp", address.String(), 20*time.Second)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.Write(raw); err != nil {
			return err
		}
		answer := make([]byte, greetingSize+1)
		if _, err := io.ReadFull(c, answer); err != nil {
			return err
		}
		fmt.Println("verdict", answer[greetingSize])
		return nil
	}
	return fmt.Errorf("unknown attack %q", kind)
}

// flood holds more connections than the root accepts, some silent and some not, and keeps opening new ones.
func flood(address rootAddress) error {
	var held []net.Conn
	for n := 0; ; n++ {
		c, err := net.DialTimeout("tcp", address.String(), 20*time.Second)
		switch {
		case err == nil && n%3 == 0:
			_, _ = c.Write([]byte(protocolMagic))
		case err == nil && n%3 == 1:
			_, _ = c.Write(make([]byte, greetingSize))
		}
		if err == nil {
			held = append(held, c)
		}
		if n == 2*maxPending {
			fmt.Println("flooding")
		}
		if len(held) > 2*maxPending {
			_ = held[0].Close()
			held = held[1:]
			time.Sleep(time.Millisecond)
		}
	}
}

// listen writes the network traffic to a file: the length of each packet, u32, and the packet.
func listen(file string) error {
	nic, err := net.InterfaceByName(testutil.Cable)
	if err != nil {
		return err
	}
	const all = uint16(syscall.ETH_P_ALL << 8) // big endian
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, int(all))
	if err != nil {
		return err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: all, Ifindex: nic.Index}); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for b := make([]byte, 1<<17); ; {
		n, _, err := syscall.Recvfrom(fd, b, 0)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if n > 0 {
			if _, err := out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(n)), b[:n]...)); err != nil {
				return err
			}
		}
	}
}

// heard returns the captured data of connections to a port: what was sent to it, by the sender's port, in order.
func heard(t *testing.T, file string, port uint16) (all []byte, flows map[uint16][]byte) {
	t.Helper()
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first := map[uint16]uint32{}
	flows = map[uint16][]byte{}
	for rest := all; len(rest) > 4; {
		n := int(binary.LittleEndian.Uint32(rest))
		if len(rest) < 4+n {
			break
		}
		p := rest[4 : 4+n]
		rest = rest[4+n:]
		if n < 54 || binary.BigEndian.Uint16(p[12:]) != 0x0800 || p[23] != syscall.IPPROTO_TCP {
			continue
		}
		ip := p[14:][:binary.BigEndian.Uint16(p[16:])]
		tcp := ip[int(ip[0]&15)*4:]
		from, sequence, data := binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint32(tcp[4:]), tcp[int(tcp[12]>>4)*4:]
		if binary.BigEndian.Uint16(tcp[2:]) != port {
			continue
		}
		if tcp[13]&2 != 0 { // SYN
			first[from] = sequence + 1
		}
		if at := int(sequence - first[from]); at >= 0 && at <= len(flows[from]) {
			flows[from] = append(flows[from][:at], data...)
		}
	}
	return all, flows
}

// attacker starts an attacker in a network namespace, or in this one.
func attacker(t *testing.T, namespace, what string, stdin io.Reader) *child {
	t.Helper()
	var by []string
	if namespace != "" {
		by = []string{"ip", "netns", "exec", namespace}
	}
	return startChild(t, by, -1, stdin, attackVariable+"="+what)
}

// TestAttacks: an eavesdropper captures the joining of a job over a network. Then another user floods the root of the
// next job, guesses secrets, and replays the captured data. None of this may keep that job from starting, or admit the
// attacker.
func TestAttacks(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	const master, port = "10.207.0.1", 20300
	at := fmt.Sprintf("%s:%d", master, port)
	for _, secret := range []string{"", "a secret that only the ranks know"} {
		t.Run("secret "+secret, func(t *testing.T) {
			vars := []string{"MASTER_ADDR=" + master, fmt.Sprintf("MASTER_PORT=%d", port), "GOCCL_SECRET=" + secret}
			file := filepath.Join(t.TempDir(), "heard")
			listener := attacker(t, b, "listen "+file, nil)
			listener.expect(t, "listening", 30*time.Second)
			for _, r := range []*child{startRank(t, "barrier", 0, 2, a, vars...), startRank(t, "barrier", 1, 2, b, vars...)} {
				r.expect(t, "done", 30*time.Second)
			}
			var replay []byte
			for end := time.Now().Add(20 * time.Second); len(replay) < greetingSize+proofSize &&
				time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				all, flows := heard(t, file, port)
				if secret != "" && strings.Contains(string(all), secret) {
					t.Fatal("the secret is on the wire")
				}
				for _, flow := range flows {
					replay = flow
				}
			}
			listener.end()

			ranks := []*child{startRank(t, "barrier", 0, 2, a, vars...)}
			ranks[0].expect(t, "started", 30*time.Second)
			attacker(t, b, "flood "+at, nil).expect(t, "flooding", 30*time.Second)
			if line := attacker(t, b, "guess "+at, nil).expect(t, "", 30*time.Second); !strings.Contains(line, ErrAuth.Error()) {
				t.Errorf("who guesses: %s", line)
			}
			if line := attacker(t, b, "replay "+at, strings.NewReader(hex.EncodeToString(replay))).expect(t, "",
				30*time.Second); line != fmt.Sprintf("verdict %d", verdictAuth) {
				t.Errorf("who replays %d bytes: %s", len(replay), line)
			}
			if secret != "" { // without a secret, an attacker who knows the user is admitted, which is why goccl warns
				if line := attacker(t, b, "forge "+at, nil).expect(t, "", 30*time.Second); !strings.Contains(line,
					ErrAuth.Error()) {
					t.Errorf("who knows the address and the user: %s", line)
				}
			}
			ranks = append(ranks, startRank(t, "barrier", 1, 2, b, vars...))
			for _, r := range ranks {
				r.expect(t, "done", 30*time.Second)
			}
		})
	}
}

// TestAnotherUserOnThisHost: an attacker with all secrets and another user id is not admitted on a unix socket.
func TestAnotherUserOnThisHost(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	address := "unix:@goccl-test-user-" + portString(t)
	done := make(chan error, 2)
	bs := make([]Bootstrap, 2)
	join := func(r int) {
		var err error
		bs[r], err = JoinAddress(context.Background(), address, r, 2, quiet(), WithTimeout(time.Minute))
		done <- err
	}
	go join(0)
	time.Sleep(50 * time.Millisecond)
	line := attacker(t, "", "forge "+address, nil).expect(t, "refused", 30*time.Second)
	for again := 0; strings.Contains(line, "connection refused") && again < 100; again++ { // rank 0 is not listening yet
		line = attacker(t, "", "forge "+address, nil).expect(t, "refused", 30*time.Second)
	}
	if !strings.Contains(line, "another user") && !strings.Contains(line, "EOF") && !strings.Contains(line, "reset") &&
		!strings.Contains(line, "broken pipe") {
		t.Error(line)
	}
	go join(1)
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
	closeAll(bs)
}
