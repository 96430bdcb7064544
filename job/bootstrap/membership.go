package bootstrap

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// membership decides, for one rank, which peers are alive, have left, or are dead. It is a pure state machine: it does
// no I/O, reads no clock and takes no lock. The endpoint calls its methods under its own lock, and then carries out the
// effects in order. testdata/membership*.txt shows it at work.
//
// So that all ranks blame the first death although a rank that detects a death often exits and then dies, too:
//
//  1. A rank that loses a peer reports that to the others before it decides (told). On each connection the report
//     precedes the end of the rank itself.
//  2. A lost peer that has itself reported a death is decided after that one, if that one shows within explainDelay.
//  3. A peer that has left every group that it shares with this rank is not dead when its connection ends.
//
// In a sparse overlay a rank without a pinned connection to a peer takes the peer's watchers' word for its death
// (judge). In a complete overlay every rank watches every other, and no report is passed on.
type membership struct {
	rank, size int
	// complete: the overlay connects every pair of ranks.
	complete bool
	// peers has the state of each rank. The entry of this rank itself stays alive until the end.
	peers []memberState
	// groups are this rank's open groups: by space, the ranks of the job that belong to it.
	groups map[uint64]map[int]int
	// hasLeft returns true if peer has left the group of space. effectLeft makes it so.
	hasLeft func(space uint64, peer int) bool
	// suspects are the lost peers that are not decided yet, in the order of detection.
	suspects []int
	// deaths are the peers that are decided as dead, in the order of decision. It only grows.
	deaths []death
	known  knownSet
	// ended, if not nil, says why this rank itself is over. Then no peer is reported as dead.
	ended   error
	effects []effect
}

// memberState is the knowledge about one peer. phase only increases.
type memberState struct {
	phase memberPhase
	// cause is the reason why the peer was lost; it is valid from lost on.
	cause error
	// told: this rank's report of the loss has been sent to the others, or the time for that is over.
	told bool
	// until is the latest time of the decision about a lost peer; it is valid once told.
	until int64
	// accused are the ranks that this peer has reported as dead, at most one entry per report.
	accused []int
	// accusers are the ranks that have reported this peer as dead.
	accusers map[int]bool
	// inbound counts the open connections that carry the peer's data to this rank, also those not established yet.
	inbound int
	// links counts the established connections with the peer, and pinned how many of these stay open.
	links, pinned int
	// held are the peer's goodbye and leaves that overtook its data. It is empty if inbound is 0.
	held []report
}

type memberPhase uint8

const (
	memberAlive memberPhase = iota
	memberLost              // Its connection has broken, and the decision is pending.
	memberGone              // It is dead or has closed its bootstrap; box knows which.
)

// An effect is one thing that the endpoint must do.
type effect struct {
	kind   effectKind
	peer   int    // The peer that it is about; for effectSend the one that needs no report, or -1.
	report report // For effectSend, effectLeft and effectWaiting.
	err    error  // Why the peer is gone or cut.
}

type effectKind uint8

const (
	effectSend     effectKind = iota + 1 // Send report to every connected peer that wants it.
	effectDead                           // Peer is dead: end all waits for it and tell its groups.
	effectDeparted                       // Peer has closed, or this rank has: end all waits for it.
	effectLeft                           // The author of report has left a group: end the waits for it there.
	effectWaiting                        // The author of report waits in a collective.
	effectCut                            // Peer's connections are useless: end them when their data is read.
)

type death struct {
	peer  int
	cause error
}

const (
	// reportTimeout bounds how long a decision waits for the report of the loss to be sent.
	reportTimeout = 50 * time.Millisecond
	// explainDelay is how long the decision about a lost peer waits for the deaths of the ranks that it has reported: a
	// few polls of the liveness pages.
	explainDelay = 4 * livenessInterval
	// enoughAccusers is the number of ranks whose reports show a death.
	enoughAccusers = 2
)

var errOthersLost = fmt.Errorf("%w: the ranks that are connected to it have lost it", ErrPeerDead)

