package check

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
)

// Checker compares the calls of all ranks before any of them is enqueued.
//
//	collective   all ranks gather their signatures; a rank whose signature differs from the local one is blamed
//	send, recv   the two ranks exchange signatures, all pairs of a group at once; so a call waits until its
//	             counterpart is made
//
// On a mismatch the call fails on every rank that detects it, nothing is enqueued, and the communicator stays usable. A
// timeout, a peer's death or an abort ends the communicator for good, because the ranks' sequence numbers may then
// differ.
type Checker struct {
	Group  *membership.Group
	Boot   bootstrap.Bootstrap
	Device device.Device
	// Timeout bounds the wait for a counterpart, and the check of data.
	Timeout time.Duration
	// Failure returns the communicator's error, nil if its work has succeeded so far.
	Failure func() error
}

// A signature is 24 bytes: collective, type, operator, whether an AllToAllV has AllCounts, root or peer (i32), count
// (i64), sequence number (u64). For AllToAllV the send counts and the receive counts follow (R × i64 each). Fields that
// the collective does not use are 0.
const signatureBytes = 24

func signature(r *collective.Request, seq uint64) []byte {
	b := make([]byte, signatureBytes, signatureBytes+16*len(r.SendCounts))
	b[0] = byte(r.Called())
	if r.Collective != collective.Barrier {
		b[1] = byte(r.Type)
		binary.LittleEndian.PutUint64(b[8:], uint64(r.Count))
	}
	who := 0
	switch r.Collective {
	case collective.Broadcast, collective.Gather, collective.Scatter:
		who = r.Root
	case collective.Reduce:
		who, b[2] = r.Root, byte(r.Op)
	case collective.AllReduce, collective.ReduceScatter:
		b[2] = byte(r.Op)
	case collective.AllToAllV:
		binary.LittleEndian.PutUint64(b[8:], 0)
		b[3] = plain.Bit[byte](r.AllCounts != nil)
		for _, v := range [][]int64{r.SendCounts, r.RecvCounts} {
			for _, x := range v {
				b = binary.LittleEndian.AppendUint64(b, uint64(x))
			}
		}
	case collective.AllToAllVDevice, collective.MoENotify, collective.MoEDispatch, collective.MoECombine:
		binary.LittleEndian.PutUint64(b[8:], 0) // the host does not know the counts, or they differ
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(int32(who)))
	binary.LittleEndian.PutUint64(b[16:], seq)
	return b
}

// describe formats a signature, for example "all_reduce(sum) of 12 × float32".
func describe(b []byte) string {
	if len(b) < signatureBytes {
		return fmt.Sprintf("%d bytes of nonsense", len(b))
	}
	coll := collective.Collective(b[0])
	s := coll.String()
	switch coll {
	case collective.AllReduce, collective.ReduceScatter, collective.Reduce:
		s += "(" + datatype.Op(b[2]).String() + ")"
	}
	switch coll {
	case collective.Barrier:
		return s
	case collective.AllToAllV, collective.AllToAllVDevice, collective.MoENotify, collective.MoEDispatch,
		collective.MoECombine:
		return fmt.Sprintf("%s of %v", s, datatype.Type(b[1]))
	}
	s += fmt.Sprintf(" of %d × %v", int64(binary.LittleEndian.Uint64(b[8:])), datatype.Type(b[1]))
	switch coll {
	case collective.Broadcast, collective.Reduce, collective.Gather, collective.Scatter:
		s += fmt.Sprintf(" with root %d", binary.LittleEndian.Uint32(b[4:]))
	}
	return s
}

func sequence(b []byte) uint64 {
	if len(b) < signatureBytes {
		return 0
	}
	return binary.LittleEndian.Uint64(b[16:])
}

// Requests checks a group: n collectives, numbered from seq, then sends and receives, numbered from message. After an
// collective.ErrMismatch the peers have numbered the collectives too.
func (k *Checker) Requests(seq, message uint64, reqs []collective.Request, n int) error {
	ctx, stop := context.WithTimeout(context.Background(), k.Timeout)
	defer stop()
	ctx, stop2 := k.Group.Bound(ctx, "check")
	defer stop2()
	var mismatch error
	for i := 0; i <= n; i++ {
		var err error
		if i < n {
			err = k.collective(ctx, seq+uint64(i), &reqs[i])
		} else {
			err = k.pointToPoint(ctx, message, reqs[n:])
		}
		switch {
		case errors.Is(err, collective.ErrMismatch):
			// Compare the rest anyway, because the peers do.
			if mismatch == nil {
				mismatch = err
			}
		case err != nil:
			k.Group.Status.End(err)
			return err
		}
	}
	return mismatch
}

