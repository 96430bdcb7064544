package bootstrap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/test/mutate"
)

func testCipher() *aead.Cipher { return aead.New([]byte("key"), nil, "test") }

func genHeader(t *rapid.T) header {
	return header{
		kind:  frameKind(rapid.IntRange(1, int(frameKinds)-1).Draw(t, "kind")),
		space: rapid.Uint64().Draw(t, "space"), tag: rapid.Uint64().Draw(t, "tag"),
		counter: rapid.Uint64Range(0, 1<<21).Draw(t, "counter"),
	}
}

// TestFrameProperties: a sealed frame is read back, and a frame with any byte changed or missing is rejected.
func TestFrameProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := genHeader(t)
		data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		frame := appendFrame(nil, testCipher(), h, data)
		got, gotData, err := readFrame(bytes.NewReader(frame), testCipher(), h.counter)
		h.length = uint32(len(data))
		if err != nil || got != h || !bytes.Equal(gotData, data) {
			t.Fatalf("got %+v %x, %v", got, gotData, err)
		}
		i := rapid.IntRange(0, len(frame)-1).Draw(t, "byte")
		bent := bytes.Clone(frame)
		bent[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "mask"))
		if _, _, err := readFrame(bytes.NewReader(bent), testCipher(), h.counter); err == nil {
			t.Fatalf("byte %d was changed unnoticed", i)
		}
		if _, _, err := readFrame(bytes.NewReader(frame[:i]), testCipher(), h.counter); err == nil {
			t.Fatalf("a frame cut at %d was read", i)
		}
		if _, _, err := readFrame(bytes.NewReader(frame), testCipher(), h.counter+1); !errors.Is(err, ErrProtocol) {
			t.Fatalf("wrong counter: %v", err)
		}
		if _, _, err := readFrame(bytes.NewReader(frame), aead.New([]byte("other"), nil, "test"), h.counter); !errors.Is(err,
			ErrProtocol) {
			t.Fatalf("wrong key: %v", err)
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, testCipher(), header{kind: frameData, space: 1, tag: 2}, []byte("data")))
	f.Add(appendFrame(nil, testCipher(), header{kind: frameGo}, nil)[:20])
	f.Add(bytes.Repeat([]byte{0xff}, headerSize+aead.Overhead))
	mutate.Fuzz(f, func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, data, err := readFrame(r, testCipher(), 0)
		if err != nil {
			return
		}
		// Only a frame that this implementation would produce is accepted.
		if again := appendFrame(nil, testCipher(), h, data); !bytes.Equal(again, b[:len(b)-r.Len()]) {
			t.Fatalf("%x was read as %+v %x", b, h, data)
		}
	})
}

// TestHugeLength: a large length allocates no memory before the bytes arrive.
func TestHugeLength(t *testing.T) {
	b := [headerSize]byte(plain.Bytes(&header{kind: frameData, length: maxPayload}))
	allocated := testing.AllocsPerRun(1, func() {
		if _, _, err := readFrame(bytes.NewReader(b[:]), testCipher(), 0); err == nil {
			t.Fatal("read a frame without a payload")
		}
	})
	if allocated > 64 {
		t.Fatalf("%v allocations", allocated)
	}
	b = [headerSize]byte(plain.Bytes(&header{kind: frameData, length: maxPayload + 1}))
	if _, err := decodeHeader(&b, 0); !errors.Is(err, ErrProtocol) {
		t.Fatal(err)
	}
}

func genAddrPort(t *rapid.T) netip.AddrPort {
	b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "ip")
	a := netip.AddrFrom16([16]byte(b)).Unmap()
	if rapid.Bool().Draw(t, "v4") {
		a = netip.AddrFrom4([4]byte(b))
	}
	if a.IsUnspecified() {
		a = netip.MustParseAddr("::1")
	}
	return netip.AddrPortFrom(a, uint16(rapid.IntRange(1, 65535).Draw(t, "port")))
}

func TestUniqueIDProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := idFields{addr: genAddrPort(t), flags: byte(rapid.IntRange(0, 255).Draw(t, "flags"))}
		copy(f.secret[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "secret"))
		six := rapid.Bool().Draw(t, "a further IPv6 address")
		for range rapid.IntRange(0, 5).Draw(t, "further IPv4 addresses") {
			if !six || len(f.more) == 0 {
				f.more = append(f.more, netip.AddrFrom4([4]byte(append(rapid.SliceOfN(rapid.Byte(), 3, 3).Draw(t, "ip"), 1))))
			}
		}
		if six {
			f.more = append(f.more, netip.MustParseAddr("fd00::7"))
		}
		id := f.encode()
		got, err := id.decode()
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("got %+v, %v; want %+v", got, err, f)
		}
		if again, err := ParseUniqueID(id[:]); err != nil || again != id {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, len(id)-1).Draw(t, "byte")
		id[i] ^= 1
		if _, err := id.decode(); !errors.Is(err, ErrInvalid) {
			t.Fatalf("byte %d was changed unnoticed: %v", i, err)
		}
	})
	if _, err := ParseUniqueID(make([]byte, 127)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func FuzzUniqueID(f *testing.F) {
	id := idFields{addr: netip.MustParseAddrPort("10.0.0.1:77")}.encode()
	f.Add(id[:])
	id = idFields{addr: netip.MustParseAddrPort("[fd00::1]:77"), flags: flagRankZero}.encode()
	f.Add(id[:])
	mutate.Fuzz(f, func(t *testing.T, b []byte) {
		// The checksum would reject nearly every input, so the fuzzer corrects it.
		if len(b) == UniqueIDSize {
			sum := sha256.Sum256(b[:uniqueIDSum])
			copy(b[uniqueIDSum:], sum[:])
		}
		id, err := ParseUniqueID(b)
		if err != nil {
			return
		}
		fields, err := id.decode()
		if err != nil || fields.encode() != id {
			t.Fatalf("%x: %+v, %v", b, fields, err)
		}
	})
}

func TestUniqueIDHidesSecret(t *testing.T) {
	f := idFields{addr: netip.MustParseAddrPort("10.0.0.1:77")}
	for i := range f.secret {
		f.secret[i] = 0xab
	}
	id := f.encode()
	for _, s := range []string{id.String(), fmt.Sprintf("%v %+v %#v %s", id, id, id, id)} {
		if !strings.Contains(s, "10.0.0.1:77") || strings.Contains(s, "171") || strings.Contains(s, "ab") {
			t.Error(s)
		}
	}
	if s := (UniqueID{}).String(); s != "UniqueID(invalid)" {
		t.Error(s)
	}
}

func FuzzGreeting(f *testing.F) {
	g := greeting{version: protocolVersion, role: roleJoiner, world: 8, rank: 3, target: -1}
	b := g.encode()
	f.Add(b[:])
	mutate.Fuzz(f, func(t *testing.T, raw []byte) {
		var b [greetingSize]byte
		copy(b[:], raw)
		g, err := decodeGreeting(&b)
		if err == nil && g.encode() != b {
			t.Fatalf("%x was read as %+v", b, g)
		}
	})
}

// FuzzHandshake sends random bytes to an acceptor. The acceptor must end, never admit, and never send a proof to an
// unauthenticated peer.
func FuzzHandshake(f *testing.F) {
	g := greeting{version: protocolVersion, role: roleJoiner, world: 8, rank: 3, target: -1}
	b := g.encode()
	f.Add(b[:])
	f.Add(append(b[:], make([]byte, proofSize)...))
	f.Add([]byte("gccl"))
	mutate.Fuzz(f, func(t *testing.T, sent []byte) {
		_, _, err := shakeAcceptor(mutate.Conn(sent), []byte("secret"), greeting{role: roleRoot, rank: -1},
			time.Now().Add(5*time.Second), func() {}, func(greeting) verdict {
				t.Error("admitted")
				return verdictOK
			})
		if err == nil {
			t.Error("no error")
		}
	})
}

func TestHandshakeVerdicts(t *testing.T) {
	for v := verdictOK; v < verdicts; v++ {
		d, a := net.Pipe()
		deadline := time.Now().Add(5 * time.Second)
		accepted := make(chan *frameConn, 1)
		go func() {
			fc, _, _ := shakeAcceptor(a, []byte("s"), greeting{role: roleAcceptor, rank: 0, world: 4}, deadline, func() {},
				func(greeting) verdict { return v })
			accepted <- fc
		}()
		fc, them, err := shakeDialer(d, []byte("s"), greeting{role: roleDialer, rank: 2, target: 0, world: 3}, deadline,
			deadline)
		other := <-accepted
		if v == verdictOK {
			if err != nil || other == nil || them.rank != 0 || them.target != 2 {
				t.Fatalf("%v, %+v", err, them)
			}
			go func() { _ = fc.write(context.Background(), frameData, 1, 2, []byte("hi")) }()
			if h, data, err := other.read(); err != nil || h.tag != 2 || string(data) != "hi" {
				t.Fatal(h, data, err)
			}
			// A reflected frame is rejected.
			go func() { _, _ = a.Write(appendFrame(nil, fc.out, header{kind: frameData}, nil)) }()
			if _, _, err := fc.read(); !errors.Is(err, ErrProtocol) {
				t.Fatal(err)
			}
		} else if err == nil || other != nil || !errors.Is(err, v.err()) && !errors.Is(err, ErrAuth) {
			t.Errorf("verdict %d: %v", v, err)
		}
		_ = d.Close()
		_ = a.Close()
	}
}

func TestTableProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab table
		for range rapid.IntRange(1, 5).Draw(t, "n") {
			m := member{tcp: toWire(genAddrPort(t)), more: [maxMeshAddrs - 1]wireAddr{1: toWire(genAddrPort(t))}}
			copy(m.host[:], rapid.SliceOfN(rapid.Byte(), 1, 1).Draw(t, "host"))
			tab.members = append(tab.members, m)
		}
		raw := tab.encode()
		got, err := decodeTable(raw, len(tab.members))
		if err != nil || !reflect.DeepEqual(got, tab) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := decodeTable(raw, len(tab.members)+1); err == nil {
			t.Fatal("a table for another world was taken")
		}
		s := rootStatus{rootRank: -1, total: 40}
		for range rapid.IntRange(0, maxMissing).Draw(t, "missing") {
			s.missing = append(s.missing, rapid.IntRange(0, MaxWorldSize).Draw(t, "rank"))
		}
		if got, err := decodeStatus(s.encode()); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("got %+v, %v", got, err)
		}
		f := rootFailure{peer: -1, verdict: verdictTimeout, text: rapid.String().Draw(t, "text")}
		f.text = f.text[:min(len(f.text), maxFailureText)]
		if got, err := decodeFailure(f.encode()); err != nil || got != f {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}

