package bootstrap

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestPausedWhileJoining stops a rank for longer than any limit of a single step, at several times during the joining.
// Only the deadline of the whole joining applies, so all ranks join.
func TestPausedWhileJoining(t *testing.T) {
	t.Parallel()
	for i := range pauses {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t), "GOCCL_TIMEOUT=60"}
			var ranks []*child
			for r := range 3 {
				ranks = append(ranks, startRank(t, "barrier", r, 3, "", vars...))
			}
			victim := ranks[i%3]
			victim.expect(t, "started", 30*time.Second)
			time.Sleep(time.Duration(i/3) * 2 * time.Millisecond)
			victim.signal(syscall.SIGSTOP)
			time.Sleep(handshakeTimeout + time.Second)
			victim.signal(syscall.SIGCONT)
			for _, r := range ranks {
				r.expect(t, "done", time.Minute)
			}
		})
	}
}

// pauses is the number of times tried; they run in parallel, so the wait is the same for all.
const pauses = 6

// TestVerdictIsWaitedFor: once a rank has proved the secret its place may be occupied, so the time limit of a handshake
// does not end the wait. An acceptor that was stopped before its verdict still sends it.
func TestVerdictIsWaitedFor(t *testing.T) {
	d, a := net.Pipe()
	defer func() { _, _ = d.Close(), a.Close() }()
	const limit = 500 * time.Millisecond
	greeted := make(chan struct{})
	accepted := make(chan error, 1)
	go func() {
		_, _, err := shakeAcceptor(a, []byte("s"), greeting{role: roleAcceptor, world: 2}, time.Now().Add(limit),
			func() { close(greeted) }, func(greeting) verdict {
				time.Sleep(2 * limit)
				return verdictOK
			})
		accepted <- err
	}()
	now := time.Now()
	if _, _, err := shakeDialer(d, []byte("s"), greeting{role: roleDialer, rank: 1, world: 2}, now.Add(limit),
		now.Add(time.Minute)); err != nil {
		t.Error(err)
	}
	<-greeted
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}