func (k *Checker) collective(ctx context.Context, seq uint64, r *collective.Request) error {
	rank, size := k.Boot.Rank(), k.Boot.WorldSize()
	mine := signature(r, seq)
	all, err := k.Boot.AllGather(ctx, mine)
	if err != nil {
		return k.failed(ctx, r, seq, err)
	}
	for p, b := range all {
		if len(b) < signatureBytes || string(b[:16]) != string(mine[:16]) || len(b) != len(mine) {
			return k.mismatch(r, seq, p, mine, b)
		}
	}
	if r.Collective != collective.AllToAllV {
		return nil
	}
	at := func(b []byte, i int) int64 { return int64(binary.LittleEndian.Uint64(b[signatureBytes+8*i:])) }
	// All ranks check the whole matrix, so that all of them refuse. This rank's row and column come first, so that the
	// error names this rank's own partner.
	for d := range size {
		for s := range size {
			from, to := (rank+s)%size, (rank+d)%size
			if sent, received := at(all[from], to), at(all[to], size+from); sent != received {
				peer := from
				if from == rank {
					peer = to
				}
				return &collective.Error{Comm: k.Group.Name, Op: r.Collective.String(), Rank: rank, Peer: peer, Seq: seq,
					Err: fmt.Errorf("%w: rank %d sends %d elements to rank %d, which receives %d", collective.ErrMismatch, from,
						sent, to, received)}
			}
		}
	}
	return nil
}

func (k *Checker) pointToPoint(ctx context.Context, seq uint64, reqs []collective.Request) error {
	// For messages from s to d, the sender's signatures use one tag and the receiver's another, in the order in which
	// messages match.
	for i := range reqs {
		at := tags.CheckSend
		if reqs[i].Collective == collective.Recv {
			at = tags.CheckRecv
		}
		if err := k.Boot.Send(ctx, reqs[i].Peer, at, signature(&reqs[i], seq+uint64(i))); err != nil {
			return k.failed(ctx, &reqs[i], seq+uint64(i), err)
		}
	}
	errs := make([]error, len(reqs))
	var wg sync.WaitGroup
	for _, at := range []int{tags.CheckSend, tags.CheckRecv} {
		wg.Go(func() {
			for i := range reqs {
				if (reqs[i].Collective == collective.Recv) != (at == tags.CheckSend) {
					continue
				}
				errs[i] = k.counterpart(ctx, seq+uint64(i), &reqs[i], at)
				if errs[i] != nil && !errors.Is(errs[i], collective.ErrMismatch) {
					return
				}
			}
		})
	}
	wg.Wait()
	var first error
	for _, err := range errs {
		mismatch := errors.Is(err, collective.ErrMismatch)
		if err != nil && (first == nil || errors.Is(first, collective.ErrMismatch) && !mismatch) {
			first = err
		}
	}
	return first
}

func (k *Checker) counterpart(ctx context.Context, seq uint64, r *collective.Request, at int) error {
	b, err := k.Boot.Recv(ctx, r.Peer, at)
	if err != nil {
		return k.failed(ctx, r, seq, err)
	}
	mine := signature(r, seq)
	if len(b) != signatureBytes || string(b[1:16]) != string(mine[1:16]) {
		return k.mismatch(r, seq, r.Peer, mine, b)
	}
	return nil
}

func (k *Checker) mismatch(r *collective.Request, seq uint64, peer int, mine, theirs []byte) error {
	return &collective.Error{Comm: k.Group.Name, Op: r.Collective.String(), Rank: k.Boot.Rank(), Peer: peer, Seq: seq,
		Err: fmt.Errorf("%w: rank %d calls %s (its #%d), this rank %s",
			collective.ErrMismatch, peer, describe(theirs), sequence(theirs), describe(mine))}
}

// failed returns the error of an operation whose counterpart did not arrive.
func (k *Checker) failed(ctx context.Context, r *collective.Request, seq uint64, err error) error {
	op := r.Collective.String()
	if k.Group.Status.Err() != nil || fault.Of(context.Cause(ctx)) != nil {
		err = k.Group.JointError(ctx, op, err)
	} else if errors.Is(err, bootstrap.ErrTimeout) {
		err = fmt.Errorf("no counterpart within %v (GOCCL_CHECK): %w", k.Timeout, err)
	}
	err = k.Group.Wrap(op, err)
	if ae := fault.Of(err); ae != nil && ae.Seq == 0 {
		named := *ae
		named.Seq = seq
		if named.Peer < 0 && r.PointToPoint() {
			named.Peer = r.Peer
		}
		return &named
	}
	return err
}