func newMembership(rank, size int, complete bool, hasLeft func(space uint64, peer int) bool) *membership {
	return &membership{rank: rank, size: size, complete: complete, peers: make([]memberState, size),
		groups: map[uint64]map[int]int{}, hasLeft: hasLeft}
}

func (m *membership) emit(x effect) { m.effects = append(m.effects, x) }

// take returns the effects since the last call.
func (m *membership) take() []effect {
	list := m.effects
	m.effects = nil
	return list
}

// originate sends a report of this rank itself. A rank that is over says goodbye at most.
func (m *membership) originate(r report) {
	if m.ended != nil && r.kind != reportGoodbye {
		return
	}
	r.from = uint32(m.rank)
	if m.known.add(r) {
		m.emit(effect{kind: effectSend, peer: -1, report: r})
	}
}

// wants returns true if a connected peer must get r. A report of a death is not for the accused, and a report about a
// group is for its members in a complete overlay.
func (m *membership) wants(peer int, r report) bool {
	if r.kind == reportDeath {
		return peer != int(r.peer)
	}
	if !m.complete || r.kind != reportLeave && r.kind != reportWaiting {
		return true
	}
	_, ok := m.groups[r.space][peer]
	return ok
}

// inboundChanged counts connections that carry peer's data. When the last one has ended, held reports apply.
func (m *membership) inboundChanged(now int64, peer, by int) {
	p := &m.peers[peer]
	if p.inbound += by; p.inbound > 0 {
		return
	}
	held := p.held
	p.held = nil
	for _, r := range held {
		m.apply(now, r)
	}
}

// receive takes a report that came over a connection with via; inbound says that this connection carries via's data.
// The data that the author sent before the report comes first: a goodbye or leave that arrives over another connection
// is held until it arrives on the last inbound connection of its author, or that connection ends.
func (m *membership) receive(now int64, via int, inbound bool, r report) {
	from := int(r.from)
	fresh := m.known.add(r) && m.useful(r)
	if fresh && !m.complete {
		m.emit(effect{kind: effectSend, peer: via, report: r})
	}
	if r.kind == reportGoodbye || r.kind == reportLeave {
		p := &m.peers[from]
		inOrder := r.kind == reportLeave && inbound && via == from && p.inbound == 1
		switch i := slices.Index(p.held, r); {
		case fresh && !inOrder && p.inbound > 0:
			p.held = append(p.held, r)
			fresh = false
		case inOrder && i >= 0:
			p.held = slices.Delete(p.held, i, i+1)
			fresh = true
		}
	}
	if fresh && from != m.rank {
		m.apply(now, r)
	}
}

// useful counts the author of a reportDeath as an accuser. It returns false for a report that changes nothing for
// anybody: enough ranks accuse the peer already.
func (m *membership) useful(r report) bool {
	if r.kind != reportDeath {
		return true
	}
	p := &m.peers[r.peer]
	if p.accusers == nil {
		p.accusers = map[int]bool{}
	}
	needed := len(p.accusers) < enoughAccusers
	p.accusers[int(r.from)] = true
	return needed
}

func (m *membership) apply(now int64, r report) {
	if m.ended != nil {
		return
	}
	from := int(r.from)
	switch r.kind {
	case reportGoodbye:
		m.depart(from, errPeerClosed)
	case reportLeave:
		m.emit(effect{kind: effectLeft, peer: from, report: r})
	case reportWaiting:
		m.emit(effect{kind: effectWaiting, peer: from, report: r})
	case reportDeath:
		if p := &m.peers[from]; len(p.accused) < m.size {
			p.accused = append(p.accused, int(r.peer))
		}
		m.judge(now, int(r.peer))
	}
}