func FuzzRootFrames(f *testing.F) {
	f.Add([]byte{}, 1)
	f.Add((&table{members: make([]member, 2)}).encode(), 2)
	f.Add(rootFailure{text: "x"}.encode(), 0)
	f.Add([]byte{0, 0, 0, 0}, math.MaxInt/2+2) // four times that is 4
	mutate.Fuzz(f, func(t *testing.T, b []byte, world int) {
		if tab, err := decodeTable(b, world); err == nil && len(tab.members) != world {
			t.Fatal("table")
		}
		if hosts, err := decodeHosts(b, world); err == nil && !bytes.Equal(encodeHosts(hosts), b) {
			t.Fatal("hosts")
		}
		if s, err := decodeStatus(b); err == nil && len(s.missing) > maxMissing {
			t.Fatal("status")
		}
		if fl, err := decodeFailure(b); err == nil {
			_ = failureError(fl).Error()
		}
	})
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]rootAddress{
		"10.0.0.1:77":           {host: "10.0.0.1", port: 77},
		"host.example:77":       {host: "host.example", port: 77},
		"[fd00::1]:77":          {host: "fd00::1", port: 77},
		"eth0:10.0.0.1:77":      {host: "10.0.0.1", port: 77, iface: "eth0"},
		"eth0:[fd00::1]:77":     {host: "fd00::1", port: 77, iface: "eth0"},
		"unix:@goccl-something": {unix: "@goccl-something"},
	} {
		got, err := parseAddress(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
		if again, err := parseAddress(got.String()); err != nil || again.String() != got.String() {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ":", ":77", "host", "host:", "host:0", "host:99999", "0.0.0.0:77", "[::]:77",
		"eth0:0.0.0.0:77", "unix:", "unix:x", "unix:@", "a:b:c"} {
		if got, err := parseAddress(in); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestTimeoutVariable(t *testing.T) {
	for in, want := range map[string]time.Duration{"5": 5 * time.Second, "0.5": 500 * time.Millisecond,
		"2m": 2 * time.Minute} {
		t.Setenv("GOCCL_TIMEOUT", in)
		if c, err := newConfig(nil); err != nil || c.timeout != want || c.stall != want {
			t.Errorf("%q: %v", in, err)
		}
	}
	for _, in := range []string{"x", "-1", "0", "0s", "NaN", "1e99"} {
		t.Setenv("GOCCL_TIMEOUT", in)
		if _, err := newConfig(nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// In one process too, a bad value is the error of every rank.
func TestLocalGroupOfBadTimeout(t *testing.T) {
	t.Setenv("GOCCL_TIMEOUT", "abc")
	for r, b := range NewLocalGroup(2) {
		err := b.Barrier(t.Context())
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `GOCCL_TIMEOUT="abc"`) {
			t.Errorf("rank %d: %v", r, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
