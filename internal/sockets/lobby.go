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

	mu      sync.Mutex
	pending []*Pending // oldest first
	closed  bool
}

// Pending is a connection in the Lobby.
type Pending struct {
	lobby   *Lobby
	conn    io.Closer
	greeted bool // guarded by the Lobby's mu
}

// NewLobby makes a Lobby for at most limit pending.
func NewLobby(limit int) *Lobby { return &Lobby{limit: limit} }

// Enter adds c. If the Lobby is closed, it closes c and returns nil.
func (l *Lobby) Enter(c io.Closer) *Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil
	}
	if len(l.pending) >= l.limit {
		l.evict()
	}
	g := &Pending{lobby: l, conn: c}
	l.pending = append(l.pending, g)
	return g
}

// Len returns the number of pending.
func (l *Lobby) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending)
}

// Evict closes one connection, for example to free a descriptor.
func (l *Lobby) Evict() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evict()
}

func (l *Lobby) evict() {
	if len(l.pending) == 0 {
		return
	}
	i := max(0, slices.IndexFunc(l.pending, func(g *Pending) bool { return !g.greeted }))
	_ = l.pending[i].conn.Close()
	l.pending = slices.Delete(l.pending, i, i+1)
}

// Greeted records that the pending has sent data.
func (g *Pending) Greeted() {
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	g.greeted = true
}

// Leave removes the pending. It returns false if the Lobby has closed the connection before.
func (g *Pending) Leave() bool {
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	i := slices.Index(g.lobby.pending, g)
	if i >= 0 {
		g.lobby.pending = slices.Delete(g.lobby.pending, i, i+1)
	}
	return i >= 0
}

// Close closes all pending' connections and rejects new ones.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, g := range l.pending {
		_ = g.conn.Close()
	}
	l.pending = nil
}