// judge decides about a peer that others accuse. Two ranks that cannot reach a third show that it is dead; one may have
// lost only its own connection. If the peer has a single watcher left, one is enough. A rank that watches the peer
// itself believes its own connection.
func (m *membership) judge(now int64, accused int) {
	p := &m.peers[accused]
	switch {
	case accused == m.rank || p.phase != memberAlive || p.pinned > 0 ||
		len(p.accusers) < min(enoughAccusers, m.watchers(accused)):
	case p.links > 0:
		m.emit(effect{kind: effectCut, peer: accused, err: errOthersLost})
	default:
		m.lose(now, accused, errOthersLost, false)
	}
}

// watchers counts the ranks other than this one that stay connected with peer and are alive. It is at least 1.
func (m *membership) watchers(peer int) (count int) {
	for r := range neighbours(peer, m.size, m.complete) {
		if r != m.rank && m.peers[r].phase != memberGone {
			count++
		}
	}
	return max(1, count)
}

// lose records that peer cannot be reached, for cause. own: this rank has found that out itself, so it must report it;
// sent is called when the report has been sent.
func (m *membership) lose(now int64, peer int, cause error, own bool) {
	p := &m.peers[peer]
	switch {
	case p.phase != memberAlive:
		return
	case m.ended != nil:
		m.depart(peer, m.ended)
		return
	case m.hasLeftAll(peer) || slices.ContainsFunc(p.held, func(r report) bool { return r.kind == reportGoodbye }):
		m.depart(peer, errPeerClosed)
		return
	}
	p.phase, p.cause = memberLost, peerDead(cause)
	m.suspects = append(m.suspects, peer)
	if own {
		m.originate(report{kind: reportDeath, peer: uint32(peer)})
		return
	}
	m.sent(now, peer)
}

// sent says that the report of peer's loss has been sent, as far as possible in reportTimeout.
func (m *membership) sent(now int64, peer int) {
	if p := &m.peers[peer]; p.phase == memberLost && !p.told {
		p.told, p.until = true, now+int64(explainDelay)
		m.tick(now)
	}
}

// tick decides about the lost peers whose loss is explained, or whose time is over.
func (m *membership) tick(now int64) {
	for again := true; again; {
		again = false
		for _, s := range slices.Clone(m.suspects) {
			if p := &m.peers[s]; p.told && (now >= p.until || m.explained(p)) {
				m.forget(s)
				p.phase, again = memberGone, true
				m.deaths = append(m.deaths, death{s, p.cause})
				m.emit(effect{kind: effectDead, peer: s, err: p.cause})
			}
		}
	}
}

// explained returns true if every rank that p has reported as dead is decided as dead.
func (m *membership) explained(p *memberState) bool {
	return !slices.ContainsFunc(p.accused, func(a int) bool {
		return a != m.rank && !slices.ContainsFunc(m.deaths, func(d death) bool { return d.peer == a })
	})
}

func (m *membership) forget(suspect int) {
	m.suspects = slices.DeleteFunc(m.suspects, func(s int) bool { return s == suspect })
}

// next returns the time of the next tick that may decide something, or 0 for none.
func (m *membership) next() (at int64) {
	for _, s := range m.suspects {
		if p := &m.peers[s]; p.told && (at == 0 || p.until < at) {
			at = p.until
		}
	}
	return at
}

// depart records that peer is gone without a death. Its death, if it is decided already, stays.
func (m *membership) depart(peer int, why error) {
	p := &m.peers[peer]
	if p.phase == memberGone {
		return
	}
	m.forget(peer)
	p.phase = memberGone
	m.emit(effect{kind: effectDeparted, peer: peer, err: why})
}

// hasLeftAll returns true if peer has left every group that it shares with this rank, and there is one.
func (m *membership) hasLeftAll(peer int) (shared bool) {
	for space, members := range m.groups {
		if _, in := members[peer]; !in {
			continue
		}
		if !m.hasLeft(space, peer) {
			return false
		}
		shared = true
	}
	return shared
}

// end says that this rank itself is over. gone: all waits for peers end, too.
func (m *membership) end(why error, gone bool) {
	m.ended = cmp.Or(m.ended, why)
	for peer := range m.size {
		if gone {
			m.depart(peer, why)
		}
	}
}
