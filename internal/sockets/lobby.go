package sockets

import (
	"io"
	"slices"
	"sync"
)

// Lobby bounds the connections that have not yet proved anything. When it is full, the oldest that has said nothing makes room for the next, else the
// oldest of all: whoever proves itself at once gets through whatever a crowd of silent ones does.
type Lobby struct {
	limit int

	mu     sync.Mutex
	guests []*Guest // oldest first
	closed bool
}

// Guest is a connection in the Lobby.
type Guest struct {
	lobby *Lobby
	conn  io.Closer
	heard bool // guarded by the Lobby's mu
}

// NewLobby has room for limit guests.
func NewLobby(limit int) *Lobby { return &Lobby{limit: limit} }

// Enter takes c in. It closes c and returns nil when the Lobby is closed.
func (l *Lobby) Enter(c io.Closer) *Guest {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil
	}
	if len(l.guests) >= l.limit {
		l.evict()
	}
	g := &Guest{lobby: l, conn: c}
	l.guests = append(l.guests, g)
	return g
}

// Len is how many guests there are.
func (l *Lobby) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.guests)
}

// Evict makes room, for lack of descriptors perhaps.
func (l *Lobby) Evict() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evict()
}

func (l *Lobby) evict() {
	if len(l.guests) == 0 {
		return
	}
	i := max(0, slices.IndexFunc(l.guests, func(g *Guest) bool { return !g.heard }))
	_ = l.guests[i].conn.Close()
	l.guests = slices.Delete(l.guests, i, i+1)
}

// Heard says that the guest has said something.
func (g *Guest) Heard() {
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	g.heard = true
}

// Leave takes the guest out. It returns false when the Lobby has closed the connection before.
func (g *Guest) Leave() bool {
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	i := slices.Index(g.lobby.guests, g)
	if i >= 0 {
		g.lobby.guests = slices.Delete(g.lobby.guests, i, i+1)
	}
	return i >= 0
}

// Close drops all guests and lets nobody in.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, g := range l.guests {
		_ = g.conn.Close()
	}
	l.guests = nil
}
