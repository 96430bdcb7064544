package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/openfiles"
	"github.com/goccl/goccl/internal/sockets"
)

// blame is an error cause with the rank to blame.
type blame struct {
	peer int
	err  error
}

func (b *blame) Error() string { return b.err.Error() }
func (b *blame) Unwrap() error { return b.err }

// dialer opens authenticated connections on behalf of one rank.
type dialer struct {
	secret    []byte
	partition time.Duration
	nics      []netif.NIC // none: the system's choice
	local     netip.Addr  // from which the root was reached
	log       *slog.Logger
}

// dial tries the targets in turn until it is admitted, a verdict rejects it, or ctx ends. A refused connection, or one
// that ends before a verdict, is retried: the other side may not be up yet.
func (d *dialer) dial(ctx context.Context, targets []target, me greeting) (*frameConn, greeting, error) {
	return d.dialKnown(ctx, targets, me, 0)
}

// A root that was up is given up when its address has refused connections for some time, and at least goneRefusals
// times. A busy listener does not refuse; the kernel refuses where there is no listener. That of this host is right at
// once. Between hosts something else may refuse for a moment. An agreed address may be taken by the next attempt of the
// job.
const (
	goneHere     = 50 * time.Millisecond
	goneFar      = 700 * time.Millisecond
	goneAfter    = 3 * time.Second
	goneRefusals = 5
	// briefly is how long a connection may take to an address beside which there are others.
	briefly = time.Second
)

// goneFrom is how long refusals of an address must last, at which a root was.
func goneFrom(at netip.Addr) time.Duration {
	own, _ := net.InterfaceAddrs()
	for _, a := range own {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == at.Unmap() {
			return goneHere
		}
	}
	if at.IsLoopback() {
		return goneHere
	}
	return goneFar
}

// dialKnown is dial, but gives up if the other side is known to have been up and then refuses connections for gone,
// unless that is 0. A greeting without a verdict also makes it known; then the time is goneAfter.
func (d *dialer) dialKnown(ctx context.Context, targets []target, me greeting, gone time.Duration) (*frameConn,
	greeting, error) {
	var last error
	var since time.Time // time of the first refusal of the current run of refusals
	refusals := 0
	var shortage openfiles.Shortage
	var way wayless
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		refused, silent := 0, 0
		for _, t := range targets {
			fc, them, err := d.try(ctx, t, me)
			if err == nil {
				return fc, them, nil
			}
			var again errRetry
			cut := over(ctx)
			// An attempt that the end of ctx cut short gives no information about the other side.
			if !cut || last == nil {
				last = fmt.Errorf("%s: %w", t.address, err)
			}
			if !cut && (!errors.As(err, &again) || shortage.Lasts(err)) {
				return nil, them, last
			}
			if err := way.judge(err, len(targets), d.log); err != nil && !cut {
				return nil, them, err
			}
			if gone == 0 && them.version != 0 {
				gone = goneAfter
			}
			if errors.Is(err, syscall.ECONNREFUSED) {
				refused++
			} else if t.brief && them.version == 0 {
				silent++
			}
		}
		limit := gone
		if silent > 0 {
			limit = max(limit, goneAfter) // the address that refuses may be another host's
		}
		switch {
		case refused == 0 || refused+silent < len(targets):
			refusals = 0
		case refusals == 0:
			refusals, since = 1, time.Now()
		default:
			refusals++
		}
		if gone > 0 && refusals >= goneRefusals && time.Since(since) >= limit {
			return nil, greeting{}, fmt.Errorf("%w: nobody listens there any more: its process has ended, or it has finished "+
				"with the job without this rank, or an earlier job has used the id: each needs its own; %d attempts in %v, "+
				"the last: %w",
				ErrPeerDead, refusals, time.Since(since).Round(time.Millisecond), last)
		}
		// The jitter spreads the retries of ranks that were rejected together.
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, greeting{}, fmt.Errorf("%w; last attempt: %w", contextError(ctx), last)
		case <-timer.C:
		}
	}
}

// over reports whether ctx has ended or its deadline has passed: on a busy machine a socket's deadline may fire before
// that of ctx.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}

func (d *dialer) try(ctx context.Context, t target, me greeting) (*frameConn, greeting, error) {
	attempt, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	nd := net.Dialer{}
	if t.brief {
		nd.Timeout = briefly
	}
	if len(d.nics) > 0 {
		nd.Control = bindFrom(d.nics)
	}
	c, err := nd.DialContext(attempt, t.network, t.address)
	switch {
	case errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM):
		return nil, greeting{}, err
	case err != nil: // also a name that does not exist yet, for example of a pod that is starting
		return nil, greeting{}, errRetry{err}
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // not a deadline, because the handshake would overwrite it
	defer stop()
	sockets.Tune(c, d.partition)
	fc, them, err := (*frameConn)(nil), greeting{}, checkPeer(c)
	if err == nil {
		deadline, _ := attempt.Deadline()
		end, _ := ctx.Deadline()
		fc, them, err = shakeDialer(c, d.secret, me, deadline, end)
	}
	if err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			err = errRetry{contextError(ctx)}
		}
		return nil, them, err
	}
	return fc, them, nil
}

