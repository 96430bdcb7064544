package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
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
	onlyHere  bool        // the root's address is the loopback for all ranks
	log       *slog.Logger
}

// A root that was up is given up when its address has refused connections for some time, and at least goneRefusals
// times. A busy listener does not refuse; the kernel refuses where there is no listener. This host's kernel is right at
// once. Between hosts something else may refuse for a moment. An agreed address may be taken by the next attempt of the
// job.
const (
	goneHere     = 50 * time.Millisecond
	goneFar      = 700 * time.Millisecond
	goneMember   = time.Millisecond // a member of a job has listened since it joined, so goneRefusals are enough
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

// dial tries the targets in turn until it is admitted, a verdict rejects it, or ctx ends. A refused connection, or one
// that ends before a verdict, is retried: the other side may not be up yet. It gives up if the other side is known to
// have been up and then refuses connections for gone, unless that is 0. A greeting without a verdict also makes it
// known; then the time is goneAfter.
func (d *dialer) dial(ctx context.Context, targets []target, me greeting, gone time.Duration) (*frameConn,
	greeting, error) {
	var last error
	var run refusals
	var shortage openfiles.Shortage
	var way wayless
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		refused, silent := 0, 0
		for _, t := range targets {
			fc, them, err := d.try(ctx, t, me)
			if err == nil {
				return fc, them, nil
			}
			cut := over(ctx)
			// An attempt that the end of ctx cut short gives no information about the other side.
			if !cut || last == nil {
				last = fmt.Errorf("%s: %w", t.address, err)
			}
			if !cut && (!errors.As(err, new(errRetry)) || shortage.Lasts(err)) {
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
		if run.add(refused, silent, len(targets), gone) {
			return nil, greeting{}, fmt.Errorf("%w: nobody listens there any more: its process has ended, or it has finished "+
				"with the job without this rank, or an earlier job has used the id: each needs its own; %d attempts in %v, "+
				"the last: %w",
				ErrPeerDead, run.count, time.Since(run.since).Round(time.Millisecond), last)
		}
		// The jitter spreads the retries of ranks that were rejected together.
		select {
		case <-ctx.Done():
			return nil, greeting{}, fmt.Errorf("%w; last attempt: %w", contextError(ctx), last)
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

// refusals is a run of attempts in which every target has refused the connection, or was silent.
type refusals struct {
	since time.Time // The time of the first one.
	count int
}

// add counts an attempt. It returns true if the run shows that a side that was up is gone: it has lasted for gone.
func (r *refusals) add(refused, silent, targets int, gone time.Duration) bool {
	limit := gone
	if silent > 0 {
		limit = max(limit, goneAfter) // the address that refuses may be another host's
	}
	if refused == 0 || refused+silent < targets {
		r.count = 0
		return false
	}
	if r.count++; r.count == 1 {
		r.since = time.Now()
	}
	return gone > 0 && r.count >= goneRefusals && time.Since(r.since) >= limit
}

// over reports whether ctx has ended or its deadline has passed: on a busy machine a socket's deadline may fire before
// the deadline of ctx.
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

// wayless judges the errors of attempts for which this host has no route.
type wayless struct {
	families []string // without an address on this host, by target
	warned   bool
}

// judge returns an error if this host has no address of the family of any of so many targets: then no attempt can
// succeed. It warns once of a missing route, which may come.
func (w *wayless) judge(err error, targets int, log *slog.Logger) error {
	var op *net.OpError
	if !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EADDRNOTAVAIL) &&
		!errors.Is(err, syscall.EAFNOSUPPORT) || !errors.As(err, &op) {
		w.families = nil
		return nil
	}
	at, ok := op.Addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	to := at.AddrPort().Addr().Unmap()
	if netif.Reaches(to) || to.IsLoopback() {
		w.families = nil
		if !w.warned && log != nil {
			w.warned = true
			log.Warn("bootstrap: no connection with another rank's address; trying again", "to", to, "error",
				sockets.Explain(err), "interfaces", netif.List())
		}
		return nil
	}
	if w.families = append(w.families, to.String()); len(w.families) < targets {
		return nil
	}
	return fmt.Errorf("%w: no way to %s: %w", ErrInvalid, strings.Join(w.families, ", "), familyMissing(to, err))
}

func familyMissing(to netip.Addr, err error) error {
	family, other := "IPv4", "AF_INET6"
	if to.Is6() {
		family, other = "IPv6", "AF_INET"
	}
	return fmt.Errorf("this host has no %s address besides the loopback, up are %s; give it one, or set "+
		"NCCL_SOCKET_FAMILY=%s on all ranks if all hosts have that: %w", family, netif.List(), other, err)
}
