package bootstrap

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// heardConn records the data written to it.
type heardConn struct {
	net.Conn
	mu    sync.Mutex
	heard bytes.Buffer
}

func (c *heardConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.heard.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// An eavesdropper who knows the job's secret finds none of the sent data, and two connections with equal greetings have
// different keys.
func TestAListenerReadsNothing(t *testing.T) {
	secret, message := []byte("known to the listener"), []byte("a ticket, a credential")
	var wires [][]byte
	for range 2 {
		d, a := net.Pipe()
		defer func() { _, _ = d.Close(), a.Close() }()
		wire := &heardConn{Conn: d}
		deadline := time.Now().Add(20 * time.Second)
		accepted := make(chan *frameConn, 1)
		go func() {
			fc, _, _ := shakeAcceptor(a, secret, greeting{role: roleAcceptor, world: 2}, deadline, func() {},
				func(greeting) verdict { return verdictOK })
			accepted <- fc
		}()
		fc, _, err := shakeDialer(wire, secret, greeting{role: roleDialer, rank: 1, world: 2}, deadline, deadline)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = fc.write(context.Background(), frameData, 1, 2, message) }()
		if _, data, err := (<-accepted).read(); err != nil || !bytes.Equal(data, message) {
			t.Fatal(data, err)
		}
		wire.mu.Lock()
		wires = append(wires, wire.heard.Bytes())
		wire.mu.Unlock()
	}
	for _, w := range wires {
		if len(w) < greetingSize+proofSize+headerSize+len(message) || bytes.Contains(w, message[:8]) {
			t.Fatalf("heard %q", w)
		}
	}
	if tail := len(message); bytes.Equal(wires[0][len(wires[0])-tail:], wires[1][len(wires[1])-tail:]) {
		t.Fatal("two connections have one key")
	}
}
