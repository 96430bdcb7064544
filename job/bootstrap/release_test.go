package bootstrap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// other returns the greeting of another release, which is longer or shorter.
func other(g greeting, size int) []byte {
	g.version = protocolVersion + 1
	b := g.encode()
	return append(b[:], make([]byte, 100)...)[:size]
}

// A rank of another release that knows the secret ends the job at once: all ranks say which rank it is, and what to do.
func TestRankOfAnotherRelease(t *testing.T) {
	for _, size := range []int{100, greetingSize, greetingSize + 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			id, err := NewUniqueID(WithInterface("lo"), quiet())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = id.Close() }()
			f, _ := id.decode()
			good := make(chan error, 2)
			for r := range 2 {
				go func() {
					good <- errOf(JoinID(context.Background(), id, r, 3, quiet(), WithTimeout(10*time.Minute)))
				}()
			}
			waitJoined(t, id, 2)
			at := f.targets()[0]
			c, err := net.Dial(at.network, at.address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_, _ = c.Write(other(greeting{role: roleJoiner, world: 3, rank: 2, target: -1}, size))
			begin := make([]byte, versionEnd)
			if _, err := io.ReadFull(c, begin); err != nil || binary.LittleEndian.Uint16(begin[4:]) != protocolVersion {
				t.Fatalf("the root says % x, %v", begin, err)
			}
			complain(c, f.secret[:], 2, begin)
			for range 2 {
				err := <-good
				var e *Error
				if !errors.As(err, &e) || e.Peer != 2 || !errors.Is(err, ErrProtocol) ||
					!strings.Contains(err.Error(), fmt.Sprintf("rank 2 speaks version %d", protocolVersion+1)) ||
					!strings.Contains(err.Error(), "use one goccl release") {
					t.Errorf("a rank of the job: %v", err)
				}
			}
		})
	}
}

// A rank whose root has another release says so at once, and proves to the root that it is a rank of the job.
func TestRootOfAnotherRelease(t *testing.T) {
	for _, size := range []int{100, greetingSize, greetingSize + 100} {
		d, a := net.Pipe()
		secret := []byte("secret")
		theirs := other(greeting{role: roleRoot, nonce: [32]byte{7}}, size)
		complained := make(chan int32, 1)
		go func() {
			defer func() { _ = a.Close() }()
			_, _ = io.ReadFull(a, make([]byte, greetingSize))
			go func() { _, _ = a.Write(theirs) }()
			rank, ok := receiveComplaint(a, secret, theirs)
			if !ok {
				rank = -1
			}
			complained <- rank
		}()
		_, _, err := shakeDialer(d, secret, greeting{role: roleJoiner, world: 3, rank: 2, target: -1},
			time.Now().Add(time.Minute), time.Now().Add(time.Minute))
		var again errRetry
		if !errors.Is(err, errRelease) || errors.As(err, &again) || !strings.Contains(err.Error(), "use one goccl release") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if rank := <-complained; rank != 2 {
			t.Errorf("%d bytes: the root heard of rank %d", size, rank)
		}
	}
}
