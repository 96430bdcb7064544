package tcp

// write is the lane's writer: it sends what callers could not send at once, and takes packets of large puts. It ends
// with the lane.
func (l *lane) write() {
	for {
		<-l.kick
		for {
			l.mu.Lock()
			if l.dead != nil {
				l.mu.Unlock()
				return
			}
			w, blocked := l.line, false
			var err error
			if w != nil {
				err = l.pump()
				blocked = l.blocked
			}
			l.mu.Unlock()
			if err == nil && blocked {
				err = w.writable()
			}
			if err != nil {
				l.lose(w, err)
			}
			if !blocked || err != nil {
				break
			}
		}
	}
}

// writable waits until the socket takes bytes.
func (w *line) writable() error {
	asked := false
	return w.raw.Write(func(uintptr) bool {
		again := asked
		asked = true
		return again
	})
}
