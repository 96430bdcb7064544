package nettest

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/transport"
)

const (
	streamSlots = 4
	streamBytes = 96 << 10 // more than a small put of tcp
	immStream   = 8        // … 11
	immCredit   = 20
)

// Stream is a process that exchanges checked blocks with another one, in both directions, until something fails. It
// writes lines to w: "HELLO address key", then "ROUNDS n" again and again, and at the end "FAILED why: error". It reads
// the other's address and key from r.
func Stream(t testing.TB, n transport.Net, r io.Reader, w io.Writer) {
	s := Half(t, Open(t, n), streamSlots*streamBytes)
	_, _ = fmt.Fprintf(w, "HELLO %s %s\n", hex.EncodeToString(s.Address()), hex.EncodeToString(s.Own.Key()))
	in := bufio.NewReader(r)
	var address, key string
	if _, err := fmt.Fscan(in, &address, &key); err != nil {
		t.Fatal(err)
	}
	a, _ := hex.DecodeString(address)
	k, _ := hex.DecodeString(key)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Connect(ctx, a); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.Dst, err = s.Import(k); err != nil {
		t.Fatal(err)
	}
	var rounds atomic.Uint64
	errs := make(chan error, 2)
	go func() { errs <- s.sendBlocks(ctx) }()
	go func() { errs <- s.takeBlocks(ctx, &rounds) }()
	for {
		select {
		case err = <-errs:
			_, _ = fmt.Fprintf(w, "FAILED %s: %v\n", kind(err), err)
			return
		case <-time.After(20 * time.Millisecond):
			_, _ = fmt.Fprintf(w, "ROUNDS %d\n", rounds.Load())
		}
	}
}

func kind(err error) string {
	switch {
	case errors.Is(err, transport.ErrPeerGone):
		return "gone"
	case errors.Is(err, transport.ErrPeerClosed):
		return "closed"
	case errors.Is(err, errWrongBytes):
		return "wrong"
	}
	return "other"
}

var errWrongBytes = errors.New("wrong bytes")

func (s *Side) sendBlocks(ctx context.Context) error {
	var done [streamSlots]chan error
	for i := uint64(0); ; i++ {
		slot := i % streamSlots
		if i >= streamSlots {
			if err := s.Wait(ctx, immCredit, i-streamSlots+1); err != nil {
				return err
			}
			if err := <-done[slot]; err != nil {
				return err
			}
		}
		time.Sleep(2 * time.Millisecond) // leave the machine to others
		at := slot * streamBytes
		fill(s.Out[at:at+streamBytes], int(i))
		end := make(chan error, 1)
		done[slot] = end
		if err := s.Put(s.Src, int64(at), s.Dst, int64(at), streamBytes, immStream+uint32(slot),
			func(err error) { end <- err }); err != nil {
			return err
		}
	}
}

func (s *Side) takeBlocks(ctx context.Context, rounds *atomic.Uint64) error {
	want := make([]byte, streamBytes)
	for i := uint64(0); ; i++ {
		slot := i % streamSlots
		if err := s.Wait(ctx, immStream+uint32(slot), i/streamSlots+1); err != nil {
			return err
		}
		fill(want, int(i))
		if at := differ(s.In[slot*streamBytes:], want); at >= 0 {
			return fmt.Errorf("%w: block %d, byte %d", errWrongBytes, i, at)
		}
		if n := s.Arrived(immStream + uint32(slot)); n != i/streamSlots+1 {
			return fmt.Errorf("%w: block %d: a put arrived twice: %d", errWrongBytes, i, n)
		}
		rounds.Add(1)
		if err := s.Put(nil, 0, s.Dst, 0, 0, immCredit, nil); err != nil {
			return err
		}
	}
}