// rootClient is a rank's connection to the root.
type rootClient struct {
	fc    *frameConn
	table chan []byte
	start chan []byte
	// Of a job that joins over a tree: our place in it; what is passed on; the other side is our parent, not the root;
	// the end of the connection is no failure.
	parent   chan []byte
	below    atomic.Pointer[branch]
	parental bool
	detached atomic.Bool
	fail     context.CancelCauseFunc // ends the joining with a cause
	rank     int                     // the root's rank, from its greeting
	// timeout bounds each send, also after the joining has ended; note is added to the error of a timeout.
	timeout time.Duration
	note    string
	wg      sync.WaitGroup

	mu     sync.Mutex
	status *rootStatus
}

func newRootClient(fc *frameConn, rank int, timeout time.Duration, note string,
	cancel context.CancelCauseFunc, parentOf *branch) *rootClient {
	rc := &rootClient{fc: fc, rank: rank, timeout: timeout, note: note, table: make(chan []byte, 1),
		start: make(chan []byte, 1), parent: make(chan []byte, 1), parental: parentOf != nil, fail: cancel}
	rc.below.Store(parentOf)
	rc.wg.Go(rc.listen)
	return rc
}

// listen reads frames of the root. It ends at go, at a failure, or when the connection is closed.
func (rc *rootClient) listen() {
	for tables := 0; ; {
		h, data, err := rc.fc.read()
		if err == nil {
			if b := rc.below.Load(); b != nil && h.kind != frameParent {
				b.down(h.kind, data)
			}
			switch h.kind {
			case frameStatus:
				var s rootStatus
				if s, err = decodeStatus(data); err == nil {
					rc.mu.Lock()
					rc.status = &s
					rc.mu.Unlock()
				}
			case frameTable:
				if tables++; tables > 1 {
					err = fmt.Errorf("%w: a second table", ErrProtocol)
				} else {
					rc.table <- data
				}
			case frameParent:
				if rc.parental || len(rc.parent) > 0 {
					err = fmt.Errorf("%w: a second parent", ErrProtocol)
				} else {
					rc.parent <- data
				}
			case frameGo:
				rc.start <- data
				return
			case frameFail:
				var f rootFailure
				if f, err = decodeFailure(data); err == nil {
					rc.fail(&blame{int(f.peer), failureError(f)})
					return
				}
			default:
				err = fmt.Errorf("%w: frame kind %d from the root", ErrProtocol, h.kind)
			}
		}
		if err != nil {
			if rc.detached.Load() {
				return
			}
			what := "the root"
			if rc.parental {
				what = "the rank over which this one joins"
			}
			err = &blame{rc.rootRank(), peerDead(fmt.Errorf("%s was lost while joining: %w", what, err))}
			if b := rc.below.Load(); b != nil {
				b.down(frameFail, reasonOf(err))
			}
			rc.fail(err)
			return
		}
	}
}

func failureError(f rootFailure) error {
	err := f.verdict.err()
	switch {
	case err != nil:
	case f.peer >= 0:
		err = ErrPeerDead
	default:
		err = ErrClosed
	}
	return fmt.Errorf("%w: %s", err, f.text)
}

// rootRank returns a rank in the root's process, or -1. A rank that joined before the root's own learns it from the
// status.
func (rc *rootClient) rootRank() int {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.status == nil || rc.parental {
		return rc.rank
	}
	return int(rc.status.rootRank)
}

// giveUp tells the root that this rank stops joining, and adds the missing ranks to a timeout error.
func (rc *rootClient) giveUp(err error) error {
	tag := uint64(0)
	if errors.Is(err, ErrTimeout) {
		tag = giveUpTimeout
		if rc.note != "" {
			err = fmt.Errorf("%w; %s", err, rc.note)
		}
		rc.mu.Lock()
		var told *blame // an error from the root, which already contains the missing ranks
		if s := rc.status; s != nil && s.total > 0 && !errors.As(err, &told) {
			err = fmt.Errorf("%w; ranks %s have not come", err, s)
			if s.total == 1 {
				err = &blame{s.missing[0], err}
			}
		}
		rc.mu.Unlock()
	}
	_ = rc.send(frameGiveUp, tag, []byte(err.Error()))
	return err
}

// await waits for what comes from above.
func (rc *rootClient) await(ctx context.Context, ch <-chan []byte) ([]byte, error) {
	select {
	case data := <-ch:
		return data, nil
	case <-ctx.Done():
		return nil, rc.giveUp(contextError(ctx))
	}
}

func (rc *rootClient) send(kind frameKind, tag uint64, data []byte) error {
	return rc.pass(kind, 0, tag, data)
}

// pass sends what is about another rank, if space is not 0 (branch).
func (rc *rootClient) pass(kind frameKind, space, tag uint64, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), rc.timeout)
	defer cancel()
	return rc.fc.write(ctx, kind, space, tag, data)
}

func (rc *rootClient) close() {
	rc.fc.close()
	rc.wg.Wait()
}
