package tcp

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// A peer's host that is gone without a word acknowledges nothing: neither packets nor beats, which each idle lane
// sends. The kernel tells how long ago the last acknowledgement of TCP came. A host whose process is slow or stopped
// still acknowledges; with all receive buffers full it does so ever more rarely, so its listener is asked too.
const (
	watchEvery = 250 * time.Millisecond
	beatEvery  = 400 * time.Millisecond
)

// watch beats and finds silent peers until the Port closes.
func (p *Port) watch() {
	t := time.Tick(watchEvery)
	for {
		select {
		case <-t:
			for _, peer := range p.snapshot() {
				peer.watch()
			}
		case <-p.stop:
			return
		}
	}
}

func (p *Peer) watch() {
	if p.Err() != nil {
		return
	}
	quiet, lines := time.Duration(1<<62), 0
	for _, l := range p.lanes() {
		if w := l.pulse(); w != nil {
			lines++
			quiet = min(quiet, time.Duration(int64(wait.Now())-l.lastData.Load()), w.silence())
		}
	}
	p.mu.Lock()
	remote, probing := p.remote, p.probing
	start := lines > 0 && remote != nil && quiet > p.port.opt.Silence/2 && !probing
	p.probing = probing || start
	p.mu.Unlock()
	if start {
		p.goes(func() { p.ask(remote, p.port.opt.Silence-quiet) })
	}
}

// ask connects to the listener of the silent peer. Success shows that its host is alive; the lanes are made again then,
// because TCP repeats lost data ever more rarely. Without an answer in time the peer is gone.
func (p *Peer) ask(remote *address, left time.Duration) {
	ctx, cancel := context.WithTimeout(p.ctx, max(left, watchEvery))
	defer cancel()
	var err error
	for ctx.Err() == nil {
		one, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		err = probe(one, remote)
		stop()
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	p.mu.Lock()
	p.probing = false
	p.mu.Unlock()
	lanes := p.lanes()
	if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		for _, l := range lanes {
			if w := l.current(); w != nil && w.silence() < p.port.opt.Silence/2 {
				return // it came back meanwhile
			}
		}
		p.fail(fmt.Errorf("%w: the host of %v has been silent for %v: is the network between the hosts down?",
			transport.ErrPeerGone, remote.at, p.port.opt.Silence))
		return
	}
	for _, l := range lanes {
		if w := l.current(); w != nil && w.stuck() {
			l.lose(w, errors.New("the network was down"))
		}
	}
}

// pulse sends a beat if the lane has sent nothing for some time. It returns the connection, or nil.
func (l *lane) pulse() *line {
	l.mu.Lock()
	w := l.line
	if w == nil || l.blocked || time.Since(l.sent) < beatEvery {
		l.mu.Unlock()
		return w
	}
	l.beat = true
	l.flushLocked()
	return w
}

func (w *line) info() *unix.TCPInfo {
	var info *unix.TCPInfo
	_ = w.raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	return info
}

// silence returns how long ago the peer's host last acknowledged or sent anything.
func (w *line) silence() time.Duration {
	info := w.info()
	if info == nil {
		return 0
	}
	return time.Duration(min(info.Last_ack_recv, info.Last_data_recv)) * time.Millisecond
}

// stuck reports whether packets are on the way that the peer's host does not acknowledge.
func (w *line) stuck() bool {
	info := w.info()
	return info != nil && info.Unacked > 0 && info.Retransmits > 0
}
