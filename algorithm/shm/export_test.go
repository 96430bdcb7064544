package shm

// Distant makes the engine treat its peers as if they were in other processes: buffers are registered and mapped. All ranks must do so.
func (e *Engine) Distant() { e.local = false }

// Live counts the registrations of this rank and its mappings of peers' buffers.
func (e *Engine) Live() (registered, mappings int) {
	e.run.Lock()
	defer e.run.Unlock()
	for _, p := range e.buffers.peers {
		mappings += len(p.maps)
	}
	return len(e.buffers.own), mappings
}
