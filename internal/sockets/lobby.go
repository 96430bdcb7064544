package sockets

import (
	"io"
	"slices"
	"sync"
)

// Lobby bounds the connections that are not authenticated yet. When it is full, a new connection evicts the oldest one
// that has sent nothing, or else the oldest of all. So a connection that authenticates at once succeeds even if many
// silent connections arrive.
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

// NewLobby makes a Lobby for at most limit guests.
func NewLobby(limit int) *Lobby { return &Lobby{limit: limit} }

// Enter adds c. If the Lobby is closed, it closes c and returns nil.
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

// Len returns the number of guests.
func (l *Lobby) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.guests)
}

// Evict closes one connection, for example to free a descriptor.
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

// Heard records that the guest has sent data.
func (g *Guest) Heard() {
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	g.heard = true
}

// Leave removes the guest. It returns false if the Lobby has closed the connection before.
func (g *Guest) Leave() bool {
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	i := slices.Index(g.lobby.guests, g)
	if i >= 0 {
		g.lobby.guests = slices.Delete(g.lobby.guests, i, i+1)
	}
	return i >= 0
}

// Close closes all guests' connections and rejects new ones.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, g := range l.guests {
		_ = g.conn.Close()
	}
	l.guests = nil
}
